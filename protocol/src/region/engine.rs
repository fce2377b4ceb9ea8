//! Admission and execution.

use alloc::vec::Vec;

use super::{
    Memory, RegisterError, Registration, apply::apply, counts::VerbCounts, memory::WORD_BYTES,
    table::Regions,
};
use crate::{
    ExchangeId, Mode, Refusal, Reply,
    verb::{self, DecodeError, MultiCommit, RegionInfo, Request, Verb},
};

/// Executes verbs on the regions of one lane. Its methods for verbs never allocate.
///
/// [`Engine::admit`], [`Engine::execute`] and [`Engine::reverse`] are what a [`crate::Host`] needs for verbs of peers;
/// [`Engine::run`] is for those of the node's own applications.
#[derive(Debug, Clone)]
pub struct Engine<M> {
    regions: Regions<M>,
    counts: VerbCounts,
}

impl<M: Memory> Default for Engine<M> {
    fn default() -> Self {
        Self::new()
    }
}

impl<M: Memory> Engine<M> {
    /// An engine without regions.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            regions: Regions::new(),
            counts: VerbCounts::new(),
        }
    }

    /// Takes a region in.
    ///
    /// # Errors
    /// The name or the key is in use.
    pub fn register(&mut self, region: Registration<M>) -> Result<(), RegisterError> {
        self.regions.insert(region)
    }

    /// Forgets the regions of `owner` and hands their memory back.
    pub fn remove_owner(&mut self, owner: u64) -> Vec<M> {
        self.regions
            .remove_owner(owner)
            .into_iter()
            .map(|(_, memory)| memory)
            .collect()
    }

    /// The memory of the region with this key.
    #[must_use]
    pub fn memory(&self, rkey: u32) -> Option<&M> {
        Some(&self.regions.get(rkey)?.memory)
    }

    /// Whether `request` of the exchange `id` may be executed: it can be read, its region exists, it lies within it, and the
    /// region grants the right. Changes nothing that a verb could see, and counts a refusal.
    ///
    /// As [`crate::Host::admit`]: what was admitted is executed or reversed later, under the same `id`, and in
    /// [`Mode::OnePhase`] executed at once.
    ///
    /// # Errors
    /// Why not.
    pub fn admit(&mut self, id: &ExchangeId, mode: Mode, request: &[u8]) -> Result<(), Refusal> {
        let _ = (id, mode);
        let checked = self.check(request);
        if let Err(refusal) = checked {
            self.counts.count_refused(refusal);
        }
        checked.map(drop)
    }

    /// Executes the admitted `request` of the exchange `id` and writes its reply. A region that was withdrawn since is
    /// answered as gone.
    pub fn execute(&mut self, id: &ExchangeId, request: &[u8], reply: &mut Reply) {
        let _ = id;
        // It was checked at admission; only the region may have gone since.
        match self.check(request) {
            Ok(request) => self.apply(&request, reply),
            Err(_) => answer_gone(reply),
        }
    }

    /// The admitted `request` of the exchange `id` will never be executed.
    pub fn reverse(&mut self, id: &ExchangeId, request: &[u8]) {
        let _ = (id, request);
    }

    /// Executes `request` of one of the node's own applications at once and writes its reply.
    ///
    /// # Errors
    /// Why it was not executed; counted.
    pub fn run(&mut self, request: &[u8], reply: &mut Reply) -> Result<(), Refusal> {
        match self.check(request) {
            Ok(request) => {
                self.apply(&request, reply);
                Ok(())
            }
            Err(refusal) => {
                self.counts.count_refused(refusal);
                Err(refusal)
            }
        }
    }

    /// Verbs executed, by name.
    pub fn executed(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.counts.executed()
    }

    /// Requests refused, by reason.
    pub fn refused(&self) -> impl Iterator<Item = (Refusal, u64)> {
        self.counts.refused()
    }

    fn check<'a>(&self, request: &'a [u8]) -> Result<Request<'a>, Refusal> {
        let request = Request::decode(request).map_err(|error| match error {
            DecodeError::UnknownOperation(_) | DecodeError::UnknownFlags(_) => Refusal::Unsupported,
            _ => Refusal::BadRequest,
        })?;
        if let Verb::Lookup { name } = request.verb {
            return match self.regions.find(name) {
                Some(_) => Ok(request),
                None => Err(Refusal::UnknownRegion),
            };
        }
        let region = self
            .regions
            .get(request.rkey)
            .ok_or(Refusal::UnknownRegion)?;
        if !region.rights.allow(&request.verb) {
            return Err(Refusal::NoRight);
        }
        let size_bytes = region.memory.size_bytes();
        let within = |offset: u64, length: u64| {
            offset
                .checked_add(length)
                .is_some_and(|end| end <= size_bytes)
        };
        let (lies_within, is_sound) = match &request.verb {
            Verb::Read { len } => (within(request.offset, u64::from(*len)), true),
            Verb::Write { data } => (within(request.offset, data.len() as u64), true),
            Verb::MultiCommit(words) => (
                words.iter().all(|word| within(word.offset, WORD_BYTES)),
                distinct(words),
            ),
            _ => (within(request.offset, WORD_BYTES), true),
        };
        match (lies_within, is_sound) {
            (false, _) => Err(Refusal::OutOfBounds),
            (true, false) => Err(Refusal::BadRequest),
            (true, true) => Ok(request),
        }
    }

    /// Executes what was checked.
    fn apply(&mut self, request: &Request<'_>, reply: &mut Reply) {
        self.counts.count_executed(&request.verb);
        let Self { regions, .. } = self;
        let mut done = None;
        reply.write_with(|space| {
            done = match request.verb {
                Verb::Lookup { name } => regions.find(name).and_then(|(rkey, region)| {
                    let info = RegionInfo {
                        size_bytes: region.memory.size_bytes(),
                        rkey,
                        rights: region.rights.to_byte(),
                    };
                    verb::Reply::ok(&info.to_bytes()).encode(space).ok()
                }),
                _ => regions.get_mut(request.rkey).and_then(|region| {
                    apply(&mut region.memory, request.offset, &request.verb, space)
                }),
            };
            done.unwrap_or(0)
        });
        if done.is_none() {
            answer_gone(reply);
        }
    }
}

