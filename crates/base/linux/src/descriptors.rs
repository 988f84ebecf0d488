//! The limit of open files of this process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The number of files that may be open now; `u64::MAX` if there is no limit.
pub fn limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Raises the limit to `wanted`, or as far as possible, and never lowers it. Only root can raise
/// the limit above the hard limit. Returns the new limit.
pub fn raise(wanted: u64) -> u64 {
    let before = getrlimit(Resource::Nofile);
    if before.current.is_none_or(|current| current >= wanted) {
        return before.current.unwrap_or(u64::MAX);
    }
    let beyond = Rlimit {
        current: Some(wanted),
        maximum: before.maximum.map(|hard| hard.max(wanted)),
    };
    let within = Rlimit {
        current: before
            .maximum
            .map_or(Some(wanted), |hard| Some(hard.min(wanted))),
        maximum: before.maximum,
    };
    // If both attempts fail, the limit does not change.
    let _ = setrlimit(Resource::Nofile, beyond).or_else(|_| setrlimit(Resource::Nofile, within));
    limit()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_rises_as_far_as_allowed_and_never_falls() {
        let before = limit();
        assert_eq!(raise(1), before);
        let hard = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
        assert_eq!(raise(hard), hard);
        assert!(raise(u64::MAX) >= hard);
    }
}
