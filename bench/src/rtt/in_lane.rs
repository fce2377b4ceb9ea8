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
use covalent_dataplane::verb::VerbEngine;
use covalent_protocol::verb::{Reply, Request, Status, Verb};
use covalent_verbs::{Device, Mode};

use super::{
    REGION,
    exchange::{Answer, Exchange},
};
use crate::{
    arguments::Wire,
    beside::{beside, join},
    cores::{Cores, pin},
    lane_port,
    link_end::{LinkEnd, REGION_BYTES, engine},
    node::{self, Plan},
    stage::{Namespace, Stage},
    trips::Slice,
};

/// Room for a request on one word.
const REQUEST_BYTES_MAX: usize = 64;

/// Rounds for each look at the clock, as a lane has it between two frames.
const ROUNDS_PER_LOOK: u32 = 4;

/// How long a lookup may take to be answered.
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
                let before = lane.end.port.counters();
                let mut exchanges = 0;
                let slice = Slice::of(arguments.slice(), |deadline| {
                    exchanges += 1;
                    lane.compare_and_swap(&mut word, deadline)
                })?;
                let after = lane.end.port.counters();
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
            || Lane::open(&stage.b, "b0", cores.far, arguments, engine(REGION)?),
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

/// A word of the region at the other end, as this end left it.
struct Word {
    peer: u64,
    rkey: u32,
    value: u64,
}

/// One end of the cable, and the verb that it waits for.
struct Lane {
    end: LinkEnd,
    exchange: Exchange,
    tokens: u64,
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
        let port = lane_port::open(namespace, interface, arguments.ring_slots)?;
        // Any two that differ will do: the two ends have different interfaces.
        let guid = interface
            .bytes()
            .fold(1, |sum, byte| sum * 256 + u64::from(byte));
        Ok(Self {
            end: LinkEnd::new(port, guid, None, ROUNDS_PER_LOOK)?,
            exchange: Exchange::new(engine),
            tokens: 0,
        })
    }

    /// Once round. Returns how many frames came.
    fn round(&mut self) -> Result<usize> {
        self.end.round(&mut self.exchange)
    }

    /// Waits for the link and asks for the region.
    fn find(&mut self) -> Result<Word> {
        let peer = self.end.wait_for_peer(&mut self.exchange)?;
        let deadline = Instant::now() + PATIENCE;
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
        self.end
            .node
            .submit(peer, Mode::OnePhase, &bytes[..length], self.tokens)
            .map_err(|error| anyhow::anyhow!("submitting a verb: {error:?}"))?;
        self.end.send(&mut self.exchange)?;
        while self.exchange.answer().is_none() {
            let came = self.round()?;
            if came == 0 && self.end.looks_at_clock() && Instant::now() > deadline {
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
