//! Admission and execution.

use covalent_api::{request::Rights, status::Causes};
use covalent_pipe::region::RegionMemory;
use covalent_protocol::{
    Refusal,
    verb::{self, DecodeError, MultiCommit, READ_BYTES_MAX, RegionInfo, Request, Verb},
};

use super::{counts::VerbCounts, regions::Regions};
use crate::lane::command::NewRegion;

/// Bytes of a word.
const WORD_BYTES: u64 = 8;

/// Executes verbs on the regions of one lane. Used by that lane's thread alone; never allocates for a verb.
#[derive(Debug, Default)]
pub struct VerbEngine {
    regions: Regions,
    counts: VerbCounts,
}

impl VerbEngine {
    /// An engine without regions.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a region in.
    ///
    /// # Errors
    /// The name or the key is in use.
    pub fn insert(&mut self, region: NewRegion) -> Result<(), String> {
        self.regions.insert(region)
    }

    /// Forgets the regions of `session` and hands their memory back.
    pub fn remove_session(&mut self, session: u64) -> Vec<RegionMemory> {
        self.regions.remove_session(session)
    }

    /// Whether `request` may be executed: it can be read, its region exists, it lies within it, and the region grants the
    /// right. Changes nothing but the count of refusals.
    ///
    /// # Errors
    /// Why not.
    pub fn admit(&mut self, request: &[u8]) -> Result<(), Refusal> {
        let checked = self.check(request);
        if let Err(refusal) = checked {
            self.counts.count_refused(refusal);
        }
        checked
    }

    /// Executes an admitted request and writes its reply. A region that was withdrawn since is answered as gone.
    pub fn execute(&mut self, request: &[u8], reply: &mut covalent_protocol::Reply) {
        // Both were checked at admission; only the region may have gone since.
        let decoded = Request::decode(request)
            .ok()
            .filter(|_| self.check(request).is_ok());
        let mut data = [0; READ_BYTES_MAX];
        let answer = match &decoded {
            Some(request) => {
                self.counts.count_executed(&request.verb);
                self.apply(request, &mut data)
                    .unwrap_or_else(verb::Reply::gone)
            }
            None => verb::Reply::gone(),
        };
        reply.write_with(|space| answer.encode(space).unwrap_or(0));
    }

    /// Verbs executed, by verb.
    #[must_use]
    pub fn executed(&self) -> Causes {
        self.counts.executed()
    }

    /// Requests refused, by reason.
    #[must_use]
    pub fn refused(&self) -> Causes {
        self.counts.refused()
    }

    fn check(&self, request: &[u8]) -> Result<(), Refusal> {
        let request = Request::decode(request).map_err(|error| match error {
            DecodeError::UnknownOperation(_) | DecodeError::UnknownFlags(_) => Refusal::Unsupported,
            _ => Refusal::BadRequest,
        })?;
        if let Verb::Lookup { name } = request.verb {
            return self
                .regions
                .find(name)
                .map(drop)
                .ok_or(Refusal::UnknownRegion);
        }
        let region = self
            .regions
            .get(request.rkey)
            .ok_or(Refusal::UnknownRegion)?;
        if !granted(&request.verb, region.rights) {
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
            (true, true) => Ok(()),
        }
    }

    /// `None` if the region does not take the access after all.
    fn apply<'a>(
        &self,
        request: &Request<'_>,
        data: &'a mut [u8; READ_BYTES_MAX],
    ) -> Option<verb::Reply<'a>> {
        if let Verb::Lookup { name } = request.verb {
            let (rkey, region) = self.regions.find(name)?;
            let info = RegionInfo {
                size_bytes: region.memory.size_bytes(),
                rkey,
                rights: rights_byte(region.rights),
            };
            return Some(verb::Reply::ok(fill(data, &info.to_bytes())));
        }
        let memory = &self.regions.get(request.rkey)?.memory;
        let offset = request.offset;
        let old = match &request.verb {
            Verb::Read { len } => {
                let target = data.get_mut(..*len as usize)?;
                memory.read(offset, target)?;
                return Some(verb::Reply::ok(target));
            }
            Verb::Write { data } => {
                memory.write(offset, data)?;
                return Some(verb::Reply::ok(&[]));
            }
            Verb::CompareAndSwap { expected, new } => {
                match memory.compare_exchange(offset, *expected, *new)? {
                    Ok(old) => old,
                    Err(found) => return Some(mismatch(0, found, data)),
                }
            }
            Verb::MultiCommit(words) => {
                return Some(match commit(memory, words)? {
                    Ok(()) => verb::Reply::ok(&[]),
                    Err((index, found)) => mismatch(index, found, data),
                });
            }
            Verb::Swap { new } => memory.swap(offset, *new)?,
            Verb::FetchAdd { delta } => memory.fetch_add(offset, *delta)?,
            Verb::FetchAnd { mask } => memory.fetch_and(offset, *mask)?,
            Verb::FetchOr { mask } => memory.fetch_or(offset, *mask)?,
            Verb::FetchXor { mask } => memory.fetch_xor(offset, *mask)?,
            Verb::Lookup { .. } => return None,
        };
        Some(verb::Reply::ok(fill(data, &old.to_le_bytes())))
    }
}

