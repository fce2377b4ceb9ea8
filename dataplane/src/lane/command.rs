//! Commands from the host thread to a lane, and reports from the lane to the host thread.
//!
//! A command takes effect at the lane's loop boundary, completely or not at all. The lane answers
//! it with its ticket. So the host sees the lane's state at the time of acceptance, and the lane
//! never sees a partial change.

use std::{path::PathBuf, sync::Arc};

use covalent_api::{
    agreement::LaneHeld,
    event::EventKind,
    request::PipeKind,
    rule::{Match, Spread},
    status::{
        FabricStatus, FarNodeStatus, GroupStatus, LaneStatus, LinkStatus, PathStatus, PipeStatus,
        PortStatus, VerbStatus,
    },
    tap::TapFrames,
    tuning::PipeTuning,
};
use covalent_config::FaultRates;
use covalent_ipc::event::EventFd;
use covalent_pipe::{nic::NicPipe, region::RegionMemory, session::NicSession};

pub use super::engine::NewRegion;
use super::{new_port::NewPort, reconfigure::LaneWant};
use crate::port::Port;

/// A command and the number under which it is answered.
#[derive(Debug)]
pub struct Order {
    /// Given back with the answer.
    pub ticket: u64,
    /// The command.
    pub command: Command,
}

/// A command of the host thread to a lane.
#[derive(Debug)]
pub enum Command {
    /// Takes in an application.
    Attach(Box<NewSession>),
    /// Forgets an application: its pipes, bindings, regions and outstanding verbs.
    Detach {
        /// The session.
        session: u64,
    },
    /// Takes in a pipe.
    OpenPipe(Box<NewPipe>),
    /// Forgets a pipe and its bindings.
    ClosePipe {
        /// The session.
        session: u64,
        /// The pipe's number in it.
        pipe: u32,
    },
    /// Steers frames into a pipe.
    Bind {
        /// The session.
        session: u64,
        /// The pipe's number in it.
        pipe: u32,
        /// The requested frames.
        matches: Match,
        /// How it shares them with other pipes; `None` if it does not.
        spread: Option<Spread>,
    },
    /// Takes a binding back.
    Unbind {
        /// The session.
        session: u64,
        /// The pipe's number in it.
        pipe: u32,
        /// The match given when it was bound.
        matches: Match,
    },
    /// Sets how a pipe's packets are treated.
    TunePipe {
        /// The session.
        session: u64,
        /// The pipe's number in it.
        pipe: u32,
        /// The new settings, already checked.
        tuning: PipeTuning,
    },
    /// Captures the frames that the port of a pipe receives and sends.
    Tap {
        /// The session.
        session: u64,
        /// The pipe's number in it.
        pipe: u32,
        /// Which frames.
        frames: TapFrames,
        /// Most bytes of a frame that are kept.
        snap_bytes: u32,
    },
    /// Takes in a region.
    Register(Box<NewRegion>),
    /// Forgets a region.
    Withdraw {
        /// The session.
        session: u64,
        /// The region's key.
        rkey: u32,
    },
    /// Deletes a durable region, also from the journal. Answered once the deletion is on disk.
    DeleteRegion {
        /// Its name.
        name: String,
    },
    /// Ends the journal because another process changed its files.
    EndJournal {
        /// The file or directory.
        path: PathBuf,
        /// The change.
        what: String,
    },
    /// Enables or disables a port.
    SetPort {
        /// Index of the port.
        port: u16,
        /// Whether it may carry frames.
        enabled: bool,
    },
    /// Changes the fault injection of a port.
    SetFaults {
        /// Index of the port.
        port: u16,
        /// Frames that arrive.
        rx: FaultRates,
        /// Frames that are sent.
        tx: FaultRates,
    },
    /// The kernel reports that a port's interface has, or lacks, a carrier.
    SetCarrier {
        /// Index of the port.
        port: u16,
        /// Whether frames can pass.
        up: bool,
    },
    /// The device of a port no longer exists. The port itself may not notice before its next
    /// transmission.
    LosePort {
        /// Number of the port.
        port: u16,
        /// The missing device, and the remedy.
        reason: String,
    },
    /// Checks whether a pipe is in the way of this configuration. Changes nothing.
    Check(Arc<LaneWant>),
    /// Detaches these ports, so that they, or others in their place, can be opened.
    DetachPorts {
        /// Their numbers.
        ports: Vec<u16>,
    },
    /// Does everything that may fail for this configuration, with these ports, or leaves all as it
    /// was.
    Prepare(Arc<LaneWant>, Vec<NewPort>),
    /// Puts the prepared configuration in force.
    Commit,
    /// Rolls the prepared configuration back, if there is one.
    RollBack,
    /// Returns all counters of the lane except those of its pipes.
    Snapshot,
    /// Returns the counters of some pipes: as many as one round has time for.
    SnapshotPipes {
        /// First pipe slot that was not returned yet.
        from: usize,
    },
    /// Completes open exchanges and begins no new ones. Answered after a bounded time, when this is
    /// over.
    Leave,
    /// Ends the lane's thread after this round.
    Stop,
}

/// An application to take in.
#[derive(Debug)]
pub struct NewSession {
    /// The daemon's number for it.
    pub session: u64,
    /// The user that the application runs as.
    pub uid: u32,
    /// The name that the application gave itself.
    pub program: Box<str>,
    /// That is root or the daemon's own user.
    pub commands: bool,
    /// The lane's half of the notification and doorbell rings.
    pub rings: NicSession,
    /// Wakes the application: the giving end of [`EventFd::one_way`].
    pub to_application: EventFd,
    /// Wakes the lane: an eventfd that the application has too, and the lane only takes from.
    pub to_lane: EventFd,
}

