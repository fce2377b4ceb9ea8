//! Where messages lie in bytes without gaps.

use std::ffi::c_int;

use covalent::framing::{
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

/// State of the message at the start of a buffer.
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

/// The message at the start of a buffer. Fields that do not apply are 0.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct covalent_message {
    /// Which of the fields below count.
    pub state: covalent_message_state,
    /// COVALENT_MESSAGE_WHOLE: where the message begins, without its framing, in bytes from the
    /// data's start.
    pub offset_bytes: usize,
    /// COVALENT_MESSAGE_WHOLE: length of the message, without its framing. May be 0.
    pub length_bytes: usize,
    /// COVALENT_MESSAGE_WHOLE: bytes from the data's start to the next message, at least 1.
    pub total_bytes: usize,
    /// COVALENT_MESSAGE_PART: bytes needed, from the data's start, before another call is useful.
    /// More than were passed.
    pub needs_bytes: usize,
    /// COVALENT_MESSAGE_BROKEN: the length that the message claims, or the number of bytes without
    /// an end. More than the limit.
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

/// Finds the first message of `data` if every message has `message_bytes` bytes, 1 or more. If
/// `data` is empty, the result is COVALENT_MESSAGE_PART.
///
/// This function and the following ones need no pipe, keep no state, and may be called on any
/// thread. They return COVALENT_OK for any data, with the result in `message`.
///
/// # Safety
/// `data` points to `length_bytes` bytes. `message` is valid for writes.
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

/// Finds the first message of `data` if each message follows its length. The length is an unsigned
/// number of `width_bytes` bytes (2, 4 or 8), COVALENT_BIG_ENDIAN or COVALENT_LITTLE_ENDIAN, and
/// does not include itself. A length of more than `limit_bytes` is COVALENT_MESSAGE_BROKEN.
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

/// Finds the first message of `data` if each message ends with the byte `delimiter`, which no
/// message contains. No end within `limit_bytes` bytes is COVALENT_MESSAGE_BROKEN. Each call
/// searches from the start. Prefer length prefixes if messages are much longer than the data that
/// arrives at a time.
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

/// Returns the prefix that a sender puts before a message of `message_bytes` bytes: `width_bytes`
/// bytes. covalent_next_length_prefixed with the same arguments finds the message. Returns
/// COVALENT_TOO_LONG if the message is longer than `limit_bytes`, or than a number of that width
/// can encode.
///
/// # Safety
/// `prefix` is valid for writes of `width_bytes` bytes. COVALENT_PREFIX_BYTES_MAX bytes are always
/// enough.
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
        let encoded: Prefix = framing.prefix(message_bytes).map_err(too_long)?;
        for (place, byte) in encoded.as_bytes().iter().enumerate() {
            out.set(place, *byte);
        }
        Ok(())
    })
}

/// Finds the message at the start of `data`.
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
