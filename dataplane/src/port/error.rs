//! Errors of a port, worded so that an operator can act on them.

use std::io;

use super::ETHERNET_HEADER_BYTES;

/// A port could not be opened, or stopped working.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// The port cannot be opened as configured on this host. Nothing was changed.
    #[error("port `{port}`: {problem}; {remedy}")]
    Setup {
        /// Name of the port.
        port: String,
        /// The problem, with names and numbers.
        problem: String,
        /// The remedy.
        remedy: String,
    },
    /// The port's network interface does not exist. Nothing was changed.
    #[error(
        "port `{port}`: there is no interface `{interface}` in this network namespace; check the \
         name with `ip link`, or start the daemon in the \
         interface's namespace"
    )]
    NoInterface {
        /// Name of the port.
        port: String,
        /// Name of the interface.
        interface: String,
    },
    /// The link is down. Frames already taken stay queued. Retry when the carrier is back.
    #[error("port `{port}`: the link is down")]
    LinkDown {
        /// Name of the port.
        port: String,
    },
    /// The object behind the port has ceased to exist, for example a removed interface. It does not
    /// come back by itself.
    #[error("port `{port}`: {reason}")]
    Gone {
        /// Name of the port.
        port: String,
        /// The object that ceased to exist.
        reason: String,
    },
    /// The port leaves its frames alone.
    #[error(
        "port `{port}` damages no frames: give it a `[port.faults]` table, and start covalentd \
         with --allow-faults"
    )]
    NoFaults {
        /// Name of the port.
        port: String,
    },
    /// The kernel refused a steering change.
    #[error("port `{port}`: steering: {source}")]
    Steering {
        /// Name of the port.
        port: String,
        /// The loader's own account of it.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A system call or file operation failed.
    #[error("port `{port}`: {doing}: {source}")]
    Io {
        /// Name of the port.
        port: String,
        /// The operation that failed.
        doing: &'static str,
        /// The operating system's answer.
        source: io::Error,
    },
}

/// Why a frame was not taken for sending.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TxRefusal {
    /// No memory or ring slot is free. Flush, and retry once [`super::Port::tx_space`] is positive.
    #[error("the port's transmit ring is full")]
    Full,
    /// The frame is longer than the port carries.
    #[error("the frame has {len} bytes; this port takes at most {max}")]
    TooLong {
        /// Length of the frame in bytes.
        len: usize,
        /// Longest frame of this port in bytes.
        max: usize,
    },
    /// The frame is shorter than an Ethernet header.
    #[error("the frame has {len} bytes; an Ethernet header alone has 14")]
    Runt {
        /// Length of the frame in bytes.
        len: usize,
    },
    /// The port is disabled or has no carrier.
    #[error("the port is down")]
    Down,
}

impl TxRefusal {
    /// Returns why a port that carries frames of up to `max` bytes refuses one of `len` bytes, if
    /// the length alone is the reason.
    #[inline]
    pub(super) fn by_length(len: usize, max: usize) -> Option<Self> {
        if len < ETHERNET_HEADER_BYTES {
            Some(Self::Runt { len })
        } else if len > max {
            Some(Self::TooLong { len, max })
        } else {
            None
        }
    }
}
