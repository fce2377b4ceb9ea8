//! What can go wrong, said so that the caller knows what happened, to what, and what to do.

use std::{io, path::PathBuf};

use covalent_api::versions::NoCommonVersion;
use covalent_pipe::PipeError;

use crate::verb::{Refusal, VerbId};

/// Why a call did not do what was asked.
///
/// Unless a variant says otherwise nothing changed, and the object that the call was made on stays usable.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No daemon answers at the socket.
    #[error("cannot reach covalentd at {}: {cause}. {}", socket.display(), connect_advice(cause))]
    Unreachable {
        /// The socket's path.
        socket: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// The daemon is gone: it ended, or it detached this application. Every object made from the device is dead;
    /// drop it and attach again.
    #[error("covalentd at {} is gone: it ended, or it detached this application (its log and events say why)", socket.display())]
    DaemonGone {
        /// The socket's path.
        socket: PathBuf,
    },
    /// The daemon is gone, and another node's answers at its socket: the device [was to find its daemon again](crate::Device::set_reconnect) and cannot. Every object made from the
    /// device is dead, and each later call ends with [`Error::DaemonGone`].
    #[error(
        "another node answers at {} now: {found}, where {expected} was. Attach again to use that one; if it is to be the same node, give its daemon the `node.state_dir` that it had",
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
    /// This process was forked from the one that attached. Nothing was done, and what is open there is untouched.
    #[error(
        "this process was forked from the one that attached to covalentd, and what was opened there is that process's alone: attach in this one for its own, or attach after forking"
    )]
    Forked,
    /// The daemon and this library are more than one release apart: they speak no common version of the socket's messages.
    #[error(transparent)]
    Version(NoCommonVersion),
    /// The daemon's shared memory is laid out in another version than this library knows.
    #[error(transparent)]
    Layout(PipeError),
    /// The daemon refused a request.
    #[error("covalentd refused to {request}: {reason}")]
    Refused {
        /// What was asked, as a phrase: `bind pipe 3 to any frame`.
        request: String,
        /// The daemon's words.
        reason: String,
    },
    /// The deadline passed first. Nothing was sent that is still under way, except where the variant
    /// [`Error::InDoubt`] is used instead.
    #[error("the deadline passed before {what}")]
    Deadline {
        /// What was waited for.
        what: &'static str,
    },
    /// The deadline passed while a verb was under way: it may or may not have been executed by now. It is not lost; a
    /// later [`Verbs::poll`](crate::Verbs::poll) or [`Verbs::wait`](crate::Verbs::wait) brings its completion. It has no name for
    /// [`Verbs::ask`](crate::Verbs::ask): that comes with [`Outcome::InDoubt`](crate::Outcome::InDoubt) alone, when no path is left.
    #[error("the deadline passed while verb {} was under way: whether it was executed will be told by a later poll", id.number())]
    InDoubt {
        /// The verb's number.
        id: VerbId,
    },
    /// As many verbs are under way as the queue takes, or the pipe to the daemon is full: take completions first.
    #[error(
        "no room to post: {outstanding} of {depth} verbs are under way. Take completions with poll, then post again"
    )]
    QueueFull {
        /// Verbs under way.
        outstanding: usize,
        /// Verbs that the queue takes.
        depth: usize,
    },
    /// A group takes no message now, because some member's application has not taken the earlier ones.
    #[error(
        "group `{group}` takes nothing now: take events, then try again. `Group::holds_up` may name the member that is waited for"
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
    /// Nobody waits for this piece of a group's state: the view ended, or the last piece was given.
    #[error(
        "group `{group}`: nobody waits for this piece of state any more; give the state anew when it is wanted again"
    )]
    StateUnwanted {
        /// Its name.
        group: String,
    },
    /// A verb was not executed.
    #[error("the verb was not executed: {0}")]
    VerbRefused(Refusal),
    /// A verb's other node lost its memory of it, almost always because it started afresh: nobody knows whether the verb was executed. One several hops away that lives may have had to make room.
    #[error(
        "the other node's daemon lost its memory of the verb, almost always because it restarted: whether it was executed is unknown; after a restart an ordinary region is gone, a durable one is there again once its owner has registered it"
    )]
    PeerRestarted,
    /// The own daemon ended while a verb was under way, without a word of how it ended: it was executed at most once.
    #[error(
        "covalentd was restarted while the verb was under way, and nobody can tell whether it was executed; at most once, if so"
    )]
    Forgotten,
    /// More bytes were asked for than the pipe ever holds at a time.
    #[error(
        "{wanted_bytes} bytes were asked for and the pipe holds {holds_bytes}: open a larger pipe, or free what is held"
    )]
    PipeTooSmall {
        /// How many were asked for.
        wanted_bytes: u64,
        /// How many there can be.
        holds_bytes: u64,
    },
    /// No neighbour is known by that identity.
    #[error("the verb was not executed: no such neighbour")]
    NoSuchPeer,
    /// No node of that name is a neighbour.
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
    /// An argument that can never work.
    #[error("{0}")]
    Invalid(String),
    /// The daemon sent what this library cannot understand. The device is no longer usable.
    #[error("covalentd sent something unintelligible: {0}")]
    Unintelligible(String),
    /// The operating system refused something.
    #[error("{what}: {cause}")]
    System {
        /// What was being done.
        what: &'static str,
        /// What the system said.
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

/// What this library's calls return.
pub type Result<T> = std::result::Result<T, Error>;

fn connect_advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => {
            "Is the daemon running, and is this the socket of its `node.runtime_dir`?"
        }
        io::ErrorKind::ConnectionRefused => {
            "The socket is left over from a daemon that is gone; start covalentd."
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
