// SPDX-License-Identifier: GPL-2.0-or-later
//! The register with a function's first argument.

use std::ffi::{CStr, c_void};

use crate::api::{
    ByteArray, RegisterDescriptor, g_byte_array_new, g_byte_array_set_size,
    qemu_plugin_get_registers, qemu_plugin_read_register,
};

/// The register, by QEMU's name (System V ABI for x86-64, section 3.2.3).
const NAME: &CStr = c"rdi";

/// The register of the running processor.
#[derive(Debug)]
pub struct FirstArgument {
    handle: *mut c_void,
    buffer: *mut ByteArray,
}

impl FirstArgument {
    /// Finds the register. The thread that emulates the processors must call this in a callback.
    pub fn find() -> Option<Self> {
        // SAFETY: a callback of a processor. QEMU returns an array of descriptors, which is never
        // freed here.
        let all: &[RegisterDescriptor] = unsafe {
            let all = &*qemu_plugin_get_registers();
            std::slice::from_raw_parts(all.data.cast(), all.length as usize)
        };
        // SAFETY: each name is a C string.
        let is_own = |one: &&RegisterDescriptor| unsafe { CStr::from_ptr(one.name) } == NAME;
        Some(Self {
            handle: all.iter().find(is_own)?.handle,
            // SAFETY: the function only allocates.
            buffer: unsafe { g_byte_array_new() },
        })
    }

    /// The value. The callback that calls this must be registered as one that reads registers.
    pub fn read(&self) -> Option<u64> {
        let mut bytes = [0; 8];
        // SAFETY: the handle and the buffer are those of `find`. QEMU appends the bytes of the
        // register to the empty buffer.
        unsafe {
            g_byte_array_set_size(self.buffer, 0);
            if qemu_plugin_read_register(self.handle, self.buffer) != bytes.len() as i32 {
                return None;
            }
            let data = std::slice::from_raw_parts((*self.buffer).data, bytes.len());
            bytes.copy_from_slice(data);
        }
        Some(u64::from_le_bytes(bytes))
    }
}
