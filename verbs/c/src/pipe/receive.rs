//! Receiving from RX pipes and byte pipes. What an RX pipe returned is taken, as a batch that a
//! Rust program drops. What a byte pipe returned stays until it is freed.

use std::ffi::c_int;

use covalent::{Packets, RxPipe};

use super::{Bytes, Pipe, Returned, covalent_pipe, with};
use crate::{
    argument::{Out, Outs},
    frames::covalent_packet,
    status::{Result, call, none_if_gone},
    timeout::timeout,
};

/// Receives packets from an RX pipe, oldest first, up to `capacity` of them. They are valid until
/// the pipe's next covalent_pipe_recv or covalent_pipe_peek, which frees them. To free them sooner,
/// call covalent_pipe_free_received. To keep some, call covalent_pipe_confirm or covalent_pipe_free
/// before the next receive: each applies to the packets returned last, and those that it leaves are
/// received again.
///
/// `timeout_ns`: 0 does not wait, and `count` may then be 0. A negative value waits forever.
/// Otherwise the call returns COVALENT_DEADLINE if no packet arrives in time.
///
/// # Safety
/// `packets` is valid for writes of `capacity` elements, and `count` for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_pipe_recv(
    pipe: covalent_pipe,
    timeout_ns: i64,
    packets: *mut covalent_packet,
    capacity: usize,
    count: *mut usize,
) -> c_int {
    // SAFETY: the caller's word.
    unsafe { recv(pipe, timeout_ns, packets, capacity, count, true) }
}

/// As covalent_pipe_recv, but the packets stay in the pipe: later calls return them again, until
/// covalent_pipe_free_received, covalent_pipe_free or covalent_pipe_confirm.
///
/// # Safety
/// As covalent_pipe_recv.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_pipe_peek(
    pipe: covalent_pipe,
    timeout_ns: i64,
    packets: *mut covalent_packet,
    capacity: usize,
    count: *mut usize,
) -> c_int {
    // SAFETY: the caller's word.
    unsafe { recv(pipe, timeout_ns, packets, capacity, count, false) }
}

/// # Safety
/// As [`covalent_pipe_recv`].
unsafe fn recv(
    pipe: covalent_pipe,
    timeout_ns: i64,
    packets: *mut covalent_packet,
    capacity: usize,
    count: *mut usize,
    is_taken: bool,
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
            let Pipe::Rx { pipe, returned } = pipe else {
                return Err(pipe.is_no("RX pipes"));
            };
            let pipe = pipe.get();
            if let Some(last) = returned.take()
                && last.is_taken
            {
                free_returned(pipe, last)?;
            }
            let batch = match timeout(timeout_ns) {
                None => match pipe.try_recv()? {
                    Some(batch) => batch,
                    None => return Ok(()),
                },
                Some(timeout) => pipe.recv(timeout)?,
            };
            let mut left = batch.iter();
            count.set(write_packets(&mut left, &mut packets));
            *returned = Some(Returned {
                end: left.position(),
                is_taken,
            });
            // Mapped and unchanged until a later call frees them.
            batch.keep();
            Ok(())
        })
    })
}

fn free_returned(pipe: &mut RxPipe<'static>, returned: Returned) -> Result<()> {
    if let Some(batch) = pipe.try_recv().or_else(none_if_gone)? {
        batch.free_to(returned.end);
    }
    Ok(())
}

/// Frees the packets of an RX pipe that the last covalent_pipe_recv or covalent_pipe_peek returned.
/// Also frees all packets confirmed before. Pointers to freed packets are invalid. If that call
/// returned no packet, or covalent_pipe_free or covalent_pipe_confirm was called since, this call
/// frees nothing. Does not wait.
///
/// The next covalent_pipe_recv does the same for packets that covalent_pipe_recv returned. This
/// call makes room sooner.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_pipe_free_received(pipe: covalent_pipe) -> c_int {
    call(|| {
        with(pipe, |pipe| {
            let Pipe::Rx { pipe, returned } = pipe else {
                return Err(pipe.is_no("RX pipes"));
            };
            match returned.take() {
                Some(last) => free_returned(pipe.get(), last),
                None => Ok(()),
            }
        })
    })
}

