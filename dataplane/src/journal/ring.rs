//! Disk operations in flight, and their results.
//!
//! A write in flight belongs to the ring until the disk has completed it: [`Ring::write`] takes the
//! batch, [`Ring::reap`] returns it. So no other code can change or free memory that the kernel
//! reads.
//!
//! The ring sends a chain again, as a whole, if it failed for a temporary lack of kernel resources
//! (`EAGAIN`, `ENOMEM`, `EINTR`). The number of retries is bounded. Writing the same bytes to the
//! same offset twice changes nothing. Any other error is final: after a failed sync the disk
//! content is unknown, and a later success proves nothing.

use std::{
    io,
    time::{Duration, Instant},
};

use super::{
    batch::Batch,
    disk::{Action, Disk, Step},
    mark::{Mark, MarkBlock, slot_offset},
    sector::BLOCK_BYTES,
};

/// Most bytes of zeros in one write.
pub(super) const BLANK_BYTES_MAX: usize = 256 * 1024;

/// Most retries of a chain, one per tick of the lane: a second with the default tick.
pub(super) const RETRIES_MAX: u32 = 50;

const STEPS_MAX: usize = 3;

/// From then on a wait at the end is long.
const SLOW: Duration = Duration::from_secs(1);

/// The result of a disk operation.
pub(super) type Answer = Result<(), IoFailure>;

/// Why a write is not on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IoFailure {
    /// A call failed with this error number.
    Call(&'static str, i32),
    /// The kernel lacked means, again and again; this was the last error number.
    Exhausted(&'static str, i32),
    /// Not everything was written.
    Short {
        /// Bytes that were.
        wrote: u32,
        /// Bytes that there are.
        of: u32,
    },
}

/// A completed disk operation.
#[derive(Debug)]
pub(super) enum Done {
    /// A batch, in which file; `Ok`: it is on disk.
    Batch(Batch, usize, Answer),
    /// A mark, in which file. `Ok`: it is written, and also on disk if that was requested.
    Mark(usize, Answer),
    /// Zeros, in which file.
    Blank(usize, Answer),
}

/// A step of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Call {
    Write,
    Sync,
    Mark,
}

/// Which chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Batch,
    Mark,
    Blank,
}

/// How a chain stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Chain {
    /// The disk has it, or it is staged.
    Sent,
    /// It is sent again with the next tick.
    Deferred,
}

/// A chain that is not done.
#[derive(Debug)]
struct Flight<T> {
    what: T,
    file: usize,
    /// Bytes of its write.
    bytes: u32,
    calls: &'static [Call],
    results: [Option<i32>; STEPS_MAX],
    retries: u32,
    chain: Chain,
    /// The kernel split the chain, so that its steps did not wait for each other.
    is_cut: bool,
}

/// Where zeros go.
#[derive(Debug, Clone, Copy)]
struct Zeros {
    offset: u64,
    bytes: usize,
}

/// Where a mark goes.
#[derive(Debug, Clone, Copy)]
struct Slot(usize);

/// See the module.
#[derive(Debug)]
pub(super) struct Ring<D: Disk> {
    disk: D,
    /// Zeros to write; begins at a multiple of [`BLOCK_BYTES`] behind `zeros_skew`. Never changed.
    zeros: Vec<u8>,
    zeros_skew: usize,
    /// The mark that is written.
    mark_block: MarkBlock,
    batch: Option<Flight<Batch>>,
    mark: Option<Flight<Slot>>,
    blank: Option<Flight<Zeros>>,
    /// Chains that the disk was not given yet, and how many steps of the first it has.
    staged: Vec<(Kind, usize)>,
    retried: u64,
    /// Since when the end waits for a result.
    waits_since: Option<Instant>,
    is_slow_reported: bool,
}

const BATCH_CALLS: &[Call] = &[Call::Write, Call::Sync];
const UNSYNCED_MARK_CALLS: &[Call] = &[Call::Mark];
/// The first sync is for the mark in the other place: one of both is whole at every moment.
const MARK_CALLS: &[Call] = &[Call::Sync, Call::Mark, Call::Sync];
const BLANK_CALLS: &[Call] = &[Call::Write, Call::Sync];

