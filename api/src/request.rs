//! Requests to the daemon and its replies.

use serde::{Deserialize, Serialize};

use crate::{
    agreement::{HeldBrief, VerdictBrief},
    config::FaultRates,
    datagram::{self, DatagramError},
    event::Event,
    guid::Guid,
    hex64::Hex64,
    rule::{Match, Spread},
    status::NodeStatus,
    tap::TapFrames,
    tuning::PipeTuning,
    versions::Versions,
};

/// What a client asks. It is done whole or not at all: a daemon that does not know the request, or a field of it, refuses it and changes
/// nothing. So a client leaves out what the version that was agreed on does not have. The first message of a connection must be [`Request::Hello`], within two seconds of connecting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// Introduces the client.
    Hello {
        /// The newest version that the client speaks ([`crate::versions`]).
        version: u32,
        /// The oldest; `None`, as from every client of version 5: no other.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        oldest: Option<u32>,
        /// What the client calls itself, at most 64 bytes; for people.
        program: String,
    },
    /// Makes this connection a session that can hold pipes and regions, once its memory is mapped. Once per connection, mapped or not: who sends
    /// it again is turned away.
    OpenSession {
        /// The lane to live on, 0-based.
        lane: u32,
    },
    /// Makes a pipe in this session.
    OpenPipe {
        /// Which way it carries, and what.
        kind: PipeKind,
        /// Ring size in bytes: a power of two, 64 KiB to 1 GiB; the default `session_memory_max_mib` admits 128 MiB.
        capacity_bytes: u64,
        /// The port that a TX or RX/TX pipe sends on. An RX pipe may name one too, and its bindings then see that port's
        /// frames only; with `None` they see every port of the session's lane. Verb pipes give `None`.
        port: Option<String>,
    },
    /// As `OpenPipe`, under the number that the pipe had in an earlier session: for an application whose daemon was restarted.
    OpenPipeAgain {
        /// Its number: below twice `dataplane.pipes_per_session_max`, and not taken.
        pipe: u32,
        /// As there.
        kind: PipeKind,
        /// As there.
        capacity_bytes: u64,
        /// As there.
        port: Option<String>,
    },
    /// What the reply to the last request handed over is mapped: the memory of a session, a pipe or a region. Only now it is served. It follows
    /// that reply at once: any other request means that it could not be mapped, and closes it.
    ///
    /// From then on its descriptors let nobody map it writable or make holes in it; mappings that are there stay as they are.
    #[serde(deserialize_with = "crate::datagram::no_fields")]
    Mapped,
    /// Gives a pipe back.
    ClosePipe {
        /// The pipe's number in this session.
        pipe: u32,
    },
    /// Steers matching frames into an RX or RX/TX pipe of this session. All ports that the pipe sees take it, or none.
    Bind {
        /// The pipe's number in this session.
        pipe: u32,
        /// Frames that it wants.
        matches: Match,
        /// `None`: the pipe wants them alone, and is refused if anybody holds the same match. Else it shares them with every
        /// other pipe that is bound to the same match with the same policy. Refused if somebody holds the match alone, if
        /// the set has another policy, belongs to another user or has [`crate::rule::SPREAD_PIPES_MAX`] pipes, or if this
        /// pipe is in it already.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        spread: Option<Spread>,
    },
    /// Takes a binding back; a pipe of a set leaves it, and the others take its share. Frames that lie in the pipe stay there.
    Unbind {
        /// The pipe's number in this session.
        pipe: u32,
        /// The match given to `Bind`.
        matches: Match,
    },
    /// Sets how the packets of a pipe of this session are treated, as a whole. Refused for verb pipes.
    TunePipe {
        /// The pipe's number in this session.
        pipe: u32,
        /// What holds from now on.
        tuning: PipeTuning,
    },
    /// Puts a record of each frame that the lane receives or sends on an RX pipe's port into that pipe, until it is closed: see [`crate::tap`]. The
    /// pipe must name its port, which nobody else may be capturing. Needs the daemon's own user or root.
    Tap {
        /// The pipe's number in this session.
        pipe: u32,
        /// Which frames.
        frames: TapFrames,
        /// Most bytes of a frame that are kept: 14 to 65535.
        snap_bytes: u32,
    },
    /// Registers memory of this session for verbs of others, or a receive queue for their messages.
    RegisterRegion {
        /// Name, unique on the node, 1 to 32 bytes.
        name: String,
        /// Size in bytes, a multiple of 8, at most 1 GiB.
        size_bytes: u64,
        /// What others may do with it.
        rights: Rights,
        /// Whether what verbs do to it outlives the daemon and the machine: they are acknowledged once they are on disk. Registered again by the same user
        /// under the same name, with the same size and on the same lane, it holds what it held. Needs a daemon with a journal. Lasts until
        /// [`Request::DeleteRegion`].
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        durable: bool,
    },
    /// As `RegisterRegion`, under the key that the region had: for an application whose daemon was restarted, so that whoever looked the key up can go
    /// on showing it. What the memory is to hold is written into it before `Mapped`.
    RegisterRegionAgain {
        /// Its key: not 0, and none that this daemon ever gave.
        rkey: u32,
        /// The seal that came with the key ([`Reply::Region`]): it shows that this node gave this key to a region of this name and of the same user.
        seal: Hex64,
        /// As there.
        name: String,
        /// As there.
        size_bytes: u64,
        /// As there.
        rights: Rights,
        /// As there. What the journal holds takes the place of what was written.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        durable: bool,
    },
    /// Takes back a region or receive queue of this session: verbs that come for its key are refused from now on, and its name is free. Its
    /// memory stays charged to the session, as that of a closed pipe does. Refused for a durable region, which its user deletes.
    WithdrawRegion {
        /// Its key.
        rkey: u32,
    },
    /// Deletes a durable region: what it holds is gone, and its name and its room in the journal are free. Answered once that is on disk. Only the user
    /// whose region it is, the daemon's own user and root may. Refused while another session has it registered; in the session that has, it is
    /// an ordinary region from then on.
    DeleteRegion {
        /// Its name.
        name: String,
    },
    /// Everything that the daemon knows of itself.
    #[serde(deserialize_with = "crate::datagram::no_fields")]
    Status,
    /// Sends every later [`Event`] to this connection.
    #[serde(deserialize_with = "crate::datagram::no_fields")]
    Subscribe,
    /// The last events that the daemon keeps, in order.
    Events {
        /// Number of the first one that is wanted: those before it are left out.
        from: u64,
    },
    /// Enables or disables a port as if its cable were pulled. Needs the daemon's own user or root.
    SetPort {
        /// Name of the port.
        port: String,
        /// Whether it may carry frames.
        enabled: bool,
    },
    /// Changes what a port does to its own frames. Needs the daemon's own user or root, and a port with `[port.faults]`.
    SetFaults {
        /// Name of the port.
        port: String,
        /// What happens from now on to frames that arrive.
        rx: FaultRates,
        /// What happens from now on to frames that are sent.
        tx: FaultRates,
    },
    /// Which configuration is in force. Answered when no exchange is under way. From then on this connection, and no other, may offer one, until
    /// somebody else asks. This and the three below need the daemon's own user or root.
    #[serde(deserialize_with = "crate::datagram::no_fields")]
    Agreement,
    /// The text of the configuration in force, in pieces of [`crate::agreement::PIECE_BYTES_MAX`].
    AgreedText {
        /// Bytes of it that were read before.
        from_bytes: u64,
    },
    /// A piece of the text of a configuration that is to be offered, of [`crate::agreement::PIECE_BYTES_MAX`] at most. What was sent ends with the
    /// connection.
    Draft {
        /// Bytes of it that were sent before; 0 begins anew.
        from_bytes: u64,
        /// The piece.
        text: String,
    },
    /// Offers the draft: every lane takes it, or none does.
    Offer {
        /// The epoch that all are to hold: later than the one in force.
        epoch: u64,
        /// What is believed to be in force.
        believes: HeldBrief,
        /// Digest of the draft.
        digest: Hex64,
        /// Ports that are closed and opened again although nothing else is configured for them, by their names: `af_xdp` and `cable` ports, whose
        /// devices may have changed or come.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        reopen: Vec<String>,
    },
}

