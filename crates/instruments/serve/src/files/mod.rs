//! Files: the cache, prebuilt responses, and helper threads that read cold files.

pub mod cache;
pub mod content;
pub mod entry;
pub mod helper_threads;
pub mod prebuilt;
pub mod version;
