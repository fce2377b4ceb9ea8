//! Durable regions: the effects of verbs are in the lane's journal before any outcome is reported.
//!
//! ```text
//!  admitted: space reserved ─► executed ─► appended: DurableAt(lsn) ─► on disk ─► replies sent
//! ```
//! A record holds the new values of the words that the verb touched. Verbs that only read append
//! nothing. They are answered once everything that they may have seen is on disk. Stores of owners
//! without verbs are in no record.
//!
//! A region of the journal is *served* while its owner is attached, else *kept*. The bytes of a
//! kept region stay here until the same user registers the same name with the same size again. The
//! journal knows it as `UID/NAME`. On a transition the lane copies the bytes, a bounded part per
//! round (`lane/copying.rs`). It hands unneeded memory over, because freeing takes time in
//! proportion to the size.

use std::{
    collections::{BTreeMap, VecDeque},
    path::PathBuf,
};

use covalent_api::status::JournalStatus;
use covalent_pipe::region::RegionMemory;
use covalent_protocol::{
    ExchangeId, Execution, Mode, Refusal,
    verb::{MULTI_COMMIT_WORDS_MAX, REPLY_BYTES_MAX, Request, Verb, WRITE_BYTES_MAX},
};
use rustc_hash::FxHashMap;

mod shares;

use self::shares::Shares;
use super::engine::VerbEngine;
use crate::journal::{
    Commit, Exchange, Journal, LatchKey, Lsn, REGION_RECORD_BYTES_MAX, Recovered, Redo, RegionKey,
    SnapshotRegion, SnapshotSource,
};

/// Completions of local verbs that may wait for the disk.
const HELD_MAX: usize = 512;
/// Memory that a snapshot may look at in one round.
const SNAPSHOT_BYTES_PER_ROUND: usize = 64 << 10;
/// Upper bounds of a commit record's overhead beside its changes, and of a change's overhead beside
/// its bytes.
const RECORD_OVERHEAD_BYTES: usize = 128;
const CHANGE_OVERHEAD_BYTES: usize = 32;
/// Most file space that a record takes beyond its length, if it is written alone.
const ALONE_BYTES: usize = 8192;
/// Most space of a batch that open exchanges may reserve: a snapshot leaves half of a batch.
const KEPT_BYTES_MAX: usize = 64 << 10;
const WORD_BYTES: usize = 8;
/// All space in the journal is taken, or reserved for open exchanges.
const NO_JOURNAL_SPACE: &str = "its journal has no room now: try again in a moment";

/// The durable regions of one lane.
#[derive(Debug)]
pub struct Durable {
    journal: Journal,
    regions: BTreeMap<RegionKey, Region>,
    /// Keys of the journal by name.
    names: FxHashMap<String, RegionKey>,
    shares: Shares,
    /// Keys that verbs show.
    rkeys: FxHashMap<u32, Shown>,
    /// Space reserved for open exchanges.
    kept: Room,
    /// The exchange admitted in one phase, which executes next. No space is reserved for it.
    at_once: Option<ExchangeId>,
    held: VecDeque<Held>,
    /// Regions that are being kept, the next one first.
    leaving: VecDeque<RegionKey>,
    /// Memory of regions that are now kept or deleted, with the sessions that owned it.
    left: Vec<(u64, RegionMemory)>,
    /// Content that is no longer kept, with the users that owned it.
    unneeded: Vec<(u32, Box<[u8]>)>,
    /// Deletions that wait for the disk, and the tickets under which they are answered.
    deleted: VecDeque<(Lsn, u64)>,
    /// Where changed bytes are put together.
    changed: Box<[u8]>,
    refused: u64,
    /// The last LSN that was reported as durable.
    reported: Lsn,
    /// An executed verb is in no record.
    lost: bool,
    is_failure_reported: bool,
}

#[derive(Debug)]
struct Region {
    journal_name: String,
    name: String,
    uid: u32,
    size_bytes: u64,
    place: Place,
}

#[derive(Debug)]
enum Place {
    Served { session: u64, rkey: u32 },
    Leaving(Leaving),
    Kept(Box<[u8]>),
}

