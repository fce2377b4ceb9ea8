//! The round trip of a verb whose initiator is in the lane's own thread: no application, no pipe.
//!
//! One thread at either end has what a lane has on a verb's way: the port, the protocol's node, and the engine that executes verbs on a
//! region. That is what a bare echo, one thread that polls a port, compares with. At the far end is the same, or covalentd.

use std::{
    path::Path,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use covalent_api::{config::LinkConfig, request::Rights};
use covalent_dataplane::{
    lane::command::NewRegion,
    port::{Port, PortError},
    verb::VerbEngine,
};
use covalent_pipe::region::RegionMemory;
use covalent_protocol::{
    FRAME_BYTES_MAX, LinkState, Name, Node, NodeConfig,
    verb::{Reply, Request, Status, Verb},
};
use covalent_verbs::{Device, Mode};

use super::{
    REGION,
    exchange::{Answer, Exchange},
};
use crate::{
    arguments::Wire,
    bare_echo::BURST,
    beside::{beside, join},
    cores::{Cores, pin},
    lane_port,
    node::{self, Plan},
    stage::{Namespace, Stage},
    stop,
    trips::Slice,
};

/// The index of the one port.
const PORT: u16 = 0;

/// Bytes of the region: the word that is swapped.
const REGION_BYTES: u64 = 64;

/// Room for a request on one word.
const REQUEST_BYTES_MAX: usize = 64;

/// Rounds for each look at the clock, as a lane has it between two frames.
const ROUNDS_PER_LOOK: u32 = 4;

/// How long a link may take to come up, and a lookup to be answered.
const PATIENCE: Duration = Duration::from_secs(5);

/// Frames that the measuring ends sent, and for how many exchanges.
#[derive(Debug, Clone, Copy, Default)]
pub struct Frames {
    exchanges: u64,
    frames: u64,
    bytes: u64,
}

impl Frames {
    /// Adds those of another slice.
    pub fn add(&mut self, more: Self) {
        self.exchanges += more.exchanges;
        self.frames += more.frames;
        self.bytes += more.bytes;
    }

    /// Bytes of one frame.
    pub fn mean_bytes(&self) -> f64 {
        self.bytes as f64 / self.frames.max(1) as f64
    }

    /// Frames that the asking end sends for one exchange.
    pub fn per_exchange(&self) -> f64 {
        self.frames as f64 / self.exchanges.max(1) as f64
    }
}

/// What answers at the other end of the cable.
pub trait Far: Sync {
    /// Answers while `work` is done.
    fn beside<T>(
        &self,
        stage: &Stage,
        cores: Cores,
        arguments: &Wire,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<T>;
}

/// The same as at this end, in a thread of this process.
pub struct FarLane;

/// A daemon, with an application that registered the region and does nothing more.
pub struct FarNode<'a> {
    /// The program.
    pub daemon: &'a Path,
}

/// One slice, and the frames that this end sent in it.
pub fn slice(
    stage: &Stage,
    cores: Cores,
    arguments: &Wire,
    far: &impl Far,
) -> Result<(Slice, Frames)> {
    far.beside(stage, cores, arguments, || {
        thread::scope(|scope| {
            join(scope.spawn(|| {
                let mut lane =
                    Lane::open(&stage.a, "a0", cores.near, arguments, VerbEngine::new())?;
                let mut word = lane.find()?;
                let before = lane.port.counters();
                let mut exchanges = 0;
                let slice = Slice::of(arguments.slice(), |deadline| {
                    exchanges += 1;
                    lane.compare_and_swap(&mut word, deadline)
                })?;
                let after = lane.port.counters();
                let frames = Frames {
                    exchanges,
                    frames: after.tx_packets - before.tx_packets,
                    bytes: after.tx_bytes - before.tx_bytes,
                };
                Ok((slice, frames))
            }))
        })
    })
}

impl Far for FarLane {
    fn beside<T>(
        &self,
        stage: &Stage,
        cores: Cores,
        arguments: &Wire,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        beside(
            || Lane::open(&stage.b, "b0", cores.far, arguments, engine()?),
            |lane| lane.round().map(drop),
            work,
        )
    }
}

impl Far for FarNode<'_> {
    fn beside<T>(
        &self,
        stage: &Stage,
        cores: Cores,
        arguments: &Wire,
        work: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let plan = Plan {
            name: "b",
            idle: "poll",
            core: Some(cores.far),
            interfaces: &["b0"],
            link: true,
            ring_slots: arguments.ring_slots,
            link_settings: &[],
            faulty: false,
        };
        let node = node::Node::start(self.daemon, &stage.b, &plan)?;
        let owner =
            Device::attach(node.socket(), "bench-region").context("attaching to covalentd b")?;
        let _region = owner
            .register_region(REGION, REGION_BYTES, covalent_verbs::Rights::ALL)
            .context("registering a region")?;
        work()
    }
}

