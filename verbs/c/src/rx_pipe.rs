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
    timeout::timeout,
    tuning::{covalent_pipe_tuning, tuning},
};

/// A pipe that receives packets as they were on the wire (network byte order), each at the next
/// multiple of 64 bytes. Use it only on its device's thread. A zero handle is invalid.
///
/// covalent_rx_pipe_recv only looks: it returns the same packets again until they are confirmed or
/// freed. Confirm a packet to keep it while receiving others: covalent_rx_pipe_held then returns
/// it. Free it at the end.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct covalent_rx_pipe {
    /// Opaque.
    pub handle: u64,
}

struct Pipe {
    rx: Held<RxPipe<'static>>,
    /// Position after the packets that `covalent_rx_pipe_recv` returned last.
    returned: Option<Position>,
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

/// Opens a pipe for the packets that arrive on `port`, or on every port of the device's lane if
/// `port` is null. It receives nothing until it is bound.
///
/// `capacity_bytes` is a power of two, 64 KiB to 1 GiB. The default session_memory_max_mib allows
/// 128 MiB. If the pipe is full, the lane drops further packets and counts them (`full`). A slow
/// reader does not affect other pipes.
///
/// # Safety
/// `port` is null or a NUL-terminated string. `pipe` is valid for writes.
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
            returned: None,
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

/// Returns the size of the pages of the pipe's memory: 4096 or 2097152 bytes.
///
/// # Safety
/// `page_bytes` is valid for writes.
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

/// Returns the pipe's number, as covalent_device_next_rx_pipe does.
///
/// # Safety
/// `number` is valid for writes.
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

/// Binds the pipe to the frames that `match` describes. Several bindings add up, at most 4096 in a
/// session. Returns COVALENT_REFUSED if the frames belong to another pipe, and
/// COVALENT_LINK_ETHERTYPE for the EtherType of links if a port that the pipe receives from has a
/// link.
///
/// # Safety
/// `match` points to a match whose strings are NUL-terminated.
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

/// Binds the pipe to a share of the frames that `match` describes. It shares them with every other
/// pipe that is bound to the same match with the same `spread`, one of COVALENT_SPREAD_…: these
/// pipes are a set. With COVALENT_MATCH_ANY it is a fallback set, which receives the frames that no
/// other match takes.
///
/// The pipes may belong to several devices, threads and applications of one user, on the lane of
/// the port. Pipes may join and leave while packets flow. If a pipe is unbound or closed, or its
/// application exits, the others take over its share. Under COVALENT_SPREAD_HASH only the flows of
/// that pipe move then. If a pipe joins, only the flows that it takes over move.
///
/// A full pipe drops its share, which does not spill into the others. Returns COVALENT_REFUSED if a
/// pipe has the match alone, or if this pipe is in the set already. Also if the set has another
/// spread, belongs to another user or has 256 pipes.
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

/// Returns the unconfirmed packets in the pipe, oldest first, up to `capacity` of them. They stay
/// in the pipe, and later calls return them again, until covalent_rx_pipe_free,
/// covalent_rx_pipe_free_received or covalent_rx_pipe_confirm.
///
/// `timeout_ns`: 0 does not wait, and `count` may then be 0. A negative value waits forever.
/// Otherwise the call returns COVALENT_DEADLINE if no packet arrives in time.
///
/// # Safety
/// `packets` is valid for writes of `capacity` elements, and `count` for writes.
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
            let Pipe { rx, returned } = pipes.get(pipe.handle)?;
            *returned = None;
            let pipe = rx.get();
            let batch = match timeout(timeout_ns) {
                None => match pipe.try_recv()? {
                    Some(batch) => batch,
                    None => return Ok(()),
                },
                Some(timeout) => pipe.recv(timeout)?,
            };
            let mut left = batch.iter();
            count.set(write_packets(&mut left, &mut packets));
            *returned = Some(left.position());
            batch.keep();
            Ok(())
        })
    })
}

