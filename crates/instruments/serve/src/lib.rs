//! The web server under test: HTTP/1.1 over files and a few computed routes, in five architectures.
//!
//! The architecture is a factor of the experiment, as in the paper on the Flash server (Pai,
//! Druschel and Zwaenepoel, USENIX 1999). So that a comparison shows only the effect of the
//! architecture, all five share one request path and one policy of caching: [`worker`] turns input
//! into responses and does not depend on threads or polling. The architectures in `run` differ only
//! in how they wait.
//!
//! | folder or file | content |
//! |---|---|
//! | `spec`, `error` | the options, and errors of starting |
//! | `files` | the root folder, the cache, prebuilt responses, helper threads that read cold files |
//! | `routes` | computed routes: SPECweb99's operations, `/work`, `/bytes` |
//! | `worker`, `send_queue`, `http_state` | the request path |
//! | `run` | the architectures, TLS, the listener |
//! | `counters`, `report` | counts and costs |

#![forbid(unsafe_code)]

mod counters;
mod error;
mod files;
mod http_state;
mod report;
mod routes;
mod run;
mod send_queue;
mod site;
mod spec;
mod worker;

pub use error::ServeError;
pub use report::{
    CacheReport, ConnectionReport, CpuReport, Faults, HelperReport, PerRequest, Report, Reporter,
    StartupReport, Switches,
};
pub use routes::specweb99::cgi_page;
pub use run::Server;
pub use spec::{Architecture, CgiProgram, Spec};
