//! Dropping the privileges of root after binding.

use perpacket_linux::user::{self, UserError};
use rustix::fs::{Access, AtFlags, accessat};

use crate::error::ServeError;
use crate::site::Site;

/// Becomes the user of the spec, if this process runs as root.
pub fn drop_root(site: &Site) -> Result<(), ServeError> {
    let became = user::drop_root(site.spec.user.as_deref()).map_err(|error| match error {
        UserError::System { action, source } => ServeError::system(action)(source),
        UserError::NotRoot | UserError::Unknown(_) => ServeError::Setting {
            setting: "--user",
            problem: error.to_string(),
        },
    })?;
    became.map_or(Ok(()), |name| check_root(site, name))
}

/// Checks that `user`, who runs this process now, can read the root folder.
fn check_root(site: &Site, user: &str) -> Result<(), ServeError> {
    let Some(root) = &site.root else {
        return Ok(());
    };
    let access = Access::READ_OK | Access::EXEC_OK;
    accessat(root.folder(), ".", access, AtFlags::EACCESS).map_err(|error| ServeError::Unreadable {
        path: site.spec.root.clone().unwrap_or_default(),
        user: user.to_owned(),
        source: error.into(),
    })
}
