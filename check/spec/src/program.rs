//! The program around a node. It keeps books of its requests and their ends.

use covalent_protocol::{
    DownReason, ExchangeId, Execution, Host, LinkEvent, Mode, Outcome, Refusal, Reply,
};

use crate::{
    mutant::Mutant,
    scenario::{Scenario, Wish},
};

/// The end of a wish, as reported to its initiator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reported {
    /// Committed, with the reply that its execution gave.
    Done,
    /// Refused.
    Dropped,
    /// The peer restarted.
    Unknown,
}

/// A violation in the calls of a program, whatever the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Breach {
    /// An exchange was admitted twice.
    AdmittedTwice,
    /// An exchange was executed or reversed that was not admitted, or that had been settled.
    SettledTwice,
    /// An end was reported twice, or without a waiting caller.
    ReportedTwice,
    /// The request is not the one that was made.
    ForeignRequest,
    /// The reply is not the one that the execution gave.
    ForeignReply,
    /// An honest end was taken for a liar.
    FalseAccusation(DownReason),
}

/// The books of one node's program.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Program {
    wishes: Vec<Wish>,
    request_bytes: u16,
    mutant: Mutant,
    /// Wishes of this node that were submitted, by number.
    pub submitted: Vec<bool>,
    /// Wishes of this node that ended.
    pub reported: Vec<Option<Reported>>,
    /// Wishes of this node for whose end no caller waits any more.
    pub canceled: Vec<bool>,
    /// Attempts at each wish that this program received.
    pub attempts: Vec<u8>,
    /// Times that it executed each wish.
    pub executed: Vec<u8>,
    /// The exchanges that it executed.
    pub committed: Vec<ExchangeId>,
    /// The two-phase exchanges among them.
    pub committed_in_two: Vec<ExchangeId>,
    /// The exchanges that it reversed.
    pub reversed: Vec<ExchangeId>,
    /// Exchanges that were admitted and neither executed nor reversed.
    pub admitted: Vec<ExchangeId>,
    /// Failures of each link, but for those that this end guessed.
    pub failures: Vec<u8>,
    /// Failures by silence, or because other links were faster: a guess if only time was lost. Each
    /// also costs the peer one failure.
    pub guesses: u8,
    /// Whether cables are moved.
    moves: bool,
    /// A link failed with exchanges of this node open on it; for a mutant that cares.
    pub lost_sight: bool,
    /// The first thing that was wrong.
    pub breach: Option<Breach>,
}

impl Program {
    /// Books without an entry.
    #[must_use]
    pub fn new(scenario: &Scenario, wishes: &[Wish]) -> Self {
        Self {
            wishes: wishes.to_vec(),
            request_bytes: scenario.request_bytes,
            mutant: scenario.mutant,
            submitted: vec![false; wishes.len()],
            reported: vec![None; wishes.len()],
            canceled: vec![false; wishes.len()],
            attempts: vec![0; wishes.len()],
            executed: vec![0; wishes.len()],
            committed: Vec::new(),
            committed_in_two: Vec::new(),
            reversed: Vec::new(),
            admitted: Vec::new(),
            failures: vec![0; scenario.cables.len()],
            guesses: 0,
            moves: scenario.budget.moves > 0,
            lost_sight: false,
            breach: None,
        }
    }

    /// Returns the request that a wish sends. Every byte identifies the wish.
    #[must_use]
    pub fn request(&self, wish: usize) -> Vec<u8> {
        vec![wish as u8; usize::from(self.request_bytes)]
    }

    const fn wish(payload: &[u8]) -> usize {
        payload[0] as usize
    }

    /// Checks that an executed, reversed or refused request is the original one, byte for byte.
    fn check_request(&mut self, payload: &[u8]) -> usize {
        let wish = Self::wish(payload);
        if payload != self.request(wish) {
            self.record(Breach::ForeignRequest);
        }
        wish
    }

    fn record(&mut self, breach: Breach) {
        self.breach.get_or_insert(breach);
    }

    fn settle(&mut self, id: &ExchangeId) {
        match self.admitted.iter().position(|admitted| admitted == id) {
            Some(at) => drop(self.admitted.remove(at)),
            None => self.record(Breach::SettledTwice),
        }
    }

    /// The order in which exchanges were settled changes nothing that follows.
    fn remember(list: &mut Vec<ExchangeId>, id: &ExchangeId) {
        let key = |id: &ExchangeId| (id.peer, id.port, id.slot, id.sequence, id.epoch);
        let at = list.partition_point(|other| key(other) < key(id));
        list.insert(at, *id);
    }

