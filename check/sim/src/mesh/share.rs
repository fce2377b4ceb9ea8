//! Memory that the applications of a node share: the production verb engine on a counter, a word to
//! swap, and a receive queue.

use covalent_protocol::{
    ExchangeId, Mode, Refusal, Reply,
    region::{
        Engine, Memory, Registration, Rights, SharedWords,
        queue::{HEAD_AT, Receiver},
    },
    verb::SEND_BYTES_MAX,
};

use super::errand::{self, Answer};

/// Key of the region with the counter and the word.
pub(super) const RKEY: u32 = 7;
/// Key of the receive queue.
pub(super) const QUEUE_RKEY: u32 = 8;
/// Where the counter lies.
pub(super) const COUNTER_AT: u64 = 0;
/// Where the word lies.
pub(super) const WORD_AT: u64 = 8;
/// Words of the receive queue, which sometimes fills up between two ticks.
const QUEUE_WORDS: usize = 512;

/// Memory that they share, and their knowledge of others.
#[derive(Debug)]
pub(super) struct Share {
    engine: Engine<SharedWords>,
    bank: SharedWords,
    inbox: SharedWords,
    receiver: Receiver,
    /// Value last read in the word of each node.
    pub seen: Vec<u64>,
}

impl Share {
    /// Of a node that has just started, in a mesh of so many.
    pub fn new(nodes: usize) -> Self {
        let mut engine = Engine::new();
        let bank = SharedWords::new(2);
        let inbox = SharedWords::new(QUEUE_WORDS);
        let receiver = Receiver::new(inbox.size_bytes());
        for (rkey, name, rights, memory) in [
            (RKEY, "bank", Rights::ALL, bank.clone()),
            (QUEUE_RKEY, "inbox", Rights::SEND, inbox.clone()),
        ] {
            let registered = engine.register(Registration {
                owner: 1,
                name: name.into(),
                rkey,
                rights,
                memory,
            });
            debug_assert!(registered.is_ok());
        }
        Self {
            engine,
            bank,
            inbox,
            receiver: receiver.unwrap_or_else(|| unreachable!("there is room for messages")),
            seen: vec![0; nodes],
        }
    }

    pub fn admit(&mut self, id: &ExchangeId, mode: Mode, request: &[u8]) -> Result<(), Refusal> {
        self.engine.admit(id, mode, errand::verb_of(request))
    }

    /// Executes a request, and answers with a mark.
    pub fn execute(
        &mut self,
        id: &ExchangeId,
        request: &[u8],
        mark: u64,
        reply: &mut Reply,
    ) -> Answer {
        self.engine.execute(id, errand::verb_of(request), reply);
        self.engine.take_delivered();
        let bytes = errand::reply(mark, reply.as_bytes());
        let fits = reply.set(&bytes);
        debug_assert!(fits);
        errand::answer_of(&bytes)
    }

    pub fn reverse(&mut self, id: &ExchangeId, request: &[u8]) {
        self.engine.reverse(id, errand::verb_of(request));
    }

    /// The oldest message that was not taken, which is taken.
    pub fn take(&mut self) -> Option<Vec<u8>> {
        let mut data = [0; SEND_BYTES_MAX];
        let Self {
            inbox, receiver, ..
        } = self;
        let taken = receiver.take(|at, bytes| inbox.read(at, bytes), &mut data);
        let received = taken.unwrap_or_else(|broken| unreachable!("{broken}"))?;
        inbox.swap(HEAD_AT, receiver.head());
        Some(data[..received.len].to_vec())
    }

    /// Words that open exchanges hold.
    pub const fn held_words(&self) -> usize {
        self.engine.reserved_words()
    }

    /// The counter and the word.
    pub fn words(&self) -> [u64; 2] {
        [COUNTER_AT, WORD_AT].map(|at| self.bank.load(at).unwrap_or(0))
    }

    /// Resets the counter to an earlier value. Only mutants use it.
    pub fn set_counter(&mut self, value: u64) {
        self.bank.swap(COUNTER_AT, value);
    }
}
