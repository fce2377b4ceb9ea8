//! The one place that talks to `io_uring`, and but for one call in `lease` the one place of the journal with `unsafe` code.
//!
//! What is being written belongs to the ring until the kernel has said that it is done with it: [`Ring::write`] takes the batch, [`Ring::reap`]
//! gives it back. So nobody can change or free memory that the kernel reads.

use std::{
    fs::File,
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd},
};

use io_uring::{IoUring, opcode, squeue, types};

use super::{batch::Batch, sector::BLOCK_BYTES};

/// Entries of the submission queue: two for a batch, two for a piece of zeros, rounded up.
const ENTRIES: u32 = 8;

/// Most bytes of zeros in one write.
pub(super) const BLANK_BYTES_MAX: usize = 256 * 1024;

const BATCH_WRITE: u64 = 0;
const BATCH_SYNC: u64 = 1;
const BLANK_WRITE: u64 = 2;
const BLANK_SYNC: u64 = 3;

/// What the disk answered.
pub(super) type Answer = Result<(), IoFailure>;

/// Why a write is not on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IoFailure {
    /// A call failed with this error number.
    Call(&'static str, i32),
    /// Not everything was written.
    Short {
        /// Bytes that were.
        wrote: u32,
        /// Bytes that there are.
        of: u32,
    },
}

/// What the kernel is done with.
#[derive(Debug)]
pub(super) enum Done {
    /// A batch, in which file; `Ok`: it is on disk.
    Batch(Batch, usize, Answer),
    /// Zeros, in which file.
    Blank(usize, Answer),
}

/// One write, and the sync that is linked to it.
#[derive(Debug)]
struct Flight<T> {
    what: T,
    file: usize,
    bytes: u32,
    wrote: Option<i32>,
    synced: Option<i32>,
}

/// See the module.
pub(super) struct Ring {
    uring: IoUring,
    files: [File; 2],
    /// Zeros to write; begins at a multiple of [`BLOCK_BYTES`] behind `zeros_skew`. Never changed.
    zeros: Vec<u8>,
    zeros_skew: usize,
    batch: Option<Flight<Batch>>,
    blank: Option<Flight<()>>,
    /// Entries that the kernel was not given yet.
    staged: usize,
}

impl<T> Flight<T> {
    /// `None` until the kernel is done with all of it.
    fn answer(&self) -> Option<Answer> {
        Some(judge(self.wrote?, self.synced?, self.bytes))
    }
}

/// Whether `bytes` are on disk, by the results of a write and of the sync linked to it.
fn judge(wrote: i32, synced: i32, bytes: u32) -> Answer {
    match u32::try_from(wrote) {
        Err(_) => Err(IoFailure::Call("write", -wrote)),
        Ok(wrote) if wrote < bytes => Err(IoFailure::Short { wrote, of: bytes }),
        Ok(_) if synced < 0 => Err(IoFailure::Call("fdatasync", -synced)),
        Ok(_) => Ok(()),
    }
}

impl std::fmt::Display for IoFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            Self::Call(call, number) => {
                write!(f, "{call}: {}", io::Error::from_raw_os_error(number))
            }
            Self::Short { wrote, of } => write!(
                f,
                "only {wrote} of {of} bytes could be written; the disk or a limit on file sizes is full"
            ),
        }
    }
}

impl Ring {
    /// A ring for two files.
    ///
    /// # Errors
    /// The kernel's.
    pub fn new(files: [File; 2]) -> io::Result<Self> {
        let uring = probe()?;
        let zeros = vec![0; BLANK_BYTES_MAX + BLOCK_BYTES];
        Ok(Self {
            uring,
            files,
            zeros_skew: zeros.as_ptr().align_offset(BLOCK_BYTES),
            zeros,
            batch: None,
            blank: None,
            staged: 0,
        })
    }

    /// Whether a batch is on its way.
    pub const fn is_writing(&self) -> bool {
        self.batch.is_some()
    }