/// A region whose owner is gone, and whose content is not completely copied.
#[derive(Debug)]
struct Leaving {
    session: u64,
    memory: RegionMemory,
    bytes: Vec<u8>,
}

/// The result of [`Durable::restore_step`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restored {
    /// So many bytes were copied.
    Bytes(usize),
    /// The content to copy is not complete yet.
    NotYet,
    /// Everything that there is was copied.
    All,
    /// The region was deleted meanwhile, or registered by another session.
    Gone,
}

/// The region behind a key.
#[derive(Debug)]
struct Shown {
    region: RegionKey,
    /// Space reserved for open exchanges on it.
    kept: Room,
}

/// Space in the journal.
#[derive(Debug, Clone, Copy, Default)]
struct Room {
    batch_bytes: usize,
    file_bytes: usize,
}

impl Room {
    /// For the record that a region is there, or is no more.
    const OF_A_REGION: Self = Self::of(REGION_RECORD_BYTES_MAX);

    const fn of(record_bytes: usize) -> Self {
        Self {
            batch_bytes: record_bytes,
            file_bytes: record_bytes + ALONE_BYTES,
        }
    }

    const fn and(self, other: Self) -> Self {
        Self {
            batch_bytes: self.batch_bytes + other.batch_bytes,
            file_bytes: self.file_bytes + other.file_bytes,
        }
    }

    const fn less(self, other: Self) -> Self {
        Self {
            batch_bytes: self.batch_bytes.saturating_sub(other.batch_bytes),
            file_bytes: self.file_bytes.saturating_sub(other.file_bytes),
        }
    }
}

/// The completion of a local verb that waits for the disk.
#[derive(Debug)]
pub struct Held {
    lsn: Lsn,
    /// Slot of the pipe for the completion.
    pub queue: usize,
    /// The application's name for the verb.
    pub user_data: u64,
    reply_bytes: usize,
    reply: [u8; REPLY_BYTES_MAX],
}

impl Held {
    /// Returns the reply of the verb.
    pub fn reply(&self) -> &[u8] {
        &self.reply[..self.reply_bytes]
    }
}

/// Whether a local verb may be executed now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Local {
    /// It is.
    Go,
    /// When the disk has done more.
    Later,
    /// Never: the journal failed.
    Refused,
}

impl Durable {
    /// Creates the state from a journal's content. Its regions are kept until their owners register
    /// them.
    pub fn new(journal: Journal, recovered: Recovered) -> Self {
        let regions: BTreeMap<_, _> = recovered
            .regions
            .into_iter()
            .map(|(key, region)| {
                let (uid, name) = region_of(&region.name);
                let region = Region {
                    uid,
                    name: name.to_owned(),
                    size_bytes: region.bytes.len() as u64,
                    place: Place::Kept(region.bytes.into()),
                    journal_name: region.name,
                };
                (key, region)
            })
            .collect();
        let mut shares = Shares::default();
        let name_of = |(&key, region): (&RegionKey, &Region)| {
            shares.take(region.uid, region.size_bytes);
            (region.name.clone(), key)
        };
        let names = regions.iter().map(name_of).collect();
        Self {
            // The first round reports the recovered LSN. The node starts without it and would
            // withhold replies.
            reported: Lsn::default(),
            journal,
            regions,
            names,
            shares,
            rkeys: FxHashMap::default(),
            kept: Room::default(),
            at_once: None,
            held: VecDeque::with_capacity(HELD_MAX),
            leaving: VecDeque::new(),
            left: Vec::new(),
            unneeded: Vec::new(),
            deleted: VecDeque::new(),
            changed: vec![0; WRITE_BYTES_MAX.max(MULTI_COMMIT_WORDS_MAX * WORD_BYTES)].into(),
            refused: 0,
            lost: false,
            is_failure_reported: false,
        }
    }

    /// The key of the region of this name, if there is one.
    pub fn key_of(&self, name: &str) -> Option<RegionKey> {
        self.names.get(name).copied()
    }

