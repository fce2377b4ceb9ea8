//! The tasks of the two processes of a measurement with many rings.

use std::{path::PathBuf, time::Duration};

use serde::{Deserialize, Serialize};

use super::drive::DRAIN;
use crate::streams::part::{Part, Side, session_slots};

/// How the two halves notify each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NotifyMode {
    /// Reactive notifications. The application requests a pipe's next one when it is idle.
    Reactive,
    /// Reactive notifications. The application requests a pipe's next one before it processes the
    /// pipe's packets.
    ReactivePrefetch,
    /// A notification per packet. The application requests none, so there is nothing to prefetch.
    PerPacket,
}

impl NotifyMode {
    /// In tables and plots.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reactive => "reactive",
            Self::ReactivePrefetch => "reactive, prefetched",
            Self::PerPacket => "per packet",
        }
    }
}

/// The kind of rings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Rings {
    /// Pipes of one session.
    Pipes(NotifyMode),
    /// Rings of bare quanta: no session, no lengths, no notifications.
    Bare,
}

/// The trials of the near side, in order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Script {
    /// As fast as it can, once.
    FlatOut,
    /// These rates, in million packets per second.
    Rates(Vec<f64>),
    /// As fast as it can, then a search for the highest sustained rate. Yields two trials, or one
    /// if there is no such rate.
    Highest {
        /// Steps of the search.
        steps: u32,
    },
}

/// The task of a process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SessionPart {
    /// Which it is.
    pub side: Side,
    /// Its core. `None` leaves it unpinned.
    pub core: Option<usize>,
    /// The kind of rings.
    pub rings: Rings,
    /// How many of those.
    pub count: u32,
    /// Size of each, in bytes.
    pub ring_bytes: u64,
    /// Whether they are in 2 MiB pages, where one holds as much.
    pub huge_pages: bool,
    /// Whether the application sends some packets back, to measure round trips.
    pub probes: bool,
    /// The trials of the near side.
    pub script: Script,
    /// How long each trial runs before it counts.
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
            rings: Rings::Pipes(NotifyMode::ReactivePrefetch),
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

    /// Upper limit for all trials: each one of a search runs twice, and each one drains. On a busy
    /// machine the application empties its rings slowly.
    pub fn time(&self) -> Duration {
        let trials = match &self.script {
            Script::FlatOut => 1,
            Script::Rates(rates) => rates.len() as u32,
            Script::Highest { steps } => 1 + 2 * steps,
        };
        (self.settle + self.slice + DRAIN) * trials + DRAIN
    }

    /// Returns the number of slots in the session.
    pub fn slots(&self) -> u32 {
        session_slots(self.count)
    }
}