    /// Whether zeros are on their way.
    pub const fn is_blanking(&self) -> bool {
        self.blank.is_some()
    }

    /// Stages a batch: it is written to one of the files, then synced. None may be on its way.
    ///
    /// # Errors
    /// The ring has no room, which cannot be while at most one batch and one piece of zeros are on their way.
    pub fn write(&mut self, mut batch: Batch, file: usize) -> io::Result<()> {
        debug_assert!(self.batch.is_none());
        let offset = batch.file_offset();
        let bytes = batch.seal();
        let (start, count) = (bytes.as_ptr(), bytes.len() as u32);
        self.batch = Some(Flight {
            what: batch,
            file,
            bytes: count,
            wrote: None,
            synced: None,
        });
        let fd = types::Fd(self.files[file].as_raw_fd());
        let entries = linked(fd, start, count, offset, [BATCH_WRITE, BATCH_SYNC]);
        // SAFETY: `start` and `count` are a part of the batch's memory, which is allocated once and does not move with the batch. The batch was put into
        // `self.batch` above and stays there, out of everybody's reach, until `reap` has seen the results of both entries; `drop` waits for
        // them too, or leaks the batch. The files are closed after that.
        unsafe { self.push(&entries) }.inspect_err(|_| self.batch = None)
    }

    /// Stages `bytes` zeros at `offset` of one of the files, up to [`BLANK_BYTES_MAX`], then a sync. None may be on their way.
    ///
    /// # Errors
    /// As [`Ring::write`].
    pub fn blank(&mut self, file: usize, offset: u64, bytes: usize) -> io::Result<()> {
        debug_assert!(self.blank.is_none());
        let zeros = &self.zeros[self.zeros_skew..self.zeros_skew + bytes];
        let (start, count) = (zeros.as_ptr(), zeros.len() as u32);
        self.blank = Some(Flight {
            what: (),
            file,
            bytes: count,
            wrote: None,
            synced: None,
        });
        let fd = types::Fd(self.files[file].as_raw_fd());
        let entries = linked(fd, start, count, offset, [BLANK_WRITE, BLANK_SYNC]);
        // SAFETY: `start` and `count` are a part of `self.zeros`, which is never changed and is freed only after `drop` has waited for both
        // results, or not at all.
        unsafe { self.push(&entries) }.inspect_err(|_| self.blank = None)
    }

    /// All of the entries, or none.
    ///
    /// # Safety
    /// Memory and file of the entries must live, and the memory must not change, until the results of all of them have been reaped.
    unsafe fn push(&mut self, entries: &[squeue::Entry; 2]) -> io::Result<()> {
        // SAFETY: as the caller promises.
        unsafe { self.uring.submission().push_multiple(entries) }
            .map_err(|_| io::Error::other("the submission queue is full"))?;
        self.staged += entries.len();
        Ok(())
    }

