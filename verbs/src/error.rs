//! Errors. Each text contains the event, the object and the remedy.

use std::{borrow::Cow, fmt, io, path::PathBuf};

use covalent_api::{ethertype::OfLinks, versions::NoCommonVersion};
use covalent_pipe::{PipeError, Violation};
use nix::libc;

use crate::{
    pipe_id::PipeId,
    verb::{Refusal, VerbId},
};

/// Why a call failed.
///
/// Unless documented otherwise, nothing changed, and the object stays usable. [`Debug`](fmt::Debug)
/// prints the same text as [`Display`](fmt::Display), because Rust prints an error that `main`
/// returns with `Debug`.
#[derive(thiserror::Error)]
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
         show the cause). Drop the objects of this device and attach again",
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
        /// The awaited event, with its object.
        what: Cow<'static, str>,
    },
    /// The deadline passed while a verb was in flight: it may or may not have been executed. A
    /// later [`Verbs::poll`](crate::Verbs::poll) or [`Verbs::wait`](crate::Verbs::wait) returns its
    /// completion. The verb has no in-doubt id for
    /// [`query_in_doubt`](crate::Verbs::query_in_doubt): only
    /// [`Outcome::InDoubt`](crate::Outcome::InDoubt) carries one, when no path is left.
    #[error(
        "the deadline passed while verb {}{object} was in flight: a later poll reports whether it \
         was executed",
        id.number()
    )]
    #[non_exhaustive]
    InDoubt {
        /// The verb's number.
        id: VerbId,
        /// Region and node, as a part of the sentence. Empty after a call that knows only the
        /// verb's number.
        object: String,
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
    /// The node of a region did not execute a verb, or does not have the region.
    #[error("{}", refused_verb(node, region, *refusal))]
    VerbRefused {
        /// The node: its name, or its address if the region was given by key.
        node: String,
        /// The region: `` `NAME` `` in a lookup, `with key RKEY` in a verb, with the size or the
        /// rights if they are the reason.
        region: String,
        /// The reason.
        refusal: Refusal,
    },
    /// The other node's daemon lost its record of the verb, almost always because it restarted.
    /// Whether the verb was executed is unknown. A daemon several hops away may instead have
    /// dropped the record to make room.
    #[error(
        "the other node's daemon lost its record of the verb, almost always because it restarted: \
         whether it was executed is unknown; after a restart an ordinary region no longer exists, \
         and a durable one exists again once its owner has registered it"
    )]
    PeerRestarted,
    /// The other node's reply is none that the verb can have: that node is faulty, or lies. The
    /// verb was executed at most once, and it is unknown whether it was.
    #[error(
        "the other node sent a reply that the verb cannot have, so it is unknown whether the verb \
         was executed; it was executed at most once. Check the version and the memory of that node"
    )]
    BadReply,
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
    /// No node is known by that address.
    #[error(
        "the verb was not executed: no node of that address is known here. `covalent links` and \
         `covalent status --nodes` show the known nodes"
    )]
    NoSuchPeer,
    /// No node of that name is a neighbor.
    #[error(
        "no node named `{name}` is known here; known: {known}. `covalent links` shows links that \
         are not up"
    )]
    UnknownNode {
        /// The name looked for.
        name: String,
        /// Names known, separated by commas.
        known: String,
    },
    /// The node has no port of that name.
    #[error("node {node} has no port `{port}`: {}", known_ports(known))]
    UnknownPort {
        /// The name looked for.
        port: String,
        /// The node's name.
        node: String,
        /// Names of its ports, separated by commas. Empty if it has none.
        known: String,
    },
    /// A TX pipe has no room for the frame now. The pipe is unchanged.
    #[error(
        "pipe {} is full, and the frame was not sent: publish, then wait until the lane has sent \
         some of its frames, or open a larger pipe",
        pipe.number()
    )]
    PipeFull {
        /// The pipe.
        pipe: PipeId,
    },
    /// The frame is longer than the port of the TX pipe carries, or than the pipe can ever hold.
    /// The pipe is unchanged.
    #[error(
        "pipe {} did not take a frame of {len_bytes} bytes: its port carries at most {max_bytes}. \
         Send shorter frames, or raise the MTU of the port",
        pipe.number()
    )]
    FrameTooLong {
        /// The pipe.
        pipe: PipeId,
        /// Length of the frame.
        len_bytes: usize,
        /// The longest that is taken.
        max_bytes: usize,
    },
    /// The frame is shorter than an Ethernet header. The TX pipe is unchanged.
    #[error(
        "pipe {} did not take a frame of {len_bytes} bytes: a frame begins with an Ethernet header \
         of {min_bytes}",
        pipe.number()
    )]
    FrameTooShort {
        /// The pipe.
        pipe: PipeId,
        /// Length of the frame.
        len_bytes: usize,
        /// The shortest that is taken.
        min_bytes: usize,
    },
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

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Result of this library's calls.
pub type Result<T> = std::result::Result<T, Error>;

