//! Dropping the privileges of root, so that an attacker who controls a server has few rights.

use std::{io, ptr};

use rustix::process::{geteuid, parent_process_death_signal, set_parent_process_death_signal};

use crate::text;

/// The user that root becomes by default.
const DEFAULT_USER: &str = "nobody";

/// The reason why privileges were not dropped.
#[derive(Debug, thiserror::Error)]
pub enum UserError {
    #[error("only root can become another user")]
    NotRoot,
    #[error("there is no user {0}")]
    Unknown(String),
    #[error("cannot {action}: {source}")]
    System {
        action: &'static str,
        source: io::Error,
    },
}

/// If this process is root, permanently changes its user. `wanted` is a name or a number; the default
/// is `nobody`. Returns the user, or `None` if this process is not root.
///
/// # Errors
/// The user does not exist, or this process is not root and `wanted` is set.
pub fn drop_root(wanted: Option<&str>) -> Result<Option<&str>, UserError> {
    if !geteuid().is_root() {
        return wanted.map_or(Ok(None), |_| Err(UserError::NotRoot));
    }
    let name = wanted.unwrap_or(DEFAULT_USER);
    let failed = |action| move |source| UserError::System { action, source };
    let passwords = text::read("/etc/passwd").map_err(failed("read /etc/passwd"))?;
    let (user, group) =
        find(&passwords, name).ok_or_else(|| UserError::Unknown(name.to_owned()))?;
    if user != 0 {
        // The kernel clears this signal when a process changes its user (prctl(2)). Without it the
        // server would outlive the process that started it.
        let signal = parent_process_death_signal().ok().flatten();
        become_user(user, group).map_err(failed("become another user"))?;
        set_parent_process_death_signal(signal)
            .map_err(|error| failed("set the signal for the parent's end")(error.into()))?;
    }
    Ok(Some(name))
}

/// Changes the user and the group of all threads, and removes their supplementary groups.
fn become_user(user: u32, group: u32) -> io::Result<()> {
    // SAFETY: a count of zero needs no list, and the other calls have only numbers as arguments.
    // The C library changes all threads.
    let results = unsafe {
        [
            libc::setgroups(0, ptr::null()),
            libc::setresgid(group, group, group),
            libc::setresuid(user, user, user),
        ]
    };
    match results.iter().any(|&result| result != 0) {
        true => Err(io::Error::last_os_error()),
        false => Ok(()),
    }
}

/// User and group of a name or number. A number need not be in the file.
fn find(passwords: &str, wanted: &str) -> Option<(u32, u32)> {
    let named = passwords.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let [name, _, user, group, ..] = *fields else {
            return None;
        };
        let is_same = name == wanted || user == wanted;
        is_same.then_some((user.parse().ok()?, group.parse().ok()?))
    });
    named.or_else(|| wanted.parse().ok().map(|number| (number, number)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_by_name_or_number() {
        let passwords = "root:x:0:0::/:/bin/sh\nweb:x:33:34::/:/bin/false\nbroken\n";
        assert_eq!(find(passwords, "web"), Some((33, 34)));
        assert_eq!(find(passwords, "33"), Some((33, 34)));
        assert_eq!(find(passwords, "4000"), Some((4000, 4000)));
        assert_eq!(find(passwords, "nobody"), None);
    }
}
