//! `covalent_pipe`: opening and closing, and what is the same for every kind.

mod bind;
mod receive;
mod send;
mod send_back;
mod tap;

use std::{
    cell::RefCell,
    ffi::{c_char, c_int},
};

use covalent::{BytePipe, PipeCounters, PipeId, Position, RxPipe, RxTxPipe, TxPipe};

use crate::{
    argument::{Out, optional_text},
    counters::covalent_pipe_counters,
    device::{covalent_device, device},
    growing::GrowingOut,
    handle::{Kind, Table, this_thread},
    held::Held,
    status::{Failure, Result, call, invalid},
    tuning::{covalent_pipe_tuning, tuning},
};

pub use self::{bind::*, receive::*, send::*, send_back::*, tap::*};

/// A pipe that receives frames as they were on the wire (network byte order), each at the next
/// multiple of 64 bytes.
pub const COVALENT_PIPE_RX: u32 = 1;
/// A pipe that sends frames on a port, in the order in which they are put in, exactly as given.
pub const COVALENT_PIPE_TX: u32 = 2;
/// A pipe that receives frames from a port and sends them back on it in place, without a copy by
/// the application. The lane copies them to the port. It has no confirm: frames are sent back in
/// the order of arrival, so a held frame would block all frames behind it.
pub const COVALENT_PIPE_RX_TX: u32 = 3;
/// A pipe that receives the payloads of UDP datagrams, concatenated in the order of arrival,
/// without headers and gaps.
///
/// A framing (covalent_next_delimited and similar) finds the end of a message, not the datagrams. A
/// sender may put several messages into one datagram, or one message into several. The bytes are
/// those of the datagrams. The framing defines the byte order of a length.
///
/// The pipe does not separate sources: bind one pipe for each source whose messages must not mix.
/// The lane drops a frame that carries no whole datagram. It counts the frame as `no_payload` in
/// covalent_pipe_counters, in the daemon's status and on /metrics.
pub const COVALENT_PIPE_BYTES: u32 = 4;

/// A pipe of one of the kinds COVALENT_PIPE_…. A call that its kind does not have returns
/// COVALENT_INVALID. Use it only on its device's thread. A zero handle is invalid.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct covalent_pipe {
    /// Opaque.
    pub handle: u64,
}

/// A pipe and its state between calls.
enum Pipe {
    Rx {
        pipe: Held<RxPipe<'static>>,
        returned: Option<Returned>,
    },
    Tx {
        pipe: Held<TxPipe<'static>>,
        /// Length of the frame that is being written in place.
        reserved_bytes: Option<usize>,
    },
    RxTx {
        pipe: Held<RxTxPipe<'static>>,
        /// Position after the packets that were returned last.
        returned: Option<Position>,
    },
    Bytes(Held<BytePipe<'static>>),
}

/// The packets that an RX pipe returned last, while none was freed or confirmed since.
#[derive(Debug, Clone, Copy)]
struct Returned {
    /// The position after them.
    end: Position,
    /// The next call that returns packets frees them.
    is_taken: bool,
}

thread_local! {
    static PIPES: RefCell<Table<Pipe>> = RefCell::new(Table::new(Kind::Pipe, this_thread()));
}

fn with<T>(pipe: covalent_pipe, body: impl FnOnce(&mut Pipe) -> Result<T>) -> Result<T> {
    PIPES.with_borrow_mut(|pipes| body(pipes.get(pipe.handle)?))
}

impl Pipe {
    const fn name(&self) -> &'static str {
        match self {
            Self::Rx { .. } => "an RX pipe",
            Self::Tx { .. } => "a TX pipe",
            Self::RxTx { .. } => "an RX/TX pipe",
            Self::Bytes(_) => "a byte pipe",
        }
    }

    /// The failure of a call that this kind does not have. `wanted` names the kinds that have it.
    fn is_no(&self, wanted: &str) -> Failure {
        invalid(format!(
            "the pipe is {}: the call is for {wanted}",
            self.name()
        ))
    }

