//! Names as C programs receive them.

use std::ffi::c_char;

/// Size of a buffer for the longest name of a node, port, region, receive queue or group with its
/// terminating NUL, in bytes.
pub const COVALENT_NAME_ROOM_BYTES: usize = 36;

/// A name.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct covalent_name {
    /// Its characters, closed by a zero.
    pub text: [c_char; COVALENT_NAME_ROOM_BYTES],
}

impl covalent_name {
    /// The name, cut at the longest that there is.
    pub(crate) fn new(name: &str) -> Self {
        let mut text = [0; COVALENT_NAME_ROOM_BYTES];
        let places = text.iter_mut().take(COVALENT_NAME_ROOM_BYTES - 1);
        for (place, byte) in places.zip(name.bytes()) {
            *place = byte as c_char;
        }
        Self { text }
    }
}