impl Call {
    const fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Sync => "fdatasync",
            Self::Mark => "write of the mark",
        }
    }

    /// Evaluates the result of the call. `bytes` is the length of a write.
    fn judge(self, result: i32, bytes: u32) -> Answer {
        let of = match self {
            Self::Write => bytes,
            Self::Sync => 0,
            Self::Mark => BLOCK_BYTES as u32,
        };
        match u32::try_from(result) {
            Err(_) => Err(IoFailure::Call(self.name(), -result)),
            Ok(wrote) if wrote < of => Err(IoFailure::Short { wrote, of }),
            Ok(_) => Ok(()),
        }
    }
}

impl<T> Flight<T> {
    const fn new(what: T, file: usize, bytes: usize, calls: &'static [Call]) -> Self {
        Self {
            what,
            file,
            bytes: bytes as u32,
            calls,
            results: [None; STEPS_MAX],
            retries: 0,
            chain: Chain::Sent,
            is_cut: false,
        }
    }

    /// `None` until the disk is done with all of it.
    fn answer(&self) -> Option<Answer> {
        let mut answer = Ok(());
        for (at, call) in self.calls.iter().enumerate() {
            let result = self.results[at]?;
            // A failed step cancels the steps that follow.
            if answer.is_ok() {
                answer = call.judge(result, self.bytes);
            }
        }
        Some(answer)
    }

    /// The answer, unless the chain is to be sent again, which is counted in `retried`.
    fn settle(&mut self, retried: &mut u64) -> Option<Answer> {
        if self.chain == Chain::Deferred {
            return None;
        }
        let answer = self.answer()?;
        let passing = match answer {
            Err(IoFailure::Call(call, number)) if is_passing(number) => Some((call, number)),
            Ok(()) if self.is_cut => Some(("io_uring_enter", libc::EAGAIN)),
            _ => None,
        };
        let Some((call, number)) = passing else {
            return Some(answer);
        };
        if self.retries == RETRIES_MAX {
            return Some(Err(IoFailure::Exhausted(call, number)));
        }
        self.retries += 1;
        *retried += 1;
        self.results = [None; STEPS_MAX];
        self.chain = Chain::Deferred;
        self.is_cut = false;
        None
    }

    fn is_sent(&self) -> bool {
        self.chain == Chain::Sent
    }
}

/// Whether a call may succeed a moment later, with nothing lost.
const fn is_passing(number: i32) -> bool {
    matches!(number, libc::EINTR | libc::EAGAIN | libc::ENOMEM)
}

impl std::fmt::Display for IoFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let error = io::Error::from_raw_os_error;
        match *self {
            Self::Call(call, number) => write!(f, "{call}: {}", error(number)),
            Self::Exhausted(call, number) => {
                write!(f, "{call}: {}, and {RETRIES_MAX} more times", error(number))
            }
            Self::Short { wrote, of } => write!(
                f,
                "only {wrote} of {of} bytes could be written; the disk or a limit on file sizes is \
                 full"
            ),
        }
    }
}

impl Kind {
    const ALL: [Self; 3] = [Self::Batch, Self::Mark, Self::Blank];

    const fn tag(self, step: usize) -> u64 {
        (self as u64) << 8 | step as u64
    }

    fn of(tag: u64) -> Option<(Self, usize)> {
        let kind = *Self::ALL.get(usize::try_from(tag >> 8).ok()?)?;
        Some((kind, (tag & 0xff) as usize))
    }
}

impl<D: Disk> Ring<D> {
    /// Creates a ring for a disk whose two files are in place.
    pub fn new(disk: D) -> Self {
        let zeros = vec![0; BLANK_BYTES_MAX + BLOCK_BYTES];
        Self {
            disk,
            zeros_skew: zeros.as_ptr().align_offset(BLOCK_BYTES),
            zeros,
            mark_block: MarkBlock::new(),
            batch: None,
            mark: None,
            blank: None,
            staged: Vec::with_capacity(Kind::ALL.len()),
            retried: 0,
            waits_since: None,
            is_slow_reported: false,
        }
    }

    /// The disk.
    pub const fn disk(&self) -> &D {
        &self.disk
    }

    /// Whether a batch is on its way.
    pub const fn is_writing(&self) -> bool {
        self.batch.is_some()
    }

    /// Whether a mark is on its way.
    pub const fn is_marking(&self) -> bool {
        self.mark.is_some()
    }

