//! How a call ended.

use std::{
    cell::{Cell, RefCell},
    ffi::{CStr, CString, c_char},
};

use covalent::{Error, Refusal};

use crate::enumerator::{enumerators, name_in};

/// Result of a call. Every function returns one of these as an `int32_t`: 0 or more if the call
/// succeeded, less than 0 if it failed. Unless documented otherwise, a failed call changed nothing.
#[repr(i32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum covalent_status {
    /// Done.
    COVALENT_OK = 0,
    /// The verb was executed and changed nothing, because a word did not hold the expected value.
    COVALENT_MISMATCH = 1,
    /// An argument is wrong: a null pointer, an invalid handle, text that is not UTF-8, or a number
    /// out of range.
    COVALENT_INVALID = -1,
    /// No daemon answers at the socket.
    COVALENT_UNREACHABLE = -2,
    /// The daemon is gone, or another node now answers at its socket, which the error text reports.
    /// Close everything and attach again. covalent_device_set_reconnect makes the device reconnect
    /// by itself.
    COVALENT_DAEMON_GONE = -3,
    /// The daemon and this library are more than one release apart, or the layout of the daemon's
    /// memory is unknown to this library.
    COVALENT_VERSION = -4,
    /// The daemon refused. The error text contains the reason.
    COVALENT_REFUSED = -5,
    /// The timeout passed first. Nothing is in flight.
    COVALENT_DEADLINE = -6,
    /// The timeout passed while a verb was in flight: it may or may not have been executed. Its
    /// completion arrives later. covalent_last_in_doubt returns its id. It has no in-doubt id for
    /// covalent_verb_queue_query_in_doubt: only a completion in doubt carries one, when no path is
    /// left.
    COVALENT_IN_DOUBT = -7,
    /// No room in the pipe, the queue or the group. For covalent_send, no room in its own verb
    /// queue or in the receive queue, which the error text reports.
    COVALENT_FULL = -8,
    /// A frame longer than the port carries, or a message longer than its framing allows.
    COVALENT_TOO_LONG = -9,
    /// A frame shorter than an Ethernet header.
    COVALENT_TOO_SHORT = -10,
    /// The verb was not executed. The error text contains the reason.
    COVALENT_VERB_REFUSED = -11,
    /// The other node lost its record of the verb, almost always because it restarted. Whether the
    /// verb was executed is unknown.
    COVALENT_PEER_RESTARTED = -12,
    /// No such node is known.
    COVALENT_NO_SUCH_NODE = -13,
    /// The daemon sent data that this library cannot decode. Close everything.
    COVALENT_UNINTELLIGIBLE = -14,
    /// The operating system refused something. The error text contains the details.
    COVALENT_SYSTEM = -15,
    /// The caller requested more bytes than the pipe can ever hold at a time. Open a larger pipe,
    /// or free held data.
    COVALENT_PIPE_TOO_SMALL = -16,
    /// This member is out of the group or is leaving it, or no member waits for this piece of state
    /// any more.
    COVALENT_STOPPED = -17,
    /// The local daemon stopped while a verb was in flight and did not report its outcome. The verb
    /// was executed at most once.
    COVALENT_FORGOTTEN = -18,
    /// This process was forked from the process that attached. The call did nothing. Attach again
    /// in this process.
    COVALENT_FORKED = -19,
    /// A frame to send, or an EtherType to bind a pipe to, belongs to the links of the daemon on a
    /// port with a link: 0x88b5, or `link.ethertype` of the configuration. Use another EtherType,
    /// for example 0x88b6.
    COVALENT_LINK_ETHERTYPE = -20,
    /// The other node's reply is none that the verb can have: that node is faulty, or lies. The
    /// verb was executed at most once, and it is unknown whether it was.
    COVALENT_BAD_REPLY = -21,
    /// The node has no port of that name. The error text lists its ports.
    COVALENT_NO_SUCH_PORT = -22,
}

use covalent_status::*;

/// A call that failed.
pub(crate) struct Failure {
    status: covalent_status,
    text: String,
}

impl Failure {
    #[cfg(test)]
    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}

pub(crate) type Result<T> = std::result::Result<T, Failure>;

thread_local! {
    static LAST_ERROR: RefCell<CString> = RefCell::default();
    static LAST_IN_DOUBT: Cell<u64> = const { Cell::new(0) };
}

/// Runs a call's body and turns its end into a status.
pub(crate) fn call(body: impl FnOnce() -> Result<()>) -> i32 {
    call_with_status(|| body().map(|()| COVALENT_OK))
}

