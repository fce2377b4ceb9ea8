//! Receiving from RX/TX pipes, and sending back in place.

use std::ffi::c_int;

use covalent::{Position, RxTxBatch, RxTxPipe};

use super::{Pipe, covalent_pipe, with};
use crate::{
    argument::{Out, Outs},
    frames::covalent_packet_mut,
    status::{Result, call},
    timeout::timeout,
};

/// The RX/TX pipe and the position after the packets that it returned last.
fn with_rx_tx<T>(
    pipe: covalent_pipe,
    body: impl FnOnce(&mut RxTxPipe<'static>, &mut Option<Position>) -> Result<T>,
) -> Result<T> {
    with(pipe, |pipe| match pipe {
        Pipe::RxTx { pipe, returned } => body(pipe.get(), returned),
        _ => Err(pipe.is_no("RX/TX pipes")),
    })
}

/// Returns the packets in an RX/TX pipe, oldest first, up to `capacity` of them. They may be
/// changed in place. They stay in the pipe, and later calls return them again, until
/// covalent_pipe_send_received, covalent_pipe_send_back or covalent_pipe_discard. `timeout_ns` is
/// as in covalent_pipe_recv.
///
/// # Safety
/// `packets` is valid for writes of `capacity` elements, and `count` for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn covalent_pipe_recv_mut(
    pipe: covalent_pipe,
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
        with_rx_tx(pipe, |pipe, position| {
            *position = None;
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

/// Sends back the packets that the last covalent_pipe_recv_mut returned, with their current
/// contents, unless they were sent or discarded since. Pointers to them are invalid afterwards. If
/// that call returned no packet, this one sends nothing. Does not wait.
///
/// Prefer it in a loop that sends back all returned packets. covalent_pipe_send_back walks over the
/// packets again to find the end of the last one. This call remembers that position.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_pipe_send_received(pipe: covalent_pipe) -> c_int {
    call(|| {
        with_rx_tx(pipe, |pipe, returned| {
            if let Some(position) = returned.take()
                && let Some(batch) = pipe.try_recv()?
            {
                batch.send_before(position)?;
            }
            Ok(())
        })
    })
}

/// Sends back the oldest `packets` packets of an RX/TX pipe with their current contents, or all if
/// there are fewer. Pointers to them are invalid afterwards. Does not wait.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_pipe_send_back(pipe: covalent_pipe, packets: usize) -> c_int {
    give(pipe, packets, |batch, packets| batch.send(packets))
}

/// Gives back the oldest `packets` packets of an RX/TX pipe without sending them, or all if there
/// are fewer. SIZE_MAX gives back all packets in the pipe (`clear` in Ensō). Pointers to them are
/// invalid afterwards.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_pipe_discard(pipe: covalent_pipe, packets: usize) -> c_int {
    give(pipe, packets, |batch, packets| batch.discard(packets))
}

fn give(
    pipe: covalent_pipe,
    packets: usize,
    give: fn(RxTxBatch<'_>, usize) -> covalent::Result<()>,
) -> c_int {
    call(|| {
        with_rx_tx(pipe, |pipe, _| match pipe.try_recv()? {
            Some(batch) => Ok(give(batch, packets)?),
            None => Ok(()),
        })
    })
}