    /// Whether zeros are on their way.
    pub const fn is_blanking(&self) -> bool {
        self.blank.is_some()
    }

    /// Whether the disk has something to do, after which there is something to reap.
    pub fn is_busy(&self) -> bool {
        self.batch.as_ref().is_some_and(Flight::is_sent)
            || self.mark.as_ref().is_some_and(Flight::is_sent)
            || self.blank.as_ref().is_some_and(Flight::is_sent)
    }

    /// How often a chain was sent again.
    pub const fn retried(&self) -> u64 {
        self.retried
    }

    /// Stages a batch: a write to one of the files, then a sync. No batch may be in flight.
    ///
    /// # Errors
    /// The ring is full. This cannot happen while at most one chain of each kind is in flight.
    pub fn write(&mut self, mut batch: Batch, file: usize) -> io::Result<()> {
        debug_assert!(self.batch.is_none());
        let bytes = batch.seal().len();
        self.batch = Some(Flight::new(batch, file, bytes, BATCH_CALLS));
        self.send(Kind::Batch).inspect_err(|_| self.batch = None)
    }

    /// Stages `mark` for a slot of one of the files. No mark may be on its way.
    ///
    /// # Errors
    /// As [`Ring::write`].
    pub fn mark_unsynced(&mut self, file: usize, mark: Mark, slot: usize) -> io::Result<()> {
        self.stage_mark(file, mark, slot, UNSYNCED_MARK_CALLS)
    }

    /// As [`Ring::mark_unsynced`], between two syncs.
    ///
    /// # Errors
    /// As [`Ring::write`].
    pub fn mark(&mut self, file: usize, mark: Mark, slot: usize) -> io::Result<()> {
        self.stage_mark(file, mark, slot, MARK_CALLS)
    }

    fn stage_mark(
        &mut self,
        file: usize,
        mark: Mark,
        slot: usize,
        calls: &'static [Call],
    ) -> io::Result<()> {
        debug_assert!(self.mark.is_none());
        self.mark_block.set(mark);
        self.mark = Some(Flight::new(Slot(slot), file, BLOCK_BYTES, calls));
        self.send(Kind::Mark).inspect_err(|_| self.mark = None)
    }

    /// Stages `bytes` zeros at `offset` of one of the files, up to [`BLANK_BYTES_MAX`], then a
    /// sync. No zeros may be in flight.
    ///
    /// # Errors
    /// As [`Ring::write`].
    pub fn blank(&mut self, file: usize, offset: u64, bytes: usize) -> io::Result<()> {
        debug_assert!(self.blank.is_none());
        let zeros = Zeros { offset, bytes };
        self.blank = Some(Flight::new(zeros, file, bytes, BLANK_CALLS));
        self.send(Kind::Blank).inspect_err(|_| self.blank = None)
    }

    /// Sends the chains again for which the kernel lacked resources. Call it once per tick.
    ///
    /// # Errors
    /// As [`Ring::write`].
    pub fn retry(&mut self) -> io::Result<()> {
        if let Some(flight) = self.batch.as_mut().filter(|flight| !flight.is_sent()) {
            flight.chain = Chain::Sent;
            self.send(Kind::Batch)?;
        }
        if let Some(flight) = self.mark.as_mut().filter(|flight| !flight.is_sent()) {
            flight.chain = Chain::Sent;
            self.send(Kind::Mark)?;
        }
        if let Some(flight) = self.blank.as_mut().filter(|flight| !flight.is_sent()) {
            flight.chain = Chain::Sent;
            self.send(Kind::Blank)?;
        }
        Ok(())
    }

