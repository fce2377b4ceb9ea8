//! The program of a simulated node: it executes requests, and shows all events to the witness.

use covalent_protocol::{
    Answer, ExchangeId, Execution, Host, LinkEvent, Mode, Moment, Outcome, Refusal, Reply, verb,
};
use fastrand::Rng;

use crate::{
    book::NodeIncarnation,
    cable::Cable,
    fact::{Fact, Place},
    liar::LIAR_GUID,
    mutant::Mutant,
    operation::Operation,
    payload,
    region::{self, Region},
    witness::Witness,
};

/// Bit that distinguishes the number of a query from the token of an exchange.
pub(crate) const QUESTION: u64 = 1 << 63;

/// A node's program during one call.
pub(crate) struct Program<'a> {
    pub node: usize,
    pub witness: &'a mut Witness,
    pub rng: &'a mut Rng,
    pub cables: &'a [Cable],
    pub mutant: Option<Mutant>,
    /// The node's clock, as last reported.
    pub clock: u64,
    /// How many requests in a thousand are refused.
    pub refused: u32,
    /// Actions after the call has returned.
    pub deferred: &'a mut Vec<Deferred>,
}

/// Action of a program after its node has returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deferred {
    /// A link of it failed.
    LinkFailed,
    /// It takes an exchange in doubt for committed.
    Guess(u64),
}

impl Program<'_> {
    fn node_incarnation(&self) -> NodeIncarnation {
        self.witness.book.node_incarnation(self.node)
    }

    fn region(&mut self) -> &mut Region {
        &mut self.witness.regions[self.node]
    }

    fn writes(&self) -> u64 {
        region::writes(&self.witness.regions[self.node])
    }

    /// Whether an initiator sent this request to this node. If not, shows that to the witness, and
    /// no verb is executed for it.
    fn is_requested(&mut self, payload: &[u8], what: &'static str) -> bool {
        let requested = self.witness.book.of_request(payload);
        let is_requested = requested.is_some_and(|(_, exchange)| {
            exchange.request == payload && exchange.to.node == self.node
        });
        if !is_requested {
            let at = self.node_incarnation();
            self.witness.see(Fact::Invented { at, what, payload });
        }
        is_requested
    }

    /// Returns the verb to execute for a request: the one that it carries, unless a mutant changes
    /// it. A changed verb first releases the words of the original one.
    fn verb_of(&mut self, id: &ExchangeId, payload: &[u8]) -> Vec<u8> {
        let verb = payload::verb_of(payload).unwrap_or_default();
        if self.mutant == Some(Mutant::HalvesTransfers)
            && self.rng.u8(..8) == 0
            && let Some((_, exchange)) = self.witness.book.of_request(payload)
            && let Operation::Transfer(mut changes) = exchange.operation.clone()
        {
            changes.pop();
            self.region().reverse(id, verb);
            return Operation::Transfer(changes).encode();
        }
        verb.to_vec()
    }
}

/// Puts a clock into a reply that ignores other nodes: it counts the executions here.
fn stamp_alone(reply: &mut Reply) {
    let bytes = reply.as_bytes().to_vec();
    let Ok(answer) = verb::Reply::decode(&bytes) else {
        return;
    };
    let moment = Moment {
        clock: answer.moment.count,
        ..answer.moment
    };
    let stamped = verb::Reply { moment, ..answer };
    reply.write_with(|space| stamped.encode(space).unwrap_or(0));
}

