//! Errors of a journal.

use std::{io, path::PathBuf};

use super::record::{
    Lsn, NAME_BYTES_MAX, PIECE_BYTES_MAX, PIECE_OVERHEAD_BYTES, RECORD_BYTES_MAX,
    REGION_RECORD_BYTES_MAX, REPLY_BYTES_MAX,
};

/// Why a journal cannot be opened or read. The failure loses no acknowledged record: the disk
/// content stays unchanged.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A requested bound is invalid.
    #[error("the journal's {name} is {found}: {expected}")]
    Option {
        /// Which one.
        name: &'static str,
        /// The requested value.
        found: u64,
        /// The valid values.
        expected: &'static str,
    },
    /// Another daemon has it.
    #[error(
        "journal directory {0} is in use by another daemon: give each node its own `node.state_dir`"
    )]
    InUse(PathBuf),
    /// A process that does not hold the lock can write to a file.
    #[error(
        "journal file {0} is open for writing in another process: find it with `fuser -v {0}`, \
         stop it, and start again"
    )]
    Written(PathBuf),
    /// A file operation failed.
    #[error("cannot {doing} {path}: {source}")]
    Io {
        /// The operation that failed.
        doing: &'static str,
        /// To which file or directory.
        path: PathBuf,
        /// The operating system's answer.
        source: io::Error,
    },
    /// This process may not write files of that size.
    #[error(
        "the journal in {} needs files of {file_bytes} bytes, and this process may write \
         {limit_bytes}: raise the limit (`ulimit -f`, `LimitFSIZE=` of \
         the service), or lower `journal.file_mib`",
        path.display()
    )]
    FileLimit {
        /// The journal's directory.
        path: PathBuf,
        /// Size of a file.
        file_bytes: u64,
        /// Largest size that this process may write, in bytes.
        limit_bytes: u64,
    },
    /// The file system has too little free space for the files.
    #[error(
        "the journals need {needed_bytes} bytes more, and the file system of {} has {free_bytes} \
         free: free space there, or lower `journal.file_mib`",
        path.display()
    )]
    NoRoom {
        /// Where they are to be.
        path: PathBuf,
        /// Bytes that a start takes.
        needed_bytes: u64,
        /// Bytes that there are.
        free_bytes: u64,
    },
    /// The kernel gives no ring.
    #[error(
        "durable regions need io_uring, which the kernel refuses: {0}; see the setting \
         kernel.io_uring_disabled and, in a container, its seccomp profile"
    )]
    NoRing(io::Error),
    /// The content of a file differs from the written content.
    #[error(
        "journal file {path} is damaged at byte {offset}: {what}. Commits that were acknowledged \
         may be lost{CLOSED}"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where in it.
        offset: u64,
        /// The damage found there.
        what: String,
    },
    /// Acknowledged records are missing.
    #[error("{0}{CLOSED}")]
    Lost(Loss),
    /// The recovered state does not fit into files of the configured size.
    #[error(
        "the regions of the journal in {path} take {found_bytes} bytes in a snapshot, and there \
         are {latches} latched replies, which is too much for files of {file_bytes} bytes: raise \
         `journal.file_mib`; regions may take a quarter of a file"
    )]
    TooSmall {
        /// The journal's directory.
        path: PathBuf,
        /// Size of all regions in a snapshot, in bytes.
        found_bytes: u64,
        /// Latched replies.
        latches: usize,
        /// Size of a file.
        file_bytes: u64,
    },
}

/// The remedy for a journal that has lost something.
const CLOSED: &str = ". Nothing was changed, and the daemon does not start. Restore the whole \
                      directory from a copy; or accept the loss for one start, as the user of the \
                      daemon: with `covalentd --accept-journal-loss`, under systemd with \
                      COVALENT_ACCEPT_JOURNAL_LOSS=true (docs/operate/when-it-breaks.md). That \
                      renames the files and continues with the intact records";

/// Acknowledged records that a file lacks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "journal file {path} ends at byte {found_bytes} with record {}, and everything up to byte \
     {expected_bytes} and record {} was acknowledged: {} records \
     are lost", found.0, expected.0, expected.0.saturating_sub(found.0)
)]
pub struct Loss {
    /// The file.
    pub path: PathBuf,
    /// Where it should end at least, in bytes.
    pub expected_bytes: u64,
    /// The record that it should have at least.
    pub expected: Lsn,
    /// Where its last whole batch ends, in bytes.
    pub found_bytes: u64,
    /// The last record of that.
    pub found: Lsn,
}

/// Why a running journal failed. The failure is final: after a failed write or sync, the disk
/// content is unknown until replay.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "journal file {path}: {what}. From now on nothing is acknowledged on durable regions; fix the \
     cause and restart the daemon, which replays all acknowledged records"
)]
pub struct JournalFailure {
    /// The file.
    pub path: PathBuf,
    /// The failure.
    pub what: String,
}

/// Why a record was not appended. Nothing changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// No space now: the previous batch is still being written, or a snapshot must end first. Try
    /// again after the next [`super::Journal::poll`].
    #[error("the journal has no room now; try again later")]
    Full,
    /// The journal failed; [`super::Journal::failure`] returns the reason. All later appends fail.
    #[error("the journal has failed")]
    Failed,
    /// The commit does not fit into a record of [`RECORD_BYTES_MAX`], its reply is longer than
    /// [`REPLY_BYTES_MAX`], or its name is empty or longer than [`NAME_BYTES_MAX`].
    #[error(
        "a record has at most {RECORD_BYTES_MAX} bytes, a reply {REPLY_BYTES_MAX}, a name 1 to \
         {NAME_BYTES_MAX}"
    )]
    TooLong,
    /// The journal knows no region with this key.
    #[error("the journal has no such region")]
    UnknownRegion,
    /// A change lies outside of its region.
    #[error("a change lies outside of its region")]
    OutOfBounds,
    /// A region of that name is known.
    #[error("the journal has a region of that name already")]
    NameTaken,
    /// The size is not one that a region can have.
    #[error("a region has 8 bytes to 1 GiB, a multiple of 8")]
    BadSize,
    /// All durable regions together would be larger than a snapshot can be.
    #[error(
        "all durable regions together would take more than {most_bytes} bytes, of which each takes \
         its size, {REGION_RECORD_BYTES_MAX} bytes and {PIECE_OVERHEAD_BYTES} for every \
         {PIECE_BYTES_MAX}: delete some, or make the \
         journal's files larger"
    )]
    TooLarge {
        /// The most, in bytes.
        most_bytes: u64,
    },
}