    /// Stages the chain of a flight.
    fn send(&mut self, kind: Kind) -> io::Result<()> {
        let write = |step, file, offset, bytes| Step {
            tag: kind.tag(step),
            file,
            action: Action::Write { offset, bytes },
        };
        let sync = |step, file| Step {
            tag: kind.tag(step),
            file,
            action: Action::Sync,
        };
        let mut steps = [sync(0, 0); STEPS_MAX];
        let count = match kind {
            Kind::Batch => {
                let Some(flight) = &self.batch else {
                    return Ok(());
                };
                let batch = &flight.what;
                steps[0] = write(0, flight.file, batch.file_offset(), batch.sealed());
                steps[1] = sync(1, flight.file);
                2
            }
            Kind::Mark => {
                let Some(flight) = &self.mark else {
                    return Ok(());
                };
                let offset = slot_offset(flight.what.0);
                let mark = self.mark_block.bytes();
                if flight.calls == UNSYNCED_MARK_CALLS {
                    steps[0] = write(0, flight.file, offset, mark);
                    1
                } else {
                    steps = [
                        sync(0, flight.file),
                        write(1, flight.file, offset, mark),
                        sync(2, flight.file),
                    ];
                    3
                }
            }
            Kind::Blank => {
                let Some(flight) = &self.blank else {
                    return Ok(());
                };
                let Zeros { offset, bytes } = flight.what;
                let zeros = &self.zeros[self.zeros_skew..self.zeros_skew + bytes];
                steps[0] = write(0, flight.file, offset, zeros);
                steps[1] = sync(1, flight.file);
                2
            }
        };
        // SAFETY: each step writes memory of the flight's batch, of the mark or of the zeros. Each
        // is allocated once and does not move with its owner. The batch stays in `self.batch` until
        // `reap` has seen the results of all its steps. The mark is set only while no chain uses
        // it. The zeros never change. `drop` waits for the results too, or leaks all of the memory.
        unsafe { self.disk.stage(&steps[..count]) }?;
        self.staged.push((kind, count));
        Ok(())
    }

