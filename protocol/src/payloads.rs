//! Payloads of a fixed number of owners, each up to a fixed length, in memory that is allocated
//! once.
//!
//! Nearly all payloads fit one record. They lie close together, so that the open exchanges of a
//! lane share cache lines and pages. A longer payload lies in a slot of its own that nothing else
//! touches.

use alloc::{boxed::Box, vec};

/// Longest payload that lies among the short ones: a cache line.
const SHORT_BYTES: usize = 64;

/// A place for each of a number of owners.
#[derive(Clone)]
pub(crate) struct Payloads {
    short: Box<[[u8; SHORT_BYTES]]>,
    long: Box<[u8]>,
    /// Distance between two long slots: an odd number of cache lines, so that the slots do not all
    /// start in the same cache set.
    stride_bytes: usize,
}

impl Payloads {
    /// Places for `owners` payloads of up to `bytes_max` bytes each.
    pub fn new(owners: usize, bytes_max: usize) -> Self {
        let stride_bytes = if bytes_max <= SHORT_BYTES {
            0
        } else {
            (bytes_max.div_ceil(SHORT_BYTES) | 1) * SHORT_BYTES
        };
        Self {
            short: vec![[0; SHORT_BYTES]; owners].into_boxed_slice(),
            long: vec![0; owners * stride_bytes].into_boxed_slice(),
            stride_bytes,
        }
    }

    /// Replaces the payload of `owner`. It must fit.
    #[inline]
    pub fn set(&mut self, owner: usize, payload: &[u8]) {
        if payload.len() <= SHORT_BYTES {
            self.short[owner][..payload.len()].copy_from_slice(payload);
        } else {
            let at = owner * self.stride_bytes;
            self.long[at..at + payload.len()].copy_from_slice(payload);
        }
    }

    /// The payload of `owner`, which has `len` bytes.
    #[inline]
    pub fn get(&self, owner: usize, len: usize) -> &[u8] {
        if len <= SHORT_BYTES {
            &self.short[owner][..len]
        } else {
            &self.long[owner * self.stride_bytes..][..len]
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn every_owner_has_its_own_place_at_every_length() {
        for bytes_max in [1, 28, 64, 65, 128, 4096] {
            let mut payloads = Payloads::new(3, bytes_max);
            for len in [1, bytes_max.min(64), bytes_max] {
                let of = |owner: usize| -> Vec<u8> {
                    (0..len).map(|at| (at * 3 + owner) as u8).collect()
                };
                for owner in 0..3 {
                    payloads.set(owner, &of(owner));
                }
                for owner in 0..3 {
                    assert_eq!(payloads.get(owner, len), of(owner));
                }
            }
        }
    }
}