    /// Gives the kernel what is staged: one system call, or none if nothing is.
    ///
    /// # Errors
    /// The kernel's. That it is too busy just now is none: what is staged goes with the next call.
    pub fn enter(&mut self) -> io::Result<()> {
        if self.staged == 0 {
            return Ok(());
        }
        match self.uring.submit() {
            Ok(taken) => {
                self.staged = self.staged.saturating_sub(taken);
                // The sync of a pair that was taken apart would not wait for its write.
                if self.staged.is_multiple_of(2) {
                    Ok(())
                } else {
                    Err(io::Error::other(
                        "the kernel took a write without the sync that is linked to it",
                    ))
                }
            }
            Err(error) if is_passing(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The next thing that the kernel is done with. Reads shared memory; makes no system call.
    pub fn reap(&mut self) -> Option<Done> {
        while let Some(entry) = self.uring.completion().next() {
            let result = entry.result();
            match (entry.user_data(), &mut self.batch, &mut self.blank) {
                (BATCH_WRITE, Some(flight), _) => flight.wrote = Some(result),
                (BATCH_SYNC, Some(flight), _) => flight.synced = Some(result),
                (BLANK_WRITE, _, Some(flight)) => flight.wrote = Some(result),
                (BLANK_SYNC, _, Some(flight)) => flight.synced = Some(result),
                // Nothing else was ever asked for.
                _ => {}
            }
            if let Some(answer) = self.batch.as_ref().and_then(Flight::answer) {
                let done = self.batch.take()?;
                return Some(Done::Batch(done.what, done.file, answer));
            }
            if let Some(answer) = self.blank.as_ref().and_then(Flight::answer) {
                let done = self.blank.take()?;
                return Some(Done::Blank(done.file, answer));
            }
        }
        None
    }

    /// Waits until the kernel is done with something more. For the end, not for a lane's round.
    ///
    /// # Errors
    /// The kernel's.
    pub fn wait(&mut self) -> io::Result<()> {
        match self.uring.submit_and_wait(1) {
            Ok(taken) => {
                self.staged = self.staged.saturating_sub(taken);
                Ok(())
            }
            Err(error) if is_passing(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// A ring, if the kernel gives one.
///
/// # Errors
/// The kernel's.
pub(super) fn probe() -> io::Result<IoUring> {
    // No flag that saves the kernel an interrupt: with those, results show only after a system call.
    IoUring::builder().dontfork().build(ENTRIES)
}

/// A write, and a sync that starts when all of it is written and is cancelled if not.
fn linked(
    fd: types::Fd,
    start: *const u8,
    count: u32,
    offset: u64,
    [write, sync]: [u64; 2],
) -> [squeue::Entry; 2] {
    [
        opcode::Write::new(fd, start, count)
            .offset(offset)
            .build()
            .flags(squeue::Flags::IO_LINK)
            .user_data(write),
        opcode::Fsync::new(fd)
            .flags(types::FsyncFlags::DATASYNC)
            .build()
            .user_data(sync),
    ]
}

fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EINTR | libc::EAGAIN | libc::EBUSY)
    )
}

impl AsFd for Ring {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the descriptor is the ring's own, which is open as long as `self` lives.
        unsafe { BorrowedFd::borrow_raw(self.uring.as_raw_fd()) }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        while self.batch.is_some() || self.blank.is_some() {
            if self.reap().is_none() && self.wait().is_err() {
                // The kernel may still read this memory, so nobody else may have it, ever.
                Box::leak(Box::new(self.batch.take()));
                Vec::leak(std::mem::take(&mut self.zeros));
                self.blank = None;
            }
        }
    }
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring")
            .field("files", &self.files)
            .field("batch", &self.batch)
            .field("blank", &self.blank)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_needs_both_results() {
        let mut flight = Flight {
            what: (),
            file: 0,
            bytes: 4096,
            wrote: Some(4096),
            synced: None,
        };
        assert_eq!(flight.answer(), None);
        (flight.wrote, flight.synced) = (None, Some(-libc::ECANCELED));
        assert_eq!(flight.answer(), None);
        flight.wrote = Some(-libc::EIO);
        assert_eq!(
            flight.answer(),
            Some(Err(IoFailure::Call("write", libc::EIO)))
        );
    }

    #[test]
    fn nothing_but_a_whole_write_and_its_sync_is_success() {
        assert_eq!(judge(4096, 0, 4096), Ok(()));
        assert_eq!(
            judge(4096, -libc::EIO, 4096),
            Err(IoFailure::Call("fdatasync", libc::EIO))
        );
        assert_eq!(
            judge(-libc::ENOSPC, -libc::ECANCELED, 4096),
            Err(IoFailure::Call("write", libc::ENOSPC))
        );
        // The kernel cancels the sync of a short write; if it did not, the write would be short all the same.
        for synced in [-libc::ECANCELED, 0] {
            let short = Err(IoFailure::Short {
                wrote: 512,
                of: 4096,
            });
            assert_eq!(judge(512, synced, 4096), short);
        }
    }
}
