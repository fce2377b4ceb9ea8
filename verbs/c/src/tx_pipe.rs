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
    timeout::{Timeout, deadline},
    tuning::{covalent_pipe_tuning, tuning},
};

/// A pipe that sends packets on a port, in the order in which they are put in. Every call with it is for its device's thread only. Frames are bytes as
/// they go on the wire (network byte order). Zero names nothing.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct covalent_tx_pipe {
    /// Opaque.
    pub handle: u64,
}

/// A pipe, and what was reserved in it.
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

/// As [`with`], for what may put a frame in where room is reserved: from then on none is.
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

/// Opens a pipe that sends on `port`. `capacity_bytes` is a power of two, 64 KiB to 1 GiB; the default session_memory_max_mib admits 128 MiB.
///
/// # Safety
/// `port` is text that ends in a zero; `pipe` may be written.
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

/// Closes a pipe. What is not on the wire by then may not get there: covalent_tx_pipe_flush waits for it.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_tx_pipe_close(pipe: covalent_tx_pipe) -> c_int {
    call(|| {
        let closed = PIPES.with_borrow_mut(|pipes| pipes.remove(pipe.handle))?;
        drop(closed);
        Ok(())
    })
}

/// Tells the size of the pages that the pipe's packets lie in: 4096 or 2097152 bytes.
///
/// # Safety
/// `page_bytes` may be written.
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

/// Tells the longest frame that the port carries, in bytes without FCS.
///
/// # Safety
/// `frame_bytes_max` may be written.
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

/// Copies a frame into the pipe, without FCS and in network byte order. The lane sees it after covalent_tx_pipe_publish: push a burst, then publish once. Does
/// not wait: COVALENT_FULL when there is no room, COVALENT_TOO_LONG and COVALENT_RUNT when there never is.
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

/// Makes room for a frame of `length_bytes`, to be written at `data`, in the pipe, without a copy by the application (the lane copies it to the port); then
/// covalent_tx_pipe_commit. The bytes found there are
/// unspecified. One frame at a time: another reserve, push or send takes the room back, also if it fails. Statuses as for covalent_tx_pipe_push.
///
/// # Safety
/// `data` may be written.
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
            // The reservation is dropped here, which takes nothing: the room stays mapped and this application's until something is put there.
            out.set(pipe.tx.get().reserve(length_bytes)?.as_mut_ptr());
            pipe.reserved_bytes = Some(length_bytes);
            Ok(())
        })
    })
}

/// Puts in the frame that was written where covalent_tx_pipe_reserve said. Its pointer must not be used any more. The lane sees it after covalent_tx_pipe_publish.
/// COVALENT_INVALID when nothing is reserved.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_tx_pipe_commit(pipe: covalent_tx_pipe) -> c_int {
    call(|| {
        PIPES.with_borrow_mut(|pipes| {
            let pipe = pipes.get(pipe.handle)?;
            let Some(length_bytes) = pipe.reserved_bytes.take() else {
                return Err(invalid("nothing is reserved in the TX pipe"));
            };
            // The same room again: nothing was put in since, and room does not shrink.
            pipe.tx.get().reserve(length_bytes)?.commit();
            Ok(())
        })
    })
}

/// Shows everything pushed so far to the lane, which sends it.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_tx_pipe_publish(pipe: covalent_tx_pipe) -> c_int {
    call(|| with(pipe, |pipe| Ok(pipe.publish()?)))
}

/// Sends one frame: push and publish, waiting for room. `timeout_ns`: 0 does not wait (COVALENT_FULL), negative waits for ever; COVALENT_DEADLINE when there was
/// no room in time.
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
        put(pipe, |pipe| match Timeout::new(timeout_ns) {
            Timeout::None => Ok(pipe.send(data)?),
            Timeout::Until(deadline) => Ok(pipe.send_deadline(data, deadline)?),
            Timeout::Forever => Ok(pipe.send_blocking(data)?),
        })
    })
}

/// Waits until everything is with the port. `timeout_ns` as everywhere; COVALENT_DEADLINE when it was not in time.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_tx_pipe_flush(pipe: covalent_tx_pipe, timeout_ns: i64) -> c_int {
    call(|| {
        with(pipe, |pipe| match deadline(timeout_ns) {
            Some(deadline) => Ok(pipe.flush_deadline(deadline)?),
            None => Ok(pipe.flush()?),
        })
    })
}

/// Tells what the pipe did so far.
///
/// # Safety
/// `counters` may be written.
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

/// Sets how fast the pipe's packets are sent, and where the time at which they are is written. Holds for packets that lie in the pipe already. COVALENT_REFUSED if a
/// number is out of range, or no packet is long enough for the stamp.
///
/// # Safety
/// `tuning` points to a tuning.
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