    /// Submits the staged steps: one system call, or none if nothing is staged.
    ///
    /// # Errors
    /// The kernel's error. A temporarily busy kernel is no error: the next call submits the staged
    /// steps.
    pub fn enter(&mut self) -> io::Result<()> {
        if self.staged.is_empty() {
            return Ok(());
        }
        match self.disk.enter() {
            Ok(taken) => self.take(taken),
            Err(error) if error.raw_os_error().is_some_and(is_passing_call) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Notes that the disk has taken so many of the staged steps.
    fn take(&mut self, mut taken: usize) {
        while let Some((kind, steps)) = self.staged.first_mut() {
            if taken == 0 {
                return;
            }
            if taken < *steps {
                *steps -= taken;
                let is_cut = match kind {
                    Kind::Batch => self.batch.as_mut().map(|flight| &mut flight.is_cut),
                    Kind::Mark => self.mark.as_mut().map(|flight| &mut flight.is_cut),
                    Kind::Blank => self.blank.as_mut().map(|flight| &mut flight.is_cut),
                };
                if let Some(is_cut) = is_cut {
                    *is_cut = true;
                }
                return;
            }
            taken -= *steps;
            self.staged.remove(0);
        }
    }

    /// The next thing that the disk is done with. Reads shared memory; makes no system call.
    pub fn reap(&mut self) -> Option<Done> {
        while let Some((tag, result)) = self.disk.completion() {
            // The ring stages no other tags.
            let Some((kind, step)) = Kind::of(tag) else {
                continue;
            };
            let results = match kind {
                Kind::Batch => self.batch.as_mut().map(|flight| &mut flight.results),
                Kind::Mark => self.mark.as_mut().map(|flight| &mut flight.results),
                Kind::Blank => self.blank.as_mut().map(|flight| &mut flight.results),
            };
            self.waits_since = None;
            if let Some(slot) = results.and_then(|results| results.get_mut(step)) {
                *slot = Some(result);
            }
            let done = match kind {
                Kind::Batch => self.done_batch(),
                Kind::Mark => self.done_mark(),
                Kind::Blank => self.done_blank(),
            };
            if done.is_some() {
                return done;
            }
        }
        None
    }

    fn done_batch(&mut self) -> Option<Done> {
        let answer = self.batch.as_mut()?.settle(&mut self.retried)?;
        let done = self.batch.take()?;
        Some(Done::Batch(done.what, done.file, answer))
    }

    fn done_mark(&mut self) -> Option<Done> {
        let answer = self.mark.as_mut()?.settle(&mut self.retried)?;
        Some(Done::Mark(self.mark.take()?.file, answer))
    }

    fn done_blank(&mut self) -> Option<Done> {
        let answer = self.blank.as_mut()?.settle(&mut self.retried)?;
        Some(Done::Blank(self.blank.take()?.file, answer))
    }

    /// Waits until the disk completes another operation, or until a timeout. Logs a long wait once:
    /// the process cannot exit before, not even by a kill. For shutdown only, not for a lane's
    /// round.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn wait(&mut self) -> io::Result<()> {
        let since = *self.waits_since.get_or_insert_with(Instant::now);
        if !self.is_slow_reported && since.elapsed() >= SLOW {
            self.is_slow_reported = true;
            tracing::warn!(
                directory = %self.disk.directory().display(),
                "the daemon waits for the disk before it exits: the disk has not completed a write \
                 to this journal for {SLOW:?}. Until then the process does not exit, even if \
                 killed: look for a file system that is frozen (`fsfreeze -u` thaws it) or a \
                 device that does not respond"
            );
        }
        match self.disk.wait() {
            Ok(taken) => self.take(taken),
            Err(error) if error.raw_os_error().is_some_and(is_passing_call) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

/// Whether the system call that sends may succeed a moment later: it took nothing.
const fn is_passing_call(number: i32) -> bool {
    is_passing(number) || number == libc::EBUSY
}

impl<D: Disk> Drop for Ring<D> {
    fn drop(&mut self) {
        while self.is_busy() {
            if self.reap().is_none() && self.wait().is_err() {
                // The kernel may still read this memory, so it is leaked and never reused.
                Box::leak(Box::new(self.batch.take()));
                self.mark_block.leak();
                Vec::leak(std::mem::take(&mut self.zeros));
                (self.mark, self.blank) = (None, None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flight() -> Flight<()> {
        Flight::new((), 0, 4096, &[Call::Write, Call::Sync, Call::Mark])
    }

    #[test]
    fn an_answer_needs_all_results() {
        let mut flight = flight();
        flight.results = [Some(4096), Some(0), None];
        assert_eq!(flight.answer(), None);
        flight.results = [None, Some(-libc::ECANCELED), Some(-libc::ECANCELED)];
        assert_eq!(flight.answer(), None);
        flight.results[0] = Some(-libc::EIO);
        assert_eq!(
            flight.answer(),
            Some(Err(IoFailure::Call("write", libc::EIO)))
        );
    }

    #[test]
    fn nothing_but_a_whole_write_its_sync_and_its_mark_is_success() {
        let canceled = -libc::ECANCELED;
        for (results, expected) in [
            ([4096, 0, 4096], Ok(())),
            (
                [4096, -libc::EIO, canceled],
                Err(IoFailure::Call("fdatasync", libc::EIO)),
            ),
            (
                [-libc::ENOSPC, canceled, canceled],
                Err(IoFailure::Call("write", libc::ENOSPC)),
            ),
            (
                [4096, 0, -libc::EIO],
                Err(IoFailure::Call("write of the mark", libc::EIO)),
            ),
        ] {
            let mut flight = flight();
            flight.results = results.map(Some);
            assert_eq!(flight.answer(), Some(expected), "{results:?}");
        }
        // The kernel cancels the sync of a short write. Even without that, the write would count as
        // short.
        for synced in [canceled, 0] {
            let mut flight = flight();
            flight.results = [512, synced, synced].map(Some);
            let short = Err(IoFailure::Short {
                wrote: 512,
                of: 4096,
            });
            assert_eq!(flight.answer(), Some(short));
        }
    }

    #[test]
    fn a_chain_is_resubmitted_a_bounded_number_of_times() {
        let mut flight = flight();
        let mut retried = 0;
        for number in 1..=u64::from(RETRIES_MAX) {
            flight.results = [-libc::ENOMEM, -libc::ECANCELED, -libc::ECANCELED].map(Some);
            assert_eq!(flight.settle(&mut retried), None);
            assert_eq!((retried, flight.chain), (number, Chain::Deferred));
            assert_eq!(flight.settle(&mut retried), None, "it is not sent yet");
            flight.chain = Chain::Sent;
        }
        flight.results = [-libc::EAGAIN, -libc::ECANCELED, -libc::ECANCELED].map(Some);
        assert_eq!(
            flight.settle(&mut retried),
            Some(Err(IoFailure::Exhausted("write", libc::EAGAIN)))
        );
        assert_eq!(retried, u64::from(RETRIES_MAX));
    }
}
