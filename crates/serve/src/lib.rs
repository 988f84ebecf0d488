//! The web server under test: HTTP/1.1 over files and a few computed routes, in five architectures.
//!
//! A server's architecture is a factor of the experiment, as it was when the Flash server was
//! published (Pai, Druschel and Zwaenepoel, USENIX 1999). For the factor to mean something, all
//! five share one request path: [`answer`] turns bytes that came into what is to be sent, and
//! knows nothing of descriptors, threads or polling. What differs stands in `run`: who waits for
//! the bytes, and how.
//!
//! | folder or file | what |
//! |---|---|
//! | `settings`, `error` | what was asked for, and why it cannot be |
//!
//! | `files` | the root folder, the cache of files, the helper threads that read cold ones |
//! | `routes` | what is computed: SPECweb99's operations, `/work`, `/bytes` |
//! | `answer`, `outgoing`, `talk` | the request path |
//! | `run` | the architectures, TLS, the listener |
//! | `counters`, `report` | what happened, and what it cost |

#![forbid(unsafe_code)]

mod answer;
mod counters;
mod error;
mod files;
mod outgoing;
mod report;
mod routes;
mod run;
mod settings;
mod site;
mod talk;

pub use error::ServeError;
pub use report::{
    CacheReport, ConnectionReport, CpuReport, Faults, HelperReport, PerRequest, Report, Reporter,
    StartupReport, Switches,
};
pub use routes::specweb99::cgi_page;
pub use run::Server;
pub use settings::{Architecture, CgiProgram, Settings, TlsSettings};
