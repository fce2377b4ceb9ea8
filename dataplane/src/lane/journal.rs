//! The journal of a lane, with its durable regions and their copies.
//!
//! - A round learns what has reached the disk before it executes anything, and submits its own
//!   records after it. So the records of a round are written together.
//! - No outcome is reported before its record is on disk ([`Durable`]).
//! - A round copies a bounded number of bytes between memory of applications and the lane's own
//!   ([`Copying`]).

use super::{
    command::{Answer, Report},
    copying::Copying,
    durable::Durable,
    engine::VerbEngine,
    reports::Reports,
};
use crate::journal::{Journal, Lsn, Recovered};
use covalent_api::event::EventKind;

/// See the module.
#[derive(Debug)]
pub(super) struct LaneJournal {
    /// The durable ones among the regions of this lane, if it keeps a journal.
    pub durable: Option<Durable>,
    /// Copies of durable regions in progress.
    pub copying: Copying,
    /// Bytes of it that were copied.
    pub copied_bytes: u64,
}

impl LaneJournal {
    /// That of a lane with this journal, if it keeps one.
    pub fn new(journal: Option<(Journal, Recovered)>) -> Self {
        Self {
            durable: journal.map(|(journal, recovered)| Durable::new(journal, recovered)),
            copying: Copying::default(),
            copied_bytes: 0,
        }
    }

    /// Returns how far the journal is on disk, if it got further, and reports deletions and a
    /// failure. Runs before any execution of a round.
    pub fn poll(&mut self, lane: u32, engine: &VerbEngine, reports: &mut Reports) -> Option<Lsn> {
        let durable = self.durable.as_mut()?;
        let lsn = durable.poll(engine);
        if let Some(reason) = durable.new_failure() {
            let kind = EventKind::JournalFailed { lane, reason };
            reports.push(Report::Event(kind));
        }
        while let Some((ticket, result)) = durable.next_deleted() {
            let answer = result.map_or_else(Answer::InDoubt, |()| Answer::Done);
            reports.answer(ticket, Ok(answer));
        }
        lsn
    }

    /// Begins to write the records of this round.
    pub fn submit(&mut self) {
        if let Some(durable) = &mut self.durable {
            durable.submit();
        }
    }

    /// A tick has passed.
    pub fn tick(&mut self) {
        if let Some(durable) = &mut self.durable {
            durable.tick();
        }
    }

    /// Writes everything. Waits for the disk.
    pub fn flush(&mut self) {
        if let Some(durable) = &mut self.durable {
            durable.flush();
        }
    }

    /// Whether another round would find something to do.
    pub fn has_work(&self) -> bool {
        !self.copying.is_idle() || self.durable.as_ref().is_some_and(Durable::has_work)
    }
}
