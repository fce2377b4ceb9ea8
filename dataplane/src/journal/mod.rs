//! The journal of durable regions: a commit is acknowledged only once its record is on disk.
//!
//! ```text
//!   executed verb ─► append ─► pending batch ─► submit: WRITE ─► FDATASYNC ─► poll: durable_lsn ─► the reply may go
//!                                   ▲           (io_uring, one batch at a time)
//!   regions, latches ─ snapshot_step┘
//! ```
//! One lane has one journal, and only its thread uses it. A round calls [`Journal::poll`] and sends the replies that may go, calls
//! [`Journal::begin_snapshot`] if one is due and [`Journal::snapshot_step`], appends what it executes, and calls [`Journal::submit`]. None of them
//! waits for the disk: a round makes one system call at most, and none if nothing is pending.
//!
//! Records are *physical redo*: which bytes of a region changed to what. To apply one twice changes nothing more.
//!
//! # Files
//! Two files take turns. Once the active one is half full, the lane begins a snapshot: from then on records go to the other file,
//! and what all regions hold and which replies are latched goes there between them, a bounded part each round. When the end of the
//! snapshot is on disk, the old file is blanked. Each start of a file is a *generation*; the higher one counts, or both if the snapshot of the
//! higher one is not complete.
//!
//! A batch is what one write carries. It is written only when the one before it is on disk, so of all batches the last alone can be torn. Every sector
//! says which batch it belongs to (`sector`). So replay can tell a torn tail, which was never acknowledged and is left away, from
//! damage, which it refuses.
//!
//! | file | what |
//! |---|---|
//! | `record` | what is written: its encoding and CRC |
//! | `sector` | sectors that know whether they were written |
//! | `batch` | records laid out for one write |
//! | `header` | what a file begins with |
//! | `file` | the directory, its lock, its two files |
//! | `ring` | the one place that talks to `io_uring` |
//! | `writer` | [`Journal`]: append, submit, poll |
//! | `snapshot` | a snapshot in bounded steps |
//! | `replay` | reading it all back |
//! | `recovered` | what replay found |
//! | `check` | what can be checked before a start |
//! | `open` | start: check, replay, begin anew |
//! | `watch` | sees it when somebody removes or replaces the files |
//! | `error` | what can go wrong |

mod batch;
mod check;
mod error;
mod file;
mod header;
mod lease;
mod open;
mod record;
mod recovered;
mod replay;
mod ring;
mod sector;
mod snapshot;
mod watch;
mod writer;

pub use check::check;
pub use error::{AppendError, JournalFailure, OpenError};
pub use open::JournalOptions;
pub use record::{
    Body, Exchange, LatchKey, Lsn, NAME_BYTES_MAX, PIECE_BYTES_MAX, RECORD_BYTES_MAX,
    REGION_RECORD_BYTES_MAX, REPLY_BYTES_MAX, Redo, RegionKey,
};
pub use recovered::{Latched, Recovered, RecoveredRegion, TornTail};
pub use replay::replay;
pub use snapshot::{SnapshotRegion, SnapshotSource, snapshot_bytes};
pub use watch::{JournalWatch, Meddled};
pub use writer::{Commit, Journal};