impl Request {
    /// The greeting of this release.
    #[must_use]
    pub fn hello(program: &str) -> Self {
        Self::Hello {
            version: Versions::SPOKEN.newest,
            oldest: Some(Versions::SPOKEN.oldest),
            program: program.to_owned(),
        }
    }

    /// The greeting for a daemon of version 5, which knows no ranges.
    #[must_use]
    pub fn hello_of_version_5(program: &str) -> Self {
        Self::Hello {
            version: 5,
            oldest: None,
            program: program.to_owned(),
        }
    }

    /// Reads a datagram that should be a greeting. Fields that only a later version has are passed over, so that it can be answered with what this
    /// one speaks. Anything else than a greeting is read as strictly as ever.
    ///
    /// # Errors
    /// As for [`datagram::decode`].
    pub fn read_greeting(bytes: &[u8]) -> Result<Self, DatagramError> {
        datagram::decode::<Self>(bytes).or_else(|error| {
            let greeting: Greeting = datagram::decode(bytes).map_err(|_| error)?;
            let Greeting::Hello {
                version,
                oldest,
                program,
            } = greeting;
            Ok(Self::Hello {
                version,
                oldest,
                program,
            })
        })
    }
}

/// [`Request::Hello`] of any later version.
#[derive(Deserialize)]
#[serde(tag = "request", rename_all = "snake_case")]
enum Greeting {
    Hello {
        version: u32,
        #[serde(default)]
        oldest: Option<u32>,
        program: String,
    },
}