    /// Copies up to `most` bytes of the region `name` to the memory of the registering application,
    /// behind the `done` bytes copied before. `key` is the region's key at the begin of the copy.
    pub fn restore_step(
        &self,
        name: &str,
        key: Option<RegionKey>,
        memory: &RegionMemory,
        (done, most): (usize, usize),
    ) -> Restored {
        if self.key_of(name) != key {
            return Restored::Gone;
        }
        let Some(region) = key.and_then(|key| self.regions.get(&key)) else {
            return Restored::All;
        };
        match &region.place {
            Place::Kept(bytes) => {
                let count = (bytes.len() - done).min(most);
                if count == 0 {
                    return Restored::All;
                }
                match memory.write(done as u64, &bytes[done..done + count]) {
                    Some(()) => Restored::Bytes(count),
                    None => Restored::Gone,
                }
            }
            Place::Leaving(_) if done == 0 => Restored::NotYet,
            // The name is in use. The registration reports it.
            Place::Served { .. } if done == 0 => Restored::All,
            Place::Leaving(_) | Place::Served { .. } => Restored::Gone,
        }
    }

    /// Serves a newly registered region under `rkey` from now on. No other application may claim
    /// it. `is_bounded`: the user's share is limited in favor of others.
    ///
    /// # Errors
    /// The reason why it cannot be durable. Nothing changed.
    pub fn serve(
        &mut self,
        name: &str,
        uid: u32,
        is_bounded: bool,
        size_bytes: u64,
        session: u64,
        rkey: u32,
    ) -> Result<(), String> {
        let place = Place::Served { session, rkey };
        let cannot = |why: String| format!("region `{name}` cannot be durable: {why}");
        if self.has_failed() {
            return Err(cannot(self.failed()));
        }
        let known = self.names.get(name).copied();
        let key = if let Some((key, known)) =
            known.and_then(|key| Some((key, self.regions.get_mut(&key)?)))
        {
            if let Place::Kept(bytes) = std::mem::replace(&mut known.place, place) {
                self.unneeded.push((uid, bytes));
            }
            key
        } else {
            if is_bounded {
                let all_bytes_max = self.journal.regions_bytes_max();
                self.shares
                    .check(uid, size_bytes, all_bytes_max)
                    .map_err(cannot)?;
            }
            if !self.has_room_for(Room::OF_A_REGION) {
                return Err(cannot(NO_JOURNAL_SPACE.into()));
            }
            let journal_name = format!("{uid}/{name}");
            let (key, _) = self
                .journal
                .append_region(&journal_name, size_bytes)
                .map_err(|error| cannot(error.to_string()))?;
            let region = Region {
                journal_name,
                name: name.to_owned(),
                uid,
                size_bytes,
                place,
            };
            self.regions.insert(key, region);
            self.names.insert(name.to_owned(), key);
            self.shares.take(uid, size_bytes);
            key
        };
        let shown = Shown {
            region: key,
            kept: Room::default(),
        };
        self.rkeys.insert(rkey, shown);
        Ok(())
    }

    /// Deletes a region. [`Durable::next_deleted`] returns `ticket` once the deletion is on disk. A
    /// served region becomes an ordinary one.
    ///
    /// # Errors
    /// The reason why it remains.
    pub fn delete(&mut self, name: &str, ticket: u64) -> Result<(), String> {
        let cannot_delete =
            |why: String| format!("the durable region `{name}` cannot be deleted: {why}");
        if self.has_failed() {
            return Err(cannot_delete(self.failed()));
        }
        let Some(&key) = self.names.get(name) else {
            return Err(cannot_delete("its lane does not have it".into()));
        };
        // Open exchanges on it append nothing any more.
        let gone = match self.regions.get(&key).map(|region| &region.place) {
            Some(Place::Served { rkey, .. }) => self.rkeys.get(rkey).map(|shown| shown.kept),
            _ => None,
        };
        let kept = self.kept.less(gone.unwrap_or_default());
        if !self.has_room_beside(kept, Room::OF_A_REGION) {
            return Err(cannot_delete(NO_JOURNAL_SPACE.into()));
        }
        let lsn = self
            .journal
            .append_forget(key)
            .map_err(|error| cannot_delete(error.to_string()))?;
        self.names.remove(name);
        if let Some(region) = self.regions.remove(&key) {
            self.shares.give(region.uid, region.size_bytes);
            match region.place {
                Place::Served { rkey, .. } => self.serve_no_more(rkey),
                Place::Kept(bytes) => self.unneeded.push((region.uid, bytes)),
                Place::Leaving(leaving) => {
                    self.leaving.retain(|&other| other != key);
                    self.left.push((leaving.session, leaving.memory));
                    self.unneeded.push((region.uid, leaving.bytes.into()));
                }
            }
        }
        self.deleted.push_back((lsn, ticket));
        Ok(())
    }

