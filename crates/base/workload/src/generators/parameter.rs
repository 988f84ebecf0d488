//! Checks a generator's parameters.

use std::fmt::Display;

/// The error of a generator's parameter whose value is not allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{parameter} is {value}: it must be {allowed}")]
pub struct ParameterError {
    /// Name of the parameter, as in the parameter file.
    pub parameter: &'static str,
    pub value: String,
    /// The accepted range.
    pub allowed: String,
}

/// Fails with the parameter's name unless `is_valid`.
pub(crate) fn require(
    is_valid: bool,
    parameter: &'static str,
    value: impl Display,
    allowed: impl Into<String>,
) -> Result<(), ParameterError> {
    if is_valid {
        return Ok(());
    }
    Err(ParameterError {
        parameter,
        value: value.to_string(),
        allowed: allowed.into(),
    })
}

/// Fails with the name of the first of some parameters that is out of its range. A range is
/// (parameter, value, least, most).
pub(crate) fn require_ranges(
    ranges: &[(&'static str, f64, f64, f64)],
) -> Result<(), ParameterError> {
    for &(parameter, value, least, most) in ranges {
        let is_valid = (least..=most).contains(&value);
        require(
            is_valid,
            parameter,
            value,
            format!("from {least} to {most}"),
        )?;
    }
    Ok(())
}
