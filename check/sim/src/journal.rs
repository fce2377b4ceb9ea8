//! Disk contents of a node with a journal: batches of records, in order.
//!
//! The production journal is part of the daemon, with its files and `io_uring`. The simulator
//! models only its guarantees, which a test in `dataplane/` proves
//! (`cut::a_journal_cut_at_any_byte_keeps_every_earlier_batch`). Batches reach the disk in order
//! and one at a time. Wherever the file ends, replay finds every batch before the torn one
//! complete, and nothing of the torn one.

use covalent_protocol::verb::{Request, Verb};

use crate::region::{self, REGION_WORDS, RKEY, Region};

/// One executed verb: the values that it left in the words that it touched. Applying it twice
/// changes nothing more.
#[derive(Debug, Clone, Default)]
pub struct Record {
    words: Vec<(usize, u64)>,
}

/// Outcome of the batch that is being written when a node stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LastBatch {
    /// It is complete, though its completion was not reported.
    Whole,
    /// It is torn, so nothing of it is there.
    Torn,
}

/// The journal of a node. Records are numbered from 1.
#[derive(Debug, Clone, Default)]
pub struct Journal {
    records: Vec<Record>,
    /// Records up to the end of the batch that is being written.
    written: usize,
    /// Records that are on disk.
    durable: usize,
}

impl Journal {
    /// Appends the values that `verb`, which was just executed, left in the region. Returns the
    /// number of the record that must be on disk before the outcome is reported. A verb that only
    /// reads waits for the records that it may have read.
    pub fn append(&mut self, verb: &[u8], region: &Region) -> u64 {
        let words = changed(verb);
        if !words.is_empty() {
            let now = region::words(region);
            self.records.push(Record {
                words: words.into_iter().map(|word| (word, now[word])).collect(),
            });
        }
        self.last()
    }

    /// The last record.
    #[must_use]
    pub fn last(&self) -> u64 {
        self.records.len() as u64
    }

    /// The last record that is on disk.
    #[must_use]
    pub const fn durable(&self) -> u64 {
        self.durable as u64
    }

    /// Whether the disk has something to do.
    #[must_use]
    pub const fn is_busy(&self) -> bool {
        self.durable < self.records.len()
    }

    /// Begins to write all that was appended as one batch, if none is being written.
    pub const fn submit(&mut self) {
        if self.written == self.durable {
            self.written = self.records.len();
        }
    }

    /// The batch that is being written is on disk.
    pub const fn sync(&mut self) {
        self.durable = self.written;
    }

    /// Restarts the node and returns what replay finds. `tears` omits all but the first word of the
    /// last record.
    pub fn replay(&mut self, last: LastBatch, tears: bool) -> Box<[u64; REGION_WORDS]> {
        if last == LastBatch::Whole {
            self.durable = self.written;
        }
        self.records.truncate(self.durable);
        self.written = self.durable;
        if tears && let Some(last) = self.records.last_mut() {
            last.words.truncate(1);
        }
        let mut words = Box::new(region::words(&region::opened()));
        for (word, value) in self.records.iter().flat_map(|record| &record.words) {
            words[*word] = *value;
        }
        words
    }
}

/// The words that a verb may change.
fn changed(verb: &[u8]) -> Vec<usize> {
    let Ok(request) = Request::decode(verb) else {
        return Vec::new();
    };
    if request.rkey != RKEY {
        return Vec::new();
    }
    let word = |offset: u32| offset as usize / region::WORD_BYTES;
    match request.verb {
        Verb::Read { .. } | Verb::Lookup { .. } => Vec::new(),
        Verb::Write { data } => {
            let end = request.offset as usize + data.len();
            (word(request.offset)..end.div_ceil(region::WORD_BYTES)).collect()
        }
        Verb::MultiCommit(words) => words.iter().map(|each| word(each.offset)).collect(),
        _ => vec![word(request.offset)],
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use covalent_protocol::{Mode, Reply};

    use super::*;
    use crate::{operation::Operation, region::COUNTER};

    #[test]
    fn records_on_disk_are_restored_and_torn_ones_are_not() {
        let mut region = region::opened();
        let mut journal = Journal::default();
        let mut count = |journal: &mut Journal| {
            let verb = Operation::Count { delta: 1 }.encode();
            let id = covalent_protocol::ExchangeId {
                peer: 1,
                port: 0,
                epoch: 0,
                slot: 0,
                sequence: 0,
            };
            region.admit(&id, Mode::OnePhase, &verb).unwrap();
            region.execute(&id, &verb, &mut Reply::new());
            journal.append(&verb, &region)
        };
        assert_eq!((count(&mut journal), count(&mut journal)), (1, 2));
        journal.submit();
        journal.sync();
        assert_eq!(count(&mut journal), 3);
        journal.submit();
        // Behind the batch that is being written.
        assert_eq!(count(&mut journal), 4);
        journal.submit();
        assert_eq!((journal.durable(), journal.last()), (2, 4));
        let counter = |last: LastBatch, tears| journal.clone().replay(last, tears)[COUNTER];
        assert_eq!(counter(LastBatch::Torn, false), 2);
        assert_eq!(counter(LastBatch::Whole, false), 3);
        journal.replay(LastBatch::Torn, false);
        assert_eq!((journal.durable(), journal.last()), (2, 2));
        assert!(!journal.is_busy());
    }
}
