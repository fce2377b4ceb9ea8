//! `covalent_tx_pipe`.

use std::{
    cell::RefCell,
    ffi::{c_char, c_int},
};

use covalent_verbs::TxPipe;

use crate::{
    argument::{Out, text, values},
    counters::covalent_pipe_counters,
    device::{covalent_device, device},
    handle::{Kind, Table, this_thread},
    held::Held,
    status::{Result, call, invalid},
    timeout::{timeout, waiting},
    tuning::{covalent_pipe_tuning, tuning},
};

/// A pipe that sends packets on a port, in the order in which they are put in. Frames are bytes as
/// on the wire (network byte order). Use it only on its device's thread. A zero handle is invalid.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct covalent_tx_pipe {
    /// Opaque.
    pub handle: u64,
}

/// A pipe, and its reservation.
struct Pipe {
    tx: Held<TxPipe<'static>>,
    /// Length of the frame that is being written in place.
    reserved_bytes: Option<usize>,
}

thread_local! {
    static PIPES: RefCell<Table<Pipe>> = RefCell::new(Table::new(Kind::TxPipe, this_thread()));
}

fn with<T>(
    pipe: covalent_tx_pipe,
    body: impl FnOnce(&mut TxPipe<'static>) -> Result<T>,
) -> Result<T> {
    PIPES.with_borrow_mut(|pipes| body(pipes.get(pipe.handle)?.tx.get()))
}

/// As [`with`], for calls that may put a frame into the reserved room. The reservation ends.
fn put<T>(
    pipe: covalent_tx_pipe,
    body: impl FnOnce(&mut TxPipe<'static>) -> Result<T>,
) -> Result<T> {
    PIPES.with_borrow_mut(|pipes| {
        let pipe = pipes.get(pipe.handle)?;
        pipe.reserved_bytes = None;
        body(pipe.tx.get())
    })
}

/// Opens a pipe that sends on `port`. `capacity_bytes` is a power of two, 64 KiB to 1 GiB. The
/// default session_memory_max_mib allows 128 MiB.
///
/// # Safety
/// `port` is a NUL-terminated string. `pipe` is valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_tx_pipe_open(
    device: covalent_device,
    capacity_bytes: u64,
    port: *const c_char,
    pipe: *mut covalent_tx_pipe,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word, for both.
        let (port, mut out) = unsafe { (text(port, "port")?, Out::new(pipe, "pipe")?) };
        let device = self::device(device)?;
        let opened = Pipe {
            tx: Held::open(&device, |device| device.tx_pipe(capacity_bytes, port))?,
            reserved_bytes: None,
        };
        let handle = PIPES.with_borrow_mut(|pipes| pipes.insert(opened))?;
        out.set(covalent_tx_pipe { handle });
        Ok(())
    })
}

/// Closes a pipe. Packets that are not on the wire yet may be lost: covalent_tx_pipe_flush waits
/// for them.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_tx_pipe_close(pipe: covalent_tx_pipe) -> c_int {
    call(|| {
        let closed = PIPES.with_borrow_mut(|pipes| pipes.remove(pipe.handle))?;
        drop(closed);
        Ok(())
    })
}

/// Returns the size of the pages of the pipe's memory: 4096 or 2097152 bytes.
///
/// # Safety
/// `page_bytes` is valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_tx_pipe_page_bytes(
    pipe: covalent_tx_pipe,
    page_bytes: *mut u64,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let mut out = unsafe { Out::new(page_bytes, "page_bytes")? };
        out.set(with(pipe, |pipe| Ok(pipe.page_bytes()))?);
        Ok(())
    })
}

/// Returns the length of the longest frame that the port carries, in bytes without FCS.
///
/// # Safety
/// `frame_bytes_max` is valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_tx_pipe_frame_bytes_max(
    pipe: covalent_tx_pipe,
    frame_bytes_max: *mut usize,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let mut out = unsafe { Out::new(frame_bytes_max, "frame_bytes_max")? };
        out.set(with(pipe, |pipe| Ok(pipe.frame_bytes_max()))?);
        Ok(())
    })
}

/// Copies a frame into the pipe, without FCS and in network byte order. The lane sees it after
/// covalent_tx_pipe_publish: push a burst, then publish once. Does not wait. Returns COVALENT_FULL
/// if there is no room now, and COVALENT_TOO_LONG, COVALENT_RUNT or COVALENT_LINK_ETHERTYPE if the
/// frame can never be sent.
///
/// # Safety
/// `data` points to `length_bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_tx_pipe_push(
    pipe: covalent_tx_pipe,
    data: *const u8,
    length_bytes: usize,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let data = unsafe { values(data, length_bytes, "data")? };
        put(pipe, |pipe| Ok(pipe.push(data)?))
    })
}