pub(crate) fn foreign(error: PipeError) -> Error {
    match error {
        PipeError::System { what, source, .. } => Error::System {
            what,
            cause: source,
        },
        error @ PipeError::Layout { .. } => Error::Layout(error),
        error => Error::Unintelligible(error.to_string()),
    }
}

pub(crate) fn broken(violation: Violation) -> Error {
    Error::Unintelligible(violation.to_string())
}

fn refused_verb(node: &str, region: &str, refusal: Refusal) -> String {
    match refusal {
        Refusal::UnknownRegion => format!(
            "node {node} has no region {region}: `covalent status` there lists its regions; a \
             durable one is served once its owner has registered it"
        ),
        refusal => {
            format!("the verb on region {region} of node {node} was not executed: {refusal}")
        }
    }
}

fn known_ports(known: &str) -> String {
    if known.is_empty() {
        "it has no ports. Add a `[[port]]` to its configuration".to_owned()
    } else {
        format!("it has {known}. Use one of these, or add a `[[port]]` to its configuration")
    }
}

fn connect_advice(error: &io::Error) -> &'static str {
    match error.kind() {
        _ if is_of_another_file(error) => {
            "The path is not that of covalentd: give `covalentd.sock` in its `node.runtime_dir`."
        }
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

/// The path leads to no socket, to one of another type, or (`Other`) to that of another program.
fn is_of_another_file(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::Other
        || matches!(
            error.raw_os_error(),
            Some(libc::ENOTSOCK | libc::EPROTOTYPE)
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `main` prints the error that it returns with `Debug`.
    #[test]
    fn an_error_that_main_returns_shows_its_remedy() {
        let error = Error::Unreachable {
            socket: "/run/covalent/covalentd.sock".into(),
            cause: io::ErrorKind::NotFound.into(),
        };
        let printed = format!("{error:?}");
        assert!(printed.contains("Is the daemon running"), "{printed}");
        assert_eq!(printed, error.to_string());
    }

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
        let pipe = PipeId(3);
        let too_long = Error::FrameTooLong {
            pipe,
            len_bytes: 9000,
            max_bytes: 1514,
        };
        let too_short = Error::FrameTooShort {
            pipe,
            len_bytes: 13,
            min_bytes: 14,
        };
        let of_links = Error::LinkEtherType {
            what: "frame not sent",
            pipe,
            ethertype: 0x88b5,
        };
        let unknown = Error::VerbRefused {
            node: "b".into(),
            region: "`bank`".into(),
            refusal: Refusal::UnknownRegion,
        };
        let busy = Error::VerbRefused {
            node: "b".into(),
            region: "with key 7".into(),
            refusal: Refusal::Busy,
        };
        let gone = Error::DaemonGone {
            socket: "/run/a.sock".into(),
        };
        let no_port = |known: &str| Error::UnknownPort {
            port: "eth9".into(),
            node: "a".into(),
            known: known.into(),
        };
        for (error, parts) in [
            (Error::PipeFull { pipe }, &["pipe 3", "full", "wait"][..]),
            (too_long, &["pipe 3", "9000", "1514", "MTU"]),
            (too_short, &["pipe 3", "13", "14", "Ethernet header"]),
            (of_links, &["pipe 3", "0x88b5", "covalentd", "0x88b6"]),
            (unknown, &["node b", "no region `bank`", "covalent status"]),
            (busy, &["region with key 7 of node b", "try again"]),
            (gone, &["/run/a.sock", "attach again"]),
            (
                no_port("p0, p1"),
                &["node a", "`eth9`", "p0, p1", "[[port]]"],
            ),
            (no_port(""), &["node a", "`eth9`", "no ports", "[[port]]"]),
        ] {
            let text = error.to_string();
            for part in parts {
                assert!(text.contains(part), "{part} in {text}");
            }
        }
    }
}
