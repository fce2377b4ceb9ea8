//! Why shared memory could not be made or opened.

use std::io;

/// Why shared memory could not be made or opened. Nothing is left behind.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PipeError {
    /// The size cannot be had.
    #[error("{what}: size of {found} bytes refused, expected {expected}")]
    Size {
        /// Object to create or open.
        what: &'static str,
        /// The size found, in bytes.
        found: u64,
        /// Accepted sizes.
        expected: &'static str,
    },
    /// There are no huge pages for it, and nothing smaller was allowed.
    #[error(
        "{bytes} bytes in 2 MiB pages: the kernel has none; reserve some in \
         /proc/sys/vm/nr_hugepages, free memory, or allow 4 KiB pages"
    )]
    HugePages {
        /// Requested size in bytes.
        bytes: u64,
    },
    /// It is more than a control group of this process has left.
    #[error(
        "{what}: {bytes} bytes are more than the {room_bytes} left below the memory limit of the \
         control group {group}: free some, or raise it (`MemoryMax=` of the unit)"
    )]
    MemoryLimit {
        /// Object to create.
        what: &'static str,
        /// Requested size in bytes.
        bytes: u64,
        /// Bytes left, without a reserve.
        room_bytes: u64,
        /// The control group.
        group: String,
    },
    /// A descriptor lacks a required property, for example it is not sealed against truncation.
    #[error("{what}: {problem}")]
    Foreign {
        /// Object to open.
        what: &'static str,
        /// Description of the mismatch.
        problem: &'static str,
    },
    /// It is laid out in another version: its maker and this program are of different releases.
    #[error(
        "{what} has layout {found} and this program knows layout {known}: {}",
        layout_cure(*found, *known)
    )]
    Layout {
        /// Object to open.
        what: &'static str,
        /// The version found.
        found: u8,
        /// The version that this program knows.
        known: u8,
    },
    /// The pipe carries the other way.
    #[error("the pipe is {found:?}, expected {expected:?}")]
    Direction {
        /// Direction that the memory was made for.
        found: crate::Direction,
        /// Expected direction.
        expected: crate::Direction,
    },
    /// A system call failed.
    #[error("{what}: {call}: {source}")]
    System {
        /// Object to create or open.
        what: &'static str,
        /// The call that failed.
        call: &'static str,
        /// Error that the system call returned.
        source: io::Error,
    },
}

/// The daemon makes all memory, so an older layout is an older daemon's.
const fn layout_cure(found: u8, known: u8) -> &'static str {
    if found < known {
        "the daemon is of an earlier release; restart covalentd"
    } else {
        "this program is of an earlier release than the daemon; start it again with the library \
         that is installed with the daemon"
    }
}

impl PipeError {
    /// For `map_err` after a system call.
    #[cfg(not(loom))]
    pub(crate) fn system(
        what: &'static str,
        call: &'static str,
    ) -> impl FnOnce(rustix::io::Errno) -> Self {
        move |errno| Self::System {
            what,
            call,
            source: errno.into(),
        }
    }
}