/// Frees the oldest `count` unconfirmed packets of an RX pipe or bytes of a byte pipe, or all if
/// there are fewer. SIZE_MAX frees all in the pipe (`clear` in Ensō). Also frees all that were
/// confirmed. Pointers to them are invalid. If `count` is 0, the call frees nothing, and the
/// packets that were received last are received again.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_pipe_free(pipe: covalent_pipe, count: usize) -> c_int {
    call(|| {
        with(pipe, |pipe| match pipe {
            Pipe::Rx { pipe, returned } => {
                *returned = None;
                if count > 0
                    && let Some(batch) = pipe.get().try_recv().or_else(none_if_gone)?
                {
                    batch.free(count);
                }
                Ok(())
            }
            Pipe::Bytes(pipe) => {
                if count > 0
                    && let Some(batch) = pipe.get().received()
                {
                    batch.free(count);
                }
                Ok(())
            }
            _ => Err(pipe.is_no("RX pipes and byte pipes")),
        })
    })
}

/// Confirms the oldest `count` unconfirmed packets of an RX pipe or bytes of a byte pipe, or all if
/// there are fewer, without freeing them. Receiving no longer returns them. covalent_pipe_held and
/// covalent_pipe_held_bytes do. Pointers to them stay valid.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_pipe_confirm(pipe: covalent_pipe, count: usize) -> c_int {
    call(|| {
        with(pipe, |pipe| match pipe {
            Pipe::Rx { pipe, returned } => {
                *returned = None;
                if let Some(batch) = pipe.get().try_recv().or_else(none_if_gone)? {
                    batch.confirm(count);
                }
                Ok(())
            }
            Pipe::Bytes(pipe) => {
                if let Some(batch) = pipe.get().received() {
                    batch.confirm(count);
                }
                Ok(())
            }
            _ => Err(pipe.is_no("RX pipes and byte pipes")),
        })
    })
}

/// Returns the packets of an RX pipe that were confirmed and not freed, oldest first, up to
/// `capacity` of them.
///
/// # Safety
/// As covalent_pipe_recv.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_pipe_held(
    pipe: covalent_pipe,
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
            let Pipe::Rx { pipe, .. } = pipe else {
                return Err(pipe.is_no("RX pipes"));
            };
            count.set(write_packets(&mut pipe.get().held(), &mut packets));
            Ok(())
        })
    })
}

/// Frees the oldest `count` confirmed packets of an RX pipe or bytes of a byte pipe, or all if
/// there are fewer. Pointers to them are invalid.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_pipe_free_held(pipe: covalent_pipe, count: usize) -> c_int {
    call(|| {
        with(pipe, |pipe| {
            match pipe {
                Pipe::Rx { pipe, .. } => pipe.get().free_held(count),
                Pipe::Bytes(pipe) => pipe.get().free_held(count),
                _ => return Err(pipe.is_no("RX pipes and byte pipes")),
            }
            Ok(())
        })
    })
}

/// Returns all bytes of a byte pipe that arrived and were neither confirmed nor freed, contiguous
/// and oldest first, once there are more than `more_than_bytes` of them. Pass 0, or the number of
/// bytes that were examined without finding a whole message. The bytes stay in place, and later
/// calls return them again, until they are freed.
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
pub unsafe extern "C" fn covalent_pipe_recv_bytes(
    pipe: covalent_pipe,
    more_than_bytes: usize,
    timeout_ns: i64,
    data: *mut *const u8,
    length_bytes: *mut usize,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word, for both.
        let mut out = unsafe {
            Bytes::new(
                Out::new(data, "data")?,
                Out::new(length_bytes, "length_bytes")?,
            )
        };
        out.set(&[]);
        with(pipe, |pipe| {
            let Pipe::Bytes(pipe) = pipe else {
                return Err(pipe.is_no("byte pipes"));
            };
            let pipe = pipe.get();
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

/// Returns the bytes of a byte pipe that were confirmed and not freed, contiguous and oldest first.
/// If there are none, `data` is null.
///
/// # Safety
/// As covalent_pipe_recv_bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_pipe_held_bytes(
    pipe: covalent_pipe,
    data: *mut *const u8,
    length_bytes: *mut usize,
) -> c_int {
    call(|| {
        // SAFETY: the caller's word, for both.
        let mut out = unsafe {
            Bytes::new(
                Out::new(data, "data")?,
                Out::new(length_bytes, "length_bytes")?,
            )
        };
        out.set(&[]);
        with(pipe, |pipe| {
            let Pipe::Bytes(pipe) = pipe else {
                return Err(pipe.is_no("byte pipes"));
            };
            out.set(pipe.get().held());
            Ok(())
        })
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
