//! The writer's side of the ring.

use std::{collections::VecDeque, io, path::Path, process};

use covalent_ipc::sync::{AtomicU64, Ordering, fence};
use nix::time::ClockId;

use super::{
    super::{
        file::SharedFile,
        layout::{ENDED, RUNNING},
        write::{now_ns, start_ticks},
    },
    layout::{HEAD_WORDS, MAGIC, RecordKind, VERSION, head, record},
};

/// The values of an object of the file of counters, with where they stand there.
#[derive(Debug)]
pub struct Sampled<'a> {
    /// The writer, by number.
    pub writer: u16,
    /// The table, by number.
    pub table: u16,
    /// The slot.
    pub slot: u32,
    /// Which of the objects that had the slot.
    pub generation: u64,
    /// The field of the first value.
    pub first: u32,
    /// The values.
    pub values: &'a [u64],
}

/// The ring, as held by its one writer. If it is dropped without [`Ring::end`], readers see that
/// its process died.
#[derive(Debug)]
pub struct Ring {
    file: SharedFile,
    capacity_words: usize,
    /// Where the next record begins, in words since the ring was made.
    tail: u64,
    records: u64,
    /// Where records begin, some way apart, the oldest first.
    marks: VecDeque<u64>,
}

impl Ring {
    /// Makes a ring of `capacity_bytes`, a power of two of at least 4096, at `path`. `group` may
    /// read it.
    ///
    /// # Errors
    /// The error of the system call. Nothing is left behind then.
    pub fn create(path: &Path, capacity_bytes: usize, group: Option<u32>) -> io::Result<Self> {
        if !capacity_bytes.is_power_of_two() || capacity_bytes < 4096 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let capacity_words = capacity_bytes / 8;
        let file = SharedFile::make(path, HEAD_WORDS + capacity_words, group, |words| {
            let set = |at: usize, value: u64| words[at].store(value, Ordering::Relaxed);
            set(head::VERSION, VERSION);
            set(head::FILE_BYTES, (words.len() * 8) as u64);
            set(head::PID, process::id().into());
            set(head::START_TICKS, start_ticks());
            set(head::STARTED_REALTIME_NS, now_ns(ClockId::CLOCK_REALTIME));
            set(head::STATE, RUNNING);
            set(head::RING_OFFSET, (HEAD_WORDS * 8) as u64);
            set(head::CAPACITY_BYTES, capacity_bytes as u64);
            words[0].store(u64::from_ne_bytes(MAGIC), Ordering::Release);
        })?;
        Ok(Self {
            file,
            capacity_words,
            tail: 0,
            records: 0,
            marks: VecDeque::from([0]),
        })
    }

    /// Records for readers that the process shut down gracefully.
    pub fn end(&self) {
        self.file.words()[head::STATE].store(ENDED, Ordering::Release);
    }

    /// Writes an event in JSON. Returns `false` and omits the event if it takes more than an eighth
    /// of the ring.
    pub fn event(&mut self, json: &[u8]) -> bool {
        let words = 1 + json.len().div_ceil(8);
        self.write(RecordKind::Event, words, |body| {
            body[0].store(json.len() as u64, Ordering::Relaxed);
            for (word, chunk) in body[1..].iter().zip(json.chunks(8)) {
                let mut bytes = [0; 8];
                bytes[..chunk.len()].copy_from_slice(chunk);
                word.store(u64::from_ne_bytes(bytes), Ordering::Relaxed);
            }
        })
    }

    /// Writes the values of an object. Returns `false` and omits them if they take more than an
    /// eighth of the ring.
    pub fn sample(&mut self, sampled: &Sampled<'_>) -> bool {
        let place = u64::from(sampled.slot) << 32
            | u64::from(sampled.table) << 16
            | u64::from(sampled.writer);
        let shape = (sampled.values.len() as u64) << 32 | u64::from(sampled.first);
        let header_words = [place, sampled.generation, shape];
        let words = header_words.len() + sampled.values.len();
        self.write(RecordKind::Sample, words, |body| {
            for (word, &value) in body.iter().zip(header_words.iter().chain(sampled.values)) {
                word.store(value, Ordering::Relaxed);
            }
        })
    }

    fn write(&mut self, kind: RecordKind, body: usize, fill: impl FnOnce(&[AtomicU64])) -> bool {
        let length = record::WORDS + body;
        if length > self.capacity_words / 8 {
            return false;
        }
        let (top, ring) = self.file.words().split_at(HEAD_WORDS);
        let at = (self.tail as usize) & (self.capacity_words - 1);
        // A record lies in one piece.
        let padding = if length > self.capacity_words - at {
            self.capacity_words - at
        } else {
            0
        };
        let begin = self.tail + padding as u64;
        let end = begin + length as u64;
        top[head::INTENT].store(end * 8, Ordering::Relaxed);
        // A reader that sees any of the following stores also sees the intent when it reads it
        // again.
        fence(Ordering::Release);
        if padding > 0 {
            ring[at].store(described(padding, RecordKind::Padding), Ordering::Relaxed);
        }
        let at = (begin as usize) & (self.capacity_words - 1);
        let words = &ring[at..][..length];
        self.records += 1;
        words[record::LENGTH_AND_KIND].store(described(length, kind), Ordering::Relaxed);
        words[record::SEQUENCE].store(self.records, Ordering::Relaxed);
        words[record::REALTIME_NS].store(now_ns(ClockId::CLOCK_REALTIME), Ordering::Relaxed);
        words[record::MONOTONIC_NS].store(now_ns(ClockId::CLOCK_MONOTONIC), Ordering::Relaxed);
        fill(&words[record::WORDS..]);
        // Marks are at least an eighth of the ring apart. Readers resume at a mark that is at most
        // half a ring old.
        let capacity = self.capacity_words as u64;
        if self
            .marks
            .back()
            .is_none_or(|&mark| begin - mark >= capacity / 8)
        {
            self.marks.push_back(begin);
        }
        while self.marks.len() > 1
            && self
                .marks
                .front()
                .is_some_and(|&mark| end - mark > capacity / 2)
        {
            self.marks.pop_front();
        }
        let resume = self.marks.front().copied().unwrap_or(begin);
        top[head::RESUME].store(resume * 8, Ordering::Relaxed);
        top[head::RECORDS].store(self.records, Ordering::Relaxed);
        top[head::TAIL].store(end * 8, Ordering::Release);
        self.tail = end;
        true
    }
}

const fn described(words: usize, kind: RecordKind) -> u64 {
    (kind as u64) << 32 | (words * 8) as u64
}
