//! Checks a generator's parameters.

use std::fmt::Display;

/// The error of a generator's parameter whose value is not allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{parameter} is {value}: it must be {allowed}")]
pub struct ParameterError {
    /// Name of the parameter, as in the parameter file.
    pub parameter: &'static str,
    /// The value.
    pub value: String,
    /// The accepted range.
    pub allowed: &'static str,
}

/// Fails with the parameter's name unless `is_valid`.
pub(crate) fn require(
    is_valid: bool,
    parameter: &'static str,
    value: impl Display,
    allowed: &'static str,
) -> Result<(), ParameterError> {
    if is_valid {
        return Ok(());
    }
    Err(ParameterError {
        parameter,
        value: value.to_string(),
        allowed,
    })
}
