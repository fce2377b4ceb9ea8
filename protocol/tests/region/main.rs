//! The engine: the effects of verbs on a region, refusals, and words that are busy meanwhile.
#![allow(clippy::unwrap_used)]

mod busy;
mod messages;
mod neighbors;
mod oracle;
mod verbs;

use covalent_protocol::{
    ExchangeId, Mode, Refusal, Reply,
    region::{Engine, Memory as _, Registration, Rights, Words},
    verb::{self, Request, Status, Verb, VerbKind},
};

/// Key of the region `bank` of [`engine`].
const RKEY: u32 = 7;

/// Exchanges of different initiators, and of one after the other.
fn exchange(number: u32) -> ExchangeId {
    ExchangeId {
        peer: u64::from(number % 3),
        port: 0,
        epoch: 1,
        slot: number as u8,
        sequence: number,
    }
}

/// An engine with one region of `words` words.
fn engine(rights: Rights, words: usize) -> Engine<Words> {
    let mut engine = Engine::new();
    register(&mut engine, RKEY, rights, words);
    engine
}

fn register(engine: &mut Engine<Words>, rkey: u32, rights: Rights, words: usize) {
    let registration = Registration {
        owner: u64::from(rkey),
        name: if rkey == RKEY { "bank" } else { "other" }.into(),
        rkey,
        rights,
        memory: Words::new(words),
    };
    engine.register(registration).unwrap();
}

fn encode(offset: u32, verb: Verb<'_>) -> Vec<u8> {
    let (rkey, offset) = match verb {
        Verb::Lookup { .. } => (0, 0),
        Verb::MultiCommit(_) | Verb::Send { .. } => (RKEY, 0),
        _ => (RKEY, offset),
    };
    let request = Request { rkey, offset, verb };
    let mut bytes = vec![0; request.encoded_bytes()];
    request.encode(&mut bytes).unwrap();
    bytes
}

/// The reply to a verb.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Answer {
    status: Status,
    index: u16,
    data: Vec<u8>,
}

impl Answer {
    fn ok(data: &[u8]) -> Self {
        Self {
            status: Status::Ok,
            index: 0,
            data: data.to_vec(),
        }
    }

    fn old(word: u64) -> Self {
        Self::ok(&word.to_le_bytes())
    }

    fn mismatch(index: u16, found: u64) -> Self {
        Self {
            status: Status::Mismatch,
            index,
            ..Self::old(found)
        }
    }

    fn of(reply: &Reply) -> Self {
        let reply = verb::Reply::decode(reply.as_bytes()).unwrap();
        Self {
            status: reply.status,
            index: reply.index,
            data: reply.data.to_vec(),
        }
    }
}

/// Executes an admitted request.
fn execute(engine: &mut Engine<Words>, id: &ExchangeId, request: &[u8]) -> Answer {
    let mut reply = Reply::new();
    engine.execute(id, request, &mut reply);
    Answer::of(&reply)
}

/// Admits and executes in one phase.
fn run(engine: &mut Engine<Words>, offset: u32, verb: Verb<'_>) -> Result<Answer, Refusal> {
    let (id, request) = (exchange(1000), encode(offset, verb));
    engine.admit(&id, Mode::OnePhase, &request)?;
    Ok(execute(engine, &id, &request))
}

/// As an application of the own node.
fn run_here(engine: &mut Engine<Words>, offset: u32, verb: Verb<'_>) -> Result<Answer, Refusal> {
    let mut reply = Reply::new();
    engine.run(&encode(offset, verb), &mut reply)?;
    Ok(Answer::of(&reply))
}

fn word(engine: &Engine<Words>, offset: u64) -> u64 {
    engine.memory(RKEY).unwrap().load(offset).unwrap()
}

fn executed(engine: &Engine<Words>, verb: VerbKind) -> u64 {
    engine.executed().find(|(of, _)| *of == verb).unwrap().1
}

fn refused(engine: &Engine<Words>, refusal: Refusal) -> u64 {
    engine.refused().find(|(of, _)| *of == refusal).unwrap().1
}
