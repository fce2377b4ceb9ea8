//! What the two processes of a measurement with many rings are told.

use std::{path::PathBuf, time::Duration};

use serde::{Deserialize, Serialize};

use super::drive::DRAIN;
use crate::streams::part::{Part, Side};

/// How the two halves tell each other of news.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Telling {
    /// Reactive notifications; an application asks for a pipe's next one when it has nothing else to do.
    Reactive,
    /// Reactive notifications; an application asks for a pipe's next one before it works on the pipe's packets.
    ReactivePrefetch,
    /// A notification for each packet. There is none to ask for, so nothing to prefetch either.
    PerPacket,
}

impl Telling {
    /// In tables and plots.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reactive => "reactive",
            Self::ReactivePrefetch => "reactive, prefetched",
            Self::PerPacket => "per packet",
        }
    }
}

/// What the rings are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Rings {
    /// Pipes of one session.
    Pipes(Telling),
    /// Rings of bare quanta: no session, no lengths, no notifications.
    Bare,
}

/// What the near side tries, in this order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Script {
    /// As fast as it can, once.
    FlatOut,
    /// These rates, in million packets per second.
    Rates(Vec<f64>),
    /// As fast as it can, then in so many steps for the highest rate that is kept up with. Two trials come of it, or one if there is no such rate.
    Highest {
        /// Steps of the search.
        steps: u32,
    },
}

/// What a process is to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SessionPart {
    /// Which it is.
    pub side: Side,
    /// Its core; `None` lets it float.
    pub core: Option<usize>,
    /// What packets go through.
    pub rings: Rings,
    /// How many of those.
    pub count: u32,
    /// Size of each, in bytes.
    pub ring_bytes: u64,
    /// Whether they are in 2 MiB pages, where one holds as much.
    pub huge_pages: bool,
    /// Whether the application sends some packets back, so that round trips are timed.
    pub probes: bool,
    /// What the near side tries.
    pub script: Script,
    /// How long each trial goes on before it counts.
    pub settle: Duration,
    /// How long each trial counts.
    pub slice: Duration,
    /// A folder for this pair's files.
    pub folder: PathBuf,
}

impl SessionPart {
    /// A near side's part in the run that `part` is of, with rings of its size: one pipe, flat out.
    pub fn new(part: &Part, settle: Duration, slice: Duration) -> Self {
        Self {
            side: Side::Near,
            core: part.core,
            rings: Rings::Pipes(Telling::ReactivePrefetch),
            count: 1,
            ring_bytes: part.ring_bytes,
            huge_pages: part.huge_pages,
            probes: false,
            script: Script::FlatOut,
            settle,
            slice,
            folder: part.folder.clone(),
        }
    }

    /// Where the near side hands the rings over.
    pub fn socket(&self) -> PathBuf {
        self.folder.join("session.sock")
    }

    /// How long the trials take at most, if each of a search is made twice: on a busy machine the application may be slow to empty its rings.
    pub fn time(&self) -> Duration {
        let trials = match &self.script {
            Script::FlatOut => 1,
            Script::Rates(rates) => rates.len() as u32,
            Script::Highest { steps } => 1 + 2 * steps,
        };
        (self.settle + self.slice + DRAIN) * trials + DRAIN
    }

    /// Numbers of pipes in the session: as many as `covalentd` makes room for.
    pub fn slots(&self) -> u32 {
        (2 * self.count).next_power_of_two().max(SLOTS_MIN)
    }
}

/// Slots of a session in a daemon whose configuration says nothing else: twice its 1024 pipes.
const SLOTS_MIN: u32 = 2048;
