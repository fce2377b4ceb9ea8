//! The journal of durable regions: a commit is acknowledged only once its record is on disk.
//!
//! ```text
//!   executed verb ─► append ─► pending batch ─► submit: WRITE ─► FDATASYNC ─► poll: MARK, durable_lsn ─► the reply may go
//!                                   ▲           (io_uring, one batch at a time)
//!   regions, latches ─ snapshot_step┘
//! ```
//! One lane has one journal, and only its thread uses it. A round calls [`Journal::poll`] and sends the replies that may go, calls
//! [`Journal::begin_snapshot`] if one is due and [`Journal::snapshot_step`], appends what it executes, and calls [`Journal::submit`]. None of them
//! waits for the disk: a round makes two system calls at most, and none if nothing is pending or has come to the disk. Once in each tick it calls [`Journal::tick`].
//!
//! Records are *physical redo*: which bytes of a region changed to what. To apply one twice changes nothing more.
//!
//! # Files
//! Two files take turns. Once the active one is half full, the lane begins a snapshot: from then on records go to the other file,
//! and what all regions hold and which replies are latched goes there between them, a bounded part each round. When the end of the
//! snapshot is on disk, the old file is blanked. Each start of a file is a *generation*; the higher one counts, or both if the snapshot of the
//! higher one is not complete.
//!
//! Behind the sync of a batch a *mark* says, elsewhere in the file, that it was acknowledged (`mark`). A file that ends before its mark has lost
//! something, and no journal begins on it unless an operator accepts that: then the files are set aside first.
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
//! | `mark` | how far a file was acknowledged |
//! | `disk` | what is asked of a disk |
//! | `drive` | the real disk; the one place that talks to `io_uring` |
//! | `file` | the directory, its lock, its two files |
//! | `ring` | what is on its way to the disk |
//! | `writer` | [`Journal`]: append, submit, poll |
//! | `snapshot` | a snapshot in bounded steps |
//! | `replay` | reading it all back |
//! | `recovered` | what replay found |
//! | `check` | what can be checked before a start |
//! | `open` | start: check, replay, begin anew |
//! | `inspect` | whether a start would take it, without a change |
//! | `watch` | sees it when somebody removes or replaces the files |
//! | `error` | what can go wrong |

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
