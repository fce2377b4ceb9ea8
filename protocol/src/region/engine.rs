//! Admission and execution.

use alloc::vec::Vec;

use super::{
    Memory, RegisterError, Registration,
    apply::apply,
    counts::VerbCounts,
    memory::WORD_BYTES,
    queue::Queue,
    reserve::{Reservations, WordKey},
    table::Regions,
    task::{Action, Task, operands},
};
use crate::{
    ExchangeId, Mode, Moment, Refusal, Reply,
    verb::{self, DecodeError, MultiCommit, RegionInfo, Request, VerbKind},
};

/// Default limit of words that exchanges may hold at a time.
const RESERVED_WORDS_MAX: usize = 4096;

/// The sender of messages of the node's own applications.
const OWN_NODE: u64 = 0;

/// Executes verbs on the regions of one lane. Its methods for verbs never allocate.
///
/// [`Engine::admit`], [`Engine::execute`] and [`Engine::reverse`] provide what a
/// [`Host`](crate::Host) needs for verbs of peers. [`Engine::run`] serves verbs of the node's own
/// applications.
#[derive(Debug, Clone)]
pub struct Engine<M> {
    regions: Regions<M>,
    reservations: Reservations,
    counts: VerbCounts,
    /// The task that was admitted in one phase and is executed next. It is decoded once and
    /// releases nothing.
    admitted: Option<Task>,
    /// Key of the receive queue that last got a message, until it is reported.
    delivered: Option<u32>,
}

impl<M: Memory> Default for Engine<M> {
    fn default() -> Self {
        Self::new()
    }
}

impl<M: Memory> Engine<M> {
    /// An engine without regions, where open exchanges may hold 4096 words.
    #[must_use]
    pub fn new() -> Self {
        Self::with_reserved_words(RESERVED_WORDS_MAX)
    }

    /// An engine without regions, where open exchanges may hold `words_max` words.
    #[must_use]
    pub fn with_reserved_words(words_max: usize) -> Self {
        Self {
            regions: Regions::new(),
            reservations: Reservations::new(words_max),
            counts: VerbCounts::new(),
            admitted: None,
            delivered: None,
        }
    }

    /// Takes a region in.
    ///
    /// # Errors
    /// The name or the key is in use, or it is no receive queue and grants its right.
    pub fn register(&mut self, region: Registration<M>) -> Result<(), RegisterError> {
        self.regions.insert(region)
    }

    /// Whether [`Engine::register`] would accept the region, for callers that need its memory
    /// otherwise.
    ///
    /// # Errors
    /// As [`Engine::register`].
    pub fn check_registration(&self, region: &Registration<M>) -> Result<(), RegisterError> {
        self.regions.check(region)
    }

    /// Forgets one region and hands its memory back.
    pub fn remove(&mut self, rkey: u32) -> Option<M> {
        let memory = self.regions.remove(rkey)?;
        self.reservations.forget(rkey);
        Some(memory)
    }

    /// Forgets the regions of `owner` and hands their memory back.
    pub fn remove_owner(&mut self, owner: u64) -> Vec<M> {
        let removed = self.regions.remove_owner(owner).into_iter();
        removed
            .map(|(rkey, memory)| {
                self.reservations.forget(rkey);
                memory
            })
            .collect()
    }

    /// The memory of the region with this key.
    #[must_use]
    pub fn memory(&self, rkey: u32) -> Option<&M> {
        Some(&self.regions.get(rkey)?.memory)
    }

    /// The memory of the receive queue to which the last executed verb appended a message. Returned
    /// once. Its owner may sleep.
    #[inline]
    pub fn take_delivered(&mut self) -> Option<&M> {
        let rkey = self.delivered.take()?;
        self.memory(rkey)
    }

    /// Words that open exchanges hold: none when all have ended.
    #[must_use]
    pub const fn reserved_words(&self) -> usize {
        self.reservations.words()
    }

    /// Whether `request` of the exchange `id` may be executed. The request must decode, its region
    /// must exist and grant the right, and the access must lie within the region. No open exchange
    /// may hold a touched word in an incompatible mode. A receive queue must have space for the
    /// message. In [`Mode::TwoPhase`] the exchange holds the words that it will change, or that
    /// space, from now on. A refusal is counted.
    ///
    /// As [`Host::admit`](crate::Host::admit): the caller later executes or reverses each admitted
    /// exchange with the same `id` and the same `request`. In [`Mode::OnePhase`] it executes the
    /// exchange at once.
    ///
    /// # Errors
    /// The reason of the refusal.
    pub fn admit(&mut self, _id: &ExchangeId, mode: Mode, request: &[u8]) -> Result<(), Refusal> {
        let admitted = self.check(request).and_then(|task| {
            if mode == Mode::TwoPhase && task.action == Action::Send {
                if let Some(queue) = self.queue_mut(task.rkey) {
                    queue.reserve(operands(request).len());
                }
                return Ok(());
            }
            if mode == Mode::TwoPhase && task.hold().is_some() {
                return self.reserve(&task, request);
            }
            self.check_words(&task, request)?;
            if mode == Mode::OnePhase {
                self.admitted = Some(task);
            }
            Ok(())
        });
        admitted.inspect_err(|&refusal| self.counts.count_refused(refusal))
    }

