//! Executes verbs: [`covalent_protocol::region`] on memory that applications share with this
//! process.

use covalent_api::{request::Rights, status::Causes};
use covalent_pipe::region::RegionMemory;
use covalent_protocol::{
    ExchangeId, Mode, Refusal, Reply,
    region::{self, Engine, Memory, Registration},
};

/// A region to take in.
#[derive(Debug)]
pub struct NewRegion {
    /// The session.
    pub session: u64,
    /// Name on the node.
    pub name: String,
    /// The key that verbs must show.
    pub rkey: u32,
    /// The operations that verbs may perform on it.
    pub rights: Rights,
    /// Whether a journal records the changes that verbs make to it.
    pub durable: bool,
    /// The memory.
    pub memory: RegionMemory,
}

/// Executes verbs on the regions of one lane. Only that lane's thread uses it. It never allocates
/// for a verb.
#[derive(Debug, Default)]
pub struct VerbEngine(Engine<Shared>);

impl VerbEngine {
    /// An engine without regions.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a region of the session in slot `slot`.
    ///
    /// # Errors
    /// The name or the key is in use, or the region cannot be a receive queue. The memory is
    /// returned with the error, because freeing it takes longer than a lane may take.
    pub fn insert(&mut self, new: NewRegion, slot: usize) -> Result<(), (String, RegionMemory)> {
        let name = new.name.clone();
        if new.durable && new.rights.send {
            let why = format!(
                "region `{name}`: a receive queue cannot be durable, because no journal records \
                 the messages that its owner takes; send to a queue in memory, and keep durable \
                 data in a durable region"
            );
            return Err((why, new.memory));
        }
        let registration = Registration {
            name: new.name,
            rkey: new.rkey,
            rights: rights(new.rights),
            owner: new.session,
            memory: Shared {
                memory: new.memory,
                slot,
            },
        };
        match self.0.check_registration(&registration) {
            Ok(()) => {
                // It was looked at just now.
                let _ = self.0.register(registration);
                Ok(())
            }
            Err(error) => Err((
                format!("region `{name}`: {error}"),
                registration.memory.memory,
            )),
        }
    }

    /// Forgets one region and hands its memory back.
    pub fn withdraw(&mut self, rkey: u32) -> Option<RegionMemory> {
        self.0.remove(rkey).map(|shared| shared.memory)
    }

    /// Forgets the regions of `session` and hands their memory back.
    pub fn remove_session(&mut self, session: u64) -> Vec<RegionMemory> {
        let memories = self.0.remove_owner(session);
        memories.into_iter().map(|shared| shared.memory).collect()
    }

    /// The memory of the region with this key.
    #[must_use]
    pub fn memory(&self, rkey: u32) -> Option<&RegionMemory> {
        self.0.memory(rkey).map(|shared| &shared.memory)
    }

    /// Returns the slot of the session whose receive queue got a message from the last executed
    /// verb. Reported once.
    #[inline]
    pub fn take_receiver(&mut self) -> Option<usize> {
        self.0.take_delivered().map(|shared| shared.slot)
    }

    /// As [`Engine::admit`].
    ///
    /// # Errors
    /// As [`Engine::admit`].
    #[inline]
    pub fn admit(&mut self, id: &ExchangeId, mode: Mode, request: &[u8]) -> Result<(), Refusal> {
        self.0.admit(id, mode, request)
    }

    /// As [`Engine::execute`].
    #[inline]
    pub fn execute(&mut self, id: &ExchangeId, request: &[u8], reply: &mut Reply) {
        self.0.execute(id, request, reply);
    }

    /// As [`Engine::reverse`].
    #[inline]
    pub fn reverse(&mut self, id: &ExchangeId, request: &[u8]) {
        self.0.reverse(id, request);
    }

    /// As [`Engine::run`].
    ///
    /// # Errors
    /// As [`Engine::run`].
    #[inline]
    pub fn run(&mut self, request: &[u8], reply: &mut Reply) -> Result<(), Refusal> {
        self.0.run(request, reply)
    }

    /// Verbs executed, by verb.
    #[must_use]
    pub fn executed(&self) -> Causes {
        let counts = self.0.executed();
        counts
            .map(|(verb, n)| (verb.as_str().to_owned(), n))
            .collect()
    }

    /// Requests refused, by reason.
    #[must_use]
    pub fn refused(&self) -> Causes {
        let counts = self.0.refused();
        counts
            .map(|(refusal, n)| (refusal.as_str().to_owned(), n))
            .collect()
    }
}

const fn rights(rights: Rights) -> region::Rights {
    region::Rights {
        read: rights.read,
        write: rights.write,
        atomic: rights.atomic,
        send: rights.send,
    }
}

/// Memory that the application which registered it may read and write meanwhile.
#[derive(Debug)]
struct Shared {
    memory: RegionMemory,
    /// Slot of the session that registered it.
    slot: usize,
}

impl Memory for Shared {
    fn size_bytes(&self) -> u64 {
        self.memory.size_bytes()
    }

    fn load(&self, offset: u64) -> Option<u64> {
        self.memory.load(offset)
    }

    fn swap(&mut self, offset: u64, value: u64) -> Option<u64> {
        self.memory.swap(offset, value)
    }

    fn compare_exchange(
        &mut self,
        offset: u64,
        expected: u64,
        new: u64,
    ) -> Option<Result<u64, u64>> {
        self.memory.compare_exchange(offset, expected, new)
    }

    fn fetch_add(&mut self, offset: u64, delta: u64) -> Option<u64> {
        self.memory.fetch_add(offset, delta)
    }

    fn fetch_and(&mut self, offset: u64, mask: u64) -> Option<u64> {
        self.memory.fetch_and(offset, mask)
    }

    fn fetch_or(&mut self, offset: u64, mask: u64) -> Option<u64> {
        self.memory.fetch_or(offset, mask)
    }

    fn fetch_xor(&mut self, offset: u64, mask: u64) -> Option<u64> {
        self.memory.fetch_xor(offset, mask)
    }

    fn read(&self, offset: u64, target: &mut [u8]) -> Option<()> {
        self.memory.read(offset, target)
    }

    fn write(&mut self, offset: u64, source: &[u8]) -> Option<()> {
        self.memory.write(offset, source)
    }
}
