//! `load`: one file per subcommand.

mod compare;
mod files;
mod http;
mod stream;

use clap::Subcommand;
use perpacket_load::LoadError;

use crate::status::{Failure, Status};

/// Subcommands of `load`.
#[derive(Subcommand)]
pub enum Verb {
    /// Send HTTP requests to a web server and measure the responses.
    Http(Box<http::Arguments>),
    /// Send or receive bulk data on many TCP connections, as either end.
    Stream(stream::Arguments),
    /// Create the files of a workload.
    Files(files::Arguments),
    /// Compare two results of `load http`.
    Compare(compare::Arguments),
    /// Receive streams from an RTSP server, and check every byte.
    Media(crate::media_load::Arguments),
}

/// Runs a subcommand.
pub fn run(verb: Verb) -> Result<Status, Failure> {
    match verb {
        Verb::Http(arguments) => http::run(&arguments),
        Verb::Stream(arguments) => stream::run(&arguments),
        Verb::Files(arguments) => files::run(&arguments),
        Verb::Compare(arguments) => compare::run(&arguments),
        Verb::Media(arguments) => crate::media_load::run(&arguments),
    }
}

/// The exit status of a load that cannot run: wrong options, a limit of the machine, or a failure.
fn failure(error: LoadError) -> Failure {
    let hint = error.hint();
    let failure = match error {
        LoadError::Usage(_)
        | LoadError::Url { .. }
        | LoadError::Parameter(_)
        | LoadError::Trace { .. }
        | LoadError::Tls(_)
        | LoadError::File { .. } => Failure::usage(error),
        LoadError::Limit { .. } => Failure::lacking(error),
        _ => Failure::failed(error),
    };
    match hint {
        Some(hint) => failure.with_hint(hint),
        None => failure,
    }
}
