//! One end of the cable, which has the other add to a word, or only answers.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use covalent_config::{DataplaneConfig, LinkConfig, PortConfig, PortKind};
use covalent_dataplane::port::{self, LaneMemory, Port};
use covalent_protocol::{
    Mode,
    verb::{Request, Verb},
};

use super::{allocations, load::Load};
use crate::{
    link_end::{LinkEnd, RKEY, engine},
    stop,
};

/// Bytes of the region at the other end: one word, and nothing else.
const WORD_BYTES: u64 = 64;

/// Space for a request on one word.
const REQUEST_BYTES_MAX: usize = 64;

/// Rounds for each look at the clock, as a lane has it between two frames.
const ROUNDS_PER_CHECK: u32 = 64;

/// How long a port, a link and the last answers may take to come.
const PATIENCE: Duration = Duration::from_secs(5);

/// Exchanges submitted for each slot: with more to do than there are slots none of them rests.
const SUBMITTED_PER_SLOT: u64 = 2;

/// Opens one end of the cable at the socket `path`.
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
        port.receive(1, |_| {}).context("receiving")?;
        stop::check()?;
        ensure!(
            Instant::now() < deadline,
            "the ends of the cable do not meet"
        );
    }
    Ok(())
}

/// How an end makes exchanges.
#[derive(Debug, Clone, Copy)]
pub struct RequestOptions {
    /// How.
    pub mode: Mode,
    /// Slots of either end.
    pub slots: u8,
    /// Whether this end initiates exchanges.
    pub sends_requests: bool,
}

/// The counters of one end.
#[derive(Debug, Clone, Copy)]
pub struct Count {
    /// Exchanges of this end that ended.
    pub exchanges: u64,
    /// Records that it sent.
    pub records: u64,
    /// Frames that it sent.
    pub frames: u64,
    /// Allocations of its thread.
    pub allocations: u64,
}

/// See the module's documentation.
pub struct End {
    end: LinkEnd,
    load: Load,
    request_options: RequestOptions,
    peer: u64,
    request: Vec<u8>,
    submitted: u64,
}

impl End {
    /// An end with the identity `guid` for the calling thread.
    pub fn new(port: Box<dyn Port>, guid: u64, request_options: RequestOptions) -> Result<Self> {
        let request = Request {
            rkey: RKEY,
            offset: 0,
            verb: Verb::FetchAdd { delta: 1 },
        };
        let mut bytes = [0; REQUEST_BYTES_MAX];
        let length = request
            .encode(&mut bytes)
            .map_err(|error| anyhow::anyhow!("a request of this size: {error:?}"))?;
        Ok(Self {
            end: LinkEnd::new(port, guid, Some(request_options.slots), ROUNDS_PER_CHECK)?,
            load: Load::new(engine("counter", WORD_BYTES)?),
            request_options,
            peer: 0,
            request: bytes[..length].to_vec(),
            submitted: 0,
        })
    }

    /// Returns the current counters.
    pub fn count(&self) -> Count {
        let counters = self.end.node.links().next().map(|link| *link.counters);
        Count {
            exchanges: self.load.completed,
            records: counters.map_or(0, |counters| counters.tx_records),
            frames: counters.map_or(0, |counters| counters.tx_frames),
            allocations: allocations::of_this_thread(),
        }
    }

    /// Waits for the link.
    pub fn wait_for_peer(&mut self) -> Result<()> {
        self.peer = self.end.wait_for_peer(&mut self.load)?;
        Ok(())
    }

    /// Submits exchanges up to the limit and runs one round.
    pub fn round(&mut self) -> Result<()> {
        if self.request_options.sends_requests {
            let most =
                self.load.ended() + u64::from(self.request_options.slots) * SUBMITTED_PER_SLOT;
            while self.submitted < most {
                self.end
                    .node
                    .submit(
                        self.peer,
                        self.request_options.mode,
                        &self.request,
                        self.submitted,
                    )
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

    /// Returns the local word, to which the other end adds.
    pub fn word(&mut self) -> Result<u64> {
        let regions = self.load.engine.remove_session(0);
        let region = regions.first().context("the session has no region")?;
        region.load(0).context("reading the word")
    }

    /// Once round, without submitting.
    pub fn turn(&mut self) -> Result<()> {
        self.end.round(&mut self.load).map(drop)
    }
}
