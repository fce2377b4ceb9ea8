//! Where messages lie in bytes without gaps.

use std::ffi::c_int;

use covalent_verbs::framing::{
    Delimited, FixedSize, Frame, Framing, FramingError, LengthPrefixed, Prefix,
};

use crate::{
    argument::{Out, Outs, values},
    status::{Failure, Result, call, covalent_status, failed, invalid},
};

/// The most significant byte first: network byte order.
pub const COVALENT_BIG_ENDIAN: u32 = 1;
/// The least significant byte first.
pub const COVALENT_LITTLE_ENDIAN: u32 = 2;

/// Most bytes that go before a message.
pub const COVALENT_PREFIX_BYTES_MAX: usize = 8;

/// What bytes begin with.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum covalent_message_state {
    /// A part of a message: show more.
    COVALENT_MESSAGE_PART = 0,
    /// A whole message.
    COVALENT_MESSAGE_WHOLE = 1,
    /// No message of this framing: nothing behind it can be found.
    COVALENT_MESSAGE_BROKEN = 2,
}

use covalent_message_state::*;

/// The message that bytes begin with. What does not count is 0.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct covalent_message {
    /// Which of the fields below count.
    pub state: covalent_message_state,
    /// COVALENT_MESSAGE_WHOLE: where it begins, without what frames it, in bytes from the data's start.
    pub offset_bytes: usize,
    /// COVALENT_MESSAGE_WHOLE: its length, without what frames it; may be 0.
    pub length_bytes: usize,
    /// COVALENT_MESSAGE_WHOLE: bytes from the data's start to the next message, at least 1.
    pub total_bytes: usize,
    /// COVALENT_MESSAGE_PART: how many bytes must be there, from the data's start, before another look is worthwhile; more than were shown.
    pub needs_bytes: usize,
    /// COVALENT_MESSAGE_BROKEN: the length that the message claims, or how many bytes were seen without an end. More than is allowed.
    pub claimed_bytes: u64,
}

impl From<Frame> for covalent_message {
    fn from(frame: Frame) -> Self {
        let mut message = Self {
            state: COVALENT_MESSAGE_PART,
            offset_bytes: 0,
            length_bytes: 0,
            total_bytes: 0,
            needs_bytes: 0,
            claimed_bytes: 0,
        };
        match frame {
            Frame::Part { needs_bytes } => message.needs_bytes = needs_bytes,
            Frame::Whole {
                payload,
                total_bytes,
            } => {
                message.state = COVALENT_MESSAGE_WHOLE;
                message.offset_bytes = payload.start;
                message.length_bytes = payload.len();
                message.total_bytes = total_bytes;
            }
            Frame::Broken(error) => {
                message.state = COVALENT_MESSAGE_BROKEN;
                if let FramingError::TooLong { len, .. } = error {
                    message.claimed_bytes = len;
                }
            }
        }
        message
    }
}

/// Looks at the first message of `data`, in which every message has `message_bytes` bytes, 1 or more. Needs no pipe, keeps nothing, and may be called on any thread;
/// so may all that follow. They answer COVALENT_OK whatever lies there: `message` tells. Of no bytes the answer is COVALENT_MESSAGE_PART.
///
/// # Safety
/// `data` points to `length_bytes` bytes; `message` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_next_fixed_size(
    data: *const u8,
    length_bytes: usize,
    message_bytes: usize,
    message: *mut covalent_message,
) -> c_int {
    // SAFETY: the caller's word.
    unsafe {
        next(data, length_bytes, message, || {
            FixedSize::new(message_bytes).ok_or_else(|| invalid("message_bytes is 0"))
        })
    }
}

