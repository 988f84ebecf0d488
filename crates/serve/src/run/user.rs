//! Ceasing to be root after binding: whoever breaks the server then has little.

use std::fs;

use rustix::fs::{Access, AtFlags, accessat};
use rustix::process::{geteuid, parent_process_death_signal, set_parent_process_death_signal};

use crate::error::ServeError;
use crate::site::Site;
use crate::sys::become_user;

/// Who root becomes unless told otherwise.
const DEFAULT_USER: &str = "nobody";

/// Becomes the user of the settings, if this process is root's.
pub fn drop_root(site: &Site) -> Result<(), ServeError> {
    let name = site.settings.user.as_deref();
    if !geteuid().is_root() {
        return match name {
            None => Ok(()),
            Some(_) => Err(ServeError::Setting {
                setting: "--user",
                problem: "only root can become another user".to_owned(),
            }),
        };
    }
    let name = name.unwrap_or(DEFAULT_USER);
    let passwords = fs::read_to_string("/etc/passwd")
        .map_err(ServeError::system("reading the users of /etc/passwd"))?;
    let (user, group) = find(&passwords, name).ok_or_else(|| ServeError::Setting {
        setting: "--user",
        problem: format!("there is no user {name}"),
    })?;
    if user != 0 {
        // The kernel forgets the signal when a process changes its user (prctl(2)): who started
        // this server to die with it would leave it behind.
        let signal = parent_process_death_signal().ok().flatten();
        become_user(user, group).map_err(ServeError::system("becoming another user"))?;
        set_parent_process_death_signal(signal).map_err(ServeError::system("prctl"))?;
    }
    check_root(site, name)
}

/// User and group of a name or number.
fn find(passwords: &str, wanted: &str) -> Option<(u32, u32)> {
    let named = passwords.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let [name, _, user, group, ..] = *fields else {
            return None;
        };
        let found = name == wanted || user == wanted;
        found.then_some((user.parse().ok()?, group.parse().ok()?))
    });
    named.or_else(|| wanted.parse().ok().map(|number| (number, number)))
}

/// Whether the root can be read by who this process is now.
fn check_root(site: &Site, user: &str) -> Result<(), ServeError> {
    let Some(root) = &site.root else {
        return Ok(());
    };
    let access = Access::READ_OK | Access::EXEC_OK;
    accessat(root.folder(), ".", access, AtFlags::EACCESS).map_err(|error| ServeError::Unreadable {
        path: site.settings.root.clone().unwrap_or_default(),
        user: user.to_owned(),
        source: error.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_named_or_numbered() {
        let passwords = "root:x:0:0::/:/bin/sh\nweb:x:33:34::/:/bin/false\nbroken\n";
        assert_eq!(find(passwords, "web"), Some((33, 34)));
        assert_eq!(find(passwords, "33"), Some((33, 34)));
        assert_eq!(find(passwords, "4000"), Some((4000, 4000)));
        assert_eq!(find(passwords, "nobody"), None);
    }
}
