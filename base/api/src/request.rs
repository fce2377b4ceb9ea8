//! Requests to the daemon and its replies.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{
    agreement::{HeldBrief, VerdictBrief},
    datagram::{self, DatagramError},
    event::Event,
    faults::FaultRates,
    guid::Guid,
    hex64::Hex64,
    rule::{Match, Spread},
    status::NodeStatus,
    tap::TapFrames,
    tuning::PipeTuning,
    versions::Versions,
};

pub use crate::pipe_kind::PipeKind;

/// Requests of a client. A request is executed completely or not at all: a daemon that does not
/// know the request, or a field of it, refuses it and changes nothing. A client therefore omits
/// everything that the agreed version lacks. The first message of a connection must be
/// [`Request::Hello`], within two seconds of connecting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// Introduces the client.
    Hello {
        /// The newest version that the client speaks ([`versions`](crate::versions)).
        version: u32,
        /// The oldest; `None`, as from every client of version 5: no other.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        oldest: Option<u32>,
        /// The client's name for itself, at most 64 bytes; human-readable.
        program: String,
    },
    /// Makes this connection a session that can hold pipes and regions. The session is usable once
    /// its memory is mapped. Permitted once per connection, mapped or not: a client that sends it
    /// again is disconnected.
    OpenSession {
        /// The lane of the session, 0-based.
        lane: u32,
    },
    /// Makes a pipe in this session.
    OpenPipe {
        /// Direction and content.
        kind: PipeKind,
        /// Ring size in bytes: a power of two, 64 KiB to 1 GiB. The default
        /// `session_memory_max_mib` permits 128 MiB.
        capacity_bytes: u64,
        /// The port on which a TX or RX/TX pipe sends. An RX pipe may name one too: its bindings
        /// then receive only that port's frames. With `None` they receive from every port of the
        /// session's lane. Verb pipes use `None`.
        port: Option<String>,
        /// For a pipe of kind `VerbSubmit`: the number of the `VerbComplete` pipe of this session
        /// that receives the completions of its verbs, and of no other pipe's. `None` takes the
        /// one that has no `VerbSubmit` pipe yet, even if it is opened later. Other kinds use
        /// `None`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        completions: Option<u32>,
    },
    /// As `OpenPipe`, with the pipe's number in an earlier session. For an application whose daemon
    /// was restarted.
    OpenPipeAgain {
        /// Its number: below twice `dataplane.pipes_per_session_max`, and not taken.
        pipe: u32,
        /// As there.
        kind: PipeKind,
        /// As there.
        capacity_bytes: u64,
        /// As there.
        port: Option<String>,
        /// As there.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        completions: Option<u32>,
    },
    /// The client has mapped the memory that the last reply handed over: that of a session, a pipe
    /// or a region. The daemon serves the object from now on. The request must directly follow that
    /// reply: any other request means that the mapping failed, and closes the object.
    ///
    /// Afterwards the descriptors can no longer be mapped writable or used to punch holes. Existing
    /// mappings stay valid.
    #[serde(deserialize_with = "crate::datagram::no_fields")]
    Mapped,
    /// Gives a pipe back.
    ClosePipe {
        /// The pipe's number in this session.
        pipe: u32,
    },
    /// Steers matching frames into an RX or RX/TX pipe of this session. Either all ports that the
    /// pipe receives from accept the binding, or none does. Refused for the EtherType of links
    /// ([`Reply::Pipe`]).
    Bind {
        /// The pipe's number in this session.
        pipe: u32,
        /// Frames for the pipe.
        matches: Match,
        /// `None`: the pipe is the only receiver, and the request is refused if any pipe holds the
        /// same match. Otherwise the pipe shares the frames with all other pipes bound to the same
        /// match with the same policy.
        ///
        /// The request is refused if another pipe holds the match exclusively, or if this pipe is
        /// already in the set. It is also refused if the set has another policy, belongs to another
        /// user, or has [`SPREAD_PIPES_MAX`](crate::rule::SPREAD_PIPES_MAX) pipes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        spread: Option<Spread>,
    },
    /// Removes a binding. A pipe of a set leaves the set, and the others take its share. Frames
    /// already in the pipe stay there.
    Unbind {
        /// The pipe's number in this session.
        pipe: u32,
        /// The match given to `Bind`.
        matches: Match,
    },
    /// Sets the treatment of packets of a pipe of this session. Replaces all settings. Refused for
    /// verb pipes.
    TunePipe {
        /// The pipe's number in this session.
        pipe: u32,
        /// The settings from now on.
        tuning: PipeTuning,
    },
    /// Writes a record of each frame that the lane receives or sends on an RX pipe's port into that
    /// pipe, until the pipe is closed: see [`tap`](crate::tap). The pipe must name its port, and no
    /// other pipe may capture on it. Needs the daemon's own user or root.
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
        /// Rights of others to it.
        rights: Rights,
        /// Whether the effects of verbs persist across restarts of the daemon and the machine.
        /// Verbs are then acknowledged once they are on disk. If the same user registers it again
        /// with the same name, size and lane, the region has its former contents. Needs a daemon
        /// with a journal. The region persists until [`Request::DeleteRegion`].
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        durable: bool,
    },
    /// As `RegisterRegion`, with the region's former key. For an application whose daemon was
    /// restarted, so that peers can continue to use the key that they looked up. The client writes
    /// the contents into the memory before `Mapped`.
    RegisterRegionAgain {
        /// Its key: not 0, and none that this daemon ever gave.
        rkey: u32,
        /// The token that came with the key ([`Reply::Region`]). It proves that this node gave this
        /// key to a region of this name and of the same user.
        seal: Hex64,
        /// As there.
        name: String,
        /// As there.
        size_bytes: u64,
        /// As there.
        rights: Rights,
        /// As there. The journal's contents replace the written contents.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        durable: bool,
    },
    /// Withdraws a region or receive queue of this session. Verbs for its key are refused from now
    /// on, and its name is free. Its memory stays charged to the session, like that of a closed
    /// pipe. Refused for a durable region, which its user deletes instead.
    WithdrawRegion {
        /// Its key.
        rkey: u32,
    },
    /// Deletes a durable region: its contents are lost, and its name and its journal space are
    /// free. The daemon replies once the deletion is on disk. Permitted for the region's user, the
    /// daemon's own user and root. Refused while another session has the region registered. In the
    /// session that has it registered, it becomes an ordinary region.
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
    /// The last events that the daemon keeps, oldest first.
    Events {
        /// Number of the first requested event. Earlier ones are omitted.
        from: u64,
    },
    /// Enables or disables a port as if its cable were pulled. Needs the daemon's own user or root.
    SetPort {
        /// Name of the port.
        port: String,
        /// Whether it may carry frames.
        enabled: bool,
    },
    /// Changes the faults that a port injects into its own frames. Needs the daemon's own user or
    /// root, and a port with `[port.faults]`.
    SetFaults {
        /// Name of the port.
        port: String,
        /// Faults of received frames from now on.
        rx: FaultRates,
        /// Faults of sent frames from now on.
        tx: FaultRates,
    },
    /// Queries the configuration in force. The daemon replies when no exchange is in flight. From
    /// then on only this connection may offer a configuration, until another one sends this
    /// request. This request and the three below need the daemon's own user or root.
    #[serde(deserialize_with = "crate::datagram::no_fields")]
    Agreement,
    /// The text of the configuration in force, in pieces of
    /// [`PIECE_BYTES_MAX`](crate::agreement::PIECE_BYTES_MAX).
    AgreedText {
        /// Bytes of it that were read before.
        from_bytes: u64,
    },
    /// A piece of the text of a configuration to be offered, of at most
    /// [`PIECE_BYTES_MAX`](crate::agreement::PIECE_BYTES_MAX) bytes. The daemon discards the text
    /// when the connection closes.
    Draft {
        /// Bytes of it that were sent before; 0 begins anew.
        from_bytes: u64,
        /// The piece.
        text: String,
    },
    /// Offers the draft: every lane accepts it, or none does.
    Offer {
        /// The revision that all are to hold: later than the one in force.
        epoch: u64,
        /// The configuration that the client believes to be in force.
        believes: HeldBrief,
        /// Digest of the draft.
        digest: Hex64,
        /// Names of ports to close and reopen even if their configuration is unchanged: `af_xdp`
        /// and `cable` ports, whose devices may have changed or appeared.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        reopen: Vec<String>,
    },
}

