//! `covalent_tx_pipe`.

use std::{
    cell::RefCell,
    ffi::{c_char, c_int},
};

use covalent_verbs::TxPipe;

use crate::{
    argument::{Out, text, values},
    device::{covalent_device, device},
    handle::{Kind, Table, this_thread},
    held::Held,
    status::{Result, call},
    timeout::{Timeout, deadline},
};

/// A pipe that sends packets on a port, in the order in which they are put in. Zero names nothing.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct covalent_tx_pipe {
    /// Opaque.
    pub handle: u64,
}

thread_local! {
    static PIPES: RefCell<Table<Held<TxPipe<'static>>>> = RefCell::new(Table::new(Kind::TxPipe, this_thread()));
}

fn with<T>(
    pipe: covalent_tx_pipe,
    body: impl FnOnce(&mut TxPipe<'static>) -> Result<T>,
) -> Result<T> {
    PIPES.with_borrow_mut(|pipes| body(pipes.get(pipe.handle)?.get()))
}

/// Opens a pipe that sends on `port`. `capacity_bytes` is a power of two, 64 KiB to 1 GiB.
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
        let opened = Held::open(&device, |device| device.tx_pipe(capacity_bytes, port))?;
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
        with(pipe, |pipe| Ok(pipe.push(data)?))
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
        with(pipe, |pipe| match Timeout::new(timeout_ns) {
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
