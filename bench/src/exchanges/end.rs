//! One end of the cable: what a lane does for its one link, and nothing else.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use covalent_api::{
    config::{DataplaneConfig, LinkConfig, PortConfig, PortKind},
    request::Rights,
};
use covalent_dataplane::{
    lane::command::NewRegion,
    port::{self, LaneMemory, Port, PortError},
    verb::VerbEngine,
};
use covalent_pipe::region::RegionMemory;
use covalent_protocol::{
    FRAME_BYTES_MAX, LinkState, Mode, Name, Node, NodeConfig,
    verb::{Request, Verb},
};

use super::{allocations, load::Load};
use crate::stop;

/// The index of the one port.
const PORT: u16 = 0;

/// Frames taken at a time at most, as a lane does.
const BURST: usize = 64;

/// Bytes of the region at either end: the word that is added to, and nothing else.
const REGION_BYTES: u64 = 64;

/// The key of that region.
const RKEY: u32 = 1;

/// Room for a request on one word.
const REQUEST_BYTES_MAX: usize = 64;

/// Rounds for each look at the clock, as a lane has it between two frames.
const ROUNDS_PER_LOOK: u32 = 64;

/// How long a port, a link and the last answers may take to come.
const PATIENCE: Duration = Duration::from_secs(5);

/// Exchanges submitted for each slot: with more to do than there are slots none of them rests.
const SUBMITTED_PER_SLOT: u64 = 2;

/// Opens one end of the cable that meets at `path`.
pub fn open_port(path: &Path, ring_slots: u32) -> Result<Box<dyn Port>> {
    let config = PortConfig {
        name: "cable".to_owned(),
        lane: 0,
        link: true,
        kind: PortKind::Cable {
            path: path.to_owned(),
            ring_slots,
        },
        faults: None,
    };
    port::open(
        &config,
        &DataplaneConfig::default(),
        &LinkConfig::default(),
        &mut LaneMemory::default(),
    )
    .context("opening an end of the cable")
}

/// Looks at a port until it has a carrier.
pub fn wait_for_carrier(port: &mut dyn Port) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while !port.carrier() {
        port.rx_burst(1, &mut |_| {}).context("receiving")?;
        stop::check()?;
        ensure!(
            Instant::now() < deadline,
            "the ends of the cable do not meet"
        );
    }
    Ok(())
}

/// What an end asks the other for.
#[derive(Debug, Clone, Copy)]
pub struct Asking {
    /// How.
    pub mode: Mode,
    /// Slots of either end.
    pub slots: u8,
    /// Whether this end asks at all.
    pub asks: bool,
}

/// What an end counted.
#[derive(Debug, Clone, Copy)]
pub struct Count {
    /// Exchanges of this end that ended.
    pub exchanges: u64,
    /// Records that it sent.
    pub records: u64,
    /// Frames that it sent.
    pub frames: u64,
    /// What its thread allocated.
    pub allocations: u64,
}

/// See the module's documentation.
pub struct End {
    port: Box<dyn Port>,
    node: Node,
    load: Load,
    frame: Box<[u8; FRAME_BYTES_MAX]>,
    carrier: bool,
    pace: Duration,
    next_tick: Instant,
    rounds: u32,
    /// Frames were put in since the last doorbell.
    unflushed: bool,
    asking: Asking,
    peer: u64,
    request: Vec<u8>,
    submitted: u64,
}

impl End {
    /// An end with the identity `guid` for the calling thread.
    pub fn new(port: Box<dyn Port>, guid: u64, asking: Asking) -> Result<Self> {
        let link = LinkConfig::default();
        let name =
            Name::new("end").map_err(|error| anyhow::anyhow!("naming a node `end`: {error}"))?;
        let mut node = Node::new(NodeConfig {
            ethertype: link.ethertype,
            silent_paces_max: link.silent_paces_max,
            slots: asking.slots,
            ..NodeConfig::new(guid, 1, name)
        });
        node.add_link(PORT, port.info().mac)
            .map_err(|error| anyhow::anyhow!("adding the link: {error}"))?;
        let request = Request {
            rkey: RKEY,
            offset: 0,
            verb: Verb::FetchAdd { delta: 1 },
        };
        let mut bytes = [0; REQUEST_BYTES_MAX];
        let length = request
            .encode(&mut bytes)
            .map_err(|error| anyhow::anyhow!("a request of this size: {error:?}"))?;
        let pace = Duration::from_millis(link.idle_pace_ms.into());
        Ok(Self {
            port,
            node,
            load: Load::new(engine()?),
            frame: Box::new([0; FRAME_BYTES_MAX]),
            carrier: false,
            pace,
            next_tick: Instant::now() + pace,
            rounds: 0,
            unflushed: false,
            asking,
            peer: 0,
            request: bytes[..length].to_vec(),
            submitted: 0,
        })
    }

