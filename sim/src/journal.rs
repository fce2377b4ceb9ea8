//! What a node with a journal has on its disk: batches of records, one after the other.
//!
//! The production journal lies in the daemon, with its files and `io_uring`. What a simulation needs of it is what that promises, and a test in `dataplane/`
//! proves (`cut::a_journal_cut_at_any_byte_has_every_batch_before`): batches reach the disk in order and one at a time, and wherever the file ends, replay finds every batch
//! before the one that is torn, whole, and nothing of that one.

use covalent_protocol::verb::{Request, Verb};

use crate::region::{self, REGION_WORDS, RKEY, Region};

/// One executed verb: what it left in the words that it touched. To apply it twice changes nothing more.
#[derive(Debug, Clone, Default)]
pub struct Record {
    words: Vec<(usize, u64)>,
}

/// What becomes of the batch that is being written when a node stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LastBatch {
    /// It is whole, though nobody was told.
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
    /// Appends what `verb`, which was executed just now, left in the region. Gives the number of the record that must be on disk
    /// before anybody hears of it: a verb that only reads waits for what it may have seen.
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

    /// The node stopped, and starts again: what replay finds. `tears` leaves away what a record did behind its first word, in the
    /// last one.
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
    use crate::{ask::Ask, region::COUNTER};

    #[test]
    fn what_is_on_disk_comes_back_and_what_is_torn_does_not() {
        let mut region = region::opened();
        let mut journal = Journal::default();
        let mut count = |journal: &mut Journal| {
            let verb = Ask::Count { delta: 1 }.encode();
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
