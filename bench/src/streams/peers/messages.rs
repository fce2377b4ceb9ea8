//! Length-prefixed messages, the same for every transport.
//!
//! A message is its length in bytes (a little-endian `u32`), then that many bytes. The receiver
//! finds the end of a message by its length and touches one byte of it.

use std::ops::Range;

use anyhow::{Context, Result, bail};

use crate::streams::case::{Case, Size, Test};

/// Bytes of a prefix.
pub const PREFIX_BYTES: usize = 4;

/// Bytes that are handed over at once in a batch, unless one message is longer.
const BATCH_BYTES: usize = 64 << 10;

/// Size of the message pool: larger than a core's own caches.
const POOL_BYTES: usize = 8 << 20;

/// How messages are sent in a case.
#[derive(Debug, Clone, Copy)]
pub struct Sending {
    /// Bytes of a message without its prefix.
    pub message_bytes: usize,
    /// Messages that are handed over at once.
    pub per_batch: usize,
}

impl Sending {
    /// Returns the sizes that a case needs.
    pub fn of(case: Case) -> Result<Self> {
        let Size::Bytes(bytes) = case.size else {
            bail!("messages have one size in a run");
        };
        let message_bytes = bytes as usize;
        let per_batch = match case.test {
            Test::Stream => (BATCH_BYTES / (message_bytes + PREFIX_BYTES)).max(1),
            _ => 1,
        };
        Ok(Self {
            message_bytes,
            per_batch,
        })
    }

    /// Bytes that are handed over at once.
    pub const fn batch_bytes(self) -> usize {
        self.per_batch * (self.message_bytes + PREFIX_BYTES)
    }
}

/// Size of a cache line: each message begins on one, as in the buffers of a careful application.
const LINE_BYTES: usize = 64;

/// Messages to be sent, over and over.
#[derive(Debug)]
pub struct Messages {
    pool: Box<[u8]>,
    places: Places,
}

/// Where messages lie in a pool, one after the other and over again.
#[derive(Debug)]
pub struct Places {
    pool_bytes: usize,
    first: usize,
    message_bytes: usize,
    next: usize,
}

impl Places {
    /// Where the next one lies, without its prefix.
    #[inline]
    pub fn next_place(&mut self) -> Range<usize> {
        if self.next + self.message_bytes > self.pool_bytes {
            self.next = self.first;
        }
        let start = self.next;
        self.next += self.message_bytes.next_multiple_of(LINE_BYTES);
        start..start + self.message_bytes
    }
}

impl Messages {
    /// Messages of so many bytes each.
    pub fn new(message_bytes: usize) -> Self {
        let pool = vec![1; POOL_BYTES.max(message_bytes) + LINE_BYTES].into_boxed_slice();
        let first = pool.as_ptr().align_offset(LINE_BYTES);
        Self {
            places: Places {
                pool_bytes: pool.len(),
                first,
                message_bytes,
                next: first,
            },
            pool,
        }
    }

    /// The places, and the pool that they are in.
    pub fn split(self) -> (Places, Box<[u8]>) {
        (self.places, self.pool)
    }

    /// Where the next one lies, without its prefix.
    #[inline]
    pub fn next_place(&mut self) -> Range<usize> {
        self.places.next_place()
    }

    /// The bytes at a place.
    #[inline]
    pub fn at(&self, place: Range<usize>) -> &[u8] {
        &self.pool[place]
    }

    /// Its prefix.
    pub const fn prefix(&self) -> [u8; PREFIX_BYTES] {
        (self.places.message_bytes as u32).to_le_bytes()
    }

    /// Writes messages back to back until `target` is full. It holds a whole number of them.
    #[inline]
    pub fn fill(&mut self, target: &mut [u8]) {
        let prefix = self.prefix();
        for room in target.chunks_exact_mut(PREFIX_BYTES + self.places.message_bytes) {
            let (head, body) = room.split_at_mut(PREFIX_BYTES);
            head.copy_from_slice(&prefix);
            let place = self.next_place();
            body.copy_from_slice(self.at(place));
        }
    }
}

/// The received messages.
#[derive(Debug, Default)]
pub struct Received {
    /// Messages.
    pub count: u64,
    /// Their bytes without prefixes.
    pub bytes: u64,
    touched: u64,
}

impl Received {
    /// Takes a message, without its prefix.
    #[inline]
    pub fn take(&mut self, message: &[u8]) {
        self.touched += u64::from(message.first().copied().unwrap_or_default());
        self.bytes += message.len() as u64;
        self.count += 1;
    }

    /// Takes every whole message at the front of `bytes`; returns how many bytes they were.
    #[inline]
    pub fn take_all(&mut self, bytes: &[u8]) -> usize {
        let mut at = 0;
        while let Some(head) = bytes.get(at..at + PREFIX_BYTES) {
            let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
            let start = at + PREFIX_BYTES;
            let Some(body) = bytes.get(start..start + length) else {
                break;
            };
            self.take(body);
            at = start + length;
        }
        at
    }

    /// Whether the bytes that were touched were the right ones.
    pub fn check(&self) -> Result<()> {
        (self.touched == self.count)
            .then_some(())
            .with_context(|| format!("{} messages add up to {}", self.count, self.touched))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filled_messages_are_recognized() {
        let mut messages = Messages::new(10);
        let mut bytes = vec![0; 3 * 14];
        messages.fill(&mut bytes);
        let mut received = Received::default();
        assert_eq!(received.take_all(&bytes[..41]), 28);
        assert_eq!(received.take_all(&bytes[28..]), 14);
        assert_eq!((received.count, received.bytes), (3, 30));
        received.check().expect("ones");
        bytes[4] = 7;
        received.take_all(&bytes);
        assert!(received.check().is_err());
    }

    #[test]
    fn batches_have_the_same_size_for_all_peers() {
        let of = |test, bytes| {
            Sending::of(Case {
                test,
                size: Size::Bytes(bytes),
            })
            .expect("a size")
        };
        assert_eq!(of(Test::Stream, 60).per_batch, 1024);
        assert_eq!(of(Test::Stream, 1 << 20).batch_bytes(), (1 << 20) + 4);
        assert_eq!(of(Test::StreamUnbatched, 60).batch_bytes(), 64);
    }

    #[test]
    fn messages_never_run_over_the_pool() {
        let mut messages = Messages::new(3 << 20);
        for _ in 0..5 {
            let place = messages.next_place();
            let message = messages.at(place);
            assert_eq!(message.len(), 3 << 20);
            assert!(message.as_ptr().addr().is_multiple_of(LINE_BYTES));
        }
    }
}
