//! Verbs that were posted and not yet returned: a fixed table. It bounds the number in flight, and
//! recognizes a completion of no posted verb by its number.

use crate::{
    error::{Error, Result},
    verb::{MULTI_COMMIT_WORDS_MAX, VerbId},
};

/// The note of a multi-commit, with the number of its words added.
const COMMIT_NOTE: u8 = 0x80;
const COMMIT_NOTE_MIN: u8 = COMMIT_NOTE + 1;
const COMMIT_NOTE_MAX: u8 = COMMIT_NOTE + MULTI_COMMIT_WORDS_MAX as u8;

/// Kind of a verb's reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Nothing.
    Nothing,
    /// Nothing, of a multi-commit of this many words.
    Commit {
        /// 1 to [`MULTI_COMMIT_WORDS_MAX`].
        words: u8,
    },
    /// One word.
    Word,
    /// Bytes.
    Data,
    /// The description of a region.
    Region,
    /// Whether a path leads to a node.
    Path,
}

impl Answer {
    /// The number of words that a reply may name as the one that did not match.
    pub(crate) const fn words(self) -> u16 {
        match self {
            Self::Word => 1,
            Self::Commit { words } => words as u16,
            // So was the note of a multi-commit of version 0.1.
            Self::Nothing => MULTI_COMMIT_WORDS_MAX as u16,
            Self::Data | Self::Region | Self::Path => 0,
        }
    }

    /// As kept in an in-doubt id.
    pub(crate) const fn note(self) -> u8 {
        match self {
            Self::Nothing => 0,
            Self::Word => 1,
            // A watch is never in doubt.
            Self::Data | Self::Path => 2,
            Self::Region => 3,
            Self::Commit { words } => COMMIT_NOTE + words,
        }
    }

    /// Reads what [`Answer::note`] returned.
    pub(crate) fn of_note(note: u8) -> Result<Self> {
        Ok(match note {
            0 => Self::Nothing,
            1 => Self::Word,
            2 => Self::Data,
            3 => Self::Region,
            COMMIT_NOTE_MIN..=COMMIT_NOTE_MAX => Self::Commit {
                words: note - COMMIT_NOTE,
            },
            note => {
                return Err(Error::Invalid(format!(
                    "the in-doubt id has {note} at byte 11: it was not stored as it was returned"
                )));
            }
        })
    }
}

/// Data kept for a verb in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Posted {
    /// The caller's own number for it.
    pub(crate) user_data: u64,
    /// How to read its reply.
    pub(crate) answer: Answer,
}

/// The verb that a completion's number names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// A verb in flight.
    Outstanding(Posted),
    /// A verb in flight whose doubt was already reported.
    AlreadyInDoubt,
    /// A verb whose completion is not needed any more.
    Disowned,
    /// No verb in flight: never posted, or its final completion was already taken.
    Unknown,
}

/// Table of verbs in flight. A number is the entry's index (low 32 bits) and its generation (high
/// 32 bits), so a late or repeated completion never matches the entry's next verb.
#[derive(Debug)]
pub(crate) struct Outstanding {
    entries: Box<[Entry]>,
    free: Vec<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Free,
    InFlight,
    InDoubt,
    /// The final completion has arrived and waits to be handed to the caller.
    Arrived,
    /// In flight, and the completion is not needed.
    Disowned,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    generation: u32,
    state: State,
    posted: Posted,
}

impl Outstanding {
    /// Creates a table for `depth` verbs.
    pub(crate) fn new(depth: u32) -> Self {
        let free_entry = Entry {
            generation: 1,
            state: State::Free,
            posted: Posted {
                user_data: 0,
                answer: Answer::Nothing,
            },
        };
        Self {
            entries: vec![free_entry; depth as usize].into_boxed_slice(),
            free: (0..depth).rev().collect(),
        }
    }

    /// Takes an entry; `None` when all are taken.
    pub(crate) fn open(&mut self, posted: Posted) -> Option<VerbId> {
        let index = self.free.pop()?;
        let entry = &mut self.entries[index as usize];
        entry.state = State::InFlight;
        entry.posted = posted;
        Some(id(entry.generation, index))
    }

    /// Reverts an [`Outstanding::open`] whose verb could not be posted.
    pub(crate) fn abandon(&mut self, id: VerbId) {
        self.release(id);
    }

    /// The completion is not needed any more. When it arrives, the entry becomes free.
    pub(crate) fn disown(&mut self, id: VerbId) {
        if let Some(entry) = self.entry(id)
            && matches!(entry.state, State::InFlight | State::InDoubt)
        {
            entry.state = State::Disowned;
        }
    }

    /// Looks at a completion that is not final.
    pub(crate) fn in_doubt(&mut self, id: VerbId) -> Found {
        match self.entry(id) {
            Some(entry) if entry.state == State::InFlight => {
                entry.state = State::InDoubt;
                Found::Outstanding(entry.posted)
            }
            Some(entry) if entry.state == State::InDoubt => Found::AlreadyInDoubt,
            Some(entry) if entry.state == State::Disowned => Found::Disowned,
            _ => Found::Unknown,
        }
    }

