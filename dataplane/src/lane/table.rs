//! A lane's applications and their pipes.

use covalent_api::{
    request::PipeKind,
    rule::{Match, Spread},
};
use covalent_ipc::event::EventFd;
use covalent_pipe::{Refused, nic::NicPipe, session::NicSession};

use super::{
    command::{NewPipe, NewSession},
    pacer::Pacer,
};

/// One application as its lane sees it.
#[derive(Debug)]
pub struct LaneSession {
    /// The daemon's number for it.
    pub session: u64,
    /// The user that it runs as.
    pub uid: u32,
    /// The name that it gave itself.
    pub program: Box<str>,
    /// That is root or the daemon's own user.
    pub commands: bool,
    /// Notifications to it, doorbells from it.
    pub rings: NicSession,
    /// Wakes the application.
    pub to_application: EventFd,
    /// Wakes this lane.
    pub to_lane: EventFd,
    /// Nothing more will come through [`LaneSession::to_lane`].
    pub wake_broken: bool,
    /// The lane reads nothing of it any more: it wrote a value that no correct application writes,
    /// or it is being detached.
    pub ignored: bool,
    /// Its pipes: their slot in the lane's table, by number.
    pub pipes: Vec<Option<usize>>,
    /// Its verb queues: its pipes for completions.
    queues: usize,
    /// Verbs in flight at other nodes, of all its queues.
    pub outstanding: usize,
    /// A receive queue got a message, and the session is not notified yet.
    pub has_message: bool,
}

/// One pipe as its lane sees it.
#[derive(Debug)]
pub struct LanePipe {
    /// Slot of the session.
    pub session: usize,
    /// Number in that session.
    pub number: u32,
    /// Its purpose.
    pub kind: PipeKind,
    /// The port on which it sends, or from which alone it receives.
    pub port: Option<u16>,
    /// Ring size in bytes.
    pub capacity_bytes: u64,
    /// Size of the pages that it lies in, in bytes.
    pub page_bytes: u64,
    /// The lane's half.
    pub nic: NicPipe,
    /// Refusals of the application's half at the last read.
    pub refused: Refused,
    /// Frames that its receive ports had lost when it was opened.
    pub lost_before: u64,
    /// Of a pipe for verbs: the slot of the pipe for their completions.
    pub completions: Option<usize>,
    /// Of a pipe for completions: the verbs in flight at other nodes that will complete there.
    pub outstanding: usize,
    /// Its bindings, and how it shares each with other pipes.
    pub bindings: Vec<(Match, Option<Spread>)>,
    /// Enforces the rate that its application requested.
    pub pacer: Option<Pacer>,
    /// Where its packets are stamped with the time.
    pub stamp_at: Option<usize>,
    /// It holds packets that are not published yet.
    pub touched: bool,
    /// It is in the queue of pipes to take packets from.
    pub queued: bool,
}

impl From<NewSession> for LaneSession {
    fn from(new: NewSession) -> Self {
        Self {
            session: new.session,
            uid: new.uid,
            program: new.program,
            commands: new.commands,
            rings: new.rings,
            to_application: new.to_application,
            to_lane: new.to_lane,
            wake_broken: false,
            ignored: false,
            pipes: Vec::new(),
            queues: 0,
            outstanding: 0,
            has_message: false,
        }
    }
}

impl LaneSession {
    /// Its pipe `number` is in `slot` now.
    pub fn opened(&mut self, number: u32, slot: usize, kind: PipeKind) {
        let number = number as usize;
        if self.pipes.len() <= number {
            self.pipes.resize(number + 1, None);
        }
        self.pipes[number] = Some(slot);
        self.queues += Self::queues_of(kind);
    }

    /// Its pipe `number` is no more.
    pub fn closed(&mut self, number: u32, kind: PipeKind) {
        if let Some(place) = self.pipes.get_mut(number as usize) {
            *place = None;
        }
        self.queues -= Self::queues_of(kind);
    }

    /// Its verb queues.
    pub const fn queues(&self) -> usize {
        self.queues
    }

    fn queues_of(kind: PipeKind) -> usize {
        usize::from(kind == PipeKind::VerbComplete)
    }
}

impl LanePipe {
    /// `new` as a pipe of the session in slot `session`.
    pub fn new(new: NewPipe, session: usize) -> Self {
        Self {
            session,
            number: new.pipe,
            kind: new.kind,
            port: new.port,
            capacity_bytes: new.capacity_bytes,
            page_bytes: new.page_bytes,
            nic: new.nic,
            refused: Refused::default(),
            lost_before: 0,
            completions: None,
            outstanding: 0,
            bindings: Vec::new(),
            pacer: None,
            stamp_at: None,
            touched: false,
            queued: false,
        }
    }

    /// Whether it may receive frames of the port `index`.
    pub fn receives_from(&self, index: u16) -> bool {
        matches!(self.kind, PipeKind::Rx | PipeKind::RxTx | PipeKind::RxBytes)
            && self.port.is_none_or(|port| port == index)
    }

    /// Whether the lane takes packets out of it.
    pub fn is_source(&self) -> bool {
        matches!(
            self.kind,
            PipeKind::Tx | PipeKind::RxTx | PipeKind::VerbSubmit
        )
    }
}