/// Frees the oldest `packets` of the unconfirmed packets, or all if there are fewer. SIZE_MAX frees
/// all packets in the pipe (`clear` in Ensō). Also frees all confirmed packets. Pointers to freed
/// packets are invalid. If `packets` is 0, the call frees nothing.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_rx_pipe_free(pipe: covalent_rx_pipe, packets: usize) -> c_int {
    call(|| {
        with(pipe, |pipe| {
            if packets > 0
                && let Some(batch) = pipe.try_recv().or_else(none_if_gone)?
            {
                batch.free(packets);
            }
            Ok(())
        })
    })
}

/// Frees the packets that the last covalent_rx_pipe_recv returned, unless they were freed or
/// confirmed since. Also frees all packets confirmed before. Pointers to freed packets are invalid.
/// If that call returned no packet, this one frees nothing. Does not wait.
///
/// Prefer it in a loop that consumes all returned packets. covalent_rx_pipe_free walks over the
/// packets again to find the end of the last one. This call remembers that position. As every call
/// on a pipe, use it only on the device's thread.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_rx_pipe_free_received(pipe: covalent_rx_pipe) -> c_int {
    call(|| {
        PIPES.with_borrow_mut(|pipes| {
            let Pipe { rx, returned } = pipes.get(pipe.handle)?;
            if let Some(position) = returned.take()
                && let Some(batch) = rx.get().try_recv().or_else(none_if_gone)?
            {
                batch.free_to(position);
            }
            Ok(())
        })
    })
}

/// Confirms the oldest `packets` of the unconfirmed packets, or all if there are fewer, without
/// freeing them. covalent_rx_pipe_recv no longer returns confirmed packets. covalent_rx_pipe_held
/// does. Pointers to them stay valid.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_rx_pipe_confirm(pipe: covalent_rx_pipe, packets: usize) -> c_int {
    call(|| {
        with(pipe, |pipe| {
            if let Some(batch) = pipe.try_recv().or_else(none_if_gone)? {
                batch.confirm(packets);
            }
            Ok(())
        })
    })
}

/// Returns the packets that were confirmed and not freed, oldest first, up to `capacity` of them.
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
            count.set(write_packets(&mut pipe.held(), &mut packets));
            Ok(())
        })
    })
}

/// Frees the oldest `packets` of the confirmed packets, or all if there are fewer. Pointers to
/// freed packets are invalid.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_rx_pipe_free_held(pipe: covalent_rx_pipe, packets: usize) -> c_int {
    call(|| {
        with(pipe, |pipe| {
            pipe.free_held(packets);
            Ok(())
        })
    })
}

/// Requests the pipe's next notification now, while the application works on other pipes, so that
/// covalent_device_next_rx_pipe finds it sooner. Freeing and receiving do not need this call, and
/// nothing is lost without it. Does not wait.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_rx_pipe_prefetch(pipe: covalent_rx_pipe) -> c_int {
    call(|| with(pipe, |pipe| Ok(pipe.prefetch()?)))
}

/// Returns the pipe's counters.
///
/// # Safety
/// `counters` is valid for writes.
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

/// Sets where the lane writes the time of arrival in the pipe's packets. Packets already in the
/// pipe do not change. Returns COVALENT_REFUSED if no packet is long enough for the stamp, and for
/// a rate limit: this pipe sends nothing.
///
/// # Safety
/// `tuning` points to a covalent_pipe_tuning.
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

/// Writes packets to `room`, as many as fit, and returns how many. A packet in a pipe stays mapped
/// and unchanged until it is freed.
fn write_packets(packets: &mut Packets<'_>, room: &mut Outs<covalent_packet>) -> usize {
    let mut returned = 0;
    for packet in packets.take(room.capacity()) {
        room.set(
            returned,
            covalent_packet {
                data: packet.as_ptr(),
                length_bytes: packet.len(),
            },
        );
        returned += 1;
    }
    returned
}
