//! The round trip of a verb whose initiator is in the lane's own thread: no application, no pipe.
//!
//! One thread at either end runs the parts that a verb passes in a lane: the port, the protocol's
//! node, and the engine that executes verbs on a region. This compares with a bare echo, which is
//! one thread that polls a port. The far end runs the same thread or covalentd.

use std::thread;

use anyhow::{Context, Result, ensure};
use covalent::{Device, Rights};
use covalent_dataplane::lane::engine::VerbEngine;
use covalent_protocol::{
    ExchangeId, Execution, Host, LinkEvent, Mode, Outcome, Refusal, SubmitError,
    verb::{Reply, Request, Status, Verb},
};

use super::{
    drive::{Client, Clock, IN_FLIGHT_MAX, Repeat},
    frames::FRAME_BYTES,
    pacing::Pacing,
    peer::{Load, Medium, Peer, Scene},
};
use crate::{
    beside::{beside, join},
    cores::pin,
    lane_port,
    link_end::{BURST, LinkEnd, engine},
    node::{Node, Plan},
    report::{Description, without_places},
    stage::Namespace,
};

/// Name of the region, at either far end.
const REGION: &str = "bench";

/// Bytes of its words: one for each request in flight.
const REGION_BYTES: u64 = IN_FLIGHT_MAX as u64 * 8;

/// Space for a request on one word.
const REQUEST_BYTES_MAX: usize = 64;

/// Rounds for each look at the clock, as a lane has it between two frames.
const ROUNDS_PER_CHECK: u32 = 4;

/// The token of the question where the region is; no request has it.
const LOOKUP: u64 = u64::MAX;

/// The responder at the far end of the cable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Far {
    /// The same as at this end, in a thread of this process.
    Lane,
    /// A daemon, with an application that registered the region and does nothing more.
    Node,
}

struct Side {
    name: &'static str,
    far: Far,
}

/// Both.
pub fn sides() -> Vec<Box<dyn Peer>> {
    [
        ("covalent-lane-cas", Far::Lane),
        ("covalent-lane-cas-to-daemon", Far::Node),
    ]
    .into_iter()
    .map(|(name, far)| Box::new(Side { name, far }) as Box<dyn Peer>)
    .collect()
}

impl Peer for Side {
    fn name(&self) -> &'static str {
        self.name
    }

    fn medium(&self) -> Medium {
        Medium::Wire
    }

    fn is_ours(&self) -> bool {
        true
    }

    fn prepare(&mut self, scene: &Scene<'_>) -> Result<Description> {
        let commands = match self.far {
            Far::Lane => Vec::new(),
            Far::Node => vec![without_places(&start(scene)?.command().join(" "))],
        };
        Ok(Description {
            what: match self.far {
                Far::Lane => {
                    "compare-and-swap of 8 bytes at another node in one phase, requested and \
                     executed in the threads of lanes: port, protocol and verb engine, no \
                     application"
                }
                Far::Node => "the same, answered by covalentd",
            }
            .to_owned(),
            version: concat!("covalent ", env!("CARGO_PKG_VERSION")).to_owned(),
            tuning: format!(
                "lanes poll, rings of {} descriptors, bursts of {BURST}, frames of {FRAME_BYTES} \
                 bytes",
                scene.ring_slots
            ),
            commands,
        })
    }

    fn refuses(&self, load: &Load) -> Option<String> {
        (load.bytes != 8).then(|| "a compare-and-swap is of 8 bytes".to_owned())
    }

    fn repeat(&mut self, scene: &Scene<'_>, load: &Load) -> Result<Repeat> {
        match self.far {
            Far::Lane => {
                let stage = scene.stage()?;
                beside(
                    || {
                        let engine = engine(REGION, REGION_BYTES)?;
                        Lane::open(&stage.b, "b0", scene.cores.far, scene.ring_slots, engine)
                    },
                    |lane| lane.round().map(drop),
                    || measure(scene, load),
                )
            }
            Far::Node => {
                let node = start(scene)?;
                let owner = Device::attach(node.socket(), "bench-region")
                    .context("attaching to covalentd b")?;
                let _region = owner
                    .register_region(REGION, REGION_BYTES, Rights::ALL)
                    .context("registering a region")?;
                measure(scene, load)
            }
        }
    }
}

fn start(scene: &Scene<'_>) -> Result<Node> {
    let plan = Plan {
        name: "b",
        idle: "poll",
        core: Some(scene.cores.far),
        interfaces: &["b0"],
        cables: &[],
        link: true,
        ring_slots: scene.ring_slots,
        link_settings: &[],
        faulty: false,
    };
    Node::start(scene.daemon, &scene.stage()?.b, &plan)
}

/// Sends requests from the near end, in a thread of its own because it enters a namespace.
fn measure(scene: &Scene<'_>, load: &Load) -> Result<Repeat> {
    thread::scope(|scope| {
        join(scope.spawn(|| {
            let stage = scene.stage()?;
            let engine = VerbEngine::new();
            let mut lane = Lane::open(&stage.a, "a0", scene.cores.near, scene.ring_slots, engine)?;
            lane.find()?;
            let before = lane.end.port.counters();
            let repeat = load.measure(&mut lane)?;
            let after = lane.end.port.counters();
            if load.plan.pacing == Pacing::PingPong {
                let frames = (after.tx_packets - before.tx_packets).max(1);
                let mean = (after.tx_bytes - before.tx_bytes) as f64 / frames as f64;
                // Else the bare echo's frames are not comparable. Some frames are keepalives of an
                // idle link, as long as a verb's frame.
                ensure!(
                    (mean - FRAME_BYTES as f64).abs() < 1.0,
                    "the bare echo's frames have {FRAME_BYTES} bytes, those of the exchanges \
                     {mean:.1} in the mean"
                );
            }
            Ok(repeat)
        }))
    })
}

