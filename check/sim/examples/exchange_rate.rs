//! Measures how many exchanges two nodes complete on one core, with frames in memory.
//!
//! `cargo run --release -p covalent-sim --example exchange_rate [SECONDS]`. One thread drives both
//! nodes, so the figure is the cost of both ends together: validation, CRCs, state machines and
//! frames. There is no port and no application.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use covalent_protocol::{
    ExchangeId, Execution, FRAME_BYTES_MAX, Host, LinkEvent, Mode, Name, Node, NodeConfig, Outcome,
    Refusal, Reply,
};

/// Exchanges between two looks at the clock.
const BATCH: u64 = 100_000;

#[derive(Default)]
struct Counter {
    word: u64,
    completed: u64,
}

impl Host for Counter {
    fn admit(&mut self, _id: &ExchangeId, _mode: Mode, payload: &[u8]) -> Result<(), Refusal> {
        if payload.len() == 24 {
            Ok(())
        } else {
            Err(Refusal::BadRequest)
        }
    }

    fn execute(&mut self, _id: &ExchangeId, payload: &[u8], reply: &mut Reply) -> Execution {
        reply.write_with(|space| {
            space[..8].copy_from_slice(&self.word.to_le_bytes());
            8
        });
        self.word += u64::from(payload[0]);
        Execution::Done
    }

    fn reverse(&mut self, _id: &ExchangeId, _payload: &[u8]) {}

    fn complete(&mut self, _token: u64, outcome: Outcome<'_>) {
        black_box(outcome);
        self.completed += 1;
    }

    fn in_doubt(&mut self, _token: u64, _id: &ExchangeId) {}

    fn link_event(&mut self, _event: LinkEvent) {}
}

struct Pair {
    nodes: [Node; 2],
    hosts: [Counter; 2],
    frame: [u8; FRAME_BYTES_MAX],
}

impl Pair {
    /// Carries everything that node `from` has to send to the other.
    fn forward(&mut self, from: usize) -> bool {
        let mut moved = false;
        while let Some(len) = self.nodes[from].poll_transmit(0, &mut self.frame) {
            self.nodes[1 - from].on_frame(0, &self.frame[..len], &mut self.hosts[1 - from]);
            moved = true;
        }
        moved
    }
}

fn measure(mode: Mode, open: u64, span: Duration) -> Result<f64, Box<dyn std::error::Error>> {
    let node = |guid: u64| -> Result<Node, Box<dyn std::error::Error>> {
        let mut node = Node::new(NodeConfig::new(guid, guid, Name::new("n")?));
        node.add_link(0, [2, 0, 0, 0, 0, guid.to_le_bytes()[0]])?;
        Ok(node)
    };
    let mut pair = Pair {
        nodes: [node(1)?, node(2)?],
        hosts: <[Counter; 2]>::default(),
        frame: [0; FRAME_BYTES_MAX],
    };
    for (node, host) in pair.nodes.iter_mut().zip(&mut pair.hosts) {
        node.on_carrier(0, true, host);
    }
    while pair.forward(0) | pair.forward(1) {}
    let payload = [1; 24];
    let start = Instant::now();
    let mut submitted = 0;
    while start.elapsed() < span {
        let end = submitted + BATCH;
        while submitted < end {
            while submitted - pair.hosts[0].completed < open {
                pair.nodes[0].submit(2, mode, &payload, submitted)?;
                submitted += 1;
            }
            pair.forward(0);
            pair.forward(1);
        }
    }
    Ok(pair.hosts[0].completed as f64 / start.elapsed().as_secs_f64())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let seconds = std::env::args()
        .nth(1)
        .map_or(Ok(1.0), |text| text.parse())?;
    for mode in [Mode::OnePhase, Mode::TwoPhase] {
        for open in [1, 16, 64] {
            let rate = measure(mode, open, Duration::from_secs_f64(seconds))?;
            #[expect(clippy::print_stdout, reason = "the program prints its figures")]
            {
                println!("{mode:?}, {open:2} open: {:.2} M exchanges/s", rate / 1e6);
            }
        }
    }
    Ok(())
}
