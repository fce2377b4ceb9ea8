//! Bytes that another process may write at any moment.
//!
//! A reference to such bytes is undefined behavior: the compiler may read a byte twice and assume
//! that both reads returned the same. A plain access is undefined too, because it races with the
//! writer. Relaxed atomic accesses to single bytes are defined. `asm!` does the same for many bytes
//! at once: the compiler cannot see into it and must accept any result. Decision 56 has the
//! figures.
//!
//! A view can only be copied. The daemon checks the copy and uses the copy.

use core::{fmt, marker::PhantomData, ops::Range, ptr::NonNull, sync::atomic::AtomicU8};

/// Bytes that can be copied out while another process changes them.
///
/// Two copies of the same byte may differ. `From<&[u8]>` makes a view of private memory, for a
/// callee that takes both kinds.
///
/// It gives no slice:
///
/// ```compile_fail,E0308
/// fn judge(bytes: covalent_pipe::SharedBytes<'_>) -> &[u8] {
///     bytes
/// }
/// ```
/// ```compile_fail,E0608
/// fn judge(bytes: covalent_pipe::SharedBytes<'_>) -> u8 {
///     bytes[0]
/// }
/// ```
/// ```compile_fail,E0599
/// fn judge(bytes: covalent_pipe::SharedBytes<'_>) -> &[u8] {
///     bytes.as_ref()
/// }
/// ```
#[derive(Clone, Copy)]
pub struct SharedBytes<'a> {
    start: NonNull<u8>,
    len: usize,
    memory: PhantomData<&'a [AtomicU8]>,
}

/// Bytes that can be overwritten while another process reads and changes them.
pub struct SharedBytesMut<'a> {
    start: NonNull<u8>,
    len: usize,
    memory: PhantomData<&'a mut [AtomicU8]>,
}

impl<'a> SharedBytes<'a> {
    /// The `len` bytes from `start` on.
    ///
    /// # Safety
    /// For `'a` the bytes can be read, stay mapped, and nothing *in this process* writes them.
    #[inline]
    pub(crate) const unsafe fn new(start: NonNull<u8>, len: usize) -> Self {
        Self {
            start,
            len,
            memory: PhantomData,
        }
    }

    /// How many bytes. It never changes.
    #[must_use]
    #[inline]
    pub const fn len(self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.len == 0
    }

    /// Address of the first byte, for code in C that copies the bytes once.
    #[must_use]
    #[inline]
    pub const fn address(self) -> *const u8 {
        self.start.as_ptr()
    }

    /// The bytes in `range`; `None` if it is not within these.
    #[must_use]
    #[inline]
    pub fn get(self, range: Range<usize>) -> Option<Self> {
        if range.start > range.end || range.end > self.len {
            return None;
        }
        // SAFETY: the range lies within the bytes (just checked), which are valid by `Self::new`.
        Some(unsafe { Self::new(self.start.add(range.start), range.end - range.start) })
    }

    /// Copies all bytes, each read once.
    ///
    /// # Panics
    /// If `target` has another length.
    #[inline]
    pub fn copy_to(self, target: &mut [u8]) {
        assert!(target.len() == self.len, "a copy of another length");
        // SAFETY: both have that length. The target is borrowed exclusively, so it does not overlap
        // the shared bytes.
        unsafe { copy(self.start.as_ptr(), target.as_mut_ptr(), self.len) };
    }

    /// A copy of the `N` bytes from `at` on; `None` if there are not so many.
    #[must_use]
    #[inline]
    pub fn read<const N: usize>(self, at: usize) -> Option<[u8; N]> {
        let mut copied = [0; N];
        self.get(at..at.checked_add(N)?)?.copy_to(&mut copied);
        Some(copied)
    }

    /// The byte at `at`, read once; `None` if there are not so many.
    #[must_use]
    #[inline]
    pub fn byte(self, at: usize) -> Option<u8> {
        if at >= self.len {
            return None;
        }
        // SAFETY: the byte is one of these (just checked).
        Some(unsafe { load(self.start.as_ptr().add(at)) })
    }

    /// A copy of all bytes in memory of its own.
    #[must_use]
    pub fn to_vec(self) -> Vec<u8> {
        let mut copied = vec![0; self.len];
        self.copy_to(&mut copied);
        copied
    }
}

impl<'a> From<&'a [u8]> for SharedBytes<'a> {
    #[inline]
    fn from(bytes: &'a [u8]) -> Self {
        // SAFETY: a slice can be read, and nothing writes it while it is borrowed.
        unsafe { Self::new(NonNull::from(bytes).cast(), bytes.len()) }
    }
}