fn answer_gone(reply: &mut Reply) {
    reply.write_with(|space| verb::Reply::gone().encode(space).unwrap_or(0));
}

/// Whether no word is named twice: "all as expected, then all changed" has no meaning for such a list.
fn distinct(words: &MultiCommit<'_>) -> bool {
    words.iter().enumerate().all(|(at, word)| {
        words
            .iter()
            .take(at)
            .all(|other| other.offset != word.offset)
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::{vec, vec::Vec};

    use proptest::prelude::*;

    use super::*;
    use crate::{
        region::{Rights, Words},
        verb::{Status, Word},
    };

    const RKEY: u32 = 7;

    const ID: ExchangeId = ExchangeId {
        peer: 9,
        port: 0,
        epoch: 1,
        slot: 0,
        sequence: 1,
    };

    fn engine(rights: Rights, size_bytes: usize) -> Engine<Words> {
        let mut engine = Engine::new();
        engine
            .register(Registration {
                owner: 1,
                name: "bank".into(),
                rkey: RKEY,
                rights,
                memory: Words::new(size_bytes / 8),
            })
            .unwrap();
        engine
    }

    fn executed(engine: &Engine<Words>, verb: &str) -> u64 {
        engine.executed().find(|(name, _)| *name == verb).unwrap().1
    }

    fn refused(engine: &Engine<Words>, refusal: Refusal) -> u64 {
        engine.refused().find(|(of, _)| *of == refusal).unwrap().1
    }

    fn encode(offset: u64, verb: Verb<'_>) -> Vec<u8> {
        let request = Request {
            rkey: RKEY,
            offset,
            verb,
        };
        let mut bytes = vec![0; request.encoded_bytes()];
        request.encode(&mut bytes).unwrap();
        bytes
    }

    /// Admits and executes; gives status, index and data.
    fn run(
        engine: &mut Engine<Words>,
        offset: u64,
        verb: Verb<'_>,
    ) -> Result<(Status, u16, Vec<u8>), Refusal> {
        let bytes = encode(offset, verb);
        engine.admit(&ID, Mode::OnePhase, &bytes)?;
        let mut reply = Reply::new();
        engine.execute(&ID, &bytes, &mut reply);
        let reply = verb::Reply::decode(reply.as_bytes()).unwrap();
        Ok((reply.status, reply.index, reply.data.to_vec()))
    }

    fn word(engine: &mut Engine<Words>, offset: u64, verb: Verb<'_>) -> (Status, u64) {
        let (status, _, data) = run(engine, offset, verb).unwrap();
        (status, u64::from_le_bytes(data.try_into().unwrap()))
    }

    #[test]
    fn each_verb_does_what_it_says() {
        let mut engine = engine(Rights::ALL, 64);
        let engine = &mut engine;
        assert_eq!(word(engine, 8, Verb::Swap { new: 5 }), (Status::Ok, 0));
        assert_eq!(
            word(engine, 8, Verb::FetchAdd { delta: u64::MAX }),
            (Status::Ok, 5)
        );
        assert_eq!(
            word(engine, 8, Verb::FetchOr { mask: 0b1011 }),
            (Status::Ok, 4)
        );
        assert_eq!(
            word(engine, 8, Verb::FetchAnd { mask: 0b1010 }),
            (Status::Ok, 0b1111)
        );
        assert_eq!(
            word(engine, 8, Verb::FetchXor { mask: 0b0110 }),
            (Status::Ok, 0b1010)
        );
        assert_eq!(
            word(
                engine,
                8,
                Verb::CompareAndSwap {
                    expected: 1,
                    new: 2
                }
            ),
            (Status::Mismatch, 0b1100)
        );
        assert_eq!(
            word(
                engine,
                8,
                Verb::CompareAndSwap {
                    expected: 0b1100,
                    new: 2
                }
            ),
            (Status::Ok, 0b1100)
        );
        assert_eq!(
            run(engine, 3, Verb::Write { data: b"covalent" }),
            Ok((Status::Ok, 0, vec![]))
        );
        assert_eq!(
            run(engine, 3, Verb::Read { len: 8 }),
            Ok((Status::Ok, 0, b"covalent".to_vec()))
        );
        let (_, _, info) = run(engine, 0, Verb::Lookup { name: "bank" }).unwrap();
        let info = verb::Reply::ok(&info).region().unwrap();
        assert_eq!(
            info,
            RegionInfo {
                size_bytes: 64,
                rkey: RKEY,
                rights: 0b111
            }
        );
        assert_eq!(executed(engine, "compare_and_swap"), 2);
    }

    #[test]
    fn a_multi_commit_is_all_or_nothing() {
        let mut engine = engine(Rights::ALL, 64);
        let words = |third| {
            [
                Word {
                    offset: 0,
                    expected: 0,
                    new: 1,
                },
                Word {
                    offset: 56,
                    expected: 0,
                    new: 2,
                },
                Word {
                    offset: 8,
                    expected: third,
                    new: 3,
                },
            ]
        };
        let (failing, passing) = (words(9), words(0));
        let verb = Verb::MultiCommit(MultiCommit::new(&failing).unwrap());
        assert_eq!(
            run(&mut engine, 0, verb),
            Ok((Status::Mismatch, 2, vec![0; 8]))
        );
        assert_eq!(
            run(&mut engine, 0, Verb::Read { len: 64 }).unwrap().2,
            vec![0; 64]
        );
        let verb = Verb::MultiCommit(MultiCommit::new(&passing).unwrap());
        assert_eq!(run(&mut engine, 0, verb), Ok((Status::Ok, 0, vec![])));
        assert_eq!(word(&mut engine, 56, Verb::FetchAdd { delta: 0 }).1, 2);
        let twice = [
            Word {
                offset: 0,
                expected: 1,
                new: 4,
            },
            Word {
                offset: 0,
                expected: 1,
                new: 5,
            },
        ];
        let verb = Verb::MultiCommit(MultiCommit::new(&twice).unwrap());
        assert_eq!(run(&mut engine, 0, verb), Err(Refusal::BadRequest));
    }

    #[test]
    fn bounds_rights_and_keys_are_checked_before_anything_happens() {
        let mut all = engine(Rights::ALL, 64);
        for offset in [64, 72, u64::MAX - 7] {
            assert_eq!(
                run(&mut all, offset, Verb::Swap { new: 1 }),
                Err(Refusal::OutOfBounds)
            );
        }
        assert_eq!(
            run(&mut all, 57, Verb::Write { data: &[1; 8] }),
            Err(Refusal::OutOfBounds)
        );
        assert_eq!(
            run(&mut all, u64::MAX, Verb::Read { len: 1 }),
            Err(Refusal::OutOfBounds)
        );
        assert_eq!(
            run(&mut all, 0, Verb::Lookup { name: "other" }),
            Err(Refusal::UnknownRegion)
        );
        let mut stranger = encode(0, Verb::Swap { new: 1 });
        stranger[4] ^= 1;
        assert_eq!(
            all.admit(&ID, Mode::OnePhase, &stranger),
            Err(Refusal::UnknownRegion)
        );
        assert_eq!(
            all.admit(&ID, Mode::OnePhase, &[]),
            Err(Refusal::BadRequest)
        );
        assert_eq!(
            all.admit(&ID, Mode::OnePhase, &[99; 16]),
            Err(Refusal::Unsupported)
        );
        assert_eq!(refused(&all, Refusal::OutOfBounds), 5);
        let mut none = engine(
            Rights {
                read: false,
                write: false,
                atomic: false,
            },
            64,
        );
        for verb in [
            Verb::Swap { new: 1 },
            Verb::Read { len: 1 },
            Verb::Write { data: b"x" },
        ] {
            assert_eq!(run(&mut none, 0, verb), Err(Refusal::NoRight));
        }
    }

    #[test]
    fn a_region_that_went_between_admission_and_execution_is_gone() {
        let mut engine = engine(Rights::ALL, 64);
        let bytes = encode(0, Verb::Swap { new: 1 });
        engine.admit(&ID, Mode::OnePhase, &bytes).unwrap();
        assert_eq!(engine.remove_owner(2).len(), 0);
        assert_eq!(engine.remove_owner(1).len(), 1);
        let mut reply = Reply::new();
        engine.execute(&ID, &bytes, &mut reply);
        assert_eq!(
            verb::Reply::decode(reply.as_bytes()).unwrap().status,
            Status::Gone
        );
        assert_eq!(executed(&engine, "swap"), 0);
    }

    proptest! {
        #[test]
        fn arbitrary_requests_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), op in 0_u8..12) {
            let mut engine = engine(Rights::ALL, 64);
            let mut bytes = bytes;
            if bytes.len() >= 16 {
                let count = bytes[2];
                bytes[..8].copy_from_slice(&[op, 0, count, 0, RKEY as u8, 0, 0, 0]);
            }
            let mut reply = Reply::new();
            let _ = engine.admit(&ID, Mode::OnePhase, &bytes);
            engine.execute(&ID, &bytes, &mut reply);
        }
    }
}