impl Request {
    /// The greeting of this release.
    #[must_use]
    pub fn hello(program: &str) -> Self {
        Self::Hello {
            version: Versions::SUPPORTED.newest,
            oldest: Some(Versions::SUPPORTED.oldest),
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

    /// Reads a datagram that should be a greeting. Ignores fields that only a later version has, so
    /// the reply can list the versions of this release. Other messages are parsed as strictly as
    /// usual.
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

/// Rights of others to a region.
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

/// The granted rights, for example `read, atomic`; `nothing` for none.
impl fmt::Display for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = [
            (self.read, "read"),
            (self.write, "write"),
            (self.atomic, "atomic"),
            (self.send, "send"),
        ];
        let mut granted = all.iter().filter(|(has, _)| *has);
        let Some((_, first)) = granted.next() else {
            return f.write_str("nothing");
        };
        f.write_str(first)?;
        granted.try_for_each(|(_, name)| write!(f, ", {name}"))
    }
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

/// Replies of the daemon. Unknown fields are ignored, and fields added by later versions are
/// optional.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "snake_case")]
pub enum Reply {
    /// To `Hello`.
    Welcome {
        /// The version that this connection speaks from now on: the newest that both sides do.
        version: u32,
        /// The versions that the daemon supports; absent from a daemon of version 5.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        speaks: Option<Versions>,
        /// The node's configured name.
        node: String,
        /// The node's identity. The address of a lane is [`Guid::lane`] of it.
        guid: Guid,
        /// How many lanes there are.
        lanes: u32,
        /// The ports, by number.
        ports: Vec<PortBrief>,
    },
    /// To `OpenSession`. Three descriptors: session memory, event that wakes the application, event
    /// that wakes the lane. Map the memory and send `Mapped`.
    Session {
        /// The daemon's number for the session.
        session: u64,
        /// Slots in each of the two rings of the session memory. The highest number is never a
        /// pipe: a notification with it means that a message arrived in a receive queue of the
        /// session.
        slots: u32,
    },
    /// To `OpenPipe`. Two descriptors: control memory, data memory. Map them and send `Mapped`.
    Pipe {
        /// The pipe's number in this session.
        pipe: u32,
        /// Size of the data pages that the daemon got: 4096 or 2097152.
        page_bytes: u64,
        /// Longest frame that a TX pipe's port accepts, in bytes without FCS; 0 for pipes without a
        /// port.
        frame_bytes_max: u32,
        /// The EtherType of link frames, if a port that the pipe uses has a link. Such a pipe
        /// neither sends frames of it nor is bound to it. Absent from a daemon that does not report
        /// it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        link_ethertype: Option<u16>,
    },
    /// To `RegisterRegion` and `RegisterRegionAgain`. One descriptor: the region's memory. Map it
    /// and send `Mapped`.
    Region {
        /// Key that verbs must show.
        rkey: u32,
        /// Size in bytes.
        size_bytes: u64,
        /// Token that proves the owner of the key to later daemons of this node. The application
        /// keeps it secret and returns it with `RegisterRegionAgain`. It is valid as long as the
        /// node's state directory exists.
        seal: Hex64,
    },
    /// To `Status`.
    Status(Box<NodeStatus>),
    /// To `Events`.
    Events {
        /// As many as one answer holds. Older ones than the first may be forgotten.
        events: Vec<Event>,
        /// The `from` value of the next request. `None`: there was no later event.
        next: Option<u64>,
    },
    /// To `Agreement`.
    Agreement {
        /// The configuration in force.
        held: HeldBrief,
    },
    /// To `AgreedText`.
    AgreedText {
        /// The configuration in force. If it differs from that of the first piece, start again from
        /// the first piece.
        held: HeldBrief,
        /// The piece.
        text: String,
        /// Where the next piece begins; `None`: this was the last.
        next_bytes: Option<u64>,
    },
    /// To `Offer`.
    Verdict(Box<VerdictBrief>),
    /// To requests without further results.
    Done,
    /// The request was refused; nothing changed.
    Refused {
        /// The problem, the affected object, and how to resolve it.
        reason: String,
        /// The versions that the daemon supports, if it refused a greeting of another version.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        speaks: Option<Versions>,
    },
    /// Pushed to subscribers.
    Event(Event),
}

/// A port as applications see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub struct PortBrief {
    /// Configured name.
    pub name: String,
    /// Longest frame, in bytes without FCS.
    pub frame_bytes_max: u32,
    /// The lane that owns it.
    pub lane: u32,
}