/// A pipe to take in.
#[derive(Debug)]
pub struct NewPipe {
    /// The session.
    pub session: u64,
    /// The pipe's number in it.
    pub pipe: u32,
    /// Its purpose.
    pub kind: PipeKind,
    /// The port on which it sends, or from which alone it receives.
    pub port: Option<u16>,
    /// The number of the other pipe of its verb queue, if that is open already.
    pub partner: Option<u32>,
    /// Ring size in bytes.
    pub capacity_bytes: u64,
    /// Size of the pages that it lies in, in bytes.
    pub page_bytes: u64,
    /// The lane's half.
    pub nic: NicPipe,
}

/// A report of a lane to the host thread.
#[derive(Debug)]
pub enum Report {
    /// The end of a command.
    Answer {
        /// The command's ticket.
        ticket: u64,
        /// The answer, or the reason why nothing changed.
        result: Result<Answer, String>,
    },
    /// An event for subscribers.
    Event(EventKind),
    /// So many events were lost here, because the host thread was slow.
    EventsLost(u64),
    /// A session wrote a value to shared memory that no correct application writes. The lane has
    /// stopped serving it.
    Violation {
        /// The session.
        session: u64,
        /// The kind of violation, as [`covalent_pipe::Violation::cause`] returns it.
        cause: &'static str,
        /// The value found, and its location.
        reason: String,
    },
    /// Unused memory, to be freed by a thread that no client waits for.
    LetGo {
        /// The user that owned it.
        uid: u32,
        /// Its size in bytes.
        bytes: u64,
        /// It.
        released: Box<Released>,
    },
    /// The device of a port has ceased to exist.
    PortGone {
        /// Number of the port.
        port: u16,
        /// The missing device, and the remedy.
        reason: String,
        /// The rest of the port, to be closed by a thread that no client waits for. `None` if the
        /// lane keeps it.
        remains: Option<Box<dyn Port>>,
    },
}

/// The answer to a command.
#[derive(Debug)]
pub enum Answer {
    /// It is done.
    Done,
    /// To [`Command::DeleteRegion`]: the lane no longer has the region. The next start shows
    /// whether its journal still has it, for this reason.
    InDoubt(String),
    /// To [`Command::Detach`], [`Command::ClosePipe`] and [`Command::Withdraw`].
    Released(Box<Released>),
    /// To the steps of a reconfiguration: [`Command::Check`], [`Command::DetachPorts`],
    /// [`Command::Prepare`], [`Command::Commit`] and [`Command::RollBack`].
    Stepped(Box<Stepped>),
    /// To [`Command::Leave`]: no application is served any more.
    Left {
        /// Nothing was left half done with any node that can be reached.
        in_order: bool,
    },
    /// To [`Command::Snapshot`].
    Snapshot(Box<LaneSnapshot>),
    /// To [`Command::SnapshotPipes`].
    Pipes {
        /// The pipes that are there.
        pipes: Vec<PipeStatus>,
        /// Where to go on; `None`: these were the last.
        next: Option<usize>,
    },
}

/// Memory that a lane has released. Dropping this value unmaps it, which takes time in proportion
/// to its size. So a worker of the host thread drops it. The session stays charged until then.
#[derive(Debug, Default)]
pub struct Released {
    /// Pipes, with their mappings.
    pub pipes: Vec<NicPipe>,
    /// Bindings that they had.
    pub bindings: u32,
    /// Verbs in flight at other nodes, whose outcome is no longer reported.
    pub verbs: u32,
    /// Regions, with their mappings.
    pub regions: Vec<RegionMemory>,
    /// Content of durable regions that no application has registered.
    pub kept: Vec<Box<[u8]>>,
    /// The session's rings.
    pub session: Option<NicSession>,
    /// The eventfds that woke the application and the lane.
    pub wakes: Option<[EventFd; 2]>,
}

/// The result of a step of a reconfiguration.
#[derive(Debug)]
pub struct Stepped {
    /// The configuration that the lane holds now, or the obstacle.
    pub went: Result<LaneHeld, LaneObjection>,
    /// Ports that the lane handed over, by number. A thread that no client waits for closes them.
    pub ports: Vec<(u16, Box<dyn Port>)>,
}

/// Why a lane cannot take a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneObjection {
    /// The rule that cannot be put in force, if it is that.
    pub matches: Option<Match>,
    /// The port that cannot be put in its place, if it is that.
    pub port: Option<u16>,
    /// The obstacle, and the remedy.
    pub reason: String,
}

/// Everything that a lane counted, but for its pipes.
#[derive(Debug)]
pub struct LaneSnapshot {
    /// The lane itself.
    pub lane: LaneStatus,
    /// Its ports, with their index.
    pub ports: Vec<(u16, PortStatus)>,
    /// Its links.
    pub links: Vec<LinkStatus>,
    /// Its summary of other nodes, if it takes part in the fabric.
    pub fabric: Option<FabricStatus>,
    /// The other nodes that it knows, by their GUIDs.
    pub nodes: Vec<FarNodeStatus>,
    /// Its paths.
    pub paths: Vec<PathStatus>,
    /// Member incarnations in groups, as its applications report them.
    pub groups: Vec<GroupStatus>,
    /// Its verbs.
    pub verbs: VerbStatus,
}
