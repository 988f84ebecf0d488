//! Which modules drive a network interface: the kernel says so itself, so no list of drivers is
//! needed for those that are loaded.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The modules behind the network interfaces under a `/sys/class/net` directory. Empty where
/// drivers are built in or nothing can be read.
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
        let place = tempfile::tempdir().unwrap();
        let device = place.path().join("eth7/device/driver");
        fs::create_dir_all(&device).unwrap();
        symlink("../../../../module/mlx5_core", device.join("module")).unwrap();
        fs::create_dir_all(place.path().join("lo")).unwrap();
        let found = network_drivers(place.path());
        assert_eq!(found, BTreeSet::from(["mlx5_core".to_owned()]));
    }
}