    /// Handles a final completion. The entry stays taken until [`Outstanding::taken`].
    pub(crate) fn arrived(&mut self, id: VerbId) -> Found {
        match self.entry(id) {
            Some(entry) if matches!(entry.state, State::InFlight | State::InDoubt) => {
                entry.state = State::Arrived;
                Found::Outstanding(entry.posted)
            }
            Some(entry) if entry.state == State::Disowned => {
                self.release(id);
                Found::Disowned
            }
            _ => Found::Unknown,
        }
    }

    /// The caller has the final completion: the entry is free.
    pub(crate) fn taken(&mut self, id: VerbId) {
        self.release(id);
    }

    /// Gives up all verbs in flight that `keeps` does not accept. Returns those that the
    /// application waits for, with its own numbers, as arrived. Frees the disowned ones.
    pub(crate) fn forget(&mut self, keeps: impl Fn(VerbId) -> bool) -> Vec<(VerbId, u64)> {
        let mut forgotten = Vec::new();
        for index in 0..self.entries.len() {
            let entry = &mut self.entries[index];
            let id = id(entry.generation, index as u32);
            match entry.state {
                State::InFlight | State::InDoubt if !keeps(id) => {
                    entry.state = State::Arrived;
                    forgotten.push((id, entry.posted.user_data));
                }
                State::Disowned if !keeps(id) => self.release(id),
                _ => {}
            }
        }
        forgotten
    }

    /// Whether the final completion of `id` is still to come.
    pub(crate) fn is_in_flight(&self, id: VerbId) -> bool {
        self.entries.get(index(id)).is_some_and(|entry| {
            entry.generation == generation(id)
                && matches!(entry.state, State::InFlight | State::InDoubt)
        })
    }

    /// Entries taken.
    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// All entries.
    pub(crate) fn depth(&self) -> usize {
        self.entries.len()
    }

    fn entry(&mut self, id: VerbId) -> Option<&mut Entry> {
        self.entries
            .get_mut(index(id))
            .filter(|entry| entry.generation == generation(id))
    }

    fn release(&mut self, id: VerbId) {
        let Some(entry) = self.entry(id) else { return };
        if entry.state == State::Free {
            return;
        }
        entry.state = State::Free;
        entry.generation = entry.generation.wrapping_add(1);
        self.free.push(id.0 as u32);
    }
}

const fn id(generation: u32, index: u32) -> VerbId {
    VerbId((generation as u64) << 32 | index as u64)
}

const fn generation(id: VerbId) -> u32 {
    (id.0 >> 32) as u32
}

/// The place of a verb in the table: below its depth.
pub(crate) const fn index(id: VerbId) -> usize {
    (id.0 & 0xffff_ffff) as usize
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const fn posted(user_data: u64) -> Posted {
        Posted {
            user_data,
            answer: Answer::Word,
        }
    }

    #[test]
    fn a_table_holds_up_to_its_depth_and_only_taken_entries_are_free() {
        let mut table = Outstanding::new(2);
        let first = table.open(posted(10)).unwrap();
        let second = table.open(posted(20)).unwrap();
        assert_eq!(table.open(posted(30)), None);
        assert_eq!(table.arrived(second), Found::Outstanding(posted(20)));
        assert_eq!(
            table.open(posted(30)),
            None,
            "an arrived completion still holds its entry"
        );
        table.taken(second);
        let third = table.open(posted(30)).unwrap();
        assert_ne!(third, second);
        assert_eq!(table.arrived(first), Found::Outstanding(posted(10)));
        assert_eq!(table.len(), 2);
    }

    #[test]
    fn late_repeated_and_invented_completions_match_nothing() {
        let mut table = Outstanding::new(1);
        let first = table.open(posted(1)).unwrap();
        assert_eq!(table.arrived(first), Found::Outstanding(posted(1)));
        assert_eq!(table.arrived(first), Found::Unknown, "repeated");
        table.taken(first);
        table.taken(first);
        let second = table.open(posted(2)).unwrap();
        assert_eq!(
            table.open(posted(3)),
            None,
            "taking twice freed one entry once"
        );
        assert_eq!(table.arrived(first), Found::Unknown, "late");
        assert_eq!(table.arrived(VerbId(u64::MAX)), Found::Unknown, "invented");
        assert_eq!(
            table.arrived(VerbId(0)),
            Found::Unknown,
            "zero is never handed out"
        );
        assert_eq!(table.arrived(second), Found::Outstanding(posted(2)));
    }

    #[test]
    fn a_disowned_verb_holds_its_entry_until_it_ends() {
        let mut table = Outstanding::new(1);
        let id = table.open(posted(7)).unwrap();
        table.disown(id);
        assert_eq!(table.open(posted(8)), None);
        assert_eq!(table.in_doubt(id), Found::Disowned);
        assert_eq!(table.arrived(id), Found::Disowned);
        assert_eq!(table.arrived(id), Found::Unknown);
        assert!(table.open(posted(8)).is_some());
    }

    #[test]
    fn doubt_is_reported_once_and_then_ends() {
        let mut table = Outstanding::new(1);
        let id = table.open(posted(7)).unwrap();
        assert_eq!(table.in_doubt(id), Found::Outstanding(posted(7)));
        assert_eq!(table.in_doubt(id), Found::AlreadyInDoubt);
        assert!(table.is_in_flight(id));
        assert_eq!(table.arrived(id), Found::Outstanding(posted(7)));
        assert!(!table.is_in_flight(id));
        assert_eq!(
            table.in_doubt(id),
            Found::Unknown,
            "doubt after the end is noise"
        );
    }
}
