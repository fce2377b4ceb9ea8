//! The journal of one lane: append, submit, poll.

use std::{
    os::fd::{AsFd, BorrowedFd},
    path::PathBuf,
    thread,
    time::Duration,
};

use covalent_pipe::region::{REGION_BYTES_MAX, WORD_BYTES};
use rustc_hash::FxHashMap;

use super::{
    batch::Batch,
    disk::Disk,
    drive::Drive,
    error::{AppendError, JournalFailure},
    file::{file_of, file_path},
    header::Header,
    mark::{Mark, slot_of},
    record::{Body, Exchange, Lsn, RECORD_BYTES_MAX, Redo, Redos, RegionKey, encode},
    ring::{Answer, BLANK_BYTES_MAX, Done, Ring},
    sector::{BLOCK_BYTES, SECTOR_BYTES},
    snapshot::{Cursor, SnapshotSource, snapshot_bytes},
};

/// How long [`Journal::flush`] waits before it retries an operation for which the kernel lacked
/// resources.
const RETRY_PAUSE: Duration = Duration::from_millis(2);

/// An executed verb.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Commit<'a> {
    /// The region that it was executed on.
    pub region: RegionKey,
    /// The exchange that it was executed for; `None` for an application of this node.
    pub exchange: Option<Exchange>,
    /// The changes, in order. Empty for a verb that only read.
    pub redo: &'a [Redo<'a>],
    /// The reply.
    pub reply: &'a [u8],
}

/// The journal of one lane.
///
/// Only the lane's thread uses it. [`Journal::poll`], [`Journal::submit`] and the appending methods
/// neither wait for the disk nor allocate, except that [`Journal::append_region`] allocates.
/// Dropping the journal waits for the writes in flight. Records that were appended but not
/// submitted are lost.
#[derive(Debug)]
pub struct Journal<D: Disk = Drive> {
    ring: Ring<D>,
    file_sectors: u32,
    regions_bytes_max: u64,
    /// Sizes and names of the regions that records may speak of.
    regions: FxHashMap<RegionKey, (u64, Box<str>)>,
    /// Most bytes that all regions take in a snapshot.
    regions_bytes: u64,
    last_key: u64,
    generation: u64,
    /// Where records go.
    pending: Batch,
    /// The other batch, while none is on its way.
    idle: Option<Batch>,
    scratch: Box<[u8; RECORD_BYTES_MAX]>,
    next: Lsn,
    /// Everything up to here is on disk, and its mark was given to the disk.
    durable: Lsn,
    marks: Marks,
    turn: Turn,
    phase: Phase,
    /// The file that is not written to.
    spare: Spare,
    failure: Option<JournalFailure>,
}

/// How a snapshot stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// There is none.
    None,
    /// The next batch begins the other file.
    Due,
    /// Parts are appended.
    Running(Cursor),
    /// Its end is this record; it is not on disk yet.
    Ending(Lsn),
}

/// The marks of the active file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Marks {
    /// The last one that was given to the disk.
    last: Mark,
    /// The one that is to follow: its batch is on disk. Nothing of it was acknowledged.
    due: Option<Mark>,
    /// Whether two places have the last one, on disk, or will.
    is_settled: bool,
}

/// State of a change of files. The journal acknowledges nothing in the new file before the old one
/// records its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// There is none.
    None,
    /// The first batch of the new file is not on disk yet. After it, this mark goes to the old
    /// file.
    Begun(Mark),
    /// It is on disk, and the mark is to be written.
    Due(Mark),
    /// The mark is on its way.
    Marking,
}

/// How the other file stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Spare {
    /// All of it is zero, on disk.
    Blank,
    /// Replay would need its content.
    Needed {
        /// Bytes that were written.
        used_bytes: u64,
    },
    /// It is needed no more; zeros are written over it, from `next_bytes` to `used_bytes`.
    Blanking { next_bytes: u64, used_bytes: u64 },
}