/// The engine of the answering end, with its region.
fn engine() -> Result<VerbEngine> {
    let mut engine = VerbEngine::new();
    let (memory, _fd) = RegionMemory::create(REGION_BYTES).context("making a region")?;
    engine
        .insert(
            NewRegion {
                session: 0,
                name: REGION.to_owned(),
                rkey: 1,
                rights: Rights::ALL,
                durable: false,
                memory,
            },
            0,
        )
        .map_err(anyhow::Error::msg)?;
    Ok(engine)
}

/// A word of the region at the other end, as this end left it.
struct Word {
    peer: u64,
    rkey: u32,
    value: u64,
}

/// One end of the cable: what a lane does for its one link, and nothing else.
struct Lane {
    port: Box<dyn Port>,
    node: Node,
    exchange: Exchange,
    frame: Box<[u8; FRAME_BYTES_MAX]>,
    carrier: bool,
    pace: Duration,
    next_tick: Instant,
    tokens: u64,
    rounds: u32,
}

impl Lane {
    /// Opens it for the calling thread, which stays there.
    fn open(
        namespace: &Namespace,
        interface: &str,
        core: usize,
        arguments: &Wire,
        engine: VerbEngine,
    ) -> Result<Self> {
        pin(core)?;
        let link = LinkConfig::default();
        let port = lane_port::open(namespace, interface, arguments.ring_slots)?;
        // Any two that differ will do: the two ends have different interfaces.
        let guid = interface
            .bytes()
            .fold(1, |sum, byte| sum * 256 + u64::from(byte));
        let name = Name::new(interface)
            .map_err(|error| anyhow::anyhow!("naming a node {interface}: {error}"))?;
        let mut node = Node::new(NodeConfig {
            ethertype: link.ethertype,
            silent_paces_max: link.silent_paces_max,
            ..NodeConfig::new(guid, 1, name)
        });
        node.add_link(PORT, port.info().mac)
            .map_err(|error| anyhow::anyhow!("adding a link on {interface}: {error}"))?;
        let pace = Duration::from_millis(link.idle_pace_ms.into());
        Ok(Self {
            port,
            node,
            exchange: Exchange::new(engine),
            frame: Box::new([0; FRAME_BYTES_MAX]),
            carrier: false,
            pace,
            next_tick: Instant::now() + pace,
            tokens: 0,
            rounds: 0,
        })
    }

    /// Once round, as a lane goes: receive, tick, send, ring. Returns how many frames came.
    fn round(&mut self) -> Result<usize> {
        let Self {
            port,
            node,
            exchange,
            ..
        } = self;
        let carrier = port.carrier();
        if carrier != self.carrier {
            self.carrier = carrier;
            node.on_carrier(PORT, carrier, exchange);
        }
        let came = port
            .rx_burst(BURST as usize, &mut |frame| {
                node.on_frame(PORT, frame, exchange);
            })
            .context("receiving")?;
        self.rounds = self.rounds.wrapping_add(1);
        if self.rounds.is_multiple_of(ROUNDS_PER_LOOK) {
            let now = Instant::now();
            if now >= self.next_tick {
                self.next_tick = now + self.pace;
                node.on_tick(exchange);
            }
        }
        self.send()?;
        Ok(came)
    }

