//! One end of a link in a thread of this process: the work of a lane for its one link, and nothing
//! else.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use covalent_api::request::Rights;
use covalent_config::LinkConfig;
use covalent_dataplane::{
    lane::command::NewRegion,
    lane::engine::VerbEngine,
    port::{Port, PortError},
};
use covalent_pipe::region::RegionMemory;
use covalent_protocol::{FRAME_BYTES_MAX, Host, LinkState, Name, Node, NodeConfig};

use crate::stop;

/// Frames that either side of a comparison moves at a time.
pub const BURST: u32 = 64;

/// The index of the one port.
const PORT: u16 = 0;

/// The key of the region of [`engine`].
pub const RKEY: u32 = 1;

/// How long a link may take to come up.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// See the module's documentation.
pub struct LinkEnd {
    /// The port.
    pub port: Box<dyn Port>,
    /// The node with its one link.
    pub node: Node,
    frame: Box<[u8; FRAME_BYTES_MAX]>,
    carrier: bool,
    tick_interval: Duration,
    next_tick: Instant,
    rounds: u32,
    rounds_per_check: u32,
    /// Frames were put in since the last doorbell.
    unflushed: bool,
}

impl LinkEnd {
    /// Creates an end with the identity `guid`, and with `slots` or the default number of slots. It
    /// reads the clock once every `rounds_per_check` rounds.
    pub fn new(
        port: Box<dyn Port>,
        guid: u64,
        slots: Option<u8>,
        rounds_per_check: u32,
    ) -> Result<Self> {
        let link = LinkConfig::default();
        let name =
            Name::new("end").map_err(|error| anyhow::anyhow!("naming a node `end`: {error}"))?;
        let mut config = NodeConfig {
            ethertype: link.ethertype,
            keepalive_misses_max: link.keepalive_misses_max,
            ..NodeConfig::new(guid, 1, name)
        };
        if let Some(slots) = slots {
            config.slots = slots;
        }
        let mut node = Node::new(config);
        let info = port.info();
        node.add_link(PORT, info.mac)
            .map_err(|error| anyhow::anyhow!("adding a link on {}: {error}", info.name))?;
        let tick_interval = Duration::from_millis(link.idle_tick_ms.into());
        Ok(Self {
            port,
            node,
            frame: Box::new([0; FRAME_BYTES_MAX]),
            carrier: false,
            tick_interval,
            next_tick: Instant::now() + tick_interval,
            rounds: 0,
            rounds_per_check,
            unflushed: false,
        })
    }

    /// Goes round until the link is up. Returns the node at the other end.
    pub fn wait_for_peer(&mut self, host: &mut impl Host) -> Result<u64> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            self.round(host)?;
            stop::check()?;
            let up = self
                .node
                .links()
                .find(|link| link.state == LinkState::Up)
                .and_then(|link| link.peer);
            if let Some(peer) = up {
                return Ok(peer);
            }
            ensure!(Instant::now() < deadline, "the link is not up in time");
        }
    }

    /// Runs one round like a lane: receive, tick, send, ring. Returns the number of received
    /// frames.
    pub fn round(&mut self, host: &mut impl Host) -> Result<usize> {
        let carrier = self.port.carrier();
        if carrier != self.carrier {
            self.carrier = carrier;
            self.node.on_carrier(PORT, carrier, host);
        }
        let Self { port, node, .. } = self;
        let came = port
            .receive(BURST as usize, |frame| node.on_frame(PORT, frame, host))
            .context("receiving")?;
        self.rounds = self.rounds.wrapping_add(1);
        if self.is_clock_due() {
            let now = Instant::now();
            if now >= self.next_tick {
                self.next_tick = now + self.tick_interval;
                self.node.on_tick(host);
            }
        }
        self.send(host)?;
        Ok(came)
    }

    /// Whether this round is one of those with a look at the clock.
    pub const fn is_clock_due(&self) -> bool {
        self.rounds.is_multiple_of(self.rounds_per_check)
    }

    /// Sends the node's pending frames and rings the doorbell.
    pub fn send(&mut self, host: &mut impl Host) -> Result<()> {
        let Self {
            port,
            node,
            frame,
            unflushed,
            ..
        } = self;
        while node.has_work(PORT) && port.tx_space() > 0 {
            let Some(length) = node.poll_transmit(PORT, &mut frame[..]) else {
                break;
            };
            if port.tx(&frame[..length]).is_err() {
                node.on_transmit_failed(PORT, host);
            }
            *unflushed = true;
        }
        // A cable is idle as soon as it has taken a frame, but delivers it only on a flush.
        if !std::mem::take(unflushed) && port.tx_idle() {
            return Ok(());
        }
        match port.flush() {
            Ok(()) => Ok(()),
            Err(PortError::LinkDown { .. }) => {
                node.on_transmit_failed(PORT, host);
                Ok(())
            }
            Err(error) => Err(error).context("sending"),
        }
    }
}

/// An engine with a region of this name and size, with the key [`RKEY`].
pub fn engine(region: &str, bytes: u64) -> Result<VerbEngine> {
    let mut engine = VerbEngine::new();
    let (memory, _fd) = RegionMemory::create(bytes).context("making a region")?;
    engine
        .insert(
            NewRegion {
                session: 0,
                name: region.to_owned(),
                rkey: RKEY,
                rights: Rights::ALL,
                durable: false,
                memory,
            },
            0,
        )
        .map_err(|(why, _)| anyhow::Error::msg(why))?;
    Ok(engine)
}
