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
    timeout::timeout,
    tuning::{covalent_pipe_tuning, tuning},
};

/// A pipe that receives packets from a port and sends them back on it in place, without a copy by
/// the application. The lane copies them to the port. Bytes are as on the wire (network byte
/// order). Use it only on its device's thread. A zero handle is invalid.
///
/// Unlike covalent_rx_pipe, it has no confirm: packets are sent back in the order of arrival, so a
/// held packet would block all packets behind it.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct covalent_rx_tx_pipe {
    /// Opaque.
    pub handle: u64,
}

struct Pipe {
    rx_tx: Held<RxTxPipe<'static>>,
    /// Position after the packets that `covalent_rx_tx_pipe_recv` returned last.
    returned: Option<Position>,
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

/// Opens a pipe that receives from `port` and sends back on it. It receives nothing until it is
/// bound. `capacity_bytes` is a power of two, 64 KiB to 1 GiB. The default session_memory_max_mib
/// allows 128 MiB.
///
/// # Safety
/// `port` is a NUL-terminated string. `pipe` is valid for writes.
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
            returned: None,
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

/// Returns the size of the pages of the pipe's memory: 4096 or 2097152 bytes.
///
/// # Safety
/// `page_bytes` is valid for writes.
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

/// Returns the pipe's number, as covalent_device_next_rx_pipe does.
///
/// # Safety
/// `number` is valid for writes.
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

/// Binds the pipe to the frames that `match` describes and that arrive on the pipe's port. Several
/// bindings add up.
///
/// # Safety
/// `match` points to a match whose strings are NUL-terminated.
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

/// Binds the pipe to a share of the frames that `match` describes and that arrive on the pipe's
/// port, as covalent_rx_pipe_bind_spread.
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

/// Returns the packets in the pipe, oldest first, up to `capacity` of them. They may be changed in
/// place. They stay in the pipe, and later calls return them again, until covalent_rx_tx_pipe_send,
/// covalent_rx_tx_pipe_send_received or covalent_rx_tx_pipe_discard. `timeout_ns` is as in
/// covalent_rx_pipe_recv.
///
/// # Safety
/// `packets` is valid for writes of `capacity` elements, and `count` for writes.
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
                returned: position,
            } = pipes.get(pipe.handle)?;
            *position = None;
            let pipe = rx_tx.get();
            let mut batch = match timeout(timeout_ns) {
                None => match pipe.try_recv()? {
                    Some(batch) => batch,
                    None => return Ok(()),
                },
                Some(timeout) => pipe.recv(timeout)?,
            };
            let mut returned = 0;
            while returned < packets.capacity()
                && let Some(mut packet) = batch.next_packet()
            {
                packets.set(
                    returned,
                    covalent_packet_mut {
                        data: packet.as_mut_ptr(),
                        length_bytes: packet.len(),
                    },
                );
                returned += 1;
            }
            *position = Some(batch.position());
            // Dropping the batch here keeps all packets in place, mapped and owned by this
            // application.
            count.set(returned);
            Ok(())
        })
    })
}

/// Sends back the oldest `packets` packets with their current contents, or all if there are fewer.
/// Pointers to them are invalid afterwards.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_rx_tx_pipe_send(pipe: covalent_rx_tx_pipe, packets: usize) -> c_int {
    give(pipe, packets, |batch, packets| batch.send(packets))
}

/// Sends back the packets that the last covalent_rx_tx_pipe_recv returned, with their current
/// contents, unless they were sent or discarded since. Pointers to them are invalid afterwards. If
/// that call returned no packet, this one sends nothing. Does not wait.
///
/// Prefer it in a loop that sends back all returned packets. covalent_rx_tx_pipe_send walks over
/// the packets again to find the end of the last one. This call remembers that position. As every
/// call on a pipe, use it only on the device's thread.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_rx_tx_pipe_send_received(pipe: covalent_rx_tx_pipe) -> c_int {
    call(|| {
        PIPES.with_borrow_mut(|pipes| {
            let Pipe { rx_tx, returned } = pipes.get(pipe.handle)?;
            if let Some(position) = returned.take()
                && let Some(batch) = rx_tx.get().try_recv()?
            {
                batch.send_before(position)?;
            }
            Ok(())
        })
    })
}

/// Gives back the oldest `packets` packets without sending them, or all if there are fewer.
/// SIZE_MAX gives back all packets in the pipe (`clear` in Ensō). Pointers to them are invalid
/// afterwards.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_rx_tx_pipe_discard(pipe: covalent_rx_tx_pipe, packets: usize) -> c_int {
    give(pipe, packets, |batch, packets| batch.discard(packets))
}

/// Requests the pipe's next notification now, while the application works on other pipes, so that
/// covalent_device_next_rx_pipe finds it sooner. Sending and receiving do not need this call, and
/// nothing is lost without it. Does not wait.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_rx_tx_pipe_prefetch(pipe: covalent_rx_tx_pipe) -> c_int {
    call(|| with(pipe, |pipe| Ok(pipe.prefetch()?)))
}

/// Returns the pipe's counters.
///
/// # Safety
/// `counters` is valid for writes.
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

/// Sets how fast the pipe's packets are sent back, and where the lane writes the time of their
/// arrival. Returns COVALENT_REFUSED if a number is out of range, or if no packet is long enough
/// for the stamp.
///
/// # Safety
/// `tuning` points to a covalent_pipe_tuning.
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
        with(pipe, |pipe| match pipe.try_recv()? {
            Some(batch) => Ok(give(batch, packets)?),
            None => Ok(()),
        })
    })
}