    /// What it counted so far.
    pub fn count(&self) -> Count {
        let counters = self.node.links().next().map(|link| *link.counters);
        Count {
            exchanges: self.load.completed,
            records: counters.map_or(0, |counters| counters.tx_records),
            frames: counters.map_or(0, |counters| counters.tx_frames),
            allocations: allocations::of_this_thread(),
        }
    }

    /// Waits for the link.
    pub fn wait_for_peer(&mut self) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while self.peer == 0 {
            self.turn()?;
            stop::check()?;
            self.peer = self
                .node
                .links()
                .find(|link| link.state == LinkState::Up)
                .and_then(|link| link.peer)
                .unwrap_or(0);
            ensure!(Instant::now() < deadline, "the link does not come up");
        }
        Ok(())
    }

    /// Submits what there is room for, and goes round once.
    pub fn round(&mut self) -> Result<()> {
        if self.asking.asks {
            let most = self.load.ended() + u64::from(self.asking.slots) * SUBMITTED_PER_SLOT;
            while self.submitted < most {
                self.node
                    .submit(self.peer, self.asking.mode, &self.request, self.submitted)
                    .map_err(|error| anyhow::anyhow!("submitting an addition: {error}"))?;
                self.submitted += 1;
            }
        }
        self.turn()
    }

    /// Goes round until all that was submitted has ended. It must have ended well.
    pub fn settle(&mut self) -> Result<u64> {
        let deadline = Instant::now() + PATIENCE;
        while self.load.ended() < self.submitted {
            self.turn()?;
            ensure!(Instant::now() < deadline, "additions are not answered");
        }
        ensure!(
            self.load.failed == 0,
            "{} of {} additions failed",
            self.load.failed,
            self.submitted
        );
        Ok(self.submitted)
    }

    /// What the other end added to the word here.
    pub fn word(&mut self) -> Result<u64> {
        let regions = self.load.engine.remove_session(0);
        let region = regions.first().context("the region is gone")?;
        region.load(0).context("reading the word")
    }

    /// Once round, as a lane goes: receive, tick, send, ring.
    pub fn turn(&mut self) -> Result<()> {
        let Self {
            port, node, load, ..
        } = self;
        let carrier = port.carrier();
        if carrier != self.carrier {
            self.carrier = carrier;
            node.on_carrier(PORT, carrier, load);
        }
        port.rx_burst(BURST, &mut |frame| node.on_frame(PORT, frame, load))
            .context("receiving")?;
        self.rounds = self.rounds.wrapping_add(1);
        if self.rounds.is_multiple_of(ROUNDS_PER_LOOK) {
            let now = Instant::now();
            if now >= self.next_tick {
                self.next_tick = now + self.pace;
                node.on_tick(load);
            }
        }
        self.send()
    }

    fn send(&mut self) -> Result<()> {
        let Self {
            port,
            node,
            load,
            frame,
            unflushed,
            ..
        } = self;
        while node.has_work(PORT) && port.tx_space() > 0 {
            let Some(length) = node.poll_transmit(PORT, &mut frame[..]) else {
                break;
            };
            if port.tx(&frame[..length]).is_err() {
                node.on_transmit_failed(PORT, load);
            }
            *unflushed = true;
        }
        if !std::mem::take(unflushed) && port.tx_idle() {
            return Ok(());
        }
        match port.flush() {
            Ok(()) => Ok(()),
            Err(PortError::LinkDown { .. }) => {
                node.on_transmit_failed(PORT, load);
                Ok(())
            }
            Err(error) => Err(error).context("sending"),
        }
    }
}

/// An engine with the region that is added to.
fn engine() -> Result<VerbEngine> {
    let mut engine = VerbEngine::new();
    let (memory, _fd) = RegionMemory::create(REGION_BYTES).context("making a region")?;
    engine
        .insert(
            NewRegion {
                session: 0,
                name: "counter".to_owned(),
                rkey: RKEY,
                rights: Rights::ALL,
                memory,
                durable: false,
            },
            0,
        )
        .map_err(anyhow::Error::msg)?;
    Ok(engine)
}