/// The initial state of a new journal.
pub(super) struct Beginning<D: Disk> {
    pub ring: Ring<D>,
    pub file_bytes: u64,
    pub batches: [Batch; 2],
    pub regions: FxHashMap<RegionKey, (u64, Box<str>)>,
    pub last_key: u64,
    /// The mark of the active file, on disk.
    pub mark: Mark,
}

/// Most bytes that all regions together may take in a snapshot for files of this size. A snapshot
/// has half of a file. Latched replies and unused space between batches take half of that.
pub(super) const fn regions_bytes_max(file_bytes: u64) -> u64 {
    file_bytes / 4
}

impl Marks {
    /// The mark behind this one.
    const fn next(&self, end_sector: u32, last: Lsn) -> Mark {
        Mark {
            count: self.last.count + 1,
            end_sector,
            last,
            ..self.last
        }
    }
}

impl<D: Disk> Journal<D> {
    pub(super) fn begin(beginning: Beginning<D>) -> Self {
        let Beginning {
            ring,
            file_bytes,
            batches: [mut pending, idle],
            regions,
            last_key,
            mark,
        } = beginning;
        pending.begin(mark.generation, mark.end_sector);
        Self {
            ring,
            file_sectors: (file_bytes / SECTOR_BYTES as u64) as u32,
            regions_bytes_max: regions_bytes_max(file_bytes),
            regions_bytes: regions
                .values()
                .map(|&(size_bytes, _)| snapshot_bytes(size_bytes))
                .sum(),
            regions,
            last_key,
            generation: mark.generation,
            pending,
            idle: Some(idle),
            scratch: Box::new([0; RECORD_BYTES_MAX]),
            next: Lsn(mark.last.0 + 1),
            durable: mark.last,
            marks: Marks {
                last: mark,
                due: None,
                is_settled: true,
            },
            turn: Turn::None,
            phase: Phase::None,
            spare: Spare::Blank,
            failure: None,
        }
    }

    /// Appends the changes of an executed verb. The caller may send the reply once
    /// [`Journal::durable_lsn`] is not less than the returned LSN.
    ///
    /// # Errors
    /// [`AppendError`]; nothing was appended.
    pub fn append(&mut self, commit: &Commit<'_>) -> Result<Lsn, AppendError> {
        self.append_within(commit, self.commit_sectors())
    }

