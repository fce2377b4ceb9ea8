//! Bounds-checked access to the frame's bytes: the one place where they are read.

use aya_ebpf::programs::XdpContext;

use crate::layout::{Address, Network16};

/// A type for which any bytes are a valid value and that needs at most two-byte alignment.
///
/// # Safety
/// The type must be `repr(C)` without padding, valid for every bit pattern and aligned to at most
/// two bytes.
pub unsafe trait Wire: Copy {}

// SAFETY: two bytes.
unsafe impl Wire for Network16 {}
// SAFETY: eight times two bytes.
unsafe impl Wire for Address {}
// SAFETY: a byte.
unsafe impl Wire for u8 {}
// SAFETY: an array has no padding and no invalid values if its elements have none.
unsafe impl<T: Wire, const N: usize> Wire for [T; N] {}

/// The bytes of one frame, from the destination address on, without FCS.
#[derive(Clone, Copy)]
pub struct Frame {
    start: usize,
    end: usize,
}

impl Frame {
    /// The frame that the program was called for.
    #[inline(always)]
    pub fn new(context: &XdpContext) -> Self {
        Self {
            start: context.data(),
            end: context.data_end(),
        }
    }

    /// Whether the frame has bytes up to `offset`.
    #[inline(always)]
    pub fn reaches(&self, offset: usize) -> bool {
        self.start + offset <= self.end
    }

    /// Returns the value at `offset` bytes into the frame, or `None` if the frame is too short for
    /// it. Offsets must be even.
    #[inline(always)]
    pub fn read<T: Wire>(&self, offset: usize) -> Option<T> {
        const { assert!(align_of::<T>() <= 2) };
        let at = self.start + offset;
        if at + size_of::<T>() > self.end {
            return None;
        }
        // SAFETY: the bytes lie between the frame's start and end (the verifier requires exactly
        // the comparison above). Any bytes are a valid `T`. Frames start at even addresses, so even
        // offsets satisfy its alignment.
        Some(unsafe { *(at as *const T) })
    }
}
