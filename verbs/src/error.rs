//! Errors. Each text contains the event, the object and the remedy.

use std::{io, path::PathBuf};

use covalent_api::{ethertype::OfLinks, versions::NoCommonVersion};
use covalent_pipe::PipeError;

use crate::{
    device::PipeId,
    verb::{Refusal, VerbId},
};

/// Why a call failed.
///
/// Unless documented otherwise, nothing changed, and the object stays usable.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No daemon answers at the socket.
    #[error("cannot reach covalentd at {}: {cause}. {}", socket.display(), connect_advice(cause))]
    Unreachable {
        /// The socket's path.
        socket: PathBuf,
        /// The system's error.
        cause: io::Error,
    },
    /// The daemon is gone: it stopped, or it detached this application. Every object made from the
    /// device is unusable. Drop it and attach again.
    #[error(
        "covalentd at {} is gone: it exited, or it detached this application (its log and events \
         show the cause)",
        socket.display()
    )]
    DaemonGone {
        /// The socket's path.
        socket: PathBuf,
    },
    /// The daemon is gone, and the daemon of another node answers at its socket. The device [was to
    /// reconnect](crate::Device::set_reconnect) and cannot. Every object made from the device is
    /// unusable, and each later call returns [`Error::DaemonGone`].
    #[error(
        "another node answers at {} now: {found} instead of {expected}. Attach again to use it; if \
         it should be the same node, restore the `node.state_dir` of its daemon",
        socket.display()
    )]
    AnotherNode {
        /// The socket's path.
        socket: PathBuf,
        /// Name and GUID of the node that the device was attached to.
        expected: String,
        /// Name and GUID of the one that answers.
        found: String,
    },
    /// This process was forked from the one that attached. The call did nothing, and the open
    /// objects are unchanged.
    #[error(
        "this process was forked from the one that attached to covalentd, and the objects opened \
         there belong to that process only: attach in this process, or attach after the fork"
    )]
    Forked,
    /// The daemon and this library are more than one release apart and have no common version of
    /// the socket's messages.
    #[error(transparent)]
    Version(NoCommonVersion),
    /// The daemon's shared memory is laid out in another version than this library knows.
    #[error(transparent)]
    Layout(PipeError),
    /// The daemon refused a request.
    #[error("covalentd refused to {request}: {reason}")]
    Refused {
        /// The request, as a phrase: `bind pipe 3 to any frame`.
        request: String,
        /// The daemon's words.
        reason: String,
    },
    /// The deadline passed first. Nothing is in flight. If a verb is in flight, the variant
    /// [`Error::InDoubt`] is used instead.
    #[error("the deadline passed before {what}")]
    Deadline {
        /// The awaited event.
        what: &'static str,
    },
    /// The deadline passed while a verb was in flight: it may or may not have been executed. A
    /// later [`Verbs::poll`](crate::Verbs::poll) or [`Verbs::wait`](crate::Verbs::wait) returns its
    /// completion. The verb has no name for [`query_in_doubt`](crate::Verbs::query_in_doubt): only
    /// [`Outcome::InDoubt`](crate::Outcome::InDoubt) carries one, when no path is left.
    #[error(
        "the deadline passed while verb {} was in flight: a later poll reports whether it was \
         executed",
        id.number()
    )]
    InDoubt {
        /// The verb's number.
        id: VerbId,
    },
    /// As many verbs are in flight as the queue accepts, or the pipe to the daemon is full. Take
    /// completions first.
    #[error(
        "no room to post: {outstanding} of {depth} verbs are in flight. Take completions with \
         poll, then post again"
    )]
    QueueFull {
        /// Verbs in flight.
        outstanding: usize,
        /// Verbs that the queue takes.
        depth: usize,
    },
    /// The group accepts no message now, because some member's application has not taken the
    /// earlier ones.
    #[error(
        "group `{group}` accepts no message now: take events, then try again. `Group::holds_up` \
         may name the member that delays it"
    )]
    GroupFull {
        /// Its name.
        group: String,
    },
    /// A group takes no message any more: this member is out of it, or leaves.
    #[error("this member is out of group `{group}`, or leaves it: nothing more can be multicast")]
    GroupStopped {
        /// Its name.
        group: String,
    },
    /// No member waits for this piece of the group's state: the view ended, or the last piece was
    /// given.
    #[error(
        "group `{group}`: no member waits for this piece of state any more; give the state again \
         when it is requested"
    )]
    StateUnwanted {
        /// Its name.
        group: String,
    },
    /// A verb was not executed.
    #[error("the verb was not executed: {0}")]
    VerbRefused(Refusal),
    /// The other node's daemon lost its record of the verb, almost always because it restarted.
    /// Whether the verb was executed is unknown. A daemon several hops away may instead have
    /// dropped the record to make room.
    #[error(
        "the other node's daemon lost its record of the verb, almost always because it restarted: \
         whether it was executed is unknown; after a restart an ordinary region no longer exists, \
         and a durable one exists again once its owner has registered it"
    )]
    PeerRestarted,
    /// The local daemon stopped while a verb was in flight and did not report its outcome. The verb
    /// was executed at most once.
    #[error(
        "covalentd was restarted while the verb was in flight, and it is unknown whether the verb \
         was executed; it was executed at most once"
    )]
    Forgotten,
    /// The caller requested more bytes than the pipe can ever hold at a time.
    #[error(
        "{wanted_bytes} bytes were requested and the pipe holds {holds_bytes}: open a larger pipe, \
         or free held bytes"
    )]
    PipeTooSmall {
        /// Number of bytes requested.
        wanted_bytes: u64,
        /// How many there can be.
        holds_bytes: u64,
    },
    /// No neighbor is known by that identity.
    #[error("the verb was not executed: no such neighbor")]
    NoSuchPeer,
    /// No node of that name is a neighbor.
    #[error("no node named `{name}` is known here; known: {known}")]
    UnknownNode {
        /// The name looked for.
        name: String,
        /// Names known, separated by commas.
        known: String,
    },
    /// A packet cannot be sent.
    #[error("packet not sent: {0}")]
    Send(#[from] SendRefusal),
    /// A frame or a binding has the EtherType of the links on a port of the pipe. The daemon would
    /// drop such a frame, and takes each arriving one for a frame of its link.
    #[error("pipe {}: {what}: {}", pipe.number(), OfLinks(*ethertype))]
    LinkEtherType {
        /// The part of the call that failed: `not bound`, `frame not sent`.
        what: &'static str,
        /// The pipe.
        pipe: PipeId,
        /// The EtherType of the links.
        ethertype: u16,
    },
    /// An argument that can never work.
    #[error("{0}")]
    Invalid(String),
    /// The daemon sent data that this library cannot decode. The device is no longer usable.
    #[error("covalentd sent an invalid message: {0}")]
    Unintelligible(String),
    /// The operating system refused something.
    #[error("{what}: {cause}")]
    System {
        /// The operation that failed.
        what: &'static str,
        /// The system's error.
        cause: io::Error,
    },
}

