//! Sessions: the requests that one client sends over one connection. Depends on `trace`.
//!
//! `planned` has the interface that every source of sessions implements, `requests` the requests of one session, `logged` cuts a trace into
//! sessions, and `replay` repeats them for a simulated server.

pub(crate) mod logged;
pub(crate) mod planned;
pub(crate) mod replay;
pub(crate) mod requests;