    /// Returns the ticket of the next deletion that is on disk, or whose state is unknown. In the
    /// second case the result holds the reason.
    pub fn next_deleted(&mut self) -> Option<(u64, Result<(), String>)> {
        let &(lsn, ticket) = self.deleted.front()?;
        let result = if lsn <= self.reported {
            Ok(())
        } else {
            // The region may or may not exist after the next start. A record that does not fit does
            // not keep the deletion from the disk.
            Err(self.journal.failure()?.to_string())
        };
        self.deleted.pop_front();
        Some((ticket, result))
    }

    /// Whether a durable region is served under this key.
    pub fn serves(&self, rkey: u32) -> bool {
        self.rkeys.contains_key(&rkey)
    }

    /// Open exchanges on this region append nothing any more.
    fn serve_no_more(&mut self, rkey: u32) {
        if let Some(shown) = self.rkeys.remove(&rkey) {
            self.kept = self.kept.less(shown.kept);
        }
    }

    /// The durable regions that there are: names, users and sizes in bytes.
    pub fn regions(&self) -> impl Iterator<Item = (&str, u32, u64)> {
        self.regions
            .values()
            .map(|region| (region.name.as_str(), region.uid, region.size_bytes))
    }

    /// The owner of these regions detaches. Verbs no longer find them. Each [`Durable::keep_step`]
    /// copies a part of their content.
    pub fn leave(&mut self, session: u64, engine: &mut VerbEngine) {
        let mut gone = Vec::new();
        for (&key, region) in &mut self.regions {
            let Place::Served {
                session: owner,
                rkey,
            } = region.place
            else {
                continue;
            };
            if owner != session {
                continue;
            }
            // A region that is served is in the engine.
            let Some(memory) = engine.withdraw(rkey) else {
                continue;
            };
            region.place = Place::Leaving(Leaving {
                session,
                memory,
                bytes: Vec::with_capacity(region.size_bytes as usize),
            });
            self.leaving.push_back(key);
            gone.push(rkey);
        }
        for rkey in gone {
            self.serve_no_more(rkey);
        }
    }

    /// Copies up to `most` bytes of the region that was detached first. Returns the number of
    /// bytes.
    pub fn keep_step(&mut self, most: usize) -> usize {
        let Some(&key) = self.leaving.front() else {
            return 0;
        };
        let Some(region) = self.regions.get_mut(&key) else {
            self.leaving.pop_front();
            return 0;
        };
        let Place::Leaving(leaving) = &mut region.place else {
            self.leaving.pop_front();
            return 0;
        };
        let done = leaving.bytes.len();
        let count = (region.size_bytes as usize - done).min(most);
        leaving.bytes.resize(done + count, 0);
        // It lies within the region.
        let _ = leaving.memory.read(done as u64, &mut leaving.bytes[done..]);
        if leaving.bytes.len() as u64 == region.size_bytes {
            let bytes = std::mem::take(&mut leaving.bytes).into_boxed_slice();
            if let Place::Leaving(leaving) =
                std::mem::replace(&mut region.place, Place::Kept(bytes))
            {
                self.left.push((leaving.session, leaving.memory));
            }
            self.leaving.pop_front();
        }
        count
    }

    /// Returns memory that no longer belongs to a durable region, with the session that owned it.
    pub fn next_left(&mut self) -> Option<(u64, RegionMemory)> {
        self.left.pop()
    }

    /// Returns content that is no longer kept, with the user that owned it.
    pub fn next_unneeded(&mut self) -> Option<(u32, Box<[u8]>)> {
        self.unneeded.pop()
    }

