//! A reader of the ring.

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt},
    path::Path,
};

use covalent_ipc::sync::{Ordering, fence};
use nix::libc;

use super::{
    super::ReadError,
    layout::{HEAD_WORDS, MAGIC, VERSION, head, record},
};

/// Larger rings are none of ours.
const CAPACITY_BYTES_MAX: u64 = 1 << 30;

/// An open ring and the read position. It stays valid when a new daemon replaces the file at the
/// path.
#[derive(Debug)]
pub struct RingFile {
    file: File,
    ring_offset: u64,
    capacity: u64,
    next: u64,
    /// The number that the next record should have.
    expected: Option<u64>,
    lost: u64,
    overruns: u64,
}

/// A record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Counts up by one from 1.
    pub sequence: u64,
    /// When it was written, in nanoseconds of CLOCK_REALTIME.
    pub realtime_ns: u64,
    /// The same of CLOCK_MONOTONIC.
    pub monotonic_ns: u64,
    /// Its contents.
    pub body: Body,
}

/// Contents of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// An event, as JSON.
    Event(String),
    /// The values of an object, with its location in the file of counters.
    Sample {
        /// The writer, by number.
        writer: u16,
        /// The table, by number.
        table: u16,
        /// The slot.
        slot: u32,
        /// Which of the objects that had the slot.
        generation: u64,
        /// The field of the first value.
        first: u32,
        /// The values.
        values: Vec<u64>,
    },
    /// Something that this program does not know.
    Other(u32),
}

impl RingFile {
    /// Opens the ring at `path`. Reading begins at a record at most half of the ring ago.
    ///
    /// # Errors
    /// [`ReadError`].
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(path)?;
        let length = file.metadata()?.size();
        let mut ring = Self {
            file,
            ring_offset: 0,
            capacity: 0,
            next: 0,
            expected: None,
            lost: 0,
            overruns: 0,
        };
        if length < (HEAD_WORDS * 8) as u64 || ring.word(0)? != u64::from_ne_bytes(MAGIC) {
            return Err(ReadError::Foreign);
        }
        let version = ring.word(head::VERSION)?;
        if version != VERSION {
            return Err(ReadError::Version { found: version });
        }
        ring.ring_offset = ring.word(head::RING_OFFSET)?;
        ring.capacity = ring.word(head::CAPACITY_BYTES)?;
        let end = ring.ring_offset.checked_add(ring.capacity);
        if !ring.capacity.is_power_of_two()
            || !(4096..=CAPACITY_BYTES_MAX).contains(&ring.capacity)
            || !ring.ring_offset.is_multiple_of(8)
            || end.is_none_or(|end| end > length)
        {
            return Err(ReadError::Damaged("the size of the ring"));
        }
        ring.next = ring.word(head::RESUME)?;
        Ok(ring)
    }

    /// Records that were overwritten before they were read.
    #[must_use]
    pub const fn lost(&self) -> u64 {
        self.lost
    }

    /// Returns how many times the writer overwrote records that were still to be read.
    #[must_use]
    pub const fn overruns(&self) -> u64 {
        self.overruns
    }

    /// Returns the next record, if there is one.
    ///
    /// # Errors
    /// [`ReadError`] if a word is invalid, or if the writer is so fast that no record stays long
    /// enough to be read.
    pub fn next_record(&mut self) -> Result<Option<Record>, ReadError> {
        /// Paddings and overruns in a row.
        const STEPS_MAX: usize = 64;
        for _ in 0..STEPS_MAX {
            let tail = self.word(head::TAIL)?;
            fence(Ordering::Acquire);
            if self.next == tail {
                return Ok(None);
            }
            if self.next > tail || !self.next.is_multiple_of(8) {
                return Err(ReadError::Damaged("the place of a record"));
            }
            let copied = self.copy(tail);
            // Only the intent read after the copy shows whether the copied data was still valid.
            fence(Ordering::Acquire);
            let intent = self.word(head::INTENT)?;
            if intent > self.next.saturating_add(self.capacity) {
                self.overruns += 1;
                self.next = self.word(head::RESUME)?;
                continue;
            }
            let (length, record) = copied?;
            self.next += length;
            if let Some(record) = record {
                if let Some(expected) = self.expected {
                    let lost = record.sequence.saturating_sub(expected);
                    self.lost = self.lost.saturating_add(lost);
                }
                self.expected = Some(record.sequence.saturating_add(1));
                return Ok(Some(record));
            }
        }
        Err(ReadError::Busy {
            writer: "the writer".to_owned(),
        })
    }

    /// The bytes that the record takes, and the record, if it is more than padding.
    fn copy(&self, tail: u64) -> Result<(u64, Option<Record>), ReadError> {
        let at = self.next & (self.capacity - 1);
        let described = self.word_at(self.ring_offset + at)?;
        let length = described & u64::from(u32::MAX);
        let fits = length >= 8 && length.is_multiple_of(8) && length <= self.capacity - at;
        let end = self.next.checked_add(length);
        if !fits || end.is_none_or(|end| end > tail) {
            return Err(ReadError::Damaged("the length of a record"));
        }
        let kind = (described >> 32) as u32;
        if kind == super::RecordKind::Padding as u32 {
            return Ok((length, None));
        }
        let mut bytes = vec![0; length as usize];
        self.file.read_exact_at(&mut bytes, self.ring_offset + at)?;
        let words: Vec<u64> = bytes
            .as_chunks::<8>()
            .0
            .iter()
            .map(|chunk| u64::from_ne_bytes(*chunk))
            .collect();
        if words.len() < record::WORDS {
            return Err(ReadError::Damaged("the length of a record"));
        }
        let record = Record {
            sequence: words[record::SEQUENCE],
            realtime_ns: words[record::REALTIME_NS],
            monotonic_ns: words[record::MONOTONIC_NS],
            body: body(kind, &words[record::WORDS..], &bytes[record::WORDS * 8..])?,
        };
        Ok((length, Some(record)))
    }

    fn word(&self, at: usize) -> Result<u64, ReadError> {
        self.word_at(at as u64 * 8)
    }

    fn word_at(&self, at: u64) -> Result<u64, ReadError> {
        let mut word = [0; 8];
        self.file.read_exact_at(&mut word, at).map_err(|error| {
            if error.kind() == io::ErrorKind::UnexpectedEof {
                ReadError::Damaged("something lies beyond its end")
            } else {
                error.into()
            }
        })?;
        Ok(u64::from_ne_bytes(word))
    }
}

fn body(kind: u32, words: &[u64], bytes: &[u8]) -> Result<Body, ReadError> {
    const DAMAGED: ReadError = ReadError::Damaged("the content of a record");
    Ok(match kind {
        1 => {
            let &length = words.first().ok_or(DAMAGED)?;
            let length = usize::try_from(length).map_err(|_| DAMAGED)?;
            let text = bytes[8..].get(..length).ok_or(DAMAGED)?;
            Body::Event(String::from_utf8(text.to_vec()).map_err(|_| DAMAGED)?)
        }
        2 => {
            let (&[place, generation, shape], values) =
                words.split_first_chunk::<3>().ok_or(DAMAGED)?;
            if shape >> 32 != values.len() as u64 {
                return Err(DAMAGED);
            }
            Body::Sample {
                writer: place as u16,
                table: (place >> 16) as u16,
                slot: (place >> 32) as u32,
                generation,
                first: shape as u32,
                values: values.to_vec(),
            }
        }
        other => Body::Other(other),
    })
}