impl<'a> SharedBytesMut<'a> {
    /// The `len` bytes from `start` on.
    ///
    /// # Safety
    /// For `'a` the bytes can be written, stay mapped, and nothing else *in this process* reads or
    /// writes them.
    #[inline]
    pub(crate) const unsafe fn new(start: NonNull<u8>, len: usize) -> Self {
        Self {
            start,
            len,
            memory: PhantomData,
        }
    }

    /// How many bytes. It never changes.
    #[must_use]
    #[inline]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Overwrites all bytes, each read once where it comes from.
    ///
    /// # Panics
    /// If `source` has another length.
    #[inline]
    pub fn copy_from<'b>(&mut self, source: impl Into<SharedBytes<'b>>) {
        let source = source.into();
        assert!(source.len == self.len, "a copy of another length");
        // SAFETY: both have that length. Nothing else in this process refers to the target, so the
        // two do not overlap.
        unsafe { copy(source.start.as_ptr(), self.start.as_ptr(), self.len) };
    }

    /// Overwrites the bytes from `at` on. Returns `false` and changes nothing if they do not fit.
    #[must_use]
    #[inline]
    pub fn write_at(&mut self, at: usize, bytes: &[u8]) -> bool {
        if at > self.len || bytes.len() > self.len - at {
            return false;
        }
        // SAFETY: the target lies within the bytes (just checked) and does not overlap the source,
        // as in `copy_from`.
        unsafe { copy(bytes.as_ptr(), self.start.as_ptr().add(at), bytes.len()) };
        true
    }
}

impl fmt::Debug for SharedBytes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} shared bytes", self.len)
    }
}

impl fmt::Debug for SharedBytesMut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} shared bytes", self.len)
    }
}

/// Copies bytes that another process may read or write. Equals a relaxed atomic load and store of
/// each byte.
///
/// # Safety
/// `source` can be read and `target` written for `len` bytes, and the two do not overlap. This
/// process has no other access to `target` and does not write `source` meanwhile, but by atomics.
#[cfg(target_arch = "x86_64")]
#[inline]
unsafe fn copy(source: *const u8, target: *mut u8, len: usize) {
    if len == 64 {
        // The smallest frame is the most common one, so its copy is not a call.
        // SAFETY: the 64 bytes are valid (caller). The block changes only the registers that it
        // names: no flags, no stack.
        unsafe {
            core::arch::asm!(
                "movups {a}, [{source}]",
                "movups {b}, [{source} + 16]",
                "movups {c}, [{source} + 32]",
                "movups {d}, [{source} + 48]",
                "movups [{target}], {a}",
                "movups [{target} + 16], {b}",
                "movups [{target} + 32], {c}",
                "movups [{target} + 48], {d}",
                source = in(reg) source,
                target = in(reg) target,
                a = out(xmm_reg) _,
                b = out(xmm_reg) _,
                c = out(xmm_reg) _,
                d = out(xmm_reg) _,
                options(nostack, preserves_flags),
            );
        }
    } else {
        // SAFETY: the caller's word.
        unsafe { copy_any(source, target, len) };
    }
}

/// Calls the C library's `memcpy` where the compiler cannot recognize it.
///
/// # Safety
/// As [`copy`].
#[cfg(target_arch = "x86_64")]
#[inline(never)]
unsafe fn copy_any(source: *const u8, target: *mut u8, len: usize) {
    // SAFETY: the arguments are in the registers of the C calling convention. `clobber_abi` names
    // all registers that a call may change. The stack is aligned because `nostack` is absent.
    // `memcpy` accesses only the two spans, regardless of their contents.
    unsafe {
        core::arch::asm!(
            "call {memcpy}",
            memcpy = sym nix::libc::memcpy,
            inout("rdi") target => _,
            inout("rsi") source => _,
            inout("rdx") len => _,
            clobber_abi("C"),
        );
    }
}

/// Reads a byte that others may be writing.
///
/// # Safety
/// `source` can be read.
#[cfg(target_arch = "x86_64")]
#[inline]
unsafe fn load(source: *const u8) -> u8 {
    let value: u32;
    // SAFETY: the byte can be read (caller). The block changes only the register that it names.
    unsafe {
        core::arch::asm!(
            "movzx {value:e}, byte ptr [{source}]",
            source = in(reg) source,
            value = lateout(reg) value,
            options(nostack, preserves_flags, readonly),
        );
    }
    value as u8
}

#[cfg(not(target_arch = "x86_64"))]
use self::bytewise::{copy, load};

/// The reference for `asm!`: other processors run it, and the tests compare with it.
#[cfg(any(test, not(target_arch = "x86_64")))]
mod bytewise {
    use core::sync::atomic::{AtomicU8, Ordering};