    fn send(&mut self) -> Result<()> {
        let Self {
            port,
            node,
            exchange,
            frame,
            ..
        } = self;
        while node.has_work(PORT) && port.tx_space() > 0 {
            let Some(length) = node.poll_transmit(PORT, &mut frame[..]) else {
                break;
            };
            if port.tx(&frame[..length]).is_err() {
                node.on_transmit_failed(PORT, exchange);
            }
        }
        if port.tx_idle() {
            return Ok(());
        }
        match port.flush() {
            Ok(()) => Ok(()),
            Err(PortError::LinkDown { .. }) => {
                node.on_transmit_failed(PORT, exchange);
                Ok(())
            }
            Err(error) => Err(error).context("sending"),
        }
    }

    /// Waits for the link and asks for the region.
    fn find(&mut self) -> Result<Word> {
        let deadline = Instant::now() + PATIENCE;
        let peer = loop {
            self.round()?;
            stop::check()?;
            let up = self
                .node
                .links()
                .find(|link| link.state == LinkState::Up)
                .and_then(|link| link.peer);
            if let Some(peer) = up {
                break peer;
            }
            ensure!(Instant::now() < deadline, "the link does not come up");
        };
        let lookup = Request {
            rkey: 0,
            offset: 0,
            verb: Verb::Lookup { name: REGION },
        };
        ensure!(
            self.ask(peer, &lookup, deadline)?,
            "nobody says where the region is"
        );
        let region = self.reply()?.region().context("the answer is no region")?;
        Ok(Word {
            peer,
            rkey: region.rkey,
            value: 0,
        })
    }

    /// Swaps the word for one that is larger by 1. Whether the answer came before `deadline`. It must be that the word was as this end
    /// left it: every exchange was executed, and once.
    fn compare_and_swap(&mut self, word: &mut Word, deadline: Instant) -> Result<bool> {
        let request = Request {
            rkey: word.rkey,
            offset: 0,
            verb: Verb::CompareAndSwap {
                expected: word.value,
                new: word.value + 1,
            },
        };
        if !self.ask(word.peer, &request, deadline)? {
            // It will be executed all the same, before any that follows: each waits for the answer to the one before it.
            bail!("a compare-and-swap was not answered in time");
        }
        let reply = self.reply()?;
        ensure!(
            reply.status == Status::Ok && *reply.data == word.value.to_le_bytes(),
            "the word was not {}: {reply:?}",
            word.value
        );
        word.value += 1;
        Ok(true)
    }

    /// Submits a verb and goes round until it is answered. Whether it was before `deadline`.
    fn ask(&mut self, peer: u64, request: &Request<'_>, deadline: Instant) -> Result<bool> {
        let mut bytes = [0; REQUEST_BYTES_MAX];
        let length = request
            .encode(&mut bytes)
            .map_err(|error| anyhow::anyhow!("a request of this size: {error:?}"))?;
        self.tokens += 1;
        self.exchange.wait_for(self.tokens);
        self.node
            .submit(peer, Mode::OnePhase, &bytes[..length], self.tokens)
            .map_err(|error| anyhow::anyhow!("submitting a verb: {error:?}"))?;
        self.send()?;
        while self.exchange.answer().is_none() {
            let came = self.round()?;
            if came == 0 && self.rounds.is_multiple_of(ROUNDS_PER_LOOK) && Instant::now() > deadline
            {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The reply to the verb that was answered last.
    fn reply(&self) -> Result<Reply<'_>> {
        match self.exchange.answer() {
            Some(Answer::Committed(bytes, length)) => Reply::decode(&bytes[..*length])
                .map_err(|error| anyhow::anyhow!("an answer that nobody understands: {error:?}")),
            other => bail!("a verb ended with {other:?}"),
        }
    }
}
