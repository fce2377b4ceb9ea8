//! The journal of durable regions: a commit is acknowledged only once its record is on disk.
//!
//! ```text
//!   verb ─► append ─► pending batch ─► submit: WRITE ─► FDATASYNC ─► poll: MARK, durable_lsn
//!                          ▲           (io_uring, one batch at a time)           └─► reply
//!   regions, latches:      │
//!   snapshot_step ─────────┘
//! ```
//! One lane has one journal, and only its thread uses it. In each round the lane calls these
//! functions:
//!
//! - [`Journal::poll`], then it sends the replies that are durable.
//! - [`Journal::begin_snapshot`] if one is due, and [`Journal::snapshot_step`].
//! - append for each executed verb, then [`Journal::submit`].
//!
//! None of them waits for the disk. A round makes at most two system calls, and none if nothing is
//! pending or completed. Once per tick the lane calls [`Journal::tick`].
//!
//! Records are *physical redo*: the changed bytes of a region and their new values. Applying a
//! record twice is harmless.
//!
//! # Files
//! The two files take turns. Once the active one is half full, the lane begins a snapshot. From
//! then on records go to the other file. Between them, the lane writes the content of all regions
//! and the latched replies, a bounded part each round. When the end of the snapshot is on disk, the
//! old file is blanked. Each start of a file is a *generation*. The higher generation counts, or
//! both if the snapshot of the higher one is incomplete.
//!
//! After the sync of a batch, a *mark* elsewhere in the file records that the batch was
//! acknowledged (`mark`). A file that ends before its mark has lost something. No journal starts
//! from it unless an operator accepts the loss: then the files are set aside first.
//!
//! A batch is the content of one write. It is written only when the previous one is on disk, so
//! only the last batch can be torn. Every sector identifies its batch (`sector`). Replay can
//! therefore distinguish a torn tail from damage. A torn tail was never acknowledged and is
//! dropped. Replay refuses a damaged journal.
//!
//! | file | content |
//! |---|---|
//! | `record` | the records: their encoding and CRC |
//! | `sector` | stamped sectors, which show whether they were written |
//! | `batch` | records laid out for one write |
//! | `header` | the beginning of a file |
//! | `mark` | how far a file was acknowledged |
//! | `disk` | the disk operations that a journal needs |
//! | `drive` | the real disk; the only module that uses `io_uring` |
//! | `file` | the directory, its lock, its two files |
//! | `ring` | writes in flight |
//! | `writer` | [`Journal`]: append, submit, poll |
//! | `snapshot` | a snapshot in bounded steps |
//! | `replay` | reading a journal back |
//! | `recovered` | the result of replay |
//! | `check` | checks before a start |
//! | `open` | start: check, replay, new generation |
//! | `inspect` | whether a start would accept the journal, without a change |
//! | `watch` | detects the removal or replacement of the files |
//! | `error` | errors |

mod batch;
mod check;
mod disk;
mod drive;
mod error;
mod file;
mod header;
mod inspect;
mod lease;
mod mark;
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
pub use disk::{Action, Disk, Step, Store};
pub use drive::Drive;
pub use error::{AppendError, JournalFailure, Loss, OpenError};
pub use inspect::{Inspected, inspect};
pub use open::{JournalOptions, OnLoss};
pub use record::{
    Body, Exchange, LatchKey, Lsn, NAME_BYTES_MAX, PIECE_BYTES_MAX, RECORD_BYTES_MAX,
    REGION_RECORD_BYTES_MAX, REPLY_BYTES_MAX, Redo, RegionKey,
};
pub use recovered::{AcceptedLoss, Latched, Recovered, RecoveredRegion, TornTail};
pub use replay::{replay, replay_on};
pub use snapshot::{SnapshotRegion, SnapshotSource, snapshot_bytes};
pub use watch::{JournalWatch, Meddled};
pub use writer::{Commit, Journal};