/// What a pipe is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PipeKind {
    /// Frames to the application.
    Rx,
    /// Frames from the application.
    Tx,
    /// Frames to the application, which sends them back from where they lie.
    RxTx,
    /// What the UDP datagrams in frames carry to the application, without gaps between them.
    RxBytes,
    /// Verb requests from the application (a TX pipe that no port sees).
    /// They are taken in order: one that waits for a node that is cut off holds up those behind it, in this session only.
    VerbSubmit,
    /// Verb completions to the application (an RX pipe that no port sees).
    VerbComplete,
}

/// What others may do with a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rights {
    /// `read` verbs.
    pub read: bool,
    /// `write` verbs.
    pub write: bool,
    /// Atomic verbs.
    pub atomic: bool,
    /// `send` verbs: the region is a receive queue, and grants nothing else.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub send: bool,
}

impl Rights {
    /// Every right to memory.
    pub const ALL: Self = Self {
        read: true,
        write: true,
        atomic: true,
        send: false,
    };

    /// The right of a receive queue.
    pub const SEND: Self = Self {
        read: false,
        write: false,
        atomic: false,
        send: true,
    };
}

impl Reply {
    /// Refuses a request.
    #[must_use]
    pub fn refused(reason: impl Into<String>) -> Self {
        Self::Refused {
            reason: reason.into(),
            speaks: None,
        }
    }
}

/// What the daemon answers. Fields that are not known here are passed over, and those that a later version adds are optional.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "snake_case")]
pub enum Reply {
    /// To `Hello`.
    Welcome {
        /// The version that this connection speaks from now on: the newest that both sides do.
        version: u32,
        /// What the daemon speaks; absent from one of version 5.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        speaks: Option<Versions>,
        /// The node's configured name.
        node: String,
        /// The node's identity. The address of a lane is [`Guid::lane`] of it.
        guid: Guid,
        /// How many lanes there are.
        lanes: u32,
        /// The ports, in order of their numbers.
        ports: Vec<PortBrief>,
    },
    /// To `OpenSession`. Three descriptors: session memory, event that wakes the application, event that wakes the lane. Map the memory and
    /// send `Mapped`.
    Session {
        /// The daemon's number for the session.
        session: u64,
        /// Slots in each of the two rings of the session memory. No pipe has the highest number: a notification of it says that a message came
        /// into a receive queue of the session.
        slots: u32,
    },
    /// To `OpenPipe`. Two descriptors: control memory, data memory. Map them and send `Mapped`.
    Pipe {
        /// The pipe's number in this session.
        pipe: u32,
        /// Size of the data pages that the daemon got: 4096 or 2097152.
        page_bytes: u64,
        /// Longest frame that a TX pipe's port takes, in bytes without FCS; 0 for pipes without a port.
        frame_bytes_max: u32,
    },
    /// To `RegisterRegion` and `RegisterRegionAgain`. One descriptor: the region's memory. Map it and send `Mapped`.
    Region {
        /// Key that verbs must show.
        rkey: u32,
        /// Size in bytes.
        size_bytes: u64,
        /// Shows to later daemons of this node whose key it is: kept by the application, told to nobody, and given back with `RegisterRegionAgain`. It holds as
        /// long as the node's state directory does.
        seal: Hex64,
    },
    /// To `Status`.
    Status(Box<NodeStatus>),
    /// To `Events`.
    Events {
        /// As many as one answer holds. Older ones than the first may be forgotten.
        events: Vec<Event>,
        /// What to ask for next; `None`: there was no later one.
        next: Option<u64>,
    },
    /// To `Agreement`.
    Agreement {
        /// What is in force.
        held: HeldBrief,
    },
    /// To `AgreedText`.
    AgreedText {
        /// What is in force. Begin anew if it is not what was told with the first piece.
        held: HeldBrief,
        /// The piece.
        text: String,
        /// Where the next piece begins; `None`: this was the last.
        next_bytes: Option<u64>,
    },
    /// To `Offer`.
    Verdict(Box<VerdictBrief>),
    /// To requests that have nothing else to tell.
    Done,
    /// The request was refused; nothing changed.
    Refused {
        /// What happened, to which object, and what to do.
        reason: String,
        /// What the daemon speaks, if it refused a greeting because that is something else.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        speaks: Option<Versions>,
    },
    /// Pushed to subscribers.
    Event(Event),
}

/// A port as applications see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortBrief {
    /// Configured name.
    pub name: String,
    /// Longest frame, in bytes without FCS.
    pub frame_bytes_max: u32,
    /// The lane that owns it.
    pub lane: u32,
}