/// Looks at the first message of `data`, in which each message follows its length: an unsigned number of `width_bytes` bytes (2, 4 or 8), COVALENT_BIG_ENDIAN or
/// COVALENT_LITTLE_ENDIAN, that does not count itself. A length of more than `limit_bytes` is COVALENT_MESSAGE_BROKEN.
///
/// # Safety
/// As covalent_next_fixed_size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_next_length_prefixed(
    data: *const u8,
    length_bytes: usize,
    width_bytes: u32,
    byte_order: u32,
    limit_bytes: usize,
    message: *mut covalent_message,
) -> c_int {
    // SAFETY: the caller's word.
    unsafe {
        next(data, length_bytes, message, || {
            length_prefixed(width_bytes, byte_order, limit_bytes)
        })
    }
}

/// Looks at the first message of `data`, in which each message ends with the byte `delimiter`, which is in none of them. No end within `limit_bytes` bytes is
/// COVALENT_MESSAGE_BROKEN. Each look searches from the start, so prefix the length of messages much longer than what arrives at a time.
///
/// # Safety
/// As covalent_next_fixed_size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_next_delimited(
    data: *const u8,
    length_bytes: usize,
    delimiter: u8,
    limit_bytes: usize,
    message: *mut covalent_message,
) -> c_int {
    // SAFETY: the caller's word.
    unsafe {
        next(data, length_bytes, message, || {
            Ok(Delimited::new(delimiter, limit_bytes))
        })
    }
}

/// Tells what a sender puts before a message of `message_bytes` bytes so that covalent_next_length_prefixed, called with the same numbers, finds it: `width_bytes` bytes.
/// COVALENT_TOO_LONG when the message is longer than `limit_bytes`, or than such a number can say.
///
/// # Safety
/// `prefix` may be written `width_bytes` times; COVALENT_PREFIX_BYTES_MAX are always enough.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_length_prefix(
    message_bytes: usize,
    width_bytes: u32,
    byte_order: u32,
    limit_bytes: usize,
    prefix: *mut u8,
) -> c_int {
    call(|| {
        let framing = length_prefixed(width_bytes, byte_order, limit_bytes)?;
        // SAFETY: the caller's word; the width was checked.
        let mut out = unsafe { Outs::new(prefix, width_bytes as usize, "prefix")? };
        let told: Prefix = framing.prefix(message_bytes).map_err(too_long)?;
        for (place, byte) in told.as_bytes().iter().enumerate() {
            out.set(place, *byte);
        }
        Ok(())
    })
}

/// Looks at what `data` begins with.
///
/// # Safety
/// As covalent_next_fixed_size.
unsafe fn next<F: Framing>(
    data: *const u8,
    length_bytes: usize,
    message: *mut covalent_message,
    framing: impl FnOnce() -> Result<F>,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word, for both.
        let (data, mut out) = unsafe {
            (
                values(data, length_bytes, "data")?,
                Out::new(message, "message")?,
            )
        };
        out.set(framing()?.frame(data).into());
        Ok(())
    })
}

fn length_prefixed(
    width_bytes: u32,
    byte_order: u32,
    limit_bytes: usize,
) -> Result<LengthPrefixed> {
    let framing = match (width_bytes, byte_order) {
        (2, COVALENT_BIG_ENDIAN) => LengthPrefixed::u16_be,
        (2, COVALENT_LITTLE_ENDIAN) => LengthPrefixed::u16_le,
        (4, COVALENT_BIG_ENDIAN) => LengthPrefixed::u32_be,
        (4, COVALENT_LITTLE_ENDIAN) => LengthPrefixed::u32_le,
        (8, COVALENT_BIG_ENDIAN) => LengthPrefixed::u64_be,
        (8, COVALENT_LITTLE_ENDIAN) => LengthPrefixed::u64_le,
        (2 | 4 | 8, order) => {
            return Err(invalid(format!(
                "byte_order {order}: expected COVALENT_BIG_ENDIAN or COVALENT_LITTLE_ENDIAN"
            )));
        }
        (width, _) => {
            return Err(invalid(format!("width_bytes {width}: expected 2, 4 or 8")));
        }
    };
    Ok(framing(limit_bytes))
}

fn too_long(error: FramingError) -> Failure {
    failed(covalent_status::COVALENT_TOO_LONG, error.to_string())
}
