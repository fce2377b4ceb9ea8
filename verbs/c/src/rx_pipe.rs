//! `covalent_rx_pipe`.

use std::{
    cell::RefCell,
    ffi::{c_char, c_int},
};

use covalent_verbs::{Error, RxPipe};

use crate::{
    argument::{Out, Outs, optional_text},
    device::{covalent_device, device},
    frames::{covalent_match, covalent_packet, matches, spread},
    handle::{Kind, Table, this_thread},
    held::Held,
    status::{Result, call},
    timeout::Timeout,
};

/// A pipe that receives packets. Zero names nothing.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct covalent_rx_pipe {
    /// Opaque.
    pub handle: u64,
}

thread_local! {
    static PIPES: RefCell<Table<Held<RxPipe<'static>>>> = RefCell::new(Table::new(Kind::RxPipe, this_thread()));
}

fn with<T>(
    pipe: covalent_rx_pipe,
    body: impl FnOnce(&mut RxPipe<'static>) -> Result<T>,
) -> Result<T> {
    PIPES.with_borrow_mut(|pipes| body(pipes.get(pipe.handle)?.get()))
}

/// Opens a pipe that receives what arrives on `port`, or on every port of the device's lane if `port` is null: nothing until it is bound. `capacity_bytes` is
/// a power of two, 64 KiB to 1 GiB. When the pipe is full, further packets are dropped and counted; a slow reader disturbs nobody else.
///
/// # Safety
/// `port` is null or text that ends in a zero; `pipe` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_rx_pipe_open(
    device: covalent_device,
    capacity_bytes: u64,
    port: *const c_char,
    pipe: *mut covalent_rx_pipe,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word, for both.
        let (port, mut out) = unsafe { (optional_text(port, "port")?, Out::new(pipe, "pipe")?) };
        let device = self::device(device)?;
        let opened = Held::open(&device, |device| match port {
            Some(port) => device.rx_pipe_on(capacity_bytes, port),
            None => device.rx_pipe(capacity_bytes),
        })?;
        let handle = PIPES.with_borrow_mut(|pipes| pipes.insert(opened))?;
        out.set(covalent_rx_pipe { handle });
        Ok(())
    })
}

/// Closes a pipe. Its packets are gone: their pointers must not be used any more.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_rx_pipe_close(pipe: covalent_rx_pipe) -> c_int {
    call(|| {
        let closed = PIPES.with_borrow_mut(|pipes| pipes.remove(pipe.handle))?;
        drop(closed);
        Ok(())
    })
}

/// Tells the pipe's number, as covalent_device_next_rx_pipe does.
///
/// # Safety
/// `number` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_rx_pipe_number(
    pipe: covalent_rx_pipe,
    number: *mut u32,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let mut out = unsafe { Out::new(number, "number")? };
        out.set(with(pipe, |pipe| Ok(pipe.id().number()))?);
        Ok(())
    })
}

/// Asks for the frames that `match` describes. Several bindings add up. COVALENT_REFUSED when they belong to another pipe.
///
/// # Safety
/// `match` points to a match whose texts end in a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_rx_pipe_bind(
    pipe: covalent_rx_pipe,
    r#match: *const covalent_match,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let matches = unsafe { matches(r#match)? };
        with(pipe, |pipe| Ok(pipe.bind(&matches)?))
    })
}

/// Asks for a share of the frames that `match` describes, beside every other pipe that is bound to the same match with the same `spread`, one of
/// COVALENT_SPREAD_…: a set of pipes. With COVALENT_MATCH_ANY it is a fallback set, which gets what nothing else matches.
///
/// The pipes may belong to several devices, threads and applications of one user, on the lane of the port, and come and go while packets flow: when one
/// is unbound or closed, or its application ends, the others take its share. Under COVALENT_SPREAD_HASH only its own flows move then, and when one joins
/// only the flows that it takes over. A full pipe drops its share; it does not spill into the others. COVALENT_REFUSED when a pipe has the match
/// alone, when its set has another spread or belongs to another user or has 256 pipes, or when this pipe is in it already.
///
/// # Safety
/// As covalent_rx_pipe_bind.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_rx_pipe_bind_spread(
    pipe: covalent_rx_pipe,
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

/// Takes back a binding.
///
/// # Safety
/// As covalent_rx_pipe_bind.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_rx_pipe_unbind(
    pipe: covalent_rx_pipe,
    r#match: *const covalent_match,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let matches = unsafe { matches(r#match)? };
        with(pipe, |pipe| Ok(pipe.unbind(&matches)?))
    })
}

/// Tells the packets that lie in the pipe, oldest first, up to `capacity` of them. They stay, and are told again, until covalent_rx_pipe_free.
///
/// `timeout_ns`: 0 does not wait, and then `count` may be 0; negative waits for ever; else COVALENT_DEADLINE when there was nothing in time.
///
/// # Safety
/// `packets` may be written `capacity` times, `count` once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_rx_pipe_recv(
    pipe: covalent_rx_pipe,
    timeout_ns: i64,
    packets: *mut covalent_packet,
    capacity: usize,
    count: *mut usize,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word, for both.
        let (mut packets, mut count) = unsafe {
            (
                Outs::new(packets, capacity, "packets")?,
                Out::new(count, "count")?,
            )
        };
        count.set(0);
        with(pipe, |pipe| {
            let batch = match Timeout::new(timeout_ns) {
                Timeout::None => match pipe.recv()? {
                    Some(batch) => batch,
                    None => return Ok(()),
                },
                Timeout::Until(deadline) => pipe.recv_deadline(deadline)?,
                Timeout::Forever => pipe.recv_blocking()?,
            };
            let mut told = 0;
            for packet in batch.iter().take(packets.capacity()) {
                packets.set(
                    told,
                    covalent_packet {
                        data: packet.as_ptr(),
                        length_bytes: packet.len(),
                    },
                );
                told += 1;
            }
            // What lies in a pipe stays mapped and unchanged until it is freed.
            batch.keep();
            count.set(told);
            Ok(())
        })
    })
}

/// Frees the oldest `packets` packets, or all if there are fewer. Their pointers must not be used any more.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_rx_pipe_free(pipe: covalent_rx_pipe, packets: usize) -> c_int {
    call(|| {
        with(pipe, |pipe| {
            if packets > 0
                && let Some(batch) = pipe.recv().or_else(none_if_gone)?
            {
                batch.free(packets);
            }
            Ok(())
        })
    })
}

/// Nothing to free is no error, not even when the daemon is gone.
fn none_if_gone<T>(error: Error) -> covalent_verbs::Result<Option<T>> {
    match error {
        Error::DaemonGone { .. } => Ok(None),
        error => Err(error),
    }
}
