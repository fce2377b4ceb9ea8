//! `covalent_rx_tx_pipe`.

use std::{
    cell::RefCell,
    ffi::{c_char, c_int},
};

use covalent_verbs::{Position, RxTxBatch, RxTxPipe};

use crate::{
    argument::{Out, Outs, text},
    counters::covalent_pipe_counters,
    device::{covalent_device, device},
    frames::{covalent_match, covalent_packet_mut, matches, spread},
    handle::{Kind, Table, this_thread},
    held::Held,
    status::{Result, call},
    timeout::Timeout,
    tuning::{covalent_pipe_tuning, tuning},
};

/// A pipe that receives packets from a port and sends them back on it from where they lie, without a copy by the application; the lane copies them to
/// the port. Bytes are as on the wire (network byte order). Every call with it is for its device's thread only. Zero names nothing.
///
/// Unlike a covalent_rx_pipe it has nothing to confirm: packets go back in the order in which they came, so one that is held holds up all behind it.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct covalent_rx_tx_pipe {
    /// Opaque.
    pub handle: u64,
}

struct Pipe {
    rx_tx: Held<RxTxPipe<'static>>,
    /// The place behind what `covalent_rx_tx_pipe_recv` told last.
    told: Option<Position>,
}

thread_local! {
    static PIPES: RefCell<Table<Pipe>> = RefCell::new(Table::new(Kind::RxTxPipe, this_thread()));
}

fn with<T>(
    pipe: covalent_rx_tx_pipe,
    body: impl FnOnce(&mut RxTxPipe<'static>) -> Result<T>,
) -> Result<T> {
    PIPES.with_borrow_mut(|pipes| body(pipes.get(pipe.handle)?.rx_tx.get()))
}

/// Opens a pipe that receives from `port` and sends back on it: nothing until it is bound. `capacity_bytes` is a power of two, 64 KiB to 1 GiB; the default session_memory_max_mib admits 128 MiB.
///
/// # Safety
/// `port` is text that ends in a zero; `pipe` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_rx_tx_pipe_open(
    device: covalent_device,
    capacity_bytes: u64,
    port: *const c_char,
    pipe: *mut covalent_rx_tx_pipe,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word, for both.
        let (port, mut out) = unsafe { (text(port, "port")?, Out::new(pipe, "pipe")?) };
        let device = self::device(device)?;
        let opened = Pipe {
            rx_tx: Held::open(&device, |device| device.rx_tx_pipe(capacity_bytes, port))?,
            told: None,
        };
        let handle = PIPES.with_borrow_mut(|pipes| pipes.insert(opened))?;
        out.set(covalent_rx_tx_pipe { handle });
        Ok(())
    })
}

/// Closes a pipe. Its packets are gone: their pointers must not be used any more.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_rx_tx_pipe_close(pipe: covalent_rx_tx_pipe) -> c_int {
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
pub unsafe extern "C" fn covalent_rx_tx_pipe_page_bytes(
    pipe: covalent_rx_tx_pipe,
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
pub unsafe extern "C" fn covalent_rx_tx_pipe_number(
    pipe: covalent_rx_tx_pipe,
    number: *mut u32,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let mut out = unsafe { Out::new(number, "number")? };
        out.set(with(pipe, |pipe| Ok(pipe.id().number()))?);
        Ok(())
    })
}

/// Asks for the frames that `match` describes, as far as they arrive on the pipe's port. Several bindings add up.
///
/// # Safety
/// `match` points to a match whose texts end in a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_rx_tx_pipe_bind(
    pipe: covalent_rx_tx_pipe,
    r#match: *const covalent_match,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let matches = unsafe { matches(r#match)? };
        with(pipe, |pipe| Ok(pipe.bind(&matches)?))
    })
}

/// Asks for a share of the frames that `match` describes, as far as they arrive on the pipe's port: as covalent_rx_pipe_bind_spread.
///
/// # Safety
/// As covalent_rx_tx_pipe_bind.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_rx_tx_pipe_bind_spread(
    pipe: covalent_rx_tx_pipe,
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
/// As covalent_rx_tx_pipe_bind.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_rx_tx_pipe_unbind(
    pipe: covalent_rx_tx_pipe,
    r#match: *const covalent_match,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let matches = unsafe { matches(r#match)? };
        with(pipe, |pipe| Ok(pipe.unbind(&matches)?))
    })
}

