//! `load`: one file per subcommand.

mod compare;
mod files;
mod http;
mod stream;

use perpacket_load::LoadError;

use crate::status::Failure;
use crate::verb::Verb;

/// The verbs of the group.
pub fn verbs() -> Vec<Verb> {
    vec![
        Verb::new("load http", http::EXAMPLE, http::run),
        Verb::new("load stream", stream::EXAMPLE, stream::run),
        Verb::new("load files", files::EXAMPLE, files::run),
        Verb::new("load compare", compare::EXAMPLE, compare::run),
    ]
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