    /// Executes the admitted `request` of the exchange `id` and writes its reply. If the region was
    /// withdrawn since, the reply is "gone".
    pub fn execute(&mut self, id: &ExchangeId, request: &[u8], reply: &mut Reply) {
        match self.admitted.take() {
            Some(task) => self.apply(&task, request, id.peer, reply),
            None => match Task::read(request) {
                Ok(task) => {
                    self.release(&task, request);
                    self.apply(&task, request, id.peer, reply);
                }
                Err(_) => answer_gone(reply),
            },
        }
    }

    /// The `request` of the exchange `id`, admitted in [`Mode::TwoPhase`], will never be executed.
    pub fn reverse(&mut self, _id: &ExchangeId, request: &[u8]) {
        if let Ok(task) = Task::read(request) {
            self.release(&task, request);
        }
    }

    /// Executes `request` of one of the node's own applications at once and writes its reply.
    ///
    /// # Errors
    /// Why it was not executed; counted.
    pub fn run(&mut self, request: &[u8], reply: &mut Reply) -> Result<(), Refusal> {
        let checked = self.check(request).and_then(|task| {
            self.check_words(&task, request)?;
            Ok(task)
        });
        match checked {
            Ok(task) => {
                self.apply(&task, request, OWN_NODE, reply);
                Ok(())
            }
            Err(refusal) => {
                self.counts.count_refused(refusal);
                Err(refusal)
            }
        }
    }

    /// Verbs executed, by verb. A conditional verb counts as the verb that it performs if its
    /// condition is met.
    pub fn executed(&self) -> impl Iterator<Item = (VerbKind, u64)> {
        self.counts.executed()
    }

    /// Requests refused, by reason.
    pub fn refused(&self) -> impl Iterator<Item = (Refusal, u64)> {
        self.counts.refused()
    }

    /// Reads a request and checks it, but for the words that others hold.
    #[inline]
    fn check(&self, request: &[u8]) -> Result<Task, Refusal> {
        match Task::read_update(request) {
            Some(task) => self.check_place(&task, request).map(|_| task),
            None => self.check_any(request),
        }
    }

    /// As [`Engine::check`], for any request.
    fn check_any(&self, request: &[u8]) -> Result<Task, Refusal> {
        let decoded = Request::decode(request).map_err(refusal_of)?;
        let task = Task::new(&decoded);
        if let verb::Verb::Lookup { name } = decoded.verb {
            return match self.regions.find(name) {
                Some(_) => Ok(task),
                None => Err(Refusal::UnknownRegion),
            };
        }
        let size_bytes = self.check_place(&task, request)?;
        if let verb::Verb::Send { data } = decoded.verb
            && let Some(region) = self.regions.get(task.rkey)
            && let Some(queue) = &region.queue
        {
            queue.check_room(&region.memory, data.len())?;
        }
        if let verb::Verb::MultiCommit(words) = &decoded.verb {
            if words
                .iter()
                .any(|word| u64::from(word.offset) + WORD_BYTES > size_bytes)
            {
                return Err(Refusal::OutOfBounds);
            }
            if !are_distinct(words) {
                return Err(Refusal::Duplicate);
            }
        }
        Ok(task)
    }

    /// Checks that the region of `task` exists, grants the right and contains the range. Returns
    /// its size in bytes.
    #[inline]
    fn check_place(&self, task: &Task, request: &[u8]) -> Result<u64, Refusal> {
        let region = self.regions.get(task.rkey).ok_or(Refusal::UnknownRegion)?;
        if !task.is_allowed(region.rights) {
            return Err(Refusal::NoRight);
        }
        let size_bytes = region.memory.size_bytes();
        // Offsets have 32 bits, so their sum with a length has no more than 64.
        if task.offset + task.touched_bytes(request) > size_bytes {
            return Err(Refusal::OutOfBounds);
        }
        Ok(size_bytes)
    }

