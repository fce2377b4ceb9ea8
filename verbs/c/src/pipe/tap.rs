//! Capturing the frames of a port into an RX pipe.

use std::ffi::c_int;

use covalent::{TapFrames, TapHead};

use super::{Bytes, Pipe, covalent_pipe, with};
use crate::{
    argument::{Out, values},
    status::{call, invalid},
};

/// Every frame of the port.
pub const COVALENT_TAP_ALL: u32 = 0;
/// Frames of the link protocol.
pub const COVALENT_TAP_LINKS: u32 = 1;
/// All frames but those of the link protocol.
pub const COVALENT_TAP_DATA: u32 = 2;

/// Captures what the lane receives and sends on the port of an RX pipe that was opened on a port:
/// `frames` is one of COVALENT_TAP_…. A packet of the pipe is then a record of a frame, with at
/// most `snap_bytes` of its bytes. covalent_tap_split reads it. The capture ends with the pipe.
/// Blocks for the daemon's reply.
///
/// Returns COVALENT_REFUSED unless this process runs as root or as the daemon's user, if the pipe
/// has no port, and if the port is captured already.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_pipe_tap(pipe: covalent_pipe, frames: u32, snap_bytes: u32) -> c_int {
    call(|| {
        let frames = match frames {
            COVALENT_TAP_ALL => TapFrames::All,
            COVALENT_TAP_LINKS => TapFrames::Links,
            COVALENT_TAP_DATA => TapFrames::Data,
            other => return Err(invalid(format!("frames {other} is none of COVALENT_TAP_…"))),
        };
        with(pipe, |pipe| match pipe {
            Pipe::Rx { pipe, .. } => Ok(pipe.get().tap(frames, snap_bytes)?),
            _ => Err(pipe.is_no("RX pipes")),
        })
    })
}

/// What a capture knows of a frame.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct covalent_tap_head {
    /// When the lane saw it, in nanoseconds since the Unix epoch (CLOCK_REALTIME).
    pub at_ns: u64,
    /// Its length in bytes without FCS. The record may have fewer of them.
    pub frame_bytes: u32,
    /// Frames between the previous record and this one that did not fit into the pipe.
    pub missed: u32,
    /// 1: the lane sent it. 0: the lane received it.
    pub sent: u32,
    /// 0.
    pub reserved: u32,
}

/// Splits a record of a capture into its head and the frame's bytes, to which `frame` then points.
/// Returns COVALENT_INVALID for data that is too short for a record. May be called on any thread.
///
/// # Safety
/// `record` points to `length_bytes` bytes. `head`, `frame` and `frame_bytes` are valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_tap_split(
    record: *const u8,
    length_bytes: usize,
    head: *mut covalent_tap_head,
    frame: *mut *const u8,
    frame_bytes: *mut usize,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word, for all three.
        let (record, mut out, mut bytes) = unsafe {
            (
                values(record, length_bytes, "record")?,
                Out::new(head, "head")?,
                Bytes::new(
                    Out::new(frame, "frame")?,
                    Out::new(frame_bytes, "frame_bytes")?,
                ),
            )
        };
        let (head, frame) = TapHead::split(record).ok_or_else(|| {
            invalid(format!(
                "a record of a capture has more than {length_bytes} bytes"
            ))
        })?;
        out.set(covalent_tap_head {
            at_ns: head.at_ns,
            frame_bytes: head.frame_bytes,
            missed: head.missed,
            sent: head.sent.into(),
            reserved: 0,
        });
        bytes.set(frame);
        Ok(())
    })
}
