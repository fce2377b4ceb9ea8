//! Two nodes that exchange frames, and the frames that they send.

use covalent_protocol::{
    ExchangeId, Execution, FRAME_BYTES_MAX, Host, LinkEvent, Mode, Name, Node, NodeConfig, Outcome,
    Refusal, Reply,
    verb::{self, Request, Verb},
};

const GUIDS: [u64; 2] = [0x0a0a_0a0a_0a0a_0a0a, 0x0b0b_0b0b_0b0b_0b0b];
const MACS: [[u8; 6]; 2] = [[0x02, 0, 0, 0, 0, 0x0a], [0x02, 0, 0, 0, 0, 0x0b]];
/// The key of the only region, which is b's.
const KEY: u32 = 0x00c0_ffee;
/// Initial value of the word at offset 8.
const WORD: u64 = 41;

/// A program with one word.
#[derive(Debug, Default)]
struct Program {
    word: u64,
    completions: usize,
}

impl Host for Program {
    fn admit(&mut self, _id: &ExchangeId, _mode: Mode, payload: &[u8]) -> Result<(), Refusal> {
        match Request::decode(payload) {
            Ok(request) if request.rkey == KEY => Ok(()),
            Ok(_) => Err(Refusal::UnknownRegion),
            Err(_) => Err(Refusal::BadRequest),
        }
    }

    fn execute(&mut self, _id: &ExchangeId, payload: &[u8], reply: &mut Reply) -> Execution {
        let old = self.word;
        if let Ok(Request {
            verb: Verb::FetchAdd { delta },
            ..
        }) = Request::decode(payload)
        {
            self.word += delta;
        }
        let old = old.to_le_bytes();
        let answer = verb::Reply {
            moment: reply.moment(),
            ..verb::Reply::ok(&old)
        };
        reply.write_with(|space| answer.encode(space).unwrap());
        Execution::Done
    }

    fn reverse(&mut self, _id: &ExchangeId, _payload: &[u8]) {}

    fn complete(&mut self, _token: u64, outcome: Outcome<'_>) {
        assert_ne!(outcome, Outcome::PeerRestarted);
        self.completions += 1;
    }

    fn in_doubt(&mut self, _token: u64, _id: &ExchangeId) {}

    fn link_event(&mut self, _event: LinkEvent) {}
}

/// Nodes a and b, joined by two cables.
struct Pair {
    nodes: [(Node, Program); 2],
    kept: Vec<(String, Vec<u8>)>,
}

impl Pair {
    fn new() -> Self {
        let node = |side: usize| {
            let name = Name::new(["a", "b"][side]).unwrap();
            let mut node = Node::new(NodeConfig {
                slots: 4,
                ..NodeConfig::new(GUIDS[side], 0x1100 + side as u64, name)
            });
            for cable in 0..2 {
                node.add_link(cable, MACS[side]).unwrap();
            }
            let word = if side == 1 { WORD } else { 0 };
            (
                node,
                Program {
                    word,
                    completions: 0,
                },
            )
        };
        Self {
            nodes: [node(0), node(1)],
            kept: Vec::new(),
        }
    }

    fn carrier(&mut self, cable: u16, up: bool) {
        for (node, program) in &mut self.nodes {
            node.on_carrier(cable, up, program);
        }
    }

    /// Returns the next frame that a side sends on a cable.
    fn send(&mut self, side: usize, cable: u16) -> Option<Vec<u8>> {
        let mut buffer = [0; FRAME_BYTES_MAX];
        let len = self.nodes[side].0.poll_transmit(cable, &mut buffer)?;
        Some(buffer[..len].to_vec())
    }

    fn receive(&mut self, side: usize, cable: u16, frame: &[u8]) {
        let (node, program) = &mut self.nodes[side];
        node.on_frame(cable, frame, program);
    }

    /// Like [`Pair::send`], but keeps the frame under a name and delivers it.
    fn pass(&mut self, side: usize, cable: u16, name: &str) {
        let frame = self
            .send(side, cable)
            .unwrap_or_else(|| panic!("no frame to send for {name}"));
        self.receive(1 - side, cable, &frame);
        self.kept.push((name.to_owned(), frame));
    }

    /// Delivers frames until neither side has any.
    fn settle(&mut self, cable: u16) {
        while let Some((side, frame)) =
            (0..2).find_map(|side| Some((side, self.send(side, cable)?)))
        {
            self.receive(1 - side, cable, &frame);
        }
    }

    fn add(&mut self, key: u32, mode: Mode) {
        let request = Request {
            rkey: key,
            offset: 8,
            verb: Verb::FetchAdd { delta: 1 },
        };
        let mut bytes = [0; 64];
        let len = request.encode(&mut bytes).unwrap();
        self.nodes[0]
            .0
            .submit(GUIDS[1], mode, &bytes[..len], 7)
            .unwrap();
    }
}

/// Returns frames with their names, in the order in which they are sent.
pub fn frames() -> Vec<(String, Vec<u8>)> {
    let mut pair = Pair::new();
    pair.carrier(0, true);
    pair.pass(0, 0, "init-ask");
    pair.pass(1, 0, "init-echo");
    pair.pass(0, 0, "init-done");
    pair.settle(0);

    pair.add(KEY, Mode::TwoPhase);
    pair.pass(0, 0, "tentative");
    pair.pass(1, 0, "reflecting");
    pair.pass(0, 0, "commit");
    pair.pass(1, 0, "committed");
    pair.settle(0);
    assert_eq!(
        (pair.nodes[0].1.completions, pair.nodes[1].1.word),
        (1, WORD + 1)
    );

    // One tick interval with traffic, and one without.
    for _ in 0..2 {
        for (node, program) in &mut pair.nodes {
            node.on_tick(program);
        }
    }
    pair.pass(0, 0, "keepalive");
    pair.settle(0);

    pair.add(0xbad, Mode::OnePhase);
    pair.pass(0, 0, "request");
    pair.pass(1, 0, "refused");
    pair.settle(0);
    assert_eq!(pair.nodes[0].1.completions, 2);

    // Message 4 is lost with its cable; the other one leads to the same peer.
    pair.add(KEY, Mode::TwoPhase);
    for side in [0, 1, 0] {
        let frame = pair.send(side, 0).unwrap();
        pair.receive(1 - side, 0, &frame);
    }
    assert!(pair.send(1, 0).is_some());
    pair.carrier(1, true);
    pair.settle(1);
    pair.carrier(0, false);
    pair.pass(0, 1, "resolve");
    pair.pass(1, 1, "resolved");
    pair.settle(1);
    assert_eq!(
        (pair.nodes[0].1.completions, pair.nodes[1].1.word),
        (3, WORD + 2)
    );
    pair.kept
}