/// Checks every word, then changes every word. Inner error: the first word that was not as expected, and what it was.
fn commit(memory: &RegionMemory, words: &MultiCommit<'_>) -> Option<Result<(), (u16, u64)>> {
    for (index, word) in (0..).zip(words.iter()) {
        let found = memory.load(word.offset)?;
        if found != word.expected {
            return Some(Err((index, found)));
        }
    }
    for (index, word) in (0_u16..).zip(words.iter()) {
        if let Err(found) = memory.compare_exchange(word.offset, word.expected, word.new)? {
            // The owner wrote meanwhile. What was changed is put back unless the owner wrote there too.
            for done in words.iter().take(usize::from(index)) {
                let _ = memory.compare_exchange(done.offset, done.new, done.expected)?;
            }
            return Some(Err((index, found)));
        }
    }
    Some(Ok(()))
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

const fn granted(verb: &Verb<'_>, rights: Rights) -> bool {
    match verb {
        Verb::Read { .. } => rights.read,
        Verb::Write { .. } => rights.write,
        Verb::Lookup { .. } => true,
        _ => rights.atomic,
    }
}

fn rights_byte(rights: Rights) -> u8 {
    u8::from(rights.read) | u8::from(rights.write) << 1 | u8::from(rights.atomic) << 2
}

fn fill<'a>(data: &'a mut [u8; READ_BYTES_MAX], bytes: &[u8]) -> &'a [u8] {
    data[..bytes.len()].copy_from_slice(bytes);
    &data[..bytes.len()]
}

fn mismatch(index: u16, found: u64, data: &mut [u8; READ_BYTES_MAX]) -> verb::Reply<'_> {
    verb::Reply {
        status: verb::Status::Mismatch,
        index,
        data: fill(data, &found.to_le_bytes()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use covalent_protocol::verb::{Status, Word};
    use proptest::prelude::*;

    use super::*;

    const RKEY: u32 = 7;

    fn engine(rights: Rights, size_bytes: u64) -> VerbEngine {
        let mut engine = VerbEngine::new();
        let (memory, _fd) = RegionMemory::create(size_bytes).unwrap();
        engine
            .insert(NewRegion {
                session: 1,
                name: "bank".into(),
                rkey: RKEY,
                rights,
                memory,
            })
            .unwrap();
        engine
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
        engine: &mut VerbEngine,
        offset: u64,
        verb: Verb<'_>,
    ) -> Result<(Status, u16, Vec<u8>), Refusal> {
        let bytes = encode(offset, verb);
        engine.admit(&bytes)?;
        let mut reply = covalent_protocol::Reply::new();
        engine.execute(&bytes, &mut reply);
        let reply = verb::Reply::decode(reply.as_bytes()).unwrap();
        Ok((reply.status, reply.index, reply.data.to_vec()))
    }

    fn word(engine: &mut VerbEngine, offset: u64, verb: Verb<'_>) -> (Status, u64) {
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
        assert_eq!(engine.executed()["compare_and_swap"], 2);
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
        assert_eq!(all.admit(&stranger), Err(Refusal::UnknownRegion));
        assert_eq!(all.admit(&[]), Err(Refusal::BadRequest));
        assert_eq!(all.admit(&[99; 16]), Err(Refusal::Unsupported));
        assert_eq!(all.refused()["out_of_bounds"], 5);
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
        engine.admit(&bytes).unwrap();
        assert_eq!(engine.remove_session(2).len(), 0);
        assert_eq!(engine.remove_session(1).len(), 1);
        let mut reply = covalent_protocol::Reply::new();
        engine.execute(&bytes, &mut reply);
        assert_eq!(
            verb::Reply::decode(reply.as_bytes()).unwrap().status,
            Status::Gone
        );
        assert_eq!(engine.executed()["swap"], 0);
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
            let mut reply = covalent_protocol::Reply::new();
            let _ = engine.admit(&bytes);
            engine.execute(&bytes, &mut reply);
        }
    }
}
