//! The program around a simulated node: it executes, and lets the witness see everything.

use covalent_protocol::{
    Answer, ExchangeId, Execution, Host, LinkEvent, Mode, Moment, Outcome, Refusal, Reply, verb,
};
use fastrand::Rng;

use crate::{
    ask::Ask,
    book::Life,
    cable::Cable,
    fact::{Fact, Place},
    liar::LIAR_GUID,
    mutant::Mutant,
    payload,
    region::{self, Region},
    witness::Witness,
};

/// What tells the number of a question from the token of an exchange.
pub(crate) const QUESTION: u64 = 1 << 63;

/// A node's program during one call.
pub(crate) struct Program<'a> {
    pub node: usize,
    pub witness: &'a mut Witness,
    pub rng: &'a mut Rng,
    pub cables: &'a [Cable],
    pub mutant: Option<Mutant>,
    /// The node's clock, as it was told last.
    pub clock: u64,
    /// How many requests in a thousand are refused.
    pub refused: u32,
    /// What the program does when the call has returned.
    pub afterwards: &'a mut Vec<Afterwards>,
}

/// What a program does when its node has returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Afterwards {
    /// A link of it failed.
    LinkFailed,
    /// It takes what is in doubt for done.
    Guess(u64),
}

impl Program<'_> {
    fn life(&self) -> Life {
        self.witness.book.life(self.node)
    }

    fn region(&mut self) -> &mut Region {
        &mut self.witness.regions[self.node]
    }

    fn writes(&self) -> u64 {
        region::writes(&self.witness.regions[self.node])
    }

    /// Whether somebody asked this node for it. Says so if not: no verb is executed for it.
    fn is_asked_for(&mut self, payload: &[u8], what: &'static str) -> bool {
        let asked = self.witness.book.of_request(payload);
        let is_asked_for = asked.is_some_and(|(_, exchange)| {
            exchange.request == payload && exchange.to.node == self.node
        });
        if !is_asked_for {
            let at = self.life();
            self.witness.see(Fact::Invented { at, what, payload });
        }
        is_asked_for
    }

    /// The verb that is executed for a request: the one that it carries, if nothing is broken on purpose. Then the words
    /// of the one that it carries are let go of before.
    fn verb_of(&mut self, id: &ExchangeId, payload: &[u8]) -> Vec<u8> {
        let verb = payload::verb_of(payload).unwrap_or_default();
        if self.mutant == Some(Mutant::HalvesTransfers)
            && self.rng.u8(..8) == 0
            && let Some((_, exchange)) = self.witness.book.of_request(payload)
            && let Ask::Transfer(mut changes) = exchange.ask.clone()
        {
            changes.pop();
            self.region().reverse(id, verb);
            return Ask::Transfer(changes).encode();
        }
        verb.to_vec()
    }
}

/// Puts a clock into a reply that hears nobody: it counts what is executed here.
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
            // It asks for nothing that this program does.
            return Err(Refusal::BadRequest);
        }
        if !self.is_asked_for(payload, "is to keep or to do") {
            if self.rng.bool() {
                return Err(Refusal::BadRequest);
            }
            if mode == Mode::TwoPhase {
                self.witness.inventions.insert((self.node, *id));
            }
            return Ok(());
        }
        let at = self.life();
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
        if !self.is_asked_for(payload, "is to do") {
            self.witness.inventions.remove(&(self.node, *id));
            return Execution::Done;
        }
        let at = self.life();
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
        if !self.is_asked_for(payload, "is to let go of") {
            self.witness.inventions.remove(&(self.node, *id));
            return;
        }
        let at = self.life();
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
        let by = self.life();
        self.witness.see(Fact::Told {
            by,
            token,
            outcome,
            clock: self.clock,
        });
    }

    fn answered(&mut self, token: u64, answer: Answer<'_>) {
        let by = self.life();
        let question = token & !QUESTION;
        let asked = self.witness.book.question(question);
        let token = asked.map_or(u64::MAX, |asked| asked.token);
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
        let by = self.life();
        if token & QUESTION != 0 {
            let question = token & !QUESTION;
            self.witness.see(Fact::DoubtedAgain { by, question });
            return;
        }
        self.witness.see(Fact::Doubted { by, token, name });
        if self.mutant == Some(Mutant::GuessesInDoubt) {
            self.afterwards.push(Afterwards::Guess(token));
        }
    }

    fn path(&mut self, guid: u64, up: bool) {
        let by = self.life();
        if guid != LIAR_GUID {
            self.witness.see(Fact::Path { by, peer: guid, up });
        }
    }

    fn link_event(&mut self, event: LinkEvent) {
        let port = event.port();
        if matches!(event, LinkEvent::Down { .. }) {
            self.afterwards.push(Afterwards::LinkFailed);
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