    /// Whether regions of a session that has gone are not copied to their end.
    pub fn has_leaving_of(&self, session: u64) -> bool {
        self.leaving.iter().any(|key| {
            matches!(
                self.regions.get(key).map(|region| &region.place),
                Some(Place::Leaving(leaving)) if leaving.session == session
            )
        })
    }

    /// Returns the space that `request` needs if it changes, or may change, a durable region;
    /// `None` for all other requests.
    fn room_for(&self, request: &[u8]) -> Option<(u32, Room)> {
        if self.rkeys.is_empty() {
            return None;
        }
        let request = Request::decode(request).ok()?;
        self.rkeys.get(&request.rkey)?;
        let (changes, bytes) = match request.verb {
            Verb::Read { .. } | Verb::Lookup { .. } => (0, 0),
            Verb::Write { data } => (1, data.len()),
            Verb::MultiCommit(words) => (words.iter().len(), words.iter().len() * WORD_BYTES),
            _ => (1, WORD_BYTES),
        };
        let record_bytes = RECORD_OVERHEAD_BYTES + changes * CHANGE_OVERHEAD_BYTES + bytes;
        Some((request.rkey, Room::of(record_bytes)))
    }

    /// Whether nothing is acknowledged on durable regions any more.
    pub const fn has_failed(&self) -> bool {
        self.lost || self.journal.failure().is_some()
    }

    fn has_room_for(&self, room: Room) -> bool {
        self.has_room_beside(self.kept, room)
    }

    fn has_room_beside(&self, kept: Room, room: Room) -> bool {
        let room = room.and(kept);
        self.journal.has_room_for(room.batch_bytes, room.file_bytes)
    }

    /// Checks whether the journal has space for the changes of `request`.
    ///
    /// # Errors
    /// It has no space now, or has failed permanently.
    pub fn admit(&mut self, mode: Mode, request: &[u8]) -> Result<(), Refusal> {
        let Some((_, room)) = self.room_for(request) else {
            return Ok(());
        };
        if self.has_failed() {
            self.refused += 1;
            return Err(Refusal::JournalFailed);
        }
        let kept_bytes = self.kept.batch_bytes + room.batch_bytes;
        let is_too_much = mode == Mode::TwoPhase && kept_bytes > KEPT_BYTES_MAX;
        if is_too_much || !self.has_room_for(room) {
            self.refused += 1;
            return Err(Refusal::NoResources);
        }
        Ok(())
    }

    /// The exchange was admitted. A two-phase exchange keeps its reserved space until it ends.
    pub fn admitted(&mut self, id: &ExchangeId, mode: Mode, request: &[u8]) {
        if mode == Mode::OnePhase {
            self.at_once = Some(*id);
            return;
        }
        if let Some((rkey, room)) = self.room_for(request)
            && let Some(shown) = self.rkeys.get_mut(&rkey)
        {
            shown.kept = shown.kept.and(room);
            self.kept = self.kept.and(room);
        }
    }

    /// Releases the reserved space of an exchange that has ended.
    pub fn let_go(&mut self, request: &[u8]) {
        let Some((rkey, room)) = self.room_for(request) else {
            return;
        };
        let Some(shown) = self.rkeys.get_mut(&rkey) else {
            return;
        };
        shown.kept = shown.kept.less(room);
        self.kept = self.kept.less(room);
    }

    /// Appends the changes of the executed exchange `id`.
    pub fn executed(&mut self, id: &ExchangeId, request: &[u8], engine: &VerbEngine) -> Execution {
        if self.at_once.take() != Some(*id) {
            self.let_go(request);
        }
        self.append(request, engine)
            .map_or(Execution::Done, |lsn| Execution::DurableAt(lsn.0))
    }

    /// Whether `request` of an application of this node may be executed now.
    pub fn may_execute_here(&self, request: &[u8]) -> Local {
        match self.room_for(request) {
            None => Local::Go,
            Some(_) if self.has_failed() => Local::Refused,
            Some((_, room)) if self.held.len() < HELD_MAX && self.has_room_for(room) => Local::Go,
            Some(_) => Local::Later,
        }
    }

