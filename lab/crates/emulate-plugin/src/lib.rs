// SPDX-License-Identifier: GPL-2.0-or-later
//! The QEMU plugin of `perpacket emulate`. It watches the server's processors of an emulated machine.
//!
//! QEMU loads this library and calls it for every block that it translates, for every load and
//! store of those processors, and at the guest's requests. The caches, layers and counts are in the
//! crates `memory` and `emulate`. This crate has QEMU's licence, so no other part of perpacket
//! links with it.
//!
//! QEMU must run all processors in one thread (`-accel tcg,thread=single`). Then only one callback
//! runs at a time, and [`Plugin`](plugin::Plugin) needs no lock.

mod api;
mod machine;
mod plugin;
mod registers;
mod requests;
mod translate;

use std::ffi::{CStr, c_char, c_int};

use perpacket_emulate::Options;

use crate::api::{Information, PluginId, VERSION};
use crate::plugin::Plugin;

/// The version of the interface. QEMU reads this variable.
#[unsafe(no_mangle)]
pub static qemu_plugin_version: c_int = VERSION;

/// Prints an error and its hint.
fn report(error: &str, hint: &str) {
    eprintln!("perpacket-emulate: error: {error}\nperpacket-emulate: hint: {hint}");
}

/// QEMU calls this once, before the machine starts. If the result is not 0, QEMU exits.
///
/// # Safety
///
/// QEMU passes a valid record and `count` C strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: PluginId,
    information: *const Information,
    count: c_int,
    arguments: *const *const c_char,
) -> c_int {
    let argument = |index: c_int| {
        // SAFETY: QEMU passes `count` C strings.
        unsafe { CStr::from_ptr(*arguments.add(index as usize)) }.to_string_lossy()
    };
    let arguments: Vec<_> = (0..count).map(argument).collect();
    // SAFETY: QEMU passes a valid record.
    let information = unsafe { &*information };
    // SAFETY: this is the install function.
    let target = unsafe { information.target() };
    if target != "x86_64" || !information.is_system() {
        report(
            &format!("the emulated machine is `{target}`, expected a whole x86_64 machine"),
            "use qemu-system-x86_64",
        );
        return 1;
    }
    let options = match Options::parse(arguments.iter().map(AsRef::as_ref)) {
        Ok(options) => options,
        Err(error) => {
            report(
                &error.to_string(),
                "`perpacket emulate --help` lists the options that set these",
            );
            return 1;
        }
    };
    match Plugin::new(id, options) {
        Ok(plugin) => {
            translate::install(plugin);
            0
        }
        Err(failure) => {
            report(&failure.error, failure.hint);
            1
        }
    }
}
