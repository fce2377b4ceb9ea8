//! Copies the content of durable regions between memory of applications and the lane's own, a
//! bounded number of bytes per round.
//!
//! The lane serves packets, links and other commands in each round meanwhile. A session ends when
//! its durable regions are kept. A registration is answered when its region holds the kept content.

use std::collections::VecDeque;

use super::{
    Lane,
    command::{Answer, NewRegion, Released, Report},
    durable::{Durable, Restored},
    journal::LaneJournal,
};
use crate::journal::RegionKey;

/// Bytes that one round copies: some ten microseconds.
pub(super) const COPY_BYTES_PER_ROUND: usize = 64 << 10;

/// Copies in progress on a lane.
#[derive(Debug, Default)]
pub(super) struct Copying {
    keeping: Vec<Keeping>,
    restoring: VecDeque<Restoring>,
    /// The last round copied for a registration, so this one copies for an ending session, if there
    /// is one.
    restored: bool,
}

/// A session that has gone but for its durable regions.
#[derive(Debug)]
struct Keeping {
    ticket: u64,
    session: u64,
    released: Released,
}

/// A durable region that is being registered.
#[derive(Debug)]
struct Restoring {
    ticket: u64,
    new: NewRegion,
    key: Option<RegionKey>,
    done: usize,
}

impl Copying {
    pub(super) fn is_idle(&self) -> bool {
        self.keeping.is_empty() && self.restoring.is_empty()
    }
}

impl Lane {
    /// Begins to copy the kept content of a durable region to the memory of the registering
    /// application.
    pub(super) fn restore(&mut self, ticket: u64, new: NewRegion) {
        let durable = self.journal.durable.as_ref();
        let key = durable.and_then(|durable| durable.key_of(&new.name));
        self.journal.copying.restoring.push_back(Restoring {
            ticket,
            new,
            key,
            done: 0,
        });
    }

    /// The session is gone, and `released` holds its resources except its durable regions. These
    /// are kept first.
    pub(super) fn keep(&mut self, ticket: u64, session: u64, mut released: Released) {
        if let Some(durable) = &mut self.journal.durable {
            durable.leave(session, &mut self.verbs.engine);
        }
        released
            .regions
            .extend(self.verbs.engine.remove_session(session));
        self.journal.copying.keeping.push(Keeping {
            ticket,
            session,
            released,
        });
        self.end_keeping();
    }

    /// Cancels the registrations of the session.
    pub(super) fn stop_restoring(&mut self, session: u64, released: &mut Released) {
        let restoring = &mut self.journal.copying.restoring;
        for _ in 0..restoring.len() {
            let Some(one) = restoring.pop_front() else {
                return;
            };
            if one.new.session != session {
                restoring.push_back(one);
                continue;
            }
            released.regions.push(one.new.memory);
            self.housekeeping.reports.push(Report::Answer {
                ticket: one.ticket,
                result: Err(format!("session {session} has ended")),
            });
        }
    }

    /// Does this round's part of the copies. Returns whether there was one.
    pub(super) fn go_on_copying(&mut self) -> bool {
        self.hand_out_unneeded();
        if self.journal.copying.is_idle() {
            return false;
        }
        let restored = std::mem::take(&mut self.journal.copying.restored);
        if !self.journal.copying.keeping.is_empty()
            && (restored || self.journal.copying.restoring.is_empty())
        {
            self.keep_step();
        } else {
            self.restore_step();
            self.journal.copying.restored = true;
        }
        true
    }

    fn keep_step(&mut self) {
        if let Some(durable) = &mut self.journal.durable {
            let copied = durable.keep_step(COPY_BYTES_PER_ROUND);
            self.journal.copied_bytes += copied as u64;
        }
        self.end_keeping();
    }

    /// Answers for sessions of which nothing is left to copy.
    fn end_keeping(&mut self) {
        let LaneJournal {
            durable, copying, ..
        } = &mut self.journal;
        let keeping = &mut copying.keeping;
        while let Some((session, memory)) = durable.as_mut().and_then(Durable::next_left) {
            if let Some(one) = keeping.iter_mut().find(|one| one.session == session) {
                one.released.regions.push(memory);
            }
        }
        let is_over = |one: &mut Keeping| {
            let durable = durable.as_ref();
            !durable.is_some_and(|durable| durable.has_leaving_of(one.session))
        };
        for one in keeping.extract_if(.., is_over) {
            let answer = Answer::Released(Box::new(one.released));
            self.housekeeping.reports.answer(one.ticket, Ok(answer));
        }
    }

    fn restore_step(&mut self) {
        let (Some(one), Some(durable)) = (
            self.journal.copying.restoring.front_mut(),
            &self.journal.durable,
        ) else {
            return;
        };
        let span = (one.done, COPY_BYTES_PER_ROUND);
        let result = match durable.restore_step(&one.new.name, one.key, &one.new.memory, span) {
            Restored::Bytes(count) => {
                one.done += count;
                self.journal.copied_bytes += count as u64;
                return;
            }
            // Others may be further.
            Restored::NotYet => return self.journal.copying.restoring.rotate_left(1),
            Restored::All => Ok(()),
            Restored::Gone => Err(format!(
                "the durable region `{}` was deleted meanwhile: register it again",
                one.new.name
            )),
        };
        let Some(Restoring { ticket, new, .. }) = self.journal.copying.restoring.pop_front() else {
            return;
        };
        let result = match result {
            Ok(()) => self.serve_durable(new),
            Err(why) => {
                self.let_go(new.session, new.memory);
                Err(why)
            }
        };
        let result = result.map(|()| Answer::Done);
        self.housekeeping
            .reports
            .push(Report::Answer { ticket, result });
    }

    /// Hands over kept content that is no longer needed.
    fn hand_out_unneeded(&mut self) {
        let durable = &mut self.journal.durable;
        while let Some((uid, bytes)) = durable.as_mut().and_then(Durable::next_unneeded) {
            self.housekeeping.reports.push(Report::LetGo {
                uid,
                bytes: bytes.len() as u64,
                released: Box::new(Released {
                    kept: vec![bytes],
                    ..Released::default()
                }),
            });
        }
    }
}
