//! `load`: one file for each thing it can do.

mod compare;
mod files;
mod http;
mod stream;

use clap::Subcommand;
use perpacket_load::LoadError;

use crate::status::{Failure, Status};

/// What `load` can do.
#[derive(Subcommand)]
pub enum Verb {
    /// Ask a web server for things, and say how long it took.
    Http(Box<http::Arguments>),
    /// Send bulk data on many connections, or be the far end of that.
    Stream(stream::Arguments),
    /// Make the files that a workload asks for.
    Files(files::Arguments),
    /// Put two results of `load http` beside each other.
    Compare(compare::Arguments),
    /// Receive streams from an RTSP server, and check every byte.
    Media(crate::media_load::Arguments),
}

/// Run it.
pub fn run(verb: Verb) -> Result<Status, Failure> {
    match verb {
        Verb::Http(arguments) => http::run(&arguments),
        Verb::Stream(arguments) => stream::run(&arguments),
        Verb::Files(arguments) => files::run(&arguments),
        Verb::Compare(arguments) => compare::run(&arguments),
        Verb::Media(arguments) => crate::media_load::run(&arguments),
    }
}

/// The exit status of a load that could not be run: a mistake, a machine that allows too little, or
/// a failure.
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