/// As [`call`], for calls that can succeed in more than one way.
pub(crate) fn call_with_status(body: impl FnOnce() -> Result<covalent_status>) -> i32 {
    match body() {
        Ok(status) => status as i32,
        Err(failure) => {
            // A text with a zero byte inside would be cut off there.
            let text = CString::new(failure.text.replace('\0', "?")).unwrap_or_default();
            LAST_ERROR.set(text);
            failure.status as i32
        }
    }
}

pub(crate) fn invalid(text: impl Into<String>) -> Failure {
    failed(COVALENT_INVALID, text)
}

pub(crate) fn failed(status: covalent_status, text: impl Into<String>) -> Failure {
    Failure {
        status,
        text: text.into(),
    }
}

/// Nothing to free is no error, not even when the daemon is gone.
pub(crate) fn none_if_gone<T>(error: Error) -> covalent::Result<Option<T>> {
    match error {
        Error::DaemonGone { .. } => Ok(None),
        error => Err(error),
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let status = match &error {
            Error::Unreachable { .. } => COVALENT_UNREACHABLE,
            Error::DaemonGone { .. } | Error::AnotherNode { .. } => COVALENT_DAEMON_GONE,
            Error::Version(_) | Error::Layout(_) => COVALENT_VERSION,
            Error::Refused { .. } => COVALENT_REFUSED,
            Error::Deadline { .. } => COVALENT_DEADLINE,
            Error::InDoubt { id, .. } => {
                LAST_IN_DOUBT.set(id.number());
                COVALENT_IN_DOUBT
            }
            Error::QueueFull { .. } | Error::GroupFull { .. } | Error::PipeFull { .. } => {
                COVALENT_FULL
            }
            Error::GroupStopped { .. } | Error::StateUnwanted { .. } => COVALENT_STOPPED,
            Error::FrameTooLong { .. } => COVALENT_TOO_LONG,
            Error::FrameTooShort { .. } => COVALENT_TOO_SHORT,
            Error::VerbRefused {
                refusal: Refusal::QueueFull,
                ..
            } => COVALENT_FULL,
            Error::VerbRefused { .. } => COVALENT_VERB_REFUSED,
            Error::PeerRestarted => COVALENT_PEER_RESTARTED,
            Error::Forgotten => COVALENT_FORGOTTEN,
            Error::BadReply => COVALENT_BAD_REPLY,
            Error::Forked => COVALENT_FORKED,
            Error::LinkEtherType { .. } => COVALENT_LINK_ETHERTYPE,
            Error::NoSuchPeer | Error::UnknownNode { .. } => COVALENT_NO_SUCH_NODE,
            Error::UnknownPort { .. } => COVALENT_NO_SUCH_PORT,
            Error::Unintelligible(_) => COVALENT_UNINTELLIGIBLE,
            Error::System { .. } => COVALENT_SYSTEM,
            Error::PipeTooSmall { .. } => COVALENT_PIPE_TOO_SMALL,
            Error::Invalid(_) => COVALENT_INVALID,
            // tests/interface/names.rs fails for a variant that is not above.
            _ => COVALENT_INVALID,
        };
        Self {
            status,
            text: error.to_string(),
        }
    }
}

/// Returns the text of this thread's last failure for a human reader: what happened, to which
/// object, and what to do. Never null. Empty before the first failure. The text stays valid until
/// this thread's next failed call.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_last_error() -> *const c_char {
    LAST_ERROR.with_borrow(|text| text.as_ptr())
}

/// The id of the verb that the last COVALENT_IN_DOUBT of this thread was about; 0 before the first.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_last_in_doubt() -> u64 {
    LAST_IN_DOUBT.get()
}

/// Returns a status's name, for logs: `COVALENT_FULL`. Never null. `unknown` for a number that is
/// no status.
#[unsafe(no_mangle)]
pub extern "C" fn covalent_status_name(status: i32) -> *const c_char {
    name_in(NAMES, status)
}

const NAMES: &[(i64, &CStr)] = enumerators![
    COVALENT_OK,
    COVALENT_MISMATCH,
    COVALENT_INVALID,
    COVALENT_UNREACHABLE,
    COVALENT_DAEMON_GONE,
    COVALENT_VERSION,
    COVALENT_REFUSED,
    COVALENT_DEADLINE,
    COVALENT_IN_DOUBT,
    COVALENT_FULL,
    COVALENT_TOO_LONG,
    COVALENT_TOO_SHORT,
    COVALENT_VERB_REFUSED,
    COVALENT_PEER_RESTARTED,
    COVALENT_NO_SUCH_NODE,
    COVALENT_UNINTELLIGIBLE,
    COVALENT_SYSTEM,
    COVALENT_PIPE_TOO_SMALL,
    COVALENT_STOPPED,
    COVALENT_FORGOTTEN,
    COVALENT_FORKED,
    COVALENT_LINK_ETHERTYPE,
    COVALENT_BAD_REPLY,
    COVALENT_NO_SUCH_PORT,
];
