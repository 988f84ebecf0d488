//! Calls from an emulated machine to the plugin of its emulator.
//!
//! A call consists of two instructions: a long nop with a magic displacement, and a load from a
//! page that contains the request. The plugin recognizes the two instructions and writes its answer
//! to the page. Without the plugin nothing happens. The layout of the page is that of
//! `lab/crates/emulate-plugin`.

use std::io;

use rustix::mm::MapFlags;

use crate::memory::map;

/// Maximum number of bytes of data in a request, without its header.
pub const DATA_BYTES: usize = 4000;

/// A request. It is at the start of a page and smaller than the page.
#[repr(C)]
struct Request {
    operation: u32,
    length: u32,
    arguments: [u64; 6],
    data: [u8; DATA_BYTES],
}

/// A page for calls. It is private to this process.
pub struct Emulator {
    page: std::ptr::NonNull<Request>,
}

impl Emulator {
    /// Maps the page.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            page: map(size_of::<Request>(), MapFlags::PRIVATE)?,
        })
    }

    /// Calls the plugin with up to [`DATA_BYTES`] bytes. Returns its answer, which is empty without
    /// a plugin.
    ///
    /// # Errors
    /// The data is too long, or the processor is not an x86-64.
    pub fn call(
        &mut self,
        operation: u32,
        arguments: [u64; 6],
        data: &[u8],
    ) -> io::Result<Vec<u8>> {
        if data.len() > DATA_BYTES {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut request = Request {
            operation,
            length: data.len() as u32,
            arguments,
            data: [0; DATA_BYTES],
        };
        request.data[..data.len()].copy_from_slice(data);
        let page = self.page.as_ptr();
        // SAFETY: `page` is a mapping of this size that only this value uses. The write also makes
        // the page resident, as the plugin requires. The plugin writes only during the trap. The
        // volatile read prevents assumptions of the compiler about the content.
        let answer = unsafe {
            page.write_volatile(request);
            trap(page)?;
            page.read_volatile()
        };
        let length = (answer.length as usize).min(DATA_BYTES);
        Ok(answer.data[..length].to_vec())
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and no reference to it is left.
        let _ = unsafe { rustix::mm::munmap(self.page.as_ptr().cast(), size_of::<Request>()) };
    }
}

/// # Safety
/// `page` is readable.
#[cfg(target_arch = "x86_64")]
unsafe fn trap(page: *mut Request) -> io::Result<()> {
    // SAFETY: the instructions are a nop and a load from a page that the caller owns. The plugin
    // may write to the page.
    unsafe {
        std::arch::asm!(
            ".byte 0x0f, 0x1f, 0x80, 0x45, 0x4d, 0x55, 0x31",
            "mov {answer:e}, dword ptr [{page}]",
            page = in(reg) page,
            answer = out(reg) _,
            options(nostack, preserves_flags),
        );
    }
    Ok(())
}

/// # Safety
/// There are no conditions, because other processors have no such call.
#[cfg(not(target_arch = "x86_64"))]
unsafe fn trap(_page: *mut Request) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_without_the_plugin_leaves_the_request_as_it_was() {
        let mut emulator = Emulator::new().unwrap();
        let answer = emulator.call(4, [1; 6], b"booted").unwrap();
        assert_eq!(answer, b"booted");
        let too_long = [0; DATA_BYTES + 1];
        assert!(emulator.call(4, [0; 6], &too_long).is_err());
    }
}
