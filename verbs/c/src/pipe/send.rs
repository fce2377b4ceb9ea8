//! Sending through TX pipes.

use std::ffi::c_int;

use covalent::TxPipe;

use super::{Pipe, covalent_pipe, with};
use crate::{
    argument::{Out, values},
    status::{Result, call, covalent_status::COVALENT_DEADLINE, failed, invalid},
    timeout::timeout,
};

/// The TX pipe and the length of its reservation.
fn with_tx<T>(
    pipe: covalent_pipe,
    body: impl FnOnce(&mut TxPipe<'static>, &mut Option<usize>) -> Result<T>,
) -> Result<T> {
    with(pipe, |pipe| match pipe {
        Pipe::Tx {
            pipe,
            reserved_bytes,
        } => body(pipe.get(), reserved_bytes),
        _ => Err(pipe.is_no("TX pipes")),
    })
}

/// Returns the length of the longest frame that the port of a TX pipe carries, in bytes without
/// FCS.
///
/// # Safety
/// `frame_bytes_max` is valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_pipe_frame_bytes_max(
    pipe: covalent_pipe,
    frame_bytes_max: *mut usize,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let mut out = unsafe { Out::new(frame_bytes_max, "frame_bytes_max")? };
        out.set(with_tx(pipe, |pipe, _| Ok(pipe.frame_bytes_max()))?);
        Ok(())
    })
}

/// Returns how many bytes of a TX pipe are occupied by frames that are not with the port yet.
///
/// # Safety
/// `in_flight_bytes` is valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_pipe_in_flight_bytes(
    pipe: covalent_pipe,
    in_flight_bytes: *mut u64,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let mut out = unsafe { Out::new(in_flight_bytes, "in_flight_bytes")? };
        out.set(with_tx(pipe, |pipe, _| Ok(pipe.in_flight_bytes()))?);
        Ok(())
    })
}

/// Copies a frame into a TX pipe, without FCS and in network byte order. The lane sees it after
/// covalent_pipe_publish: push a burst, then publish once. Does not wait. Returns COVALENT_FULL if
/// there is no room now, and COVALENT_TOO_LONG, COVALENT_TOO_SHORT or COVALENT_LINK_ETHERTYPE if
/// the frame can never be sent.
///
/// # Safety
/// `data` points to `length_bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_pipe_push(
    pipe: covalent_pipe,
    data: *const u8,
    length_bytes: usize,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let data = unsafe { values(data, length_bytes, "data")? };
        with_tx(pipe, |pipe, reserved_bytes| {
            // The frame takes the reserved room.
            *reserved_bytes = None;
            Ok(pipe.push(data)?)
        })
    })
}

/// Reserves room in a TX pipe for a frame of `length_bytes`. Write the frame at `data`, then call
/// covalent_pipe_commit. The application makes no copy. The lane copies the frame to the port. The
/// initial contents of the room are unspecified.
///
/// Only one frame can be reserved at a time: another reserve, push or send cancels the reservation,
/// even if it fails. Returns the same statuses as covalent_pipe_push, except that
/// covalent_pipe_commit checks the EtherType.
///
/// # Safety
/// `data` is valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_pipe_reserve(
    pipe: covalent_pipe,
    length_bytes: usize,
    data: *mut *mut u8,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let mut out = unsafe { Out::new(data, "data")? };
        with_tx(pipe, |pipe, reserved_bytes| {
            *reserved_bytes = None;
            // Dropping the reservation here takes nothing. The room stays mapped and owned by this
            // application until a frame is put in.
            out.set(pipe.reserve(length_bytes)?.as_mut_ptr());
            *reserved_bytes = Some(length_bytes);
            Ok(())
        })
    })
}

/// Puts in the frame that was written at the pointer from covalent_pipe_reserve. The pointer is
/// invalid afterwards. The lane sees the frame after covalent_pipe_publish. Returns
/// COVALENT_INVALID if nothing is reserved. Returns COVALENT_LINK_ETHERTYPE if the port has a link
/// and the frame has its EtherType: the frame is not sent, and its room is free.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_pipe_commit(pipe: covalent_pipe) -> c_int {
    call(|| {
        with_tx(pipe, |pipe, reserved_bytes| {
            let Some(length_bytes) = reserved_bytes.take() else {
                return Err(invalid("nothing is reserved in the TX pipe"));
            };
            // This is the same room: nothing was put in since, and the free room does not shrink.
            Ok(pipe.reserve(length_bytes)?.commit()?)
        })
    })
}

/// Shows everything pushed so far into a TX pipe to the lane, which sends it.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_pipe_publish(pipe: covalent_pipe) -> c_int {
    call(|| with_tx(pipe, |pipe, _| Ok(pipe.publish()?)))
}

/// Sends one frame through a TX pipe: push and publish, waiting for room. `timeout_ns`: 0 does not
/// wait (COVALENT_FULL), a negative value waits forever. Returns COVALENT_DEADLINE if there is no
/// room in time.
///
/// # Safety
/// As covalent_pipe_push.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_pipe_send(
    pipe: covalent_pipe,
    data: *const u8,
    length_bytes: usize,
    timeout_ns: i64,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let data = unsafe { values(data, length_bytes, "data")? };
        with_tx(pipe, |pipe, reserved_bytes| {
            *reserved_bytes = None;
            match timeout(timeout_ns) {
                None => Ok(pipe.try_send(data)?),
                Some(timeout) => Ok(pipe.send(data, timeout)?),
            }
        })
    })
}

/// Waits until all frames of a TX pipe are with the port, or all frames that an RX/TX pipe sent
/// back. `timeout_ns`: 0 does not wait, a negative value waits forever. Returns COVALENT_DEADLINE
/// if the frames are not with the port in time. After covalent_device_arm, a call with 0 that
/// returns it requests the wake-up. The device of the port may still lose frames that
/// it accepted, as with any Ethernet sender: for example when its cable is cut
/// (`tx_dropped_by_device` of the port).
///
/// In an RX/TX pipe, discarded frames count too, and frames that were neither sent back nor
/// discarded do not. covalent_device_next_rx_pipe may then return the pipe although no frame
/// arrived. If the device reconnects (covalent_device_set_reconnect), frames sent back that the old
/// daemon had not taken are lost, and the call does not wait for them.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_pipe_flush(pipe: covalent_pipe, timeout_ns: i64) -> c_int {
    call(|| {
        let timeout = timeout(timeout_ns);
        let is_flushed = with(pipe, |pipe| match (pipe, timeout) {
            (Pipe::Tx { pipe, .. }, None) => Ok(pipe.get().try_flush()?),
            (Pipe::Tx { pipe, .. }, Some(timeout)) => {
                pipe.get().flush(timeout)?;
                Ok(true)
            }
            (Pipe::RxTx { pipe, .. }, None) => Ok(pipe.get().try_flush()?),
            (Pipe::RxTx { pipe, .. }, Some(timeout)) => {
                pipe.get().flush(timeout)?;
                Ok(true)
            }
            (pipe, _) => Err(pipe.is_no("TX and RX/TX pipes")),
        })?;
        if is_flushed {
            Ok(())
        } else {
            Err(failed(
                COVALENT_DEADLINE,
                "frames of the pipe are not with the port yet: call again with a timeout_ns to wait",
            ))
        }
    })
}
