//! What the host thread asks of a lane, and what a lane tells the host thread.
//!
//! A command takes effect at the lane's loop boundary, whole or not at all, and is answered with its ticket. So the
//! host sees the state that the lane had when it accepted, and the lane never sees half a change.

use std::{path::PathBuf, sync::Arc};

use covalent_api::{
    agreement::LaneHeld,
    config::FaultRates,
    event::EventKind,
    request::{PipeKind, Rights},
    rule::{Match, Spread},
    status::{
        FabricStatus, FarNodeStatus, GroupStatus, LaneStatus, LinkStatus, PathStatus, PipeStatus,
        PortStatus, VerbStatus,
    },
    tap::TapFrames,
    tuning::PipeTuning,
};
use covalent_pipe::{event::EventFd, nic::NicPipe, region::RegionMemory, session::NicSession};

use covalent_protocol::agreement::Offer;

use super::{agreement::LaneWant, new_port::NewPort};
use crate::port::Port;

/// A command and the number under which it is answered.
#[derive(Debug)]
pub struct Order {
    /// Given back with the answer.
    pub ticket: u64,
    /// What to do.
    pub command: Command,
}

/// What the host thread asks of a lane.
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
        /// Frames that it wants.
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
        /// What holds from now on; checked.
        tuning: PipeTuning,
    },
    /// Captures what the port of a pipe receives and sends.
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
    /// Deletes a durable region, also what the journal has of it. Answered once that is on disk.
    DeleteRegion {
        /// Its name.
        name: String,
    },
    /// Ends the journal, because of what somebody else did to its files.
    EndJournal {
        /// The file or directory.
        path: PathBuf,
        /// What was done to it.
        what: String,
    },
    /// Enables or disables a port.
    SetPort {
        /// Index of the port.
        port: u16,
        /// Whether it may carry frames.
        enabled: bool,
    },
    /// Changes what a port does to its own frames.
    SetFaults {
        /// Index of the port.
        port: u16,
        /// Frames that arrive.
        rx: FaultRates,
        /// Frames that are sent.
        tx: FaultRates,
    },
    /// The kernel says that a port's interface has, or has no, carrier.
    SetCarrier {
        /// Index of the port.
        port: u16,
        /// Whether frames can pass.
        up: bool,
    },
    /// What a port was made of has ceased to exist, which it may not notice by itself before it sends something.
    LosePort {
        /// Number of the port.
        port: u16,
        /// What ceased to exist, and what to do.
        reason: String,
    },
    /// Says whether the lane could hold this.
    Judge(Arc<LaneWant>),
    /// Gives these ports back, so that they, or others in their place, can be opened.
    Vacate {
        /// For this.
        offer: Offer,
        /// Their numbers.
        ports: Vec<u16>,
    },
    /// Makes this ready, with these ports, or leaves all as it was.
    Take(Arc<LaneWant>, Vec<NewPort>),
    /// Holds what was made ready.
    Settle {
        /// Its epoch.
        epoch: u64,
    },
    /// Changes back what was made ready.
    Undo {
        /// Its epoch.
        epoch: u64,
    },
    /// Puts ports back that were given back, or what stands for them.
    PutBack {
        /// The epoch for which they were given back.
        epoch: u64,
        /// They.
        ports: Vec<NewPort>,
    },
    /// Tells everything that the lane counted, but for its pipes.
    Snapshot,
    /// Tells what some pipes did: as many as one round has time for.
    SnapshotPipes {
        /// Slots of pipes that were told of before.
        from: usize,
    },
    /// Brings to an end what is open, and begins nothing new. Answered when that is over, which takes a bounded time.
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
    /// What it is for.
    pub kind: PipeKind,
    /// The port that it sends on, or whose frames alone it receives.
    pub port: Option<u16>,
    /// Ring size in bytes.
    pub capacity_bytes: u64,
    /// Size of the pages that it lies in, in bytes.
    pub page_bytes: u64,
    /// The lane's half.
    pub nic: NicPipe,
}

