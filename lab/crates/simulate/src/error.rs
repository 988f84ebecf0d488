//! Errors in a configuration. The user can correct all of them.

/// A parameter with an invalid value, and the allowed values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{parameter} = {value}: {allowed}")]
pub struct ConfigurationError {
    /// The parameter's dotted name, or `configuration` for the shorthand itself.
    pub parameter: String,
    /// Its value, as text.
    pub value: String,
    /// The allowed values, as a phrase that can follow a colon.
    pub allowed: String,
}

impl ConfigurationError {
    /// An error about `parameter`.
    pub fn new(
        parameter: impl Into<String>,
        value: impl ToString,
        allowed: impl Into<String>,
    ) -> Self {
        Self {
            parameter: parameter.into(),
            value: value.to_string(),
            allowed: allowed.into(),
        }
    }
}
