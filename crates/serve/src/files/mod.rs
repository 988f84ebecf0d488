//! Files: where they are, what is remembered of them, and who reads those that are not.

pub mod cache;
pub mod content;
pub mod entry;
pub mod helpers;
pub mod prebuilt;
pub mod root;