    /// # Safety
    /// As [`super::copy`].
    #[inline]
    pub(super) unsafe fn copy(source: *const u8, target: *mut u8, len: usize) {
        for at in 0..len {
            // SAFETY: `at` is below the length for which both are valid (caller). Bytes need no
            // alignment.
            unsafe {
                let byte = load(source.add(at));
                AtomicU8::from_ptr(target.add(at)).store(byte, Ordering::Relaxed);
            }
        }
    }

    /// # Safety
    /// As [`super::load`].
    #[inline]
    pub(super) unsafe fn load(source: *const u8) -> u8 {
        // SAFETY: the byte can be read (caller). A relaxed load does not write, so read-only memory
        // is enough.
        unsafe { AtomicU8::from_ptr(source.cast_mut()) }.load(Ordering::Relaxed)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::{
        sync::atomic::{AtomicBool, Ordering},
        thread,
    };

    use super::*;

    /// `len` bytes of which no two neighbors are alike.
    fn bytes(len: usize) -> Vec<u8> {
        (0..len).map(|at| (at * 7 + 3) as u8).collect()
    }

    #[test]
    fn a_copy_of_any_length_and_alignment_equals_a_bytewise_copy() {
        for len in (0..300).chain([1023, 1024, 1514, 4096, 9001]) {
            for skip in [0, 1, 13] {
                let source = bytes(len + skip);
                let mut fast = vec![0xaa; len + skip + 1];
                SharedBytes::from(&source[skip..]).copy_to(&mut fast[skip..skip + len]);
                let mut slow = vec![0xaa; len + skip + 1];
                // SAFETY: both vectors have so many bytes from there on, and they are two.
                unsafe {
                    bytewise::copy(
                        source[skip..].as_ptr(),
                        slow[skip..].as_mut_ptr(),
                        source.len() - skip,
                    );
                }
                assert_eq!(fast, slow, "{len} bytes from {skip} on");
                assert_eq!(fast[skip..skip + len], source[skip..]);
            }
        }
    }

    #[test]
    fn parts_are_checked_against_the_length() {
        let source = bytes(20);
        let view = SharedBytes::from(&source[..]);
        assert_eq!((view.len(), view.is_empty()), (20, false));
        assert_eq!(view.to_vec(), source);
        assert_eq!(view.get(5..9).unwrap().to_vec(), source[5..9]);
        assert!(view.get(20..20).unwrap().is_empty());
        #[expect(clippy::reversed_empty_ranges, reason = "it is refused")]
        let refused = [view.get(0..21), view.get(21..21), view.get(9..5)];
        assert!(refused.iter().all(Option::is_none));
        assert_eq!(view.read::<4>(16), source[16..].try_into().ok());
        assert_eq!(
            (view.read::<4>(17), view.read::<2>(usize::MAX)),
            (None, None)
        );
        assert_eq!((view.byte(19), view.byte(20)), (Some(source[19]), None));
    }

    #[test]
    fn writing_stays_within_the_bytes() {
        let mut memory = vec![0xaa; 12];
        let start = NonNull::new(memory.as_mut_ptr()).unwrap();
        // SAFETY: the vector has the ten bytes, and is not used while the view is.
        let mut view = unsafe { SharedBytesMut::new(start, 10) };
        assert_eq!((view.len(), view.is_empty()), (10, false));
        view.copy_from(&bytes(10)[..]);
        assert!(view.write_at(6, &[1, 2, 3, 4]));
        assert!(view.write_at(10, &[]));
        for at in [7, 10, 11, usize::MAX] {
            assert!(!view.write_at(at, &[9, 9, 9, 9]));
        }
        assert_eq!(memory[..6], bytes(6));
        assert_eq!(memory[6..], [1, 2, 3, 4, 0xaa, 0xaa]);
    }

    #[test]
    #[should_panic(expected = "a copy of another length")]
    fn a_copy_to_less_is_refused() {
        SharedBytes::from(&[1, 2, 3][..]).copy_to(&mut [0; 2]);
    }

    #[test]
    fn a_copy_under_a_writer_is_made_of_bytes_that_were_there() {
        let shared: Vec<AtomicU8> = (0..1514).map(|_| AtomicU8::new(1)).collect();
        let start = NonNull::from(&shared[..]).cast();
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    for value in [2, 1] {
                        for byte in &shared {
                            byte.store(value, Ordering::Relaxed);
                        }
                    }
                }
            });
            for len in [1, 8, 63, 64, 65, 600, 1514].repeat(2000) {
                // SAFETY: so many bytes are there, and are written by atomics only.
                let view = unsafe { SharedBytes::new(start, len) };
                let mut copied = vec![0; len];
                view.copy_to(&mut copied);
                let before = copied.clone();
                assert!(copied.iter().all(|byte| [1, 2].contains(byte)));
                assert_eq!(copied, before, "no thread changes a copy");
            }
            stop.store(true, Ordering::Relaxed);
        });
    }
}