    fn id(&mut self) -> PipeId {
        match self {
            Self::Rx { pipe, .. } => pipe.get().id(),
            Self::Tx { pipe, .. } => pipe.get().id(),
            Self::RxTx { pipe, .. } => pipe.get().id(),
            Self::Bytes(pipe) => pipe.get().id(),
        }
    }

    fn capacity_bytes(&mut self) -> u64 {
        match self {
            Self::Rx { pipe, .. } => pipe.get().capacity_bytes(),
            Self::Tx { pipe, .. } => pipe.get().capacity_bytes(),
            Self::RxTx { pipe, .. } => pipe.get().capacity_bytes(),
            Self::Bytes(pipe) => pipe.get().capacity_bytes(),
        }
    }

    fn page_bytes(&mut self) -> u64 {
        match self {
            Self::Rx { pipe, .. } => pipe.get().page_bytes(),
            Self::Tx { pipe, .. } => pipe.get().page_bytes(),
            Self::RxTx { pipe, .. } => pipe.get().page_bytes(),
            Self::Bytes(pipe) => pipe.get().page_bytes(),
        }
    }

    fn counters(&mut self) -> PipeCounters {
        match self {
            Self::Rx { pipe, .. } => pipe.get().counters(),
            Self::Tx { pipe, .. } => pipe.get().counters(),
            Self::RxTx { pipe, .. } => pipe.get().counters(),
            Self::Bytes(pipe) => pipe.get().counters(),
        }
    }
}

/// Opens a pipe of the kind `kind`, one of COVALENT_PIPE_…, on the port `port`. A null `port` opens
/// an RX pipe or a byte pipe on every port of the device's lane. A pipe receives nothing until it
/// is bound.
///
/// `capacity_bytes` is a power of two, 64 KiB to 1 GiB, of which 64 bytes are not usable. The
/// default session_memory_max_mib allows 128 MiB. If a pipe is full, the lane drops arriving
/// packets and counts them (`full`). A slow reader does not affect other pipes.
///
/// Returns COVALENT_NO_SUCH_PORT if the node has no such port, and COVALENT_REFUSED if another lane
/// owns it.
///
/// # Safety
/// `port` is null or a NUL-terminated string. `pipe` is valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_pipe_open(
    device: covalent_device,
    kind: u32,
    capacity_bytes: u64,
    port: *const c_char,
    pipe: *mut covalent_pipe,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word, for both.
        let (port, mut out) = unsafe { (optional_text(port, "port")?, Out::new(pipe, "pipe")?) };
        let needed = || port.ok_or_else(|| invalid("port is null: the pipe sends on one port"));
        let device = self::device(device)?;
        let opened = match kind {
            COVALENT_PIPE_RX => Pipe::Rx {
                pipe: Held::open(&device, |device| match port {
                    Some(port) => device.rx_pipe_on(capacity_bytes, port),
                    None => device.rx_pipe(capacity_bytes),
                })?,
                returned: None,
            },
            COVALENT_PIPE_TX => {
                let port = needed()?;
                Pipe::Tx {
                    pipe: Held::open(&device, |device| device.tx_pipe(capacity_bytes, port))?,
                    reserved_bytes: None,
                }
            }
            COVALENT_PIPE_RX_TX => {
                let port = needed()?;
                Pipe::RxTx {
                    pipe: Held::open(&device, |device| device.rx_tx_pipe(capacity_bytes, port))?,
                    returned: None,
                }
            }
            COVALENT_PIPE_BYTES => Pipe::Bytes(Held::open(&device, |device| match port {
                Some(port) => device.byte_pipe_on(capacity_bytes, port),
                None => device.byte_pipe(capacity_bytes),
            })?),
            other => return Err(invalid(format!("kind {other} is none of COVALENT_PIPE_…"))),
        };
        let handle = PIPES.with_borrow_mut(|pipes| pipes.insert(opened))?;
        out.set(covalent_pipe { handle });
        Ok(())
    })
}

/// Closes a pipe. Its packets are gone: pointers to them must not be used any more. Packets that
/// are not with the port yet may be lost: covalent_pipe_flush waits for them.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_pipe_close(pipe: covalent_pipe) -> c_int {
    call(|| {
        let closed = PIPES.with_borrow_mut(|pipes| pipes.remove(pipe.handle))?;
        drop(closed);
        Ok(())
    })
}