    /// Appends the changes of an executed verb. Returns `true` if its completion, in the pipe in
    /// slot `queue`, is held until it is durable.
    pub fn executed_here(
        &mut self,
        queue: usize,
        user_data: u64,
        request: &[u8],
        reply: &[u8],
        engine: &VerbEngine,
    ) -> bool {
        let Some(lsn) = self.append(request, engine) else {
            return false;
        };
        if lsn <= self.reported {
            return false;
        }
        let mut held = Held {
            lsn,
            queue,
            user_data,
            reply_bytes: reply.len().min(REPLY_BYTES_MAX),
            reply: [0; REPLY_BYTES_MAX],
        };
        held.reply[..held.reply_bytes].copy_from_slice(&reply[..held.reply_bytes]);
        self.held.push_back(held);
        true
    }

    /// Appends the changes that `request`, executed just now, made to its region. Returns the LSN
    /// that must be on disk before the outcome is reported; `None` if there is none.
    fn append(&mut self, request: &[u8], engine: &VerbEngine) -> Option<Lsn> {
        if self.rkeys.is_empty() {
            return None;
        }
        let request = Request::decode(request).ok()?;
        let region = self.rkeys.get(&request.rkey)?.region;
        let memory = engine.memory(request.rkey)?;
        let mut ranges = [(0, 0); MULTI_COMMIT_WORDS_MAX];
        let offset = u64::from(request.offset);
        let count = match request.verb {
            Verb::Read { .. } | Verb::Lookup { .. } => 0,
            Verb::Write { data } => {
                ranges[0] = (offset, data.len());
                1
            }
            Verb::MultiCommit(words) => {
                let mut count = 0;
                for (range, word) in ranges.iter_mut().zip(words.iter()) {
                    *range = (u64::from(word.offset), WORD_BYTES);
                    count += 1;
                }
                count
            }
            _ => {
                ranges[0] = (offset, WORD_BYTES);
                1
            }
        };
        if count == 0 {
            return Some(self.last());
        }
        let mut rest = &mut self.changed[..];
        let mut redo = [Redo {
            offset: 0,
            bytes: &[],
        }; MULTI_COMMIT_WORDS_MAX];
        for (redo, &(offset, len)) in redo.iter_mut().zip(&ranges[..count]) {
            let (bytes, left) = std::mem::take(&mut rest).split_at_mut(len);
            rest = left;
            memory.read(offset, bytes)?;
            *redo = Redo { offset, bytes };
        }
        let commit = Commit {
            region,
            exchange: None,
            redo: &redo[..count],
            reply: &[],
        };
        if self.journal.append_promised(&commit).is_err() {
            // The verb was executed, so all later verbs may have seen its effect. None of these
            // outcomes may be reported.
            self.lost = true;
        }
        Some(self.last())
    }

    /// Returns the LSN that covers everything executed so far.
    const fn last(&self) -> Lsn {
        if self.lost {
            Lsn(u64::MAX)
        } else {
            self.journal.last_lsn()
        }
    }

    /// Reaps completed disk operations and continues a snapshot. Returns `Some` if more is durable
    /// than was reported before. Call it once per round, before any execution.
    pub fn poll(&mut self, engine: &VerbEngine) -> Option<Lsn> {
        let lsn = self.journal.poll();
        if self.journal.needs_snapshot() {
            self.journal.begin_snapshot();
        }
        if self.journal.is_in_snapshot() {
            let source = Source {
                regions: &self.regions,
                engine,
            };
            self.journal
                .snapshot_step(&source, SNAPSHOT_BYTES_PER_ROUND);
        }
        if lsn <= self.reported {
            return None;
        }
        self.reported = lsn;
        Some(lsn)
    }

    /// Why the journal has ended, if it has: once.
    pub fn new_failure(&mut self) -> Option<String> {
        if self.is_failure_reported {
            return None;
        }
        let failure = self.failure()?;
        self.is_failure_reported = true;
        Some(failure)
    }

    /// Whether all executed verbs of this node's applications were completed.
    pub fn has_completed_all(&self) -> bool {
        self.held.is_empty()
    }

    /// Returns the next held completion that may be reported.
    pub fn next_completed(&mut self) -> Option<Held> {
        let is_durable = self.held.front()?.lsn <= self.reported;
        is_durable.then(|| self.held.pop_front()).flatten()
    }