    fn append_within(&mut self, commit: &Commit<'_>, sectors: u32) -> Result<Lsn, AppendError> {
        let (size_bytes, _) = self
            .regions
            .get(&commit.region)
            .ok_or(AppendError::UnknownRegion)?;
        let lies_within = |redo: &Redo<'_>| {
            redo.offset
                .checked_add(redo.bytes.len() as u64)
                .is_some_and(|end| end <= *size_bytes)
        };
        if !commit.redo.iter().all(lies_within) {
            return Err(AppendError::OutOfBounds);
        }
        let body = Body::Commit {
            region: commit.region,
            exchange: commit.exchange,
            redo: Redos::new(commit.redo),
            reply: commit.reply,
        };
        self.push(&body, sectors)
    }

    /// Whether [`Journal::append`] would take any commit now, however long.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.failure.is_none()
            && self.pending.room_bytes() >= RECORD_BYTES_MAX
            && self.pending.end_sector_with(RECORD_BYTES_MAX) <= self.commit_sectors()
    }

    /// As [`Journal::append`], for a commit whose space [`Journal::has_room_for`] has confirmed and
    /// which cannot be refused any more. It may use file space that is reserved for a snapshot.
    ///
    /// # Errors
    /// As [`Journal::append`].
    pub fn append_promised(&mut self, commit: &Commit<'_>) -> Result<Lsn, AppendError> {
        self.append_within(commit, self.file_sectors)
    }

    /// Whether records of `batch_bytes` in total fit into the batch now, and `file_bytes` into the
    /// file.
    #[must_use]
    pub fn has_room_for(&self, batch_bytes: usize, file_bytes: usize) -> bool {
        self.failure.is_none()
            && self.pending.room_bytes() >= batch_bytes
            && self.pending.end_sector_with(file_bytes) <= self.commit_sectors()
    }

    /// Creates a durable region, all zero. It exists once [`Journal::durable_lsn`] is not less than
    /// the returned LSN. Commits on it may be appended immediately. Allocates.
    ///
    /// # Errors
    /// [`AppendError`]; nothing was appended.
    pub fn append_region(
        &mut self,
        name: &str,
        size_bytes: u64,
    ) -> Result<(RegionKey, Lsn), AppendError> {
        if size_bytes == 0
            || !size_bytes.is_multiple_of(WORD_BYTES)
            || size_bytes > REGION_BYTES_MAX
        {
            return Err(AppendError::BadSize);
        }
        if self.region_key(name).is_some() {
            return Err(AppendError::NameTaken);
        }
        if self.regions_bytes + snapshot_bytes(size_bytes) > self.regions_bytes_max {
            return Err(AppendError::TooLarge {
                most_bytes: self.regions_bytes_max,
            });
        }
        let key = RegionKey(self.last_key + 1);
        let body = Body::Region {
            key,
            size_bytes,
            name,
        };
        let lsn = self.push(&body, self.commit_sectors())?;
        self.last_key = key.0;
        self.regions.insert(key, (size_bytes, name.into()));
        self.regions_bytes += snapshot_bytes(size_bytes);
        Ok((key, lsn))
    }

    /// Deletes a durable region and its content. It is gone once [`Journal::durable_lsn`] is not
    /// less than the returned LSN.
    ///
    /// # Errors
    /// [`AppendError`]; nothing was appended.
    pub fn append_forget(&mut self, region: RegionKey) -> Result<Lsn, AppendError> {
        if !self.regions.contains_key(&region) {
            return Err(AppendError::UnknownRegion);
        }
        let lsn = self.push(&Body::Forget(region), self.commit_sectors())?;
        if let Some((size_bytes, _)) = self.regions.remove(&region) {
            self.regions_bytes -= snapshot_bytes(size_bytes);
        }
        Ok(lsn)
    }

    /// The most that all regions together may take in a snapshot, in bytes.
    #[must_use]
    pub const fn regions_bytes_max(&self) -> u64 {
        self.regions_bytes_max
    }

    /// The durable region of this name.
    #[must_use]
    pub fn region_key(&self, name: &str) -> Option<RegionKey> {
        self.regions
            .iter()
            .find(|(_, (_, known))| **known == *name)
            .map(|(&key, _)| key)
    }

    /// Whether [`Journal::begin_snapshot`] is due: the active file is half full and the other one
    /// is ready.
    #[must_use]
    pub fn needs_snapshot(&self) -> bool {
        self.failure.is_none()
            && self.phase == Phase::None
            && self.spare == Spare::Blank
            && self.pending.end_sector_with(0) > self.file_sectors / 2
    }

    /// Begins a snapshot. Records go to the other file after the next [`Journal::submit`] that
    /// finds no batch in flight. Returns `false` if a snapshot is already in progress, or the other
    /// file is not ready.
    pub fn begin_snapshot(&mut self) -> bool {
        let can = self.failure.is_none() && self.phase == Phase::None && self.spare == Spare::Blank;
        if can {
            self.phase = Phase::Due;
        }
        can
    }

    /// Whether a snapshot is not complete on disk.
    #[must_use]
    pub fn is_in_snapshot(&self) -> bool {
        self.phase != Phase::None
    }

    /// Appends the next parts of the snapshot in progress, until `budget_bytes` of memory are read
    /// or half of the batch is taken. Call it once per round, before the round's commits are
    /// appended, until [`Journal::is_in_snapshot`] is `false`. `source` must return exactly the
    /// state after all records that are appended so far.
    pub fn snapshot_step(&mut self, source: &impl SnapshotSource, budget_bytes: usize) {
        let Phase::Running(mut cursor) = self.phase else {
            return;
        };
        let stepped = cursor.step(source, budget_bytes, |body| {
            // The other half is for commits.
            if self.pending.is_half_full() {
                return Err(AppendError::Full);
            }
            self.push(body, self.file_sectors)
        });
        self.phase = match stepped {
            Ok(Some(end)) => Phase::Ending(end),
            Ok(None) | Err(_) => Phase::Running(cursor),
        };
        match stepped {
            // An empty batch lacks space only at the end of its file.
            Err(AppendError::Full) if self.pending.is_empty() => {
                self.fail(
                    file_of(self.generation),
                    "a snapshot of all regions and latched replies does not fit; make the \
                     journal's files larger"
                        .into(),
                );
            }
            Err(AppendError::TooLong) => {
                self.fail(
                    file_of(self.generation),
                    "a part of a snapshot is longer than a record".into(),
                );
            }
            _ => {}
        }
    }

    /// Submits the appended records to the disk, unless the previous batch is still in flight.
    /// Makes at most one system call, and none if there is nothing to submit.
    pub fn submit(&mut self) {
        if self.failure.is_some() {
            return;
        }
        let file = file_of(self.generation);
        // So a mark is on disk, also after a power cut, that is four batches behind at most.
        let is_marked = self.marks.due.is_none();
        if !self.ring.is_writing() && is_marked && !self.pending.is_empty() {
            self.send(file);
        }
        let is_marked = self.marks.due.is_none() && !self.ring.is_writing();
        if self.phase == Phase::Due && self.pending.is_empty() && is_marked {
            self.change_files();
        }
        self.blank();
        if let Err(error) = self.ring.enter() {
            self.fail(file, format!("io_uring_enter: {error}"));
        }
    }

    /// Retries operations for which the kernel lacked resources, and writes the second mark of an
    /// idle journal. Call it once per tick of the lane. Makes at most one system call.
    pub fn tick(&mut self) {
        if self.failure.is_some() {
            return;
        }
        let file = file_of(self.generation);
        if let Err(error) = self.ring.retry() {
            self.fail(file, format!("io_uring: {error}"));
            return;
        }
        self.settle();
        if let Err(error) = self.ring.enter() {
            self.fail(file, format!("io_uring_enter: {error}"));
        }
    }

    /// Reaps completed disk operations and returns [`Journal::durable_lsn`]. Makes one system call
    /// to issue the mark if a batch has reached the disk, else none.
    pub fn poll(&mut self) -> Lsn {
        while let Some(done) = self.ring.reap() {
            match done {
                Done::Batch(batch, file, answer) => {
                    let (last, generation) = (batch.last(), batch.generation());
                    let end_sector = batch.end_sector_with(0);
                    self.idle = Some(batch);
                    if self.succeeded(file, answer) {
                        self.marks.due = Some(self.marks.next(end_sector, last));
                        if let Turn::Begun(mark) = self.turn
                            && generation == self.generation
                        {
                            self.turn = Turn::Due(mark);
                        }
                    }
                }
                Done::Mark(file, answer) => {
                    if self.succeeded(file, answer) && self.turn == Turn::Marking {
                        self.turn = Turn::None;
                    }
                }
                Done::Blank(file, answer) => {
                    self.succeeded(file, answer);
                }
            }
        }
        self.mark();
        if let Phase::Ending(end) = self.phase
            && self.durable >= end
        {
            self.phase = Phase::None;
            if let Spare::Needed { used_bytes } = self.spare {
                self.spare = Spare::Blanking {
                    next_bytes: 0,
                    used_bytes,
                };
            }
        }
        if let Spare::Blanking {
            next_bytes,
            used_bytes,
        } = self.spare
            && next_bytes >= used_bytes
            && !self.ring.is_blanking()
        {
            self.spare = Spare::Blank;
        }
        self.durable
    }

    /// Returns the last record that is on disk with all its predecessors, as of the last
    /// [`Journal::poll`]. Does not increase after a failure.
    #[must_use]
    pub const fn durable_lsn(&self) -> Lsn {
        self.durable
    }

    /// The last record that was appended.
    #[must_use]
    pub const fn last_lsn(&self) -> Lsn {
        Lsn(self.next.0 - 1)
    }

    /// Whether the kernel has an operation of this journal in flight. The descriptor is readable
    /// after its completion.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.ring.is_busy()
    }

    /// Whether it can only wait for the disk or for the next tick.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.ring.is_writing() || self.ring.is_marking() || self.ring.is_blanking()
    }

    /// How often a write or a sync was sent again because the kernel lacked means.
    #[must_use]
    pub const fn retried(&self) -> u64 {
        self.ring.retried()
    }

    /// Why the journal has ended; `None` while all is well. Final.
    #[must_use]
    pub const fn failure(&self) -> Option<&JournalFailure> {
        self.failure.as_ref()
    }

    /// Ends the journal for a reason that it cannot detect itself: `what` happened to the file or
    /// directory `path`.
    pub fn fail_because(&mut self, path: PathBuf, what: String) {
        self.failure.get_or_insert(JournalFailure { path, what });
    }

    /// Waits until all appended records are on disk, or the journal has failed. For the shutdown of
    /// a lane, not for its rounds.
    pub fn flush(&mut self) -> Lsn {
        while self.poll() < self.last_lsn() && self.failure.is_none() {
            self.submit();
            self.await_disk();
        }
        self.durable
    }

    /// As [`Journal::flush`], then writes the second mark. For the end of a lane.
    pub fn finish(&mut self) -> Lsn {
        self.flush();
        while self.failure.is_none() && (!self.marks.is_settled || self.ring.is_marking()) {
            self.tick();
            self.await_disk();
            self.poll();
        }
        self.durable
    }

    /// Waits until a disk operation completes, or pauses before a retry.
    fn await_disk(&mut self) {
        if self.ring.is_busy() {
            if let Err(error) = self.ring.wait() {
                self.fail(file_of(self.generation), format!("io_uring_enter: {error}"));
            }
        } else if self.is_waiting() {
            thread::sleep(RETRY_PAUSE);
            self.tick();
        }
    }

    /// Sectors that commits may take. While a snapshot runs, half of the file is for it alone.
    const fn commit_sectors(&self) -> u32 {
        match self.phase {
            Phase::Running(_) => self.file_sectors / 2,
            _ => self.file_sectors,
        }
    }

    fn push(&mut self, body: &Body<'_>, sectors: u32) -> Result<Lsn, AppendError> {
        if self.failure.is_some() {
            return Err(AppendError::Failed);
        }
        let bytes = encode(body, self.generation, self.next, &mut self.scratch)
            .map_err(|_| AppendError::TooLong)?;
        if self.pending.end_sector_with(bytes) > sectors
            || !self.pending.push(&self.scratch[..bytes], self.next)
        {
            return Err(AppendError::Full);
        }
        let lsn = self.next;
        self.next = Lsn(lsn.0 + 1);
        Ok(lsn)
    }

    /// Stages the pending batch; the other one is pending then.
    fn send(&mut self, file: usize) {
        let Some(mut next) = self.idle.take() else {
            return;
        };
        let end_sector = self.pending.end_sector_with(0);
        next.begin(self.generation, end_sector);
        let sent = std::mem::replace(&mut self.pending, next);
        if let Err(error) = self.ring.write(sent, file) {
            self.fail(file, format!("io_uring: {error}"));
        }
    }

    /// Stages the second mark of a journal at rest, if it has none.
    fn settle(&mut self) {
        let is_at_rest = !self.ring.is_writing()
            && !self.ring.is_marking()
            && self.pending.is_empty()
            && self.marks.due.is_none();
        if !is_at_rest || self.marks.is_settled {
            return;
        }
        let Mark {
            end_sector, last, ..
        } = self.marks.last;
        let mark = self.marks.next(end_sector, last);
        self.marks = Marks {
            last: mark,
            due: None,
            is_settled: true,
        };
        let file = file_of(self.generation);
        if let Err(error) = self.ring.mark(file, mark, slot_of(mark)) {
            self.fail(file, format!("io_uring: {error}"));
        }
    }

    /// Issues the mark of a batch that is on disk. The batch may then be acknowledged. Nothing
    /// waits for the mark: a killed process loses no write that the disk has. The old file gets a
    /// mark that the new one has begun. The first mark of the new file waits until that mark is on
    /// disk.
    fn mark(&mut self) {
        if self.failure.is_some() || self.ring.is_marking() {
            return;
        }
        let (file, staged) = match (self.turn, self.marks.due) {
            (Turn::Due(mark), _) => {
                self.turn = Turn::Marking;
                let file = file_of(mark.generation);
                (file, self.ring.mark(file, mark, slot_of(mark)))
            }
            (Turn::None | Turn::Begun(_), Some(mark)) => {
                self.marks = Marks {
                    last: mark,
                    due: None,
                    is_settled: false,
                };
                self.durable = mark.last;
                let file = file_of(mark.generation);
                (file, self.ring.mark_unsynced(file, mark, slot_of(mark)))
            }
            _ => return,
        };
        let entered = staged.and_then(|()| self.ring.enter());
        if let Err(error) = entered {
            self.fail(file, format!("io_uring: {error}"));
        }
    }

    /// Redirects records to the other file, which begins with the pending batch. The journal writes
    /// that batch only once everything before it is on disk.
    fn change_files(&mut self) {
        self.spare = Spare::Needed {
            used_bytes: u64::from(self.pending.end_sector_with(0)) * SECTOR_BYTES as u64,
        };
        let Mark {
            end_sector, last, ..
        } = self.marks.last;
        self.turn = Turn::Begun(Mark {
            is_succeeded: true,
            ..self.marks.next(end_sector, last)
        });
        self.generation += 1;
        self.marks = Marks {
            last: Mark::none(self.generation),
            due: None,
            is_settled: true,
        };
        self.pending.begin_file(Header {
            generation: self.generation,
            first_lsn: self.next,
            last_key: self.last_key,
        });
        self.phase = Phase::Running(Cursor::default());
    }

    /// Stages the next zeros for the other file. The header goes first, so that no reader takes the
    /// rest for a generation.
    fn blank(&mut self) {
        let Spare::Blanking {
            next_bytes,
            used_bytes,
        } = self.spare
        else {
            return;
        };
        if self.ring.is_blanking() || next_bytes >= used_bytes {
            return;
        }
        let left_bytes = used_bytes - next_bytes;
        let bytes = match next_bytes {
            0 => BLOCK_BYTES as u64,
            _ => left_bytes.min(BLANK_BYTES_MAX as u64),
        };
        let file = file_of(self.generation + 1);
        if let Err(error) = self.ring.blank(file, next_bytes, bytes as usize) {
            self.fail(file, format!("io_uring: {error}"));
            return;
        }
        self.spare = Spare::Blanking {
            next_bytes: next_bytes + bytes,
            used_bytes,
        };
    }

    fn succeeded(&mut self, file: usize, answer: Answer) -> bool {
        if let Err(failure) = answer {
            self.fail(file, failure.to_string());
        }
        self.failure.is_none()
    }

    #[cold]
    fn fail(&mut self, file: usize, what: String) {
        self.fail_because(file_path(self.ring.disk().directory(), file), what);
    }
}

impl<D: Disk + AsFd> AsFd for Journal<D> {
    /// Readable when [`Journal::poll`] has something to see: for a lane that sleeps.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ring.disk().as_fd()
    }
}
