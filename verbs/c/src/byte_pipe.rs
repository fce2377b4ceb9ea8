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
    timeout::Timeout,
};

/// A pipe that receives what UDP datagrams carry: payload after payload, without headers and gaps, in the order of arrival. Every call with it is for its device's thread only. Zero
/// names nothing.
///
/// Where a message ends is told by a framing (covalent_next_delimited and its like), not by the datagrams: a sender may put several into one, or one into several. Bytes
/// are as they were in the datagrams; a framing says which byte order a length has. Sources are not told apart: bind a pipe for each whose messages must not mix. A frame that carries no whole datagram is dropped and
/// counted in the daemon's status and on /metrics, not in covalent_pipe_counters.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct covalent_byte_pipe {
    /// Opaque.
    pub handle: u64,
}

thread_local! {
    static PIPES: RefCell<Table<Held<BytePipe<'static>>>> = RefCell::new(Table::new(Kind::BytePipe, this_thread()));
}

fn with<T>(
    pipe: covalent_byte_pipe,
    body: impl FnOnce(&mut BytePipe<'static>) -> Result<T>,
) -> Result<T> {
    PIPES.with_borrow_mut(|pipes| body(pipes.get(pipe.handle)?.get()))
}

/// Opens a pipe that receives what arrives on `port`, or on every port of the device's lane if `port` is null: nothing until it is bound. `capacity_bytes` is
/// a power of two, 64 KiB to 1 GiB; the default session_memory_max_mib admits 128 MiB; 64 bytes less can be used. A datagram goes in whole or, when the pipe is full, not at all, and is counted; a slow reader disturbs nobody else.
///
/// # Safety
/// `port` is null or text that ends in a zero; `pipe` may be written.
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

/// Tells the size of the pages that the pipe's bytes lie in: 4096 or 2097152 bytes.
///
/// # Safety
/// `page_bytes` may be written.
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

/// Tells the pipe's number, as covalent_device_next_rx_pipe does.
///
/// # Safety
/// `number` may be written.
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

/// Asks for what the frames carry that `match` describes. Several bindings add up. COVALENT_REFUSED when they belong to another pipe.
///
/// # Safety
/// `match` points to a match whose texts end in a zero.
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

/// Takes back a binding. Bytes that lie in the pipe stay there.
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

/// Tells all bytes that have arrived and were neither confirmed nor freed, contiguous and oldest first, once there are more than `more_than_bytes` of them: 0, or how many
/// were looked at without finding a whole message. They stay where they are, and are told again, until they are freed.
/// After a reconnection what the daemon before left is told first and alone; once it was told and nothing of it was freed or confirmed, and bytes of the next daemon lie there, it is given up and counted: the
/// beginning of a message whose end never comes. Pointers to it, and to what was confirmed then, end with the call that tells the next daemon's bytes.
///
/// `timeout_ns`: 0 does not wait, and then `length_bytes` may be 0 (and `data` null): there were not more; negative waits for ever; else COVALENT_DEADLINE when there were not more in
/// time. COVALENT_PIPE_TOO_SMALL when the pipe never holds more. Keep a framing's limit at least one datagram below the pipe's size, or what is missing of a message may never fit.
///
/// # Safety
/// `data` and `length_bytes` may be written.
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
            let batch = match Timeout::new(timeout_ns) {
                Timeout::None => match pipe.poll_more_than(more_than_bytes)? {
                    Some(batch) => batch,
                    None => return Ok(()),
                },
                Timeout::Until(deadline) => {
                    pipe.recv_more_than_deadline(more_than_bytes, deadline)?
                }
                Timeout::Forever => pipe.recv_more_than(more_than_bytes)?,
            };
            // The batch is dropped here, which keeps all bytes where they are, mapped and unchanged until they are freed.
            out.set(batch.bytes());
            Ok(())
        })
    })
}

/// Frees the oldest `bytes` of the bytes that were not confirmed, or all if there are fewer, and with them all that were confirmed. Pointers to them must not be used any
/// more. Of 0 nothing is freed.
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

/// Takes the oldest `bytes` of the bytes that were not confirmed, or all if there are fewer, as received without freeing them: covalent_byte_pipe_recv tells them no more,
/// covalent_byte_pipe_held does, and pointers to them stay good.
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

/// Tells the bytes that were confirmed and not freed, contiguous and oldest first. Of none `data` is null.
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

/// Frees the oldest `bytes` of the bytes that were confirmed, or all if there are fewer. Pointers to them must not be used any more.
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

/// Tells what the pipe did so far. Its packets are datagrams.
///
/// # Safety
/// `counters` may be written.
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

/// Where bytes are told.
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