    /// Whether no word that `task` touches is held by others in a way that does not go with it.
    fn check_words(&self, task: &Task, request: &[u8]) -> Result<(), Refusal> {
        if self.reservations.words() == 0 {
            return Ok(());
        }
        task.try_for_each_word(request, |word| {
            let key = WordKey::new(task.rkey, word);
            match task.hold() {
                Some(hold) => self.reservations.try_change(key, hold).map(drop),
                None => self.reservations.try_read(key),
            }
        })
    }

    /// Holds the words that `task`, which was checked, will change.
    fn reserve(&mut self, task: &Task, request: &[u8]) -> Result<(), Refusal> {
        let Self { reservations, .. } = self;
        let Some(hold) = task.hold() else {
            return Ok(());
        };
        let mut new_words = 0;
        task.try_for_each_word(request, |word| {
            let is_held = reservations.try_change(WordKey::new(task.rkey, word), hold)?;
            new_words += usize::from(!is_held);
            Ok(())
        })?;
        if !reservations.has_room(new_words) {
            return Err(Refusal::NoResources);
        }
        task.try_for_each_word(request, |word| {
            reservations.hold(WordKey::new(task.rkey, word), hold);
            Ok(())
        })
    }

    /// Releases the words or the queue space that `task` holds.
    fn release(&mut self, task: &Task, request: &[u8]) {
        if task.action == Action::Send
            && let Some(queue) = self.queue_mut(task.rkey)
        {
            queue.release(operands(request).len());
        }
        if task.hold().is_none() {
            return;
        }
        let released = task.try_for_each_word(request, |word| {
            self.reservations.release(WordKey::new(task.rkey, word));
            Ok::<(), core::convert::Infallible>(())
        });
        match released {
            Ok(()) => {}
        }
    }

    fn queue_mut(&mut self, rkey: u32) -> Option<&mut Queue> {
        self.regions.get_mut(rkey)?.queue.as_mut()
    }

    /// Executes a checked task for the node `sender`.
    fn apply(&mut self, task: &Task, request: &[u8], sender: u64, reply: &mut Reply) {
        let Self { regions, .. } = self;
        let mut done = None;
        let moment = reply.moment();
        reply.write_with(|space| {
            done = match task.action {
                Action::Lookup => look_up(regions, request, space),
                Action::Send => send(regions, task.rkey, sender, moment, request, space),
                _ => regions
                    .get_mut(task.rkey)
                    .and_then(|region| apply(&mut region.memory, task, request, space)),
            };
            done.unwrap_or(0)
        });
        match done {
            Some(_) => {
                if task.action == Action::Send {
                    self.delivered = Some(task.rkey);
                }
                self.counts.count_executed(task.kind);
            }
            None => answer_gone(reply),
        }
        reply.amend(|reply| verb::write_moment(reply, moment));
    }
}

fn look_up<M: Memory>(regions: &Regions<M>, request: &[u8], space: &mut [u8]) -> Option<usize> {
    let name = core::str::from_utf8(operands(request)).ok()?;
    let (rkey, region) = regions.find(name)?;
    let info = RegionInfo {
        size_bytes: region.memory.size_bytes(),
        rkey,
        rights: region.rights.to_byte(),
    };
    verb::Reply::ok(&info.to_bytes()).encode(space).ok()
}

fn send<M: Memory>(
    regions: &mut Regions<M>,
    rkey: u32,
    sender: u64,
    moment: Moment,
    request: &[u8],
    space: &mut [u8],
) -> Option<usize> {
    let region = regions.get_mut(rkey)?;
    let queue = region.queue.as_mut()?;
    queue.append(&mut region.memory, sender, moment, operands(request))?;
    verb::Reply::ok(&[]).encode(space).ok()
}

fn answer_gone(reply: &mut Reply) {
    reply.write_with(|space| verb::Reply::gone().encode(space).unwrap_or(0));
}

const fn refusal_of(error: DecodeError) -> Refusal {
    match error {
        DecodeError::UnknownOperation(_) | DecodeError::UnknownFlags(_) => Refusal::Unsupported,
        DecodeError::Misaligned { .. } => Refusal::Misaligned,
        DecodeError::Length => Refusal::BadLength,
        DecodeError::Truncated
        | DecodeError::Name
        | DecodeError::Reserved
        | DecodeError::UnknownStatus(_) => Refusal::BadRequest,
    }
}

/// Whether no word is named twice: "all as expected, then all changed" has no meaning for such a
/// list.
fn are_distinct(words: &MultiCommit<'_>) -> bool {
    let offsets = || words.iter().map(|word| word.offset);
    // Most lists are sorted, and then one look at each is enough.
    let ascends = offsets().zip(offsets().skip(1)).all(|(a, b)| a < b);
    ascends
        || offsets()
            .enumerate()
            .all(|(at, offset)| offsets().take(at).all(|other| other != offset))
}