    fn deliver(&mut self, id: &ExchangeId, wish: usize) {
        self.executed[wish] += 1;
        Self::remember(&mut self.committed, id);
        if self.wishes[wish].mode == Mode::TwoPhase {
            Self::remember(&mut self.committed_in_two, id);
        }
    }

    /// The deliberate defect.
    #[must_use]
    pub const fn mutant(&self) -> Mutant {
        self.mutant
    }

    /// Whether a caller waits for the end of any wish.
    #[must_use]
    pub fn waits(&self) -> bool {
        (0..self.submitted.len()).any(|wish| self.waits_for(wish))
    }

    /// Whether a caller waits for the end of this wish.
    #[must_use]
    pub fn waits_for(&self, wish: usize) -> bool {
        self.submitted[wish] && self.reported[wish].is_none() && !self.canceled[wish]
    }

    /// No caller waits any more.
    pub fn cancel(&mut self) {
        for wish in 0..self.submitted.len() {
            self.canceled[wish] |= self.waits_for(wish);
        }
    }

    /// The node and this program lose their memory. The executions stay in the books.
    pub fn restart(&mut self) {
        self.admitted.clear();
        for (reported, submitted) in self.reported.iter_mut().zip(&self.submitted) {
            if *submitted && reported.is_none() {
                *reported = Some(Reported::Unknown);
            }
        }
    }
}

impl Host for Program {
    fn admit(&mut self, id: &ExchangeId, mode: Mode, payload: &[u8]) -> Result<(), Refusal> {
        if self.admitted.contains(id) || self.committed.contains(id) {
            self.record(Breach::AdmittedTwice);
        }
        let wish = self.check_request(payload);
        self.attempts[wish] += 1;
        if self.attempts[wish] == self.wishes[wish].refused_attempt {
            return Err(Refusal::NoResources);
        }
        Self::remember(&mut self.admitted, id);
        if self.mutant == Mutant::DeliverAt1 && mode == Mode::TwoPhase {
            self.deliver(id, wish);
        }
        Ok(())
    }

    fn execute(&mut self, id: &ExchangeId, payload: &[u8], reply: &mut Reply) -> Execution {
        self.settle(id);
        let wish = self.check_request(payload);
        if self.mutant != Mutant::DeliverAt1 || self.wishes[wish].mode == Mode::OnePhase {
            self.deliver(id, wish);
        }
        let _fits = reply.set(&[!payload[0], self.attempts[wish]]);
        Execution::Done
    }

    fn reverse(&mut self, id: &ExchangeId, payload: &[u8]) {
        self.check_request(payload);
        if self.mutant != Mutant::KeepReserved {
            self.settle(id);
        }
        Self::remember(&mut self.reversed, id);
    }

    fn complete(&mut self, token: u64, outcome: Outcome<'_>) {
        let wish = token as usize;
        let reported = match outcome {
            Outcome::Committed(reply) => {
                if reply.first() != Some(&!(wish as u8)) {
                    self.record(Breach::ForeignReply);
                }
                Reported::Done
            }
            Outcome::Refused(_) => Reported::Dropped,
            Outcome::PeerRestarted => Reported::Unknown,
        };
        if self.reported[wish].replace(reported).is_some() || self.canceled[wish] {
            self.record(Breach::ReportedTwice);
        }
    }

    fn in_doubt(&mut self, token: u64, _id: &ExchangeId) {
        if self.reported[token as usize].is_some() {
            self.record(Breach::ReportedTwice);
        }
    }

    fn link_event(&mut self, event: LinkEvent) {
        let LinkEvent::Down { port, reason, open } = event else {
            return;
        };
        self.lost_sight |= open > 0 && self.mutant == Mutant::FireAndForget;
        match reason {
            DownReason::PeerMoved if self.moves => self.failures[usize::from(port)] += 1,
            DownReason::PeerSilent | DownReason::PeerRttExceeded | DownReason::Unreflected => {
                self.guesses += 1;
            }
            DownReason::Violation
            | DownReason::ReflectionMismatch
            | DownReason::Unanswered
            | DownReason::PeerMoved
            | DownReason::TransmitFailed => self.record(Breach::FalseAccusation(reason)),
            _ => self.failures[usize::from(port)] += 1,
        }
    }
}