/// Reserves room in the pipe for a frame of `length_bytes`. Write the frame at `data`, then call
/// covalent_tx_pipe_commit. The application makes no copy. The lane copies the frame to the port.
/// The initial contents of the room are unspecified.
///
/// Only one frame can be reserved at a time: another reserve, push or send cancels the reservation,
/// even if it fails. Returns the same statuses as covalent_tx_pipe_push, except that
/// covalent_tx_pipe_commit checks the EtherType.
///
/// # Safety
/// `data` is valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_tx_pipe_reserve(
    pipe: covalent_tx_pipe,
    length_bytes: usize,
    data: *mut *mut u8,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let mut out = unsafe { Out::new(data, "data")? };
        PIPES.with_borrow_mut(|pipes| {
            let pipe = pipes.get(pipe.handle)?;
            pipe.reserved_bytes = None;
            // Dropping the reservation here takes nothing. The room stays mapped and owned by this
            // application until a frame is put in.
            out.set(pipe.tx.get().reserve(length_bytes)?.as_mut_ptr());
            pipe.reserved_bytes = Some(length_bytes);
            Ok(())
        })
    })
}

/// Puts in the frame that was written at the pointer from covalent_tx_pipe_reserve. The pointer is
/// invalid afterwards. The lane sees the frame after covalent_tx_pipe_publish. Returns
/// COVALENT_INVALID if nothing is reserved. Returns COVALENT_LINK_ETHERTYPE if the port has a link
/// and the frame has its EtherType: the frame is not sent, and its room is free.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_tx_pipe_commit(pipe: covalent_tx_pipe) -> c_int {
    call(|| {
        PIPES.with_borrow_mut(|pipes| {
            let pipe = pipes.get(pipe.handle)?;
            let Some(length_bytes) = pipe.reserved_bytes.take() else {
                return Err(invalid("nothing is reserved in the TX pipe"));
            };
            // This is the same room: nothing was put in since, and the free room does not shrink.
            Ok(pipe.tx.get().reserve(length_bytes)?.commit()?)
        })
    })
}

/// Shows everything pushed so far to the lane, which sends it.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_tx_pipe_publish(pipe: covalent_tx_pipe) -> c_int {
    call(|| with(pipe, |pipe| Ok(pipe.publish()?)))
}

/// Sends one frame: push and publish, waiting for room. `timeout_ns`: 0 does not wait
/// (COVALENT_FULL), a negative value waits forever. Returns COVALENT_DEADLINE if there is no room
/// in time.
///
/// # Safety
/// As covalent_tx_pipe_push.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_tx_pipe_send(
    pipe: covalent_tx_pipe,
    data: *const u8,
    length_bytes: usize,
    timeout_ns: i64,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let data = unsafe { values(data, length_bytes, "data")? };
        put(pipe, |pipe| match timeout(timeout_ns) {
            None => Ok(pipe.try_send(data)?),
            Some(timeout) => Ok(pipe.send(data, timeout)?),
        })
    })
}

/// Waits until all packets are with the port. A negative `timeout_ns` waits forever. Returns
/// COVALENT_DEADLINE if the packets are not with the port in time.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_tx_pipe_flush(pipe: covalent_tx_pipe, timeout_ns: i64) -> c_int {
    call(|| with(pipe, |pipe| Ok(pipe.flush(waiting(timeout_ns))?)))
}

/// Returns the pipe's counters.
///
/// # Safety
/// `counters` is valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_tx_pipe_counters(
    pipe: covalent_tx_pipe,
    counters: *mut covalent_pipe_counters,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let mut out = unsafe { Out::new(counters, "counters")? };
        out.set(with(pipe, |pipe| Ok(pipe.counters().into()))?);
        Ok(())
    })
}

/// Sets how fast the pipe's packets are sent, and where the lane writes the time of sending.
/// Applies to packets already in the pipe too. Returns COVALENT_REFUSED if a number is out of
/// range, or if no packet is long enough for the stamp.
///
/// # Safety
/// `tuning` points to a covalent_pipe_tuning.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_tx_pipe_tune(
    pipe: covalent_tx_pipe,
    tuning: *const covalent_pipe_tuning,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let tuning = unsafe { self::tuning(tuning)? };
        with(pipe, |pipe| Ok(pipe.tune(&tuning)?))
    })
}
