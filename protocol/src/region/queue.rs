//! Receive queues: rings of messages from a lane to the owner of a region.
//!
//! ```text
//!    0  tail u64   bytes of messages that were committed: the lane writes it
//!   64  head u64   bytes of messages that were taken: the owner writes it
//!  128  ring       messages in order, each at a multiple of 8; they wrap at the end of the ring
//!
//!  message  ├ length u32 ┼ 0 u32 ┼ sender u64 ┼ count u64 ┼ clock u64 ┼ data… ┤
//! ```
//! Both cursors count from 0 and never wrap. The position of a byte is its cursor modulo the length
//! of the ring. The sender is the GUID of the node that sent the message, or 0 for a local
//! application. Count and clock are the [`Moment`] at which the message was committed.
//!
//! A message is written whole before the tail covers it. The lane trusts only its own tail, and the
//! owner only its own head. An impossible head counts as a full queue, so it affects only senders
//! to this queue.

use core::fmt;

use super::Memory;
use crate::{Moment, Refusal, verb::SEND_BYTES_MAX};

/// Where the tail lies.
const TAIL_AT: u64 = 0;
/// Where the head lies, on a cache line of its own.
pub const HEAD_AT: u64 = 64;
/// Where the ring begins.
pub const RING_AT: u64 = 128;
/// Bytes of the header before the data of a message.
const HEADER_BYTES: usize = 32;
/// Messages begin at multiples of it.
const ALIGNMENT_BYTES: u64 = 8;

/// Smallest receive queue, in bytes: space for one message of 8 bytes.
pub const QUEUE_BYTES_MIN: u64 = RING_AT + footprint_bytes(8);

/// Bytes of the ring that a message of `len` bytes takes.
#[must_use]
pub const fn footprint_bytes(len: usize) -> u64 {
    ((HEADER_BYTES + len) as u64).next_multiple_of(ALIGNMENT_BYTES)
}

/// The lane's end of a receive queue.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct Queue {
    /// Bytes of messages that were committed.
    tail: u64,
    /// Bytes kept for messages of exchanges that are open.
    reserved_bytes: u64,
}

impl Queue {
    /// Checks that a message of `len` bytes fits beside the messages not taken yet and the reserved
    /// space.
    pub fn check_room(&self, memory: &impl Memory, len: usize) -> Result<(), Refusal> {
        let ring_bytes = ring_bytes(memory);
        let needed_bytes = footprint_bytes(len);
        if needed_bytes > ring_bytes {
            return Err(Refusal::OutOfBounds);
        }
        let waiting_bytes = memory
            .load(HEAD_AT)
            .and_then(|head| self.tail.checked_sub(head))
            .filter(|&waiting_bytes| waiting_bytes <= ring_bytes)
            .ok_or(Refusal::QueueFull)?;
        if waiting_bytes + self.reserved_bytes + needed_bytes > ring_bytes {
            return Err(Refusal::QueueFull);
        }
        Ok(())
    }

    /// Reserves space for a message of `len` bytes, which [`Queue::check_room`] has found.
    pub const fn reserve(&mut self, len: usize) {
        self.reserved_bytes += footprint_bytes(len);
    }

    /// Releases the reserved space for a message of `len` bytes.
    pub const fn release(&mut self, len: usize) {
        self.reserved_bytes = self.reserved_bytes.saturating_sub(footprint_bytes(len));
    }

    /// Appends a message for which there is space, then publishes it. Returns `None` and publishes
    /// nothing if the memory refuses the access after all.
    pub fn append(
        &mut self,
        memory: &mut impl Memory,
        sender: u64,
        moment: Moment,
        data: &[u8],
    ) -> Option<()> {
        if footprint_bytes(data.len()) > ring_bytes(memory) {
            return None;
        }
        let mut header = [0; HEADER_BYTES];
        header[0..4].copy_from_slice(&u32::try_from(data.len()).ok()?.to_le_bytes());
        header[8..16].copy_from_slice(&sender.to_le_bytes());
        header[16..24].copy_from_slice(&moment.count.to_le_bytes());
        header[24..32].copy_from_slice(&moment.clock.to_le_bytes());
        write(memory, self.tail, &header)?;
        write(memory, self.tail + HEADER_BYTES as u64, data)?;
        self.tail += footprint_bytes(data.len());
        memory.swap(TAIL_AT, self.tail)?;
        Some(())
    }
}

fn ring_bytes(memory: &impl Memory) -> u64 {
    memory.size_bytes().saturating_sub(RING_AT)
}

