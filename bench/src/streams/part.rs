//! The protocol between a measurement and the processes that it starts.

use std::{path::PathBuf, time::Duration};

use covalent_config::DataplaneConfig;
use covalent_dataplane::session::quota;
use serde::{Deserialize, Serialize};

use crate::streams::{
    case::{Case, Size, Test},
    session::{SessionPart, Trial},
    tally::Tally,
};

/// Slots of a session with `pipes` pipes: as many as `covalentd` creates by default, and more if
/// there are more pipes than it would permit.
pub fn session_slots(pipes: u32) -> u32 {
    let by_default = DataplaneConfig::default().pipes_per_session_max;
    quota::session_slots(pipes.max(by_default))
}

/// Longest message, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 64 * 1024;

/// By which means the two processes are joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Means {
    /// Covalent's pipes with the notifications and doorbells of a session.
    Pipe,
    /// Covalent's pipes without a session.
    PipeAlone,
    /// A ring of bare quanta.
    Ring,
    /// A Unix stream socket.
    Unix,
    /// TCP over the loopback interface.
    Tcp,
    /// iceoryx2, publish and subscribe.
    Iceoryx,
    /// Aeron, IPC.
    Aeron,
    /// UCX over shared memory.
    Ucx,
    /// libfabric's provider `shm`.
    Libfabric,
}

impl Means {
    /// Whether a third process makes it possible: Aeron's media driver.
    pub fn has_aid(self) -> bool {
        self == Self::Aeron
    }
}

/// Which process it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Side {
    /// The daemon's: it begins.
    Near,
    /// The application's: it answers.
    Far,
    /// One that only makes the others possible.
    Aid,
}

/// The task of a process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Part {
    /// How it reaches the other.
    pub means: Means,
    /// Which it is.
    pub side: Side,
    /// The measured case.
    pub case: Case,
    /// Its core. `None` leaves it unpinned.
    pub core: Option<usize>,
    /// Before counting.
    pub warm_up: Duration,
    /// Counting.
    pub slice: Duration,
    /// Size of the ring of pipes and of the bare ring, in bytes.
    pub ring_bytes: u64,
    /// Whether that ring is in 2 MiB pages.
    pub huge_pages: bool,
    /// The frames of the mix.
    pub mix: PathBuf,
    /// A folder for this pair's files.
    pub folder: PathBuf,
    /// The near side's data for the far side.
    pub note: String,
}

impl Part {
    /// Creates the near side of an echo of messages of `bytes` for about `slice`, for
    /// [`Company::accompany`](super::pair::Company::accompany).
    pub fn echo(means: Means, bytes: usize, ring_bytes: u64, slice: Duration) -> Self {
        Self {
            means,
            side: Side::Near,
            case: Case {
                test: Test::Echo,
                size: Size::Bytes(u32::try_from(bytes).unwrap_or(u32::MAX)),
            },
            core: None,
            warm_up: Duration::ZERO,
            slice,
            ring_bytes,
            huge_pages: false,
            mix: PathBuf::new(),
            folder: PathBuf::new(),
            note: String::new(),
        }
    }

    /// How the names of this pair's shared memory begin, if it has names.
    pub fn shared_memory_prefix(&self) -> String {
        let name = self.folder.file_name().unwrap_or_default();
        format!(
            "covalent_bench_{}_",
            name.to_string_lossy().trim_start_matches('.')
        )
    }
}

/// From the measurement to a process.
#[derive(Debug, Serialize, Deserialize)]
pub enum Order {
    /// The part, with the near side's descriptors for the far side beside it.
    Prepare(Box<Part>),
    /// As [`Order::Prepare`], for a measurement with many rings, which the two sides pass to each
    /// other.
    PrepareSession(Box<SessionPart>),
    /// Begin.
    Go,
    /// End.
    Stop,
}

/// From a process to the measurement.
#[derive(Debug, Serialize, Deserialize)]
pub enum Word {
    /// Preparation is complete. For the far side: `note`, and the attached descriptors.
    Ready {
        /// For the far side.
        note: String,
    },
    /// Its counts.
    Done(Tally),
    /// The trials of a measurement with many rings.
    Tried {
        /// The near side's; of the far side, none.
        trials: Vec<Trial>,
        /// Packets sent and not dropped, or received, in all.
        packets: u64,
        /// Share of its core that the process took.
        core_share: f64,
    },
    /// Why it cannot.
    Failed(String),
}