/// Why a packet was not put into a pipe. The pipe is unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendRefusal {
    /// The pipe has no room for it now.
    #[error("the pipe is full; wait until the lane has sent some of it")]
    Full,
    /// Longer than the port carries, or than the pipe can ever hold.
    #[error("{len_bytes} bytes are more than the {max_bytes} that the port carries")]
    TooLong {
        /// Its length.
        len_bytes: usize,
        /// The longest that is taken.
        max_bytes: usize,
    },
    /// Shorter than an Ethernet header.
    #[error("{len_bytes} bytes are less than the {min_bytes} of an Ethernet header")]
    Runt {
        /// Its length.
        len_bytes: usize,
        /// The shortest that is taken.
        min_bytes: usize,
    },
}

impl SendRefusal {
    /// A short name for counters: `full`, `too_long`, `runt`.
    #[must_use]
    pub const fn cause(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::TooLong { .. } => "too_long",
            Self::Runt { .. } => "runt",
        }
    }
}

/// Result of this library's calls.
pub type Result<T> = std::result::Result<T, Error>;

fn connect_advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => {
            "Is the daemon running, and is this the socket of its `node.runtime_dir`?"
        }
        io::ErrorKind::ConnectionRefused => {
            "The socket is left over from a stopped daemon; start covalentd."
        }
        io::ErrorKind::PermissionDenied => {
            "Run as root or as the daemon's user, or join the group of its `node.group`."
        }
        _ => "Is the daemon running?",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_teach() {
        let text = Error::Unreachable {
            socket: "/run/covalent/covalentd.sock".into(),
            cause: io::Error::from(io::ErrorKind::PermissionDenied),
        }
        .to_string();
        assert!(
            text.contains("/run/covalent/covalentd.sock") && text.contains("node.group"),
            "{text}"
        );
        let text = Error::Send(SendRefusal::TooLong {
            len_bytes: 9000,
            max_bytes: 1514,
        })
        .to_string();
        assert!(text.contains("9000") && text.contains("1514"), "{text}");
    }
}
