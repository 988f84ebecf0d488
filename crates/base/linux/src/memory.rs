//! Memory mapped by the kernel: private, or shared with processes that are forked later.

use std::ffi::c_void;
use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// Alignment that the kernel requires for huge pages, on x86-64 and on most of arm64.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Maps zeroed memory, aligned to a page.
pub(crate) fn map<T>(bytes: usize, sharing: MapFlags) -> io::Result<NonNull<T>> {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: an anonymous mapping at an address of the kernel's choice overlaps nothing.
    let start = unsafe { mmap_anonymous(ptr::null_mut(), bytes, protection, sharing) }?;
    NonNull::new(start.cast()).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
}

/// Private memory of 64-bit words. All words are zero at first.
#[derive(Debug)]
pub struct Words {
    mapping: NonNull<c_void>,
    mapped_bytes: usize,
    start: NonNull<u64>,
    length: usize,
}

impl Words {
    /// Maps `length` words. With `huge`, they are in huge pages if the kernel supports that.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn new(length: usize, huge: bool) -> io::Result<Self> {
        let spare_bytes = if huge { HUGE_PAGE_BYTES } else { 0 };
        let mapped_bytes = length
            .saturating_mul(size_of::<u64>())
            .saturating_add(spare_bytes);
        let mapping: NonNull<c_void> = map(mapped_bytes, MapFlags::PRIVATE)?;
        let mut start = mapping;
        if huge {
            // SAFETY: the range is the new mapping, and advice changes no content. A kernel without
            // huge pages refuses the advice, and the pages are then ordinary ones.
            let _ = unsafe { madvise(mapping.as_ptr(), mapped_bytes, Advice::LinuxHugepage) };
            let to_huge_page = mapping.cast::<u8>().align_offset(HUGE_PAGE_BYTES);
            // SAFETY: the distance is less than `spare_bytes`, so `length` words are still in the
            // mapping.
            start = unsafe { mapping.byte_add(to_huge_page) };
        }
        Ok(Self {
            mapping,
            mapped_bytes,
            start: start.cast(),
            length,
        })
    }
}

impl Deref for Words {
    type Target = [u64];

    fn deref(&self) -> &[u64] {
        // SAFETY: `start` is the address of `length` words in a mapping. The words are aligned to a
        // page, readable, initialised by the kernel, private to this value, and mapped until it is
        // dropped.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl DerefMut for Words {
    fn deref_mut(&mut self) -> &mut [u64] {
        // SAFETY: as for `deref`, and writable; `&mut self` makes the reference the only one.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        // SAFETY: `new` mapped the range, and no reference outlives the value.
        let _ = unsafe { munmap(self.mapping.as_ptr(), self.mapped_bytes) };
    }
}

/// A type that processes may share: an atomic, or a type that consists of atomics.
///
/// # Safety
/// Zero bytes are a valid value, every change goes through an atomic, and no value is an address.
pub unsafe trait Shareable: Sync {}

// SAFETY: an atomic number.
unsafe impl Shareable for AtomicU32 {}
// SAFETY: an atomic number.
unsafe impl Shareable for AtomicU64 {}
// SAFETY: an atomic number.
unsafe impl Shareable for Counter {}
// SAFETY: an array of values that can be shared.
unsafe impl<T: Shareable, const N: usize> Shareable for [T; N] {}
// SAFETY: a field that can be shared, and padding.
unsafe impl<T: Shareable> Shareable for CacheAligned<T> {}

/// A value that shares no cache line with other values. The alignment is two lines, because
/// processors fetch lines in pairs.
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub struct CacheAligned<T>(pub T);

impl<T> Deref for CacheAligned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// Defines a structure of shareable fields that shares no cache line with others, and makes it
/// [`Shareable`].
#[macro_export]
macro_rules! shareable {
    (
        $(#[$meta:meta])*
        $visibility:vis struct $name:ident {
            $($(#[$field_meta:meta])* $field_visibility:vis $field:ident: $type:ty,)*
        }
    ) => {
        $(#[$meta])*
        #[repr(C, align(128))]
        $visibility struct $name {
            $($(#[$field_meta])* $field_visibility $field: $type,)*
        }

        // SAFETY: every field is shareable by the bounds.
        unsafe impl $crate::memory::Shareable for $name where $($type: $crate::memory::Shareable,)* {}
    };
}

/// A counter that only one thread writes, so an addition needs no locked instruction.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `more`. Only one thread may add to a counter.
    #[inline]
    pub fn add(&self, more: u64) {
        let sum = self.0.load(Ordering::Relaxed).wrapping_add(more);
        self.0.store(sum, Ordering::Relaxed);
    }

    /// Adds a difference to a gauge. If several workers change a gauge in their own counters, only
    /// the sum over the workers has a meaning.
    pub fn shift(&self, difference: i64) {
        self.add(difference as u64);
    }

    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Returns the count and adds one, in one atomic operation. So each worker gets a different
    /// number.
    pub fn draw(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

/// Values that this process shares with processes that it forks later. All are zero at first.
#[derive(Debug)]
pub struct SharedTable<T> {
    start: NonNull<T>,
    length: usize,
}

// SAFETY: the table is a slice of values that any thread may use; only drop unmaps it.
unsafe impl<T: Shareable> Send for SharedTable<T> {}
// SAFETY: as above.
unsafe impl<T: Shareable> Sync for SharedTable<T> {}

impl<T: Shareable> SharedTable<T> {
    /// Maps `length` values, but at least one.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn new(length: usize) -> io::Result<Self> {
        const { assert!(align_of::<T>() <= 4096, "a mapping is aligned to a page") };
        let length = length.max(1);
        let bytes = length.checked_mul(size_of::<T>());
        let bytes = bytes.ok_or(io::ErrorKind::OutOfMemory)?;
        let start = map(bytes, MapFlags::SHARED)?;
        Ok(Self { start, length })
    }
}

impl<T> Deref for SharedTable<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: `start` is a mapping of `length` values, aligned to a page; zero is a valid
        // value, and changes go through atomics, in every process.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl<T> Drop for SharedTable<T> {
    fn drop(&mut self) {
        // SAFETY: `new` mapped the range; children have mappings of their own.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.length * size_of::<T>()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{WaitOptions, waitpid};

    shareable! {
        /// Two counts.
        struct Counts {
            first: Counter,
            others: [Counter; 3],
        }
    }

    #[test]
    fn a_child_and_its_parent_see_the_same_counts() {
        let table = SharedTable::<Counts>::new(2).unwrap();
        let child = crate::process::fork(|| {
            table[1].first.add(5);
            table[1].others[2].set(7);
            0
        });
        waitpid(Some(child.unwrap()), WaitOptions::empty()).unwrap();
        assert_eq!((table[0].first.get(), table[1].first.get()), (0, 5));
        assert_eq!(table[1].others[2].get(), 7);
    }

    #[test]
    fn a_table_that_no_address_space_holds_is_an_error() {
        // The product of length and size is small after an overflow.
        let length = usize::MAX / size_of::<Counts>() + 2;
        assert!(SharedTable::<Counts>::new(length).is_err());
    }

    #[test]
    fn words_are_zero_and_writable_with_and_without_huge_pages() {
        for huge in [false, true] {
            let mut words = Words::new(70_000, huge).unwrap();
            assert!(words.iter().all(|&word| word == 0));
            words.fill(3);
            assert_eq!(words.iter().sum::<u64>(), 210_000);
            let start = words.as_ptr() as usize;
            assert!(!huge || start.is_multiple_of(HUGE_PAGE_BYTES));
        }
    }
}