/// The host of a node: it executes verbs on its regions and stores replies until the client polls.
struct Desk {
    engine: VerbEngine,
    /// Tokens, and the word before the swap; `None` of one that failed.
    answers: Vec<(u64, Option<u64>)>,
    /// The answer to the question where the region is.
    rkey: Option<u32>,
}

impl Host for Desk {
    fn admit(&mut self, id: &ExchangeId, mode: Mode, payload: &[u8]) -> Result<(), Refusal> {
        self.engine.admit(id, mode, payload)
    }

    fn execute(
        &mut self,
        id: &ExchangeId,
        payload: &[u8],
        reply: &mut covalent_protocol::Reply,
    ) -> Execution {
        self.engine.execute(id, payload, reply);
        Execution::Done
    }

    fn reverse(&mut self, id: &ExchangeId, payload: &[u8]) {
        self.engine.reverse(id, payload);
    }

    fn complete(&mut self, token: u64, outcome: Outcome<'_>) {
        let reply = match outcome {
            Outcome::Committed(reply) => Reply::decode(reply).ok(),
            _ => None,
        };
        if token == LOOKUP {
            self.rkey = reply
                .and_then(|reply| reply.region())
                .map(|region| region.rkey);
            return;
        }
        let old = reply
            .filter(|reply| reply.status == Status::Ok)
            .and_then(|reply| reply.data.first_chunk().copied())
            .map(u64::from_le_bytes);
        self.answers.push((token, old));
    }

    fn in_doubt(&mut self, _token: u64, _id: &ExchangeId) {}

    fn link_event(&mut self, _event: LinkEvent) {}
}

/// One end of the cable. As a client it replaces a request's own word by a value larger by 1. The
/// old value must be that of the previous swap: each swap was executed exactly once.
struct Lane {
    end: LinkEnd,
    desk: Desk,
    peer: u64,
    rkey: u32,
    words: Vec<u64>,
}

impl Lane {
    /// Opens the end and pins the calling thread.
    fn open(
        namespace: &Namespace,
        interface: &str,
        core: usize,
        ring_slots: u32,
        engine: VerbEngine,
    ) -> Result<Self> {
        pin(core)?;
        let port = lane_port::open(namespace, interface, ring_slots)?;
        // Any two that differ will do: the two ends have different interfaces.
        let guid = interface
            .bytes()
            .fold(1, |sum, byte| sum * 256 + u64::from(byte));
        Ok(Self {
            end: LinkEnd::new(port, guid, None, ROUNDS_PER_CHECK)?,
            desk: Desk {
                engine,
                answers: Vec::with_capacity(IN_FLIGHT_MAX),
                rkey: None,
            },
            peer: 0,
            rkey: 0,
            words: vec![0; IN_FLIGHT_MAX],
        })
    }

    /// Runs one round. Returns the number of received frames.
    fn round(&mut self) -> Result<usize> {
        self.end.round(&mut self.desk)
    }

    /// Waits for the link and looks up the region.
    fn find(&mut self) -> Result<()> {
        self.peer = self.end.wait_for_peer(&mut self.desk)?;
        let lookup = Request {
            rkey: 0,
            offset: 0,
            verb: Verb::Lookup { name: REGION },
        };
        ensure!(
            self.submit(&lookup, LOOKUP)?,
            "no space for the lookup of the region"
        );
        let deadline = std::time::Instant::now() + crate::link_end::PATIENCE;
        loop {
            if let Some(rkey) = self.desk.rkey {
                self.rkey = rkey;
                return Ok(());
            }
            self.round()?;
            ensure!(
                std::time::Instant::now() < deadline,
                "the lookup of the region got no reply"
            );
        }
    }

    /// Submits a verb and sends it. Returns whether there was space.
    fn submit(&mut self, request: &Request<'_>, token: u64) -> Result<bool> {
        let mut bytes = [0; REQUEST_BYTES_MAX];
        let length = request
            .encode(&mut bytes)
            .map_err(|error| anyhow::anyhow!("a request of this size: {error:?}"))?;
        match self
            .end
            .node
            .submit(self.peer, Mode::OnePhase, &bytes[..length], token)
        {
            Ok(()) => {}
            Err(SubmitError::Full) => return Ok(false),
            Err(error) => return Err(anyhow::anyhow!("submitting a verb: {error:?}")),
        }
        self.end.send(&mut self.desk)?;
        Ok(true)
    }
}

impl Client for Lane {
    fn send(&mut self, number: u64) -> Result<bool> {
        let at = number as usize % IN_FLIGHT_MAX;
        let request = Request {
            rkey: self.rkey,
            offset: at as u32 * 8,
            verb: Verb::CompareAndSwap {
                expected: self.words[at],
                new: self.words[at] + 1,
            },
        };
        self.submit(&request, number)
    }

    fn answers(&mut self, answered: &mut dyn FnMut(u64)) -> Result<()> {
        self.round()?;
        for (number, old) in self.desk.answers.drain(..) {
            let at = number as usize % IN_FLIGHT_MAX;
            ensure!(
                old == Some(self.words[at]),
                "word {at} was {old:?}, expected {} from the previous verb",
                self.words[at]
            );
            self.words[at] += 1;
            answered(number);
        }
        Ok(())
    }

    fn wait(&mut self, _until_ns: u64, _clock: &dyn Clock) -> Result<()> {
        // It goes round for answers, which is all that there is to do.
        Ok(())
    }
}
