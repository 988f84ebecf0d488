//! The modules of network drivers. The kernel reports the loaded ones, so this program needs no
//! list of drivers.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The driver modules of the network interfaces in a `/sys/class/net` directory. A built-in driver
/// has no module.
#[must_use]
pub fn network_drivers(class_net: &Path) -> BTreeSet<String> {
    let Ok(entries) = fs::read_dir(class_net) else {
        return BTreeSet::new();
    };
    entries
        .flatten()
        .filter_map(|entry| fs::read_link(entry.path().join("device/driver/module")).ok())
        .filter_map(|module| Some(module.file_name()?.to_str()?.to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_driver_is_found_through_its_interface() {
        let folder = tempfile::tempdir().unwrap();
        let device = folder.path().join("eth7/device/driver");
        fs::create_dir_all(&device).unwrap();
        symlink("../../../../module/mlx5_core", device.join("module")).unwrap();
        fs::create_dir_all(folder.path().join("lo")).unwrap();
        let drivers = network_drivers(folder.path());
        assert_eq!(drivers, BTreeSet::from(["mlx5_core".to_owned()]));
    }
}
