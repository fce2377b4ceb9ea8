//! `covalent_byte_pipe`.

use std::{
    cell::RefCell,
    ffi::{c_char, c_int},
};

use covalent_verbs::BytePipe;

use crate::{
    argument::{Out, optional_text},
    counters::covalent_pipe_counters,
    device::{covalent_device, device},
    frames::{covalent_match, matches, spread},
    handle::{Kind, Table, this_thread},
    held::Held,
    status::{Result, call},
    timeout::timeout,
};

/// A pipe that receives the payloads of UDP datagrams, concatenated in the order of arrival,
/// without headers and gaps. Use it only on its device's thread. A zero handle is invalid.
///
/// A framing (covalent_next_delimited and similar) finds the end of a message, not the datagrams. A
/// sender may put several messages into one datagram, or one message into several. The bytes are
/// those of the datagrams. The framing defines the byte order of a length.
///
/// The pipe does not separate sources: bind one pipe for each source whose messages must not mix.
/// The lane drops a frame that carries no whole datagram. It counts the frame as `no_payload` in
/// covalent_pipe_counters, in the daemon's status and on /metrics.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct covalent_byte_pipe {
    /// Opaque.
    pub handle: u64,
}

thread_local! {
    static PIPES: RefCell<Table<Held<BytePipe<'static>>>> = RefCell::new(
        Table::new(Kind::BytePipe, this_thread()),
    );
}

fn with<T>(
    pipe: covalent_byte_pipe,
    body: impl FnOnce(&mut BytePipe<'static>) -> Result<T>,
) -> Result<T> {
    PIPES.with_borrow_mut(|pipes| body(pipes.get(pipe.handle)?.get()))
}

/// Opens a pipe for the datagrams that arrive on `port`, or on every port of the device's lane if
/// `port` is null. It receives nothing until it is bound.
///
/// `capacity_bytes` is a power of two, 64 KiB to 1 GiB. 64 bytes of it are not usable. The default
/// session_memory_max_mib allows 128 MiB. A datagram enters the pipe whole. If the pipe is full,
/// the lane drops the datagram and counts it. A slow reader does not affect other pipes.
///
/// # Safety
/// `port` is null or a NUL-terminated string. `pipe` is valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_byte_pipe_open(
    device: covalent_device,
    capacity_bytes: u64,
    port: *const c_char,
    pipe: *mut covalent_byte_pipe,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word, for both.
        let (port, mut out) = unsafe { (optional_text(port, "port")?, Out::new(pipe, "pipe")?) };
        let device = self::device(device)?;
        let opened = Held::open(&device, |device| match port {
            Some(port) => device.byte_pipe_on(capacity_bytes, port),
            None => device.byte_pipe(capacity_bytes),
        })?;
        let handle = PIPES.with_borrow_mut(|pipes| pipes.insert(opened))?;
        out.set(covalent_byte_pipe { handle });
        Ok(())
    })
}

/// Closes a pipe. Its bytes are gone: pointers to them must not be used any more.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_byte_pipe_close(pipe: covalent_byte_pipe) -> c_int {
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
pub unsafe extern "C" fn covalent_byte_pipe_page_bytes(
    pipe: covalent_byte_pipe,
    page_bytes: *mut u64,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let mut out = unsafe { Out::new(page_bytes, "page_bytes")? };
        out.set(with(pipe, |pipe| Ok(pipe.page_bytes()))?);
        Ok(())
    })
}

/// Returns the pipe's number, as covalent_device_next_rx_pipe does.
///
/// # Safety
/// `number` is valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_byte_pipe_number(
    pipe: covalent_byte_pipe,
    number: *mut u32,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let mut out = unsafe { Out::new(number, "number")? };
        out.set(with(pipe, |pipe| Ok(pipe.id().number()))?);
        Ok(())
    })
}

/// Binds the pipe to the payloads of the frames that `match` describes. Several bindings add up.
/// Returns COVALENT_REFUSED if the frames belong to another pipe.
///
/// # Safety
/// `match` points to a match whose strings are NUL-terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_byte_pipe_bind(
    pipe: covalent_byte_pipe,
    r#match: *const covalent_match,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let matches = unsafe { matches(r#match)? };
        with(pipe, |pipe| Ok(pipe.bind(&matches)?))
    })
}

/// As covalent_rx_pipe_bind_spread.
///
/// # Safety
/// As covalent_byte_pipe_bind.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_byte_pipe_bind_spread(
    pipe: covalent_byte_pipe,
    r#match: *const covalent_match,
    spread: u32,
) -> c_int {
    call(|| {
        let spread = self::spread(spread)?;
        // SAFETY: the caller's word.
        let matches = unsafe { matches(r#match)? };
        with(pipe, |pipe| Ok(pipe.bind_spread(&matches, spread)?))
    })
}

/// Removes a binding. Bytes already in the pipe stay there.
///
/// # Safety
/// As covalent_byte_pipe_bind.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_byte_pipe_unbind(
    pipe: covalent_byte_pipe,
    r#match: *const covalent_match,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let matches = unsafe { matches(r#match)? };
        with(pipe, |pipe| Ok(pipe.unbind(&matches)?))
    })
}

