//! `covalent_rx_pipe`.

use std::{
    cell::RefCell,
    ffi::{c_char, c_int},
};

use covalent_verbs::{Packets, Position, RxPipe};

use crate::{
    argument::{Out, Outs, optional_text},
    counters::covalent_pipe_counters,
    device::{covalent_device, device},
    frames::{covalent_match, covalent_packet, matches, spread},
    handle::{Kind, Table, this_thread},
    held::Held,
    status::{Result, call, none_if_gone},
    timeout::Timeout,
    tuning::{covalent_pipe_tuning, tuning},
};

/// A pipe that receives packets: bytes as they were on the wire (network byte order), each packet at the next multiple of 64 bytes. Every call with it is for its device's thread only. Zero names nothing.
///
/// A packet is first received (covalent_rx_pipe_recv tells it, and tells it again: it only looks), then confirmed if it is to be kept while others are received
/// (covalent_rx_pipe_held tells it), and freed.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct covalent_rx_pipe {
    /// Opaque.
    pub handle: u64,
}

struct Pipe {
    rx: Held<RxPipe<'static>>,
    /// The place behind what `covalent_rx_pipe_recv` told last.
    told: Option<Position>,
}

thread_local! {
    static PIPES: RefCell<Table<Pipe>> = RefCell::new(Table::new(Kind::RxPipe, this_thread()));
}

fn with<T>(
    pipe: covalent_rx_pipe,
    body: impl FnOnce(&mut RxPipe<'static>) -> Result<T>,
) -> Result<T> {
    PIPES.with_borrow_mut(|pipes| body(pipes.get(pipe.handle)?.rx.get()))
}

/// Opens a pipe that receives what arrives on `port`, or on every port of the device's lane if `port` is null: nothing until it is bound. `capacity_bytes` is
/// a power of two, 64 KiB to 1 GiB; the default session_memory_max_mib admits 128 MiB. When the pipe is full, further packets are dropped and counted (`full`); a
/// slow reader disturbs nobody else.
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
        let opened = Pipe {
            rx: Held::open(&device, |device| match port {
                Some(port) => device.rx_pipe_on(capacity_bytes, port),
                None => device.rx_pipe(capacity_bytes),
            })?,
            told: None,
        };
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

/// Tells the size of the pages that the pipe's packets lie in: 4096 or 2097152 bytes.
///
/// # Safety
/// `page_bytes` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_rx_pipe_page_bytes(
    pipe: covalent_rx_pipe,
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

/// Asks for the frames that `match` describes. Several bindings add up, at most 4096 in a session. COVALENT_REFUSED when they belong to another pipe.
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

/// Tells the packets that lie in the pipe and were not confirmed, oldest first, up to `capacity` of them. They stay, and are told again, until
/// covalent_rx_pipe_free, covalent_rx_pipe_free_told or covalent_rx_pipe_confirm.
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
        PIPES.with_borrow_mut(|pipes| {
            let Pipe { rx, told } = pipes.get(pipe.handle)?;
            *told = None;
            let pipe = rx.get();
            let batch = match Timeout::new(timeout_ns) {
                Timeout::None => match pipe.recv()? {
                    Some(batch) => batch,
                    None => return Ok(()),
                },
                Timeout::Until(deadline) => pipe.recv_deadline(deadline)?,
                Timeout::Forever => pipe.recv_blocking()?,
            };
            let mut left = batch.iter();
            count.set(tell(&mut left, &mut packets));
            *told = Some(left.position());
            batch.keep();
            Ok(())
        })
    })
}

/// Frees the oldest `packets` of the packets that were not confirmed, or all if there are fewer (SIZE_MAX: all that are there, Ensō's `clear`), and with them all that were confirmed. Their pointers must not be
/// used any more. Of 0 nothing is freed.
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

/// Frees what the last covalent_rx_pipe_recv told, as far as that was neither freed nor confirmed since, and with it all that was confirmed before. The pointers must not be used any
/// more. Where that call told nothing, nothing is freed.
///
/// covalent_rx_pipe_free walks over the packets once more to find where the last one ends; this call remembers it. Prefer it in a loop that uses up all
/// that it is told. Used on the device's thread only, as every call on a pipe. Does not wait.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_rx_pipe_free_told(pipe: covalent_rx_pipe) -> c_int {
    call(|| {
        PIPES.with_borrow_mut(|pipes| {
            let Pipe { rx, told } = pipes.get(pipe.handle)?;
            if let Some(position) = told.take()
                && let Some(batch) = rx.get().recv().or_else(none_if_gone)?
            {
                batch.free_to(position);
            }
            Ok(())
        })
    })
}

/// Takes the oldest `packets` of the packets that were not confirmed, or all if there are fewer, as received without freeing them: covalent_rx_pipe_recv tells them no
/// more, covalent_rx_pipe_held does, and their pointers stay good.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_rx_pipe_confirm(pipe: covalent_rx_pipe, packets: usize) -> c_int {
    call(|| {
        with(pipe, |pipe| {
            if let Some(batch) = pipe.recv().or_else(none_if_gone)? {
                batch.confirm(packets);
            }
            Ok(())
        })
    })
}

/// Tells the packets that were confirmed and not freed, oldest first, up to `capacity` of them.
///
/// # Safety
/// As covalent_rx_pipe_recv.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_rx_pipe_held(
    pipe: covalent_rx_pipe,
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
            count.set(tell(&mut pipe.held(), &mut packets));
            Ok(())
        })
    })
}

/// Frees the oldest `packets` of the packets that were confirmed, or all if there are fewer. Their pointers must not be used any more.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_rx_pipe_free_held(pipe: covalent_rx_pipe, packets: usize) -> c_int {
    call(|| {
        with(pipe, |pipe| {
            pipe.free_held(packets);
            Ok(())
        })
    })
}

/// Asks for the pipe's next notification now, while other pipes are worked on, so that covalent_device_next_rx_pipe finds it sooner. Freeing and receiving need no such
/// call, and nothing is lost without it. Does not wait.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_rx_pipe_prefetch(pipe: covalent_rx_pipe) -> c_int {
    call(|| with(pipe, |pipe| Ok(pipe.prefetch()?)))
}

/// Tells what the pipe did so far.
///
/// # Safety
/// `counters` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_rx_pipe_counters(
    pipe: covalent_rx_pipe,
    counters: *mut covalent_pipe_counters,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let mut out = unsafe { Out::new(counters, "counters")? };
        out.set(with(pipe, |pipe| Ok(pipe.counters().into()))?);
        Ok(())
    })
}

/// Sets where the time of arrival is written in the pipe's packets; those that lie in it stay as they are. COVALENT_REFUSED if no packet is long enough for the stamp, and
/// for a rate limit: this pipe sends nothing.
///
/// # Safety
/// `tuning` points to a tuning.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_rx_pipe_tune(
    pipe: covalent_rx_pipe,
    tuning: *const covalent_pipe_tuning,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word.
        let tuning = unsafe { self::tuning(tuning)? };
        with(pipe, |pipe| Ok(pipe.tune(&tuning)?))
    })
}

/// Tells packets, as many as there is room for; returns how many. What lies in a pipe stays mapped and unchanged until it is freed.
fn tell(packets: &mut Packets<'_>, room: &mut Outs<covalent_packet>) -> usize {
    let mut told = 0;
    for packet in packets.take(room.capacity()) {
        room.set(
            told,
            covalent_packet {
                data: packet.as_ptr(),
                length_bytes: packet.len(),
            },
        );
        told += 1;
    }
    told
}