/// Returns the pipe's number, as covalent_device_next_rx_pipe does.
///
/// # Safety
/// `number` is valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_pipe_number(pipe: covalent_pipe, number: *mut u32) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let mut out = unsafe { Out::new(number, "number")? };
        out.set(with(pipe, |pipe| Ok(pipe.id().number()))?);
        Ok(())
    })
}

/// Returns the size of the pipe's ring in bytes.
///
/// # Safety
/// `capacity_bytes` is valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_pipe_capacity_bytes(
    pipe: covalent_pipe,
    capacity_bytes: *mut u64,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let mut out = unsafe { Out::new(capacity_bytes, "capacity_bytes")? };
        out.set(with(pipe, |pipe| Ok(pipe.capacity_bytes()))?);
        Ok(())
    })
}

/// Returns the size of the pages of the pipe's memory: 4096 or 2097152 bytes.
///
/// # Safety
/// `page_bytes` is valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_pipe_page_bytes(
    pipe: covalent_pipe,
    page_bytes: *mut u64,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let mut out = unsafe { Out::new(page_bytes, "page_bytes")? };
        out.set(with(pipe, |pipe| Ok(pipe.page_bytes()))?);
        Ok(())
    })
}

/// Returns the pipe's counters, without a request to the daemon. The packets of a byte pipe are
/// datagrams.
///
/// # Safety
/// `counters` points to a covalent_pipe_counters whose `struct_bytes` is set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_pipe_read_counters(
    pipe: covalent_pipe,
    counters: *mut covalent_pipe_counters,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let mut out = unsafe { GrowingOut::new(counters, "counters")? };
        out.set(with(pipe, |pipe| Ok(pipe.counters().into()))?);
        Ok(())
    })
}

/// Sets how fast the pipe's packets are sent or sent back, and where the lane writes a time stamp:
/// that of arrival in an RX or RX/TX pipe, that of sending in a TX pipe. Packets that already are
/// in an RX pipe do not change. Returns COVALENT_REFUSED if a number is out of range, if no packet
/// is long enough for the stamp, and for a rate limit of an RX pipe. A byte pipe has no tuning.
///
/// # Safety
/// `tuning` points to a covalent_pipe_tuning.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_pipe_tune(
    pipe: covalent_pipe,
    tuning: *const covalent_pipe_tuning,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let tuning = unsafe { self::tuning(tuning)? };
        with(pipe, |pipe| {
            match pipe {
                Pipe::Rx { pipe, .. } => pipe.get().tune(&tuning)?,
                Pipe::Tx { pipe, .. } => pipe.get().tune(&tuning)?,
                Pipe::RxTx { pipe, .. } => pipe.get().tune(&tuning)?,
                Pipe::Bytes(_) => return Err(pipe.is_no("pipes of frames")),
            }
            Ok(())
        })
    })
}

/// Requests the pipe's next notification now, while the application works on other pipes, so that
/// covalent_device_next_rx_pipe finds it sooner. Freeing, sending and receiving do not need this
/// call, and nothing is lost without it. Not for a TX pipe. Does not wait.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_pipe_prefetch(pipe: covalent_pipe) -> c_int {
    call(|| {
        with(pipe, |pipe| {
            match pipe {
                Pipe::Rx { pipe, .. } => pipe.get().prefetch()?,
                Pipe::RxTx { pipe, .. } => pipe.get().prefetch()?,
                Pipe::Bytes(pipe) => pipe.get().prefetch()?,
                Pipe::Tx { .. } => return Err(pipe.is_no("pipes that receive")),
            }
            Ok(())
        })
    })
}

/// Where a byte range is returned to the caller.
struct Bytes {
    data: Out<*const u8>,
    length_bytes: Out<usize>,
}

impl Bytes {
    const fn new(data: Out<*const u8>, length_bytes: Out<usize>) -> Self {
        Self { data, length_bytes }
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
