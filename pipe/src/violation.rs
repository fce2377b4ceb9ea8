//! Actions of the other side of shared memory that an honest side never performs.

use core::fmt;

/// A value in shared memory that an honest peer never writes.
///
/// The half that finds one stops reading the peer's words and returns the same violation from then
/// on. The caller that drives the half detaches the peer for this reason. Nothing outside the
/// offender's own memory is affected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Violation {
    /// A cursor is not a multiple of the quantum.
    Misaligned {
        /// Which cursor.
        cursor: Cursor,
        /// Its value, in bytes.
        found: u64,
    },
    /// A cursor went backwards, or past the position that its writer can have reached.
    OutOfRange {
        /// Which cursor.
        cursor: Cursor,
        /// Its value.
        found: u64,
        /// Least value that would have been honest: the last one accepted.
        least: u64,
        /// Greatest value that would have been honest.
        most: u64,
    },
    /// A packet's length is zero or extends past the data that its writer published.
    PacketLength {
        /// The length found, in bytes.
        found: u32,
        /// Bytes from the packet's start to the published end.
        most: u64,
    },
    /// A packet of a TX pipe is marked not to be sent, which is for RX/TX pipes.
    Mark {
        /// The length word found.
        found: u32,
    },
    /// A mailbox slot names a pipe that the session cannot have.
    PipeNumber {
        /// The number found.
        found: u64,
        /// Numbers are below this.
        limit: u64,
    },
    /// A mailbox is full although it has a slot for every pipe: its reader cleared pending words
    /// without taking the slots.
    MailboxFull {
        /// Slots taken, by the reader's count.
        taken: u64,
        /// Slots written.
        written: u64,
    },
}

/// A shared counter that only its writer moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cursor {
    /// End of the data that the producer of a pipe wrote.
    Tail,
    /// Start of the data that the consumer of a pipe still holds.
    Head,
    /// End of the data that the application of an RX pipe has seen.
    Seen,
    /// End of the data that the application of an RX/TX pipe gave back for sending.
    TxTail,
    /// Count of slots written into a mailbox.
    MailboxWritten,
    /// Count of slots taken from a mailbox.
    MailboxTaken,
    /// Count of packets that the application's half of a TX pipe refused.
    Refused,
}

impl Violation {
    /// Every [`Violation::cause`].
    pub const CAUSES: [&str; 6] = [
        "mailbox_full",
        "mark",
        "misaligned",
        "out_of_range",
        "packet_length",
        "pipe_number",
    ];

    /// The kind of lie in one word, under which violations are counted.
    #[must_use]
    pub const fn cause(&self) -> &'static str {
        match self {
            Self::Misaligned { .. } => "misaligned",
            Self::OutOfRange { .. } => "out_of_range",
            Self::PacketLength { .. } => "packet_length",
            Self::Mark { .. } => "mark",
            Self::PipeNumber { .. } => "pipe_number",
            Self::MailboxFull { .. } => "mailbox_full",
        }
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tail => "tail",
            Self::Head => "head",
            Self::Seen => "end of the seen data",
            Self::TxTail => "transmit tail",
            Self::MailboxWritten => "mailbox's written count",
            Self::MailboxTaken => "mailbox's taken count",
            Self::Refused => "count of refused packets",
        })
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Misaligned { cursor, found } => {
                write!(
                    f,
                    "shared memory: {cursor} is {found}, not a multiple of 64"
                )
            }
            Self::OutOfRange {
                cursor,
                found,
                least,
                most,
            } => {
                write!(
                    f,
                    "shared memory: {cursor} is {found}, expected {least} to {most}"
                )
            }
            Self::PacketLength { found, most } => {
                write!(
                    f,
                    "shared memory: a packet's length is {found} bytes, expected 1 to {most}"
                )
            }
            Self::Mark { found } => write!(
                f,
                "shared memory: a length word of a TX pipe is {found:#x}, marked not to be sent, \
                 which is for RX/TX pipes"
            ),
            Self::PipeNumber { found, limit } => {
                write!(
                    f,
                    "shared memory: a mailbox names pipe {found}, expected less than {limit}"
                )
            }
            Self::MailboxFull { taken, written } => write!(
                f,
                "shared memory: mailbox's taken count is {taken} with {written} written: it is \
                 full, though it has a slot for every pipe"
            ),
        }
    }
}

impl core::error::Error for Violation {}