/// Tells the packets that lie in the pipe, oldest first, up to `capacity` of them. They may be changed where they lie. They stay, and are told again, until
/// covalent_rx_tx_pipe_send, covalent_rx_tx_pipe_send_told or covalent_rx_tx_pipe_discard. `timeout_ns` as in covalent_rx_pipe_recv.
///
/// # Safety
/// `packets` may be written `capacity` times, `count` once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_rx_tx_pipe_recv(
    pipe: covalent_rx_tx_pipe,
    timeout_ns: i64,
    packets: *mut covalent_packet_mut,
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
        PIPES.with_borrow_mut(|pipes| {
            let Pipe {
                rx_tx,
                told: position,
            } = pipes.get(pipe.handle)?;
            *position = None;
            let pipe = rx_tx.get();
            let mut batch = match Timeout::new(timeout_ns) {
                Timeout::None => match pipe.recv()? {
                    Some(batch) => batch,
                    None => return Ok(()),
                },
                Timeout::Until(deadline) => pipe.recv_deadline(deadline)?,
                Timeout::Forever => pipe.recv_blocking()?,
            };
            let mut told = 0;
            while told < packets.capacity()
                && let Some(mut packet) = batch.next_packet()
            {
                packets.set(
                    told,
                    covalent_packet_mut {
                        data: packet.as_mut_ptr(),
                        length_bytes: packet.len(),
                    },
                );
                told += 1;
            }
            *position = Some(batch.position());
            // The batch is dropped here, which leaves all packets where they are, mapped and this application's.
            count.set(told);
            Ok(())
        })
    })
}

/// Sends back the oldest `packets` packets as they are now, or all if there are fewer. Their pointers must not be used any more.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_rx_tx_pipe_send(pipe: covalent_rx_tx_pipe, packets: usize) -> c_int {
    give(pipe, packets, |batch, packets| batch.send(packets))
}

/// Sends back what the last covalent_rx_tx_pipe_recv told, as it is now and as far as it was neither sent nor discarded since. The pointers must not be used any more. Where
/// that call told nothing, nothing is sent.
///
/// covalent_rx_tx_pipe_send walks over the packets once more to find where the last one ends; this call remembers it. Prefer it in a loop that sends back all
/// that it is told. Used on the device's thread only, as every call on a pipe. Does not wait.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_rx_tx_pipe_send_told(pipe: covalent_rx_tx_pipe) -> c_int {
    call(|| {
        PIPES.with_borrow_mut(|pipes| {
            let Pipe { rx_tx, told } = pipes.get(pipe.handle)?;
            if let Some(position) = told.take()
                && let Some(batch) = rx_tx.get().recv()?
            {
                batch.send_before(position)?;
            }
            Ok(())
        })
    })
}

/// Gives back the oldest `packets` packets without sending them, or all if there are fewer (SIZE_MAX: all that are there, Ensō's `clear`). Their pointers must not be used any more.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_rx_tx_pipe_discard(pipe: covalent_rx_tx_pipe, packets: usize) -> c_int {
    give(pipe, packets, |batch, packets| batch.discard(packets))
}

/// Asks for the pipe's next notification now, while other pipes are worked on, so that covalent_device_next_rx_pipe finds it sooner. Sending and receiving need no such call,
/// and nothing is lost without it. Does not wait.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_rx_tx_pipe_prefetch(pipe: covalent_rx_tx_pipe) -> c_int {
    call(|| with(pipe, |pipe| Ok(pipe.prefetch()?)))
}

/// Tells what the pipe did so far.
///
/// # Safety
/// `counters` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_rx_tx_pipe_counters(
    pipe: covalent_rx_tx_pipe,
    counters: *mut covalent_pipe_counters,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let mut out = unsafe { Out::new(counters, "counters")? };
        out.set(with(pipe, |pipe| Ok(pipe.counters().into()))?);
        Ok(())
    })
}

/// Sets how fast the pipe's packets are sent back, and where the time of their arrival is written. COVALENT_REFUSED if a number is out of range, or no packet is long
/// enough for the stamp.
///
/// # Safety
/// `tuning` points to a tuning.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_rx_tx_pipe_tune(
    pipe: covalent_rx_tx_pipe,
    tuning: *const covalent_pipe_tuning,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let tuning = unsafe { self::tuning(tuning)? };
        with(pipe, |pipe| Ok(pipe.tune(&tuning)?))
    })
}

fn give(
    pipe: covalent_rx_tx_pipe,
    packets: usize,
    give: fn(RxTxBatch<'_>, usize) -> covalent_verbs::Result<()>,
) -> c_int {
    call(|| {
        with(pipe, |pipe| match pipe.recv()? {
            Some(batch) => Ok(give(batch, packets)?),
            None => Ok(()),
        })
    })
}