/// Returns all bytes that arrived and were neither confirmed nor freed, contiguous and oldest
/// first, once there are more than `more_than_bytes` of them. Pass 0, or the number of bytes that
/// were examined without finding a whole message. The bytes stay in place, and later calls return
/// them again, until they are freed.
///
/// `timeout_ns`: 0 does not wait, and `length_bytes` may then be 0 and `data` null. A negative
/// value waits forever. Otherwise the call returns COVALENT_DEADLINE if there are not more bytes in
/// time. Returns COVALENT_PIPE_TOO_SMALL if the pipe can never hold more. Keep the limit of a
/// framing at least one datagram below the pipe's size. Otherwise the rest of a message may never
/// fit.
///
/// After a reconnection, the call first returns only the bytes that arrived from the previous
/// daemon. If the application then frees and confirms none of them, and bytes from the next daemon
/// are present, a later call discards and counts the old bytes. They are the start of a message
/// whose end never arrives. Pointers to them, and to the bytes confirmed then, are valid until the
/// call that returns the next daemon's bytes.
///
/// # Safety
/// `data` and `length_bytes` are valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_byte_pipe_recv(
    pipe: covalent_byte_pipe,
    more_than_bytes: usize,
    timeout_ns: i64,
    data: *mut *const u8,
    length_bytes: *mut usize,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word, for both.
        let mut out = unsafe { Bytes::new(data, length_bytes)? };
        out.set(&[]);
        with(pipe, |pipe| {
            let batch = match timeout(timeout_ns) {
                None => match pipe.try_recv_more_than(more_than_bytes)? {
                    Some(batch) => batch,
                    None => return Ok(()),
                },
                Some(timeout) => pipe.recv_more_than(more_than_bytes, timeout)?,
            };
            // Dropping the batch here keeps all bytes in place, mapped and unchanged, until they
            // are freed.
            out.set(batch.bytes());
            Ok(())
        })
    })
}

/// Frees the oldest `bytes` of the unconfirmed bytes, or all if there are fewer. Also frees all
/// confirmed bytes. Pointers to freed bytes are invalid. If `bytes` is 0, the call frees nothing.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_byte_pipe_free(pipe: covalent_byte_pipe, bytes: usize) -> c_int {
    call(|| {
        with(pipe, |pipe| {
            if bytes > 0
                && let Some(batch) = pipe.received()
            {
                batch.free(bytes);
            }
            Ok(())
        })
    })
}

/// Confirms the oldest `bytes` of the unconfirmed bytes, or all if there are fewer, without freeing
/// them. covalent_byte_pipe_recv no longer returns confirmed bytes. covalent_byte_pipe_held does.
/// Pointers to them stay valid.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_byte_pipe_confirm(pipe: covalent_byte_pipe, bytes: usize) -> c_int {
    call(|| {
        with(pipe, |pipe| {
            if let Some(batch) = pipe.received() {
                batch.confirm(bytes);
            }
            Ok(())
        })
    })
}

/// Returns the bytes that were confirmed and not freed, contiguous and oldest first. If there are
/// none, `data` is null.
///
/// # Safety
/// As covalent_byte_pipe_recv.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_byte_pipe_held(
    pipe: covalent_byte_pipe,
    data: *mut *const u8,
    length_bytes: *mut usize,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word, for both.
        let mut out = unsafe { Bytes::new(data, length_bytes)? };
        out.set(&[]);
        with(pipe, |pipe| {
            out.set(pipe.held());
            Ok(())
        })
    })
}

/// Frees the oldest `bytes` of the confirmed bytes, or all if there are fewer. Pointers to freed
/// bytes are invalid.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_byte_pipe_free_held(pipe: covalent_byte_pipe, bytes: usize) -> c_int {
    call(|| {
        with(pipe, |pipe| {
            pipe.free_held(bytes);
            Ok(())
        })
    })
}

/// As covalent_rx_pipe_prefetch.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_byte_pipe_prefetch(pipe: covalent_byte_pipe) -> c_int {
    call(|| with(pipe, |pipe| Ok(pipe.prefetch()?)))
}

/// Returns the pipe's counters. Its packets are datagrams.
///
/// # Safety
/// `counters` is valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_byte_pipe_counters(
    pipe: covalent_byte_pipe,
    counters: *mut covalent_pipe_counters,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let mut out = unsafe { Out::new(counters, "counters")? };
        out.set(with(pipe, |pipe| Ok(pipe.counters().into()))?);
        Ok(())
    })
}

/// Where a byte range is returned to the caller.
struct Bytes {
    data: Out<*const u8>,
    length_bytes: Out<usize>,
}

impl Bytes {
    /// # Safety
    /// As `Out::new`, for both.
    unsafe fn new(data: *mut *const u8, length_bytes: *mut usize) -> Result<Self> {
        // SAFETY: the caller's word.
        unsafe {
            Ok(Self {
                data: Out::new(data, "data")?,
                length_bytes: Out::new(length_bytes, "length_bytes")?,
            })
        }
    }

    fn set(&mut self, bytes: &[u8]) {
        self.data.set(if bytes.is_empty() {
            std::ptr::null()
        } else {
            bytes.as_ptr()
        });
        self.length_bytes.set(bytes.len());
    }
}