impl Host for Program<'_> {
    fn admit(&mut self, id: &ExchangeId, mode: Mode, payload: &[u8]) -> Result<(), Refusal> {
        if id.peer == LIAR_GUID {
            // The liar sends no request that this program supports.
            return Err(Refusal::BadRequest);
        }
        if !self.is_requested(payload, "must admit") {
            if self.rng.bool() {
                return Err(Refusal::BadRequest);
            }
            if mode == Mode::TwoPhase {
                self.witness.inventions.insert((self.node, *id));
            }
            return Ok(());
        }
        let at = self.node_incarnation();
        let before = self.writes();
        let admitted = if self.rng.u32(..1000) < self.refused {
            Err(Refusal::NoResources)
        } else {
            let verb = payload::verb_of(payload).unwrap_or_default();
            self.region().admit(id, mode, verb)
        };
        if admitted.is_ok()
            && mode == Mode::TwoPhase
            && self.mutant == Some(Mutant::ExecutesAtMessageOne)
        {
            let verb = self.verb_of(id, payload);
            self.region().execute(id, &verb, &mut Reply::new());
        }
        let wrote = self.writes() != before;
        self.witness.see(match admitted {
            Err(refusal) => Fact::Declined {
                at,
                payload,
                refusal,
                wrote,
            },
            Ok(()) => Fact::Admitted {
                at,
                id,
                mode,
                payload,
                wrote,
            },
        });
        admitted
    }

    fn execute(&mut self, id: &ExchangeId, payload: &[u8], reply: &mut Reply) -> Execution {
        if !self.is_requested(payload, "must execute") {
            self.witness.inventions.remove(&(self.node, *id));
            return Execution::Done;
        }
        let at = self.node_incarnation();
        let writes_before = self.writes();
        let verb = self.verb_of(id, payload);
        self.region().execute(id, &verb, reply);
        if self.mutant == Some(Mutant::StampsByItself) {
            stamp_alone(reply);
        }
        if let Some((token, exchange)) = self.witness.book.of_request(payload) {
            payload::finish_reply(reply, token, at, exchange.reply_bytes);
        }
        let witness = &mut *self.witness;
        let last = witness.journals[self.node]
            .as_mut()
            .map(|journal| journal.append(&verb, &witness.regions[self.node]));
        self.witness.see(Fact::Executed {
            at,
            id,
            payload,
            reply: reply.as_bytes(),
            writes_before,
        });
        match last {
            Some(last) if self.mutant != Some(Mutant::AcknowledgesEarly) => {
                Execution::DurableAt(last)
            }
            _ => Execution::Done,
        }
    }

    fn reverse(&mut self, id: &ExchangeId, payload: &[u8]) {
        if self.mutant == Some(Mutant::KeepsReservations) {
            return;
        }
        if !self.is_requested(payload, "must reverse") {
            self.witness.inventions.remove(&(self.node, *id));
            return;
        }
        let at = self.node_incarnation();
        let before = self.writes();
        let verb = payload::verb_of(payload).unwrap_or_default();
        self.region().reverse(id, verb);
        let wrote = self.writes() != before;
        self.witness.see(Fact::Reversed {
            at,
            id,
            payload,
            wrote,
        });
    }

    fn on_clock(&mut self, clock: u64) {
        self.clock = clock;
    }

    fn complete(&mut self, token: u64, outcome: Outcome<'_>) {
        let by = self.node_incarnation();
        self.witness.see(Fact::Reported {
            by,
            token,
            outcome,
            clock: self.clock,
        });
    }

    fn answered(&mut self, token: u64, answer: Answer<'_>) {
        let by = self.node_incarnation();
        let question = token & !QUESTION;
        let requested = self.witness.book.question(question);
        let token = requested.map_or(u64::MAX, |requested| requested.token);
        let answer = match answer {
            Answer::Forgotten if self.mutant == Some(Mutant::DeniesForgotten) => Answer::Undone,
            answer => answer,
        };
        self.witness.see(Fact::Answered {
            by,
            question,
            token,
            answer,
            clock: self.clock,
        });
    }

    fn in_doubt(&mut self, token: u64, name: &ExchangeId) {
        let by = self.node_incarnation();
        if token & QUESTION != 0 {
            let question = token & !QUESTION;
            self.witness.see(Fact::QueryDoubted { by, question });
            return;
        }
        self.witness.see(Fact::Doubted { by, token, name });
        if self.mutant == Some(Mutant::GuessesInDoubt) {
            self.deferred.push(Deferred::Guess(token));
        }
    }

    fn path(&mut self, guid: u64, up: bool) {
        let by = self.node_incarnation();
        if guid != LIAR_GUID {
            self.witness.see(Fact::Path { by, peer: guid, up });
        }
    }

    fn link_event(&mut self, event: LinkEvent) {
        let port = event.port();
        if matches!(event, LinkEvent::Down { .. }) {
            self.deferred.push(Deferred::LinkFailed);
        }
        let mut places = (0..).zip(self.cables).flat_map(|(cable, both)| {
            (0..).zip(both.ends).map(move |(end, here)| Place {
                cable,
                end,
                node: here.node,
                port: here.port,
            })
        });
        if let Some(at) = places.find(|place| (place.node, place.port) == (self.node, port)) {
            self.witness.see(Fact::Link { at, event });
        }
    }
}