/// Writes `bytes`, which are no more than the ring has, from cursor `at` on.
fn write(memory: &mut impl Memory, at: u64, bytes: &[u8]) -> Option<()> {
    let ring_bytes = ring_bytes(memory);
    let [(first_at, first), (rest_at, rest)] = pieces(ring_bytes, at, bytes.len());
    memory.write(first_at, &bytes[..first])?;
    if rest > 0 {
        memory.write(rest_at, &bytes[first..])?;
    }
    Some(())
}

/// The location of `len` bytes from cursor `at`: offset and length of the part before the end of
/// the ring and of the part at its start.
const fn pieces(ring_bytes: u64, at: u64, len: usize) -> [(u64, usize); 2] {
    let start = at % ring_bytes;
    let until_end = ring_bytes - start;
    let first = if (len as u64) < until_end {
        len
    } else {
        until_end as usize
    };
    [(RING_AT + start, first), (RING_AT, len - first)]
}

/// The owner's end of a receive queue. It does not access memory itself. The owner reads on its
/// behalf, and writes [`Receiver::head`] to [`HEAD_AT`] after it has taken messages, which frees
/// their space.
#[derive(Debug, Clone)]
pub struct Receiver {
    ring_bytes: u64,
    head: u64,
}

/// A message that was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// GUID of the sending node; 0 for an application of the local node.
    pub sender: u64,
    /// When it was committed at the own node.
    pub moment: Moment,
    /// Its length in bytes.
    pub len: usize,
}

/// The queue holds bytes that no lane wrote: something else wrote to its memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueBroken;

impl fmt::Display for QueueBroken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the receive queue holds data that no lane wrote")
    }
}

impl core::error::Error for QueueBroken {}

impl Receiver {
    /// The owner's end of a queue of `size_bytes` bytes from which nothing was taken. `None` if
    /// `size_bytes` is too small for a queue.
    #[must_use]
    pub fn new(size_bytes: u64) -> Option<Self> {
        (size_bytes >= QUEUE_BYTES_MIN).then(|| Self {
            ring_bytes: size_bytes - RING_AT,
            head: 0,
        })
    }

    /// Bytes of messages that were taken.
    #[must_use]
    pub const fn head(&self) -> u64 {
        self.head
    }

    /// Copies the oldest message to the start of `data`; `None` if there is none. `read` fills its
    /// second argument with the bytes at the offset in its first argument. It reads each word of 8
    /// bytes in one step, and returns `None` if the offset is out of bounds.
    ///
    /// # Errors
    /// The queue is broken. Nothing was taken.
    pub fn take(
        &mut self,
        read: impl Fn(u64, &mut [u8]) -> Option<()>,
        data: &mut [u8; SEND_BYTES_MAX],
    ) -> Result<Option<Received>, QueueBroken> {
        let mut tail = [0; 8];
        read(TAIL_AT, &mut tail).ok_or(QueueBroken)?;
        let waiting_bytes = u64::from_le_bytes(tail)
            .checked_sub(self.head)
            .filter(|&waiting_bytes| waiting_bytes <= self.ring_bytes)
            .ok_or(QueueBroken)?;
        if waiting_bytes == 0 {
            return Ok(None);
        }
        let mut header = [0; HEADER_BYTES];
        self.read_at(&read, self.head, &mut header)?;
        let (words, _) = header.as_chunks::<8>();
        let [lengths, sender, count, clock] = [0, 1, 2, 3].map(|at| u64::from_le_bytes(words[at]));
        let len = usize::try_from(lengths).map_err(|_| QueueBroken)?;
        let target = data.get_mut(..len).ok_or(QueueBroken)?;
        if len == 0 || footprint_bytes(len) > waiting_bytes {
            return Err(QueueBroken);
        }
        self.read_at(&read, self.head + HEADER_BYTES as u64, target)?;
        self.head += footprint_bytes(len);
        Ok(Some(Received {
            sender,
            moment: Moment { count, clock },
            len,
        }))
    }

    fn read_at(
        &self,
        read: impl Fn(u64, &mut [u8]) -> Option<()>,
        at: u64,
        target: &mut [u8],
    ) -> Result<(), QueueBroken> {
        let [(first_at, first), (rest_at, rest)] = pieces(self.ring_bytes, at, target.len());
        let (before_end, from_start) = target.split_at_mut(first);
        read(first_at, before_end).ok_or(QueueBroken)?;
        if rest > 0 {
            read(rest_at, from_start).ok_or(QueueBroken)?;
        }
        Ok(())
    }
}