    /// Discards the completions for the pipe in slot `queue` and returns their number.
    pub fn disown(&mut self, queue: usize) -> usize {
        let before = self.held.len();
        self.held.retain(|held| held.queue != queue);
        before - self.held.len()
    }

    /// Runs the journal's tick. Call it once per tick.
    pub fn tick(&mut self) {
        self.journal.tick();
    }

    /// Submits the appended records to the disk. Call it once per round, after all executions.
    pub fn submit(&mut self) {
        self.journal.submit();
    }

    /// The journal, if the disk has something to do for it: readable when that is done.
    pub fn waits_for(&self) -> Option<&Journal> {
        self.journal.is_busy().then_some(&self.journal)
    }

    /// Whether there is work for the disk that is not submitted yet.
    pub fn has_work(&self) -> bool {
        self.journal.failure().is_none()
            && !self.journal.is_waiting()
            && (self.journal.is_in_snapshot()
                || self.journal.last_lsn() > self.journal.durable_lsn())
    }

    /// Ends the journal because another process did `what` to its file or directory `path`.
    pub fn end_journal(&mut self, path: PathBuf, what: String) {
        self.journal.fail_because(path, what);
    }

    /// Waits until everything is on disk. For the end of a lane.
    pub fn flush(&mut self) {
        self.journal.finish();
    }

    fn failed(&self) -> String {
        let why = self.failure().unwrap_or_default();
        format!("the journal has failed: {why}")
    }

    /// Why nothing is acknowledged any more, if so.
    fn failure(&self) -> Option<String> {
        match self.journal.failure() {
            Some(failure) => Some(failure.to_string()),
            None if self.lost => Some(
                "a verb was executed that the journal had no room for. From now on nothing is \
                 acknowledged on durable regions; raise `journal.file_mib` and restart the daemon, \
                 which replays all acknowledged records"
                    .into(),
            ),
            None => None,
        }
    }

    /// Returns the status of the journal.
    pub fn status(&self) -> JournalStatus {
        let kept = |region: &&Region| !matches!(region.place, Place::Served { .. });
        JournalStatus {
            appended: self.journal.last_lsn().0,
            durable: self.journal.durable_lsn().0,
            regions: self.regions.len() as u64,
            kept: self.regions.values().filter(kept).count() as u64,
            region_bytes: self.regions.values().map(|it| it.size_bytes).sum(),
            held: self.held.len() as u64,
            refused: self.refused,
            retried: self.journal.retried(),
            failure: self.failure(),
        }
    }
}

/// User and name of a region of the journal.
pub(crate) fn region_of(journal_name: &str) -> (u32, &str) {
    journal_name
        .split_once('/')
        .and_then(|(uid, name)| Some((uid.parse().ok()?, name)))
        .unwrap_or((0, journal_name))
}

/// The source of snapshots.
struct Source<'a> {
    regions: &'a BTreeMap<RegionKey, Region>,
    engine: &'a VerbEngine,
}

impl SnapshotSource for Source<'_> {
    fn region_after(&self, after: Option<RegionKey>) -> Option<SnapshotRegion<'_>> {
        let from = RegionKey(after.map_or(0, |key| key.0 + 1));
        let (&key, region) = self.regions.range(from..).next()?;
        Some(SnapshotRegion {
            key,
            name: &region.journal_name,
            size_bytes: region.size_bytes,
        })
    }

    fn read(&self, key: RegionKey, offset: u64, target: &mut [u8]) {
        match self.regions.get(&key).map(|region| &region.place) {
            Some(Place::Served { rkey, .. }) => {
                if let Some(memory) = self.engine.memory(*rkey) {
                    let _ = memory.read(offset, target);
                }
            }
            Some(Place::Leaving(leaving)) => {
                let _ = leaving.memory.read(offset, target);
            }
            Some(Place::Kept(bytes)) => {
                let start = offset as usize;
                target.copy_from_slice(&bytes[start..start + target.len()]);
            }
            None => {}
        }
    }

    fn latch_after(&self, _after: Option<LatchKey>) -> Option<(Exchange, &[u8])> {
        None
    }
}

#[cfg(test)]
mod tests;
