//! What an instrument is asked to do.
//!
//! Each instrument has one struct, its [`Spec`]. A field of the struct is an option: it has the
//! option's name, unit, default, range, help and needs. From the struct come
//!
//! - the options of the command line and their help ([`command`]);
//! - the keys of `--config` files and of JSON documents ([`document`]), which become arguments, so that
//!   there is one parser with one set of messages;
//! - the schema ([`schema`]), and so the reference pages and the functions of Python.
//!
//! Three attributes of `#[schemars(extend(...))]` describe what clap cannot: `x-needs` and `x-excludes`
//! name the options without which, or with which, an option has no effect ([`needs`] has the grammar), and
//! the types of [`quantity`] add `x-unit`.

pub mod document;
pub mod needs;
pub mod number;
pub mod quantity;
pub mod schema;
pub mod shared;

// For the macro `text!`.
pub use schemars;
pub use serde;

use clap::{ArgMatches, Command};
use schemars::JsonSchema;
use serde::Serialize;

pub use number::{Share, Whole};
pub use quantity::{BitRate, CpuList, Period, Rate, Size, Time};
pub use shared::{RunsOn, Seed, Switch, Until, Window};

/// What an instrument is asked to do.
pub trait Spec: clap::Args + Clone + JsonSchema + Serialize {
    /// The same with the defaults that depend on other options or on the machine.
    ///
    /// # Errors
    /// Options contradict each other.
    fn resolved(self) -> Result<Self, SpecError> {
        Ok(self)
    }
}

/// Options contradict each other, or one is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SpecError {
    /// The option, what is wrong, and what was expected.
    pub message: String,
    /// The next step, if there is one.
    pub hint: Option<String>,
}

impl SpecError {
    /// An error without a hint.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            hint: None,
        }
    }

    /// Adds the next step.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// The command with the options of a `Spec`. Options accept `-1` as a value, so that the error comes from
/// the option's own parser.
pub fn command<S: Spec>(name: &'static str) -> Command {
    let schema = schema::of::<S>();
    let about = schema["description"].as_str().unwrap_or_default();
    S::augment_args(Command::new(name))
        .about(about.trim_end_matches('.').to_owned())
        .mut_args(|argument| {
            let takes_value = argument.get_action().takes_values();
            argument.allow_negative_numbers(takes_value)
        })
}

/// The `Spec` of parsed arguments, with all defaults.
///
/// # Errors
/// An option has no effect, or options contradict each other.
pub fn from_matches<S: Spec>(matches: &ArgMatches) -> Result<S, SpecError> {
    needs::check(&schema::of::<S>(), matches)?;
    S::from_arg_matches(matches)
        .map_err(|error| SpecError::new(error.to_string()))?
        .resolved()
}

/// The `Spec` of a command line such as `http://h/ --connections 4`. If an option is repeated, the last
/// one counts.
///
/// # Errors
/// As on the command line.
pub fn parse<S: Spec>(line: &str) -> Result<S, SpecError> {
    let words = std::iter::once("spec").chain(line.split_whitespace());
    let matches = command::<S>("spec")
        .args_override_self(true)
        .try_get_matches_from(words)
        .map_err(|error| SpecError::new(error.to_string()))?;
    from_matches(&matches)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sample.
    #[derive(clap::Args, Clone, Debug, Serialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub struct Sample {
        /// What to request.
        pub url: String,
        /// Connections at a time.
        #[arg(long, default_value = "8")]
        pub connections: Whole<1, 100>,
        /// Requests a second.
        #[arg(long)]
        #[schemars(extend("x-excludes" = "replay: a log has its own times"))]
        pub rate: Option<Rate>,
        /// A log.
        #[arg(long)]
        pub replay: Option<String>,
        /// Distances of requests.
        #[arg(long)]
        #[schemars(extend("x-needs" = "rate, replay"))]
        pub arrivals: Option<String>,
        /// Trust any certificate.
        #[arg(long)]
        #[schemars(extend("x-needs" = "url=https:*"))]
        pub insecure: bool,
        /// The measured time.
        #[command(flatten)]
        #[serde(flatten)]
        pub window: Window,
    }

    impl Spec for Sample {
        fn resolved(mut self) -> Result<Self, SpecError> {
            self.window.resolve(Time::from_secs(0), false);
            Ok(self)
        }
    }

    #[test]
    fn a_line_is_parsed_with_all_defaults_and_ranges() {
        let sample: Sample = parse("http://h/ --warmup 1s").unwrap();
        assert_eq!(sample.connections.get(), 8);
        assert_eq!(sample.window.duration().unwrap().as_secs(), 10);
        let error = parse::<Sample>("http://h/ --connections 0").unwrap_err();
        assert!(
            error
                .message
                .contains("expected a whole number from 1 to 100"),
            "{error}"
        );
        let again: Sample = parse("http://h/ --connections 1 --connections 2").unwrap();
        assert_eq!(again.connections.get(), 2);
    }
}
