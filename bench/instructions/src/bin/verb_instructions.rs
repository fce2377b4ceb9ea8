//! The work for one verb, counted in instructions: `scripts/count-instructions` runs this under
//! callgrind.
//!
//! `verb_instructions 1pc-alone|1pc|2pc VERBS` makes VERBS additions to 8 bytes between two nodes
//! in one thread, one at a time or 64. The count covers both ends, frames, CRCs and the engine that
//! executes the verb. There is no port and no application.

use std::{env, error::Error};

use covalent_protocol::{
    ExchangeId, Execution, FRAME_BYTES_MAX, Host, LinkEvent, Mode, Name, Node, NodeConfig, Outcome,
    Refusal, Reply,
    region::{Engine, Memory, Registration, Rights, Words},
    verb::{Request, Verb},
};

/// Verbs in flight, except in the mode with one at a time.
const OPEN: u64 = 64;

/// The key of the region that is added to.
const RKEY: u32 = 1;

struct End {
    engine: Engine<Words>,
    completed: u64,
}

impl End {
    fn new() -> Result<Self, Box<dyn Error>> {
        let mut engine = Engine::new();
        engine.register(Registration {
            name: "counter".to_owned(),
            rkey: RKEY,
            rights: Rights::ALL,
            owner: 0,
            memory: Words::new(1),
        })?;
        Ok(Self {
            engine,
            completed: 0,
        })
    }
}

impl Host for End {
    fn admit(&mut self, id: &ExchangeId, mode: Mode, payload: &[u8]) -> Result<(), Refusal> {
        self.engine.admit(id, mode, payload)
    }

    fn execute(&mut self, id: &ExchangeId, payload: &[u8], reply: &mut Reply) -> Execution {
        self.engine.execute(id, payload, reply);
        Execution::Done
    }

    fn reverse(&mut self, id: &ExchangeId, payload: &[u8]) {
        self.engine.reverse(id, payload);
    }

    fn complete(&mut self, _token: u64, outcome: Outcome<'_>) {
        self.completed += u64::from(matches!(outcome, Outcome::Committed(_)));
    }

    fn in_doubt(&mut self, _token: u64, _id: &ExchangeId) {}

    fn link_event(&mut self, _event: LinkEvent) {}
}

/// Carries everything that `from` has to send to `to`.
fn transfer(from: &mut Node, to: &mut Node, host: &mut End, frame: &mut [u8]) -> bool {
    let mut moved = false;
    while let Some(len) = from.poll_transmit(0, frame) {
        to.on_frame(0, &frame[..len], host);
        moved = true;
    }
    moved
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let (mode, submitted_ahead) = match arguments.next().as_deref() {
        Some("1pc-alone") => (Mode::OnePhase, 1),
        Some("1pc") => (Mode::OnePhase, 2 * OPEN),
        Some("2pc") => (Mode::TwoPhase, 2 * OPEN),
        _ => return Err("usage: verb_instructions 1pc-alone|1pc|2pc VERBS".into()),
    };
    let verbs: u64 = arguments.next().ok_or("no number of verbs")?.parse()?;
    let node = |guid: u64, end: u8| -> Result<Node, Box<dyn Error>> {
        let mut node = Node::new(NodeConfig::new(guid, guid, Name::new("n")?));
        node.add_link(0, [2, 0, 0, 0, 0, end])?;
        Ok(node)
    };
    let (mut a, mut b) = (node(1, 1)?, node(2, 2)?);
    let (mut near, mut far) = (End::new()?, End::new()?);
    let mut frame = [0; FRAME_BYTES_MAX];
    a.on_carrier(0, true, &mut near);
    b.on_carrier(0, true, &mut far);
    while transfer(&mut a, &mut b, &mut far, &mut frame)
        | transfer(&mut b, &mut a, &mut near, &mut frame)
    {}
    let mut request = [0; 64];
    let addition = Request {
        rkey: RKEY,
        offset: 0,
        verb: Verb::FetchAdd { delta: 1 },
    };
    let len = addition.encode(&mut request)?;
    let mut submitted = 0;
    while near.completed < verbs {
        while submitted < verbs && submitted - near.completed < submitted_ahead {
            a.submit(2, mode, &request[..len], submitted)?;
            submitted += 1;
        }
        transfer(&mut a, &mut b, &mut far, &mut frame);
        transfer(&mut b, &mut a, &mut near, &mut frame);
    }
    let added = far.engine.memory(RKEY).and_then(|words| words.load(0));
    if added != Some(verbs) {
        return Err(format!("{verbs} additions made {added:?}").into());
    }
    Ok(())
}