/// A region to take in.
#[derive(Debug)]
pub struct NewRegion {
    /// The session.
    pub session: u64,
    /// Name on the node.
    pub name: String,
    /// The key that verbs must show.
    pub rkey: u32,
    /// What verbs may do with it.
    pub rights: Rights,
    /// Whether a journal keeps what verbs do to it.
    pub durable: bool,
    /// The memory.
    pub memory: RegionMemory,
}

/// What a lane tells the host thread.
#[derive(Debug)]
pub enum Report {
    /// The end of a command.
    Answer {
        /// The command's ticket.
        ticket: u64,
        /// What came of it, or why nothing was changed.
        result: Result<Answer, String>,
    },
    /// Something happened that subscribers want to hear of.
    Event(EventKind),
    /// So many events were lost here, because the host thread was slow.
    EventsLost(u64),
    /// A session wrote something into shared memory that no correct application writes. The lane has stopped serving it.
    Violation {
        /// The session.
        session: u64,
        /// What kind of lie, as [`covalent_pipe::Violation::cause`] has it.
        cause: &'static str,
        /// What was found, and where.
        reason: String,
    },
    /// Memory that nobody uses any more, to be freed where nobody waits for that.
    LetGo {
        /// The user whose it was.
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
        /// What ceased to exist, and what to do.
        reason: String,
        /// What is left of it, to be closed where nobody waits for that; `None` if the lane keeps it.
        remains: Option<Box<dyn Port>>,
    },
}

/// What came of a command.
#[derive(Debug)]
pub enum Answer {
    /// It is done.
    Done,
    /// To [`Command::DeleteRegion`]: the lane has the region no more, and whether its journal has shows at the next start, for this reason.
    InDoubt(String),
    /// To [`Command::Detach`], [`Command::ClosePipe`] and [`Command::Withdraw`].
    Released(Box<Released>),
    /// To the steps of an agreement: [`Command::Judge`], [`Command::Vacate`], [`Command::Take`], [`Command::Settle`], [`Command::Undo`] and
    /// [`Command::PutBack`].
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

/// Memory that a lane let go. It is unmapped where this is dropped: on a worker ([`crate::server::MemoryWorkers`]), for that takes as long as it
/// is large. Its session stays charged until then.
#[derive(Debug, Default)]
pub struct Released {
    /// Pipes, with their mappings.
    pub pipes: Vec<NicPipe>,
    /// Bindings that they had.
    pub bindings: u32,
    /// Verbs under way at other nodes, of which nobody is told any more.
    pub verbs: u32,
    /// Regions, with their mappings.
    pub regions: Vec<RegionMemory>,
    /// What durable regions held that nobody had registered.
    pub kept: Vec<Box<[u8]>>,
    /// The session's rings.
    pub session: Option<NicSession>,
    /// What woke the application and the lane.
    pub wakes: Option<[EventFd; 2]>,
}

/// What came of a step of an agreement.
#[derive(Debug)]
pub struct Stepped {
    /// What the lane holds now, or what is in the way.
    pub went: Result<LaneHeld, LaneObjection>,
    /// Ports that the lane let go, by number: to be closed, where nobody waits for that.
    pub ports: Vec<(u16, Box<dyn Port>)>,
}

/// Why a lane cannot take a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaneObjection {
    /// The rule that cannot be put in force, if it is that.
    pub matches: Option<Match>,
    /// The port that cannot be put in its place, if it is that.
    pub port: Option<u16>,
    /// What is in the way, and what to do.
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
    /// What it knows of other nodes as a whole, if it takes part.
    pub fabric: Option<FabricStatus>,
    /// The other nodes that it knows, by their GUIDs.
    pub nodes: Vec<FarNodeStatus>,
    /// Its paths.
    pub paths: Vec<PathStatus>,
    /// Stays in groups that its applications tell of.
    pub groups: Vec<GroupStatus>,
    /// Its verbs.
    pub verbs: VerbStatus,
}
