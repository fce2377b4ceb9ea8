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

/// How long [`Journal::flush`] waits before it asks the kernel again for what that lacked.
const RETRY_PAUSE: Duration = Duration::from_millis(2);

/// An executed verb.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Commit<'a> {
    /// The region that it was executed on.
    pub region: RegionKey,
    /// The exchange that it was executed for; `None` for an application of this node.
    pub exchange: Option<Exchange>,
    /// What it changed, in order. Nothing for one that only read.
    pub redo: &'a [Redo<'a>],
    /// What it answered.
    pub reply: &'a [u8],
}

/// The journal of one lane.
///
/// Only the lane's thread uses it. [`Journal::poll`], [`Journal::submit`] and the appending methods neither wait for the disk nor allocate
/// ([`Journal::append_region`] does). When it is dropped it waits for what is on its way; what was appended and not submitted is gone.
#[derive(Debug)]
pub struct Journal<D: Disk = Drive> {
    ring: Ring<D>,
    file_sectors: u32,
    regions_bytes_max: u64,
    /// Sizes and names of the regions that records may speak of.
    regions: FxHashMap<RegionKey, (u64, Box<str>)>,
    /// What all regions may take in a snapshot.
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

/// How a change of files stands. Nothing in the new file is acknowledged before the old one says that it has begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// There is none.
    None,
    /// The first batch of the new file is not on disk. This mark is for the old file then.
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
    /// It holds what replay would need.
    Needed {
        /// Bytes that were written.
        used_bytes: u64,
    },
    /// It is needed no more; zeros are written over it, from `next_bytes` to `used_bytes`.
    Blanking { next_bytes: u64, used_bytes: u64 },
}

/// What a new journal begins with.
pub(super) struct Beginning<D: Disk> {
    pub ring: Ring<D>,
    pub file_bytes: u64,
    pub batches: [Batch; 2],
    pub regions: FxHashMap<RegionKey, (u64, Box<str>)>,
    pub last_key: u64,
    /// The mark of the active file, on disk.
    pub mark: Mark,
}

/// Most bytes that all regions together may take in a snapshot for files of this size: it has half of a file, and latched replies and what is left
/// empty between batches have half of that.
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

    /// Appends what an executed verb did. Its reply may go to whoever asked once [`Journal::durable_lsn`] is not less than the result.
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

    /// As [`Journal::append`], for what room was asked for before ([`Journal::has_room_for`]) and could not be refused since: it may take room of
    /// the file that is meant for a snapshot.
    ///
    /// # Errors
    /// As [`Journal::append`].
    pub fn append_promised(&mut self, commit: &Commit<'_>) -> Result<Lsn, AppendError> {
        self.append_within(commit, self.file_sectors)
    }

    /// Whether the batch has room for records of so many bytes in all now, and the file for so many.
    #[must_use]
    pub fn has_room_for(&self, batch_bytes: usize, file_bytes: usize) -> bool {
        self.failure.is_none()
            && self.pending.room_bytes() >= batch_bytes
            && self.pending.end_sector_with(file_bytes) <= self.commit_sectors()
    }

    /// Makes a durable region, all zero. It exists once [`Journal::durable_lsn`] is not less than the result; commits on it may be appended at once.
    /// Allocates.
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

    /// Gives a durable region up, with what it holds. It is gone once [`Journal::durable_lsn`] is not less than the result.
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

    /// Whether the active file is half full and the other one is ready: [`Journal::begin_snapshot`] is due.
    #[must_use]
    pub fn needs_snapshot(&self) -> bool {
        self.failure.is_none()
            && self.phase == Phase::None
            && self.spare == Spare::Blank
            && self.pending.end_sector_with(0) > self.file_sectors / 2
    }

    /// Begins a snapshot: after the next [`Journal::submit`] that finds no batch on its way, records go to the other file. `false` if
    /// there is one already, or the other file is not ready.
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

    /// Appends the next parts of the snapshot, if one was begun, until `budget_bytes` of memory are looked at or half of the batch is taken.
    /// Once in each round, before the round's commits are appended, until [`Journal::is_in_snapshot`] is `false`. What `source` tells must be what
    /// records say that were appended so far, no less and no more.
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
            // An empty batch lacks room only where its file ends.
            Err(AppendError::Full) if self.pending.is_empty() => {
                self.fail(
                    file_of(self.generation),
                    "a snapshot of all regions and latched replies does not fit; make the journal's files larger".into(),
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

    /// Sends what was appended to the disk, unless the batch before is on its way still. One system call at most; none if there is nothing to send.
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

    /// Sends again what the kernel had no means for, and writes the second mark of a journal at rest: once in each tick of the lane. One system call at most.
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

    /// Looks at what the disk has done and returns [`Journal::durable_lsn`]. One system call if a batch has come to the disk, to give that its mark;
    /// else none.
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

    /// Everything up to this record is on disk, as [`Journal::poll`] saw last. After a failure it does not grow.
    #[must_use]
    pub const fn durable_lsn(&self) -> Lsn {
        self.durable
    }

    /// The last record that was appended.
    #[must_use]
    pub const fn last_lsn(&self) -> Lsn {
        Lsn(self.next.0 - 1)
    }

    /// Whether the kernel has something to do for this journal, after which the descriptor is readable.
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

    /// Ends the journal for a reason that it cannot see itself: `what` was done to the file or directory `path`.
    pub fn fail_because(&mut self, path: PathBuf, what: String) {
        self.failure.get_or_insert(JournalFailure { path, what });
    }

    /// Waits until everything appended is on disk, or the journal failed. For the end of a lane, not for its rounds.
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

    /// Waits until the disk has done something, or for a moment until it is asked again.
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

    /// Gives the disk the mark of a batch that is there, after which the batch may be acknowledged. Nobody waits for the mark: a process that is killed
    /// takes nothing back that the disk has. The first of a new file waits until the old one says, on disk, that the new one has begun.
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
                (file, self.ring.note(file, mark, slot_of(mark)))
            }
            _ => return,
        };
        let given = staged.and_then(|()| self.ring.enter());
        if let Err(error) = given {
            self.fail(file, format!("io_uring: {error}"));
        }
    }

    /// Lets records go to the other file, which begins with the pending batch. That is written only once everything before it is on disk.
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

    /// Stages the next zeros for the other file. The header goes first, so that nobody takes the rest for a generation.
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
