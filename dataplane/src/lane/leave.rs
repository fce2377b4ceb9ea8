//! The lane's part of a graceful shutdown: open exchanges end within a bounded time, and no new
//! ones begin.
//!
//! ```text
//! no more work from applications → each neighbor has received that it is granted nothing
//! → nothing is open → each neighbor has received all replies → unsent exchanges are refused
//! → the host thread gets the answer
//! ```
//!
//! The lane does not wait for a failed journal. The outcome of executed verbs that may not be on
//! disk is never reported, and such a shutdown is not graceful.
//!
//! The lane does not wait for nodes at the end of a path. It refuses their later requests as not
//! executed.
//!
//! A returned ping shows that a neighbor has received the earlier frames. The cable preserves
//! order, so everything that the neighbor sent before has arrived too. After its answer the lane
//! serves no application. If the time has run out, it does not serve its links either, as after a
//! crash. An owner that reads its region then must be sure that it no longer changes.

use std::{
    thread,
    time::{Duration, Instant},
};

use covalent_protocol::Ping;

use super::{
    Lane,
    command::{Answer, Report},
    durable::Durable,
};

/// Time for the neighbors to complete open exchanges: many round trips, and the time that a disk
/// takes.
const LEAVE_MAX: Duration = Duration::from_secs(1);

/// Between two looks for the last command.
const DEAF_PAUSE: Duration = Duration::from_millis(1);

/// A shutdown in progress.
#[derive(Debug)]
pub(super) struct Leaving {
    ticket: u64,
    deadline: Instant,
    step: Step,
    /// The links whose neighbors have not confirmed this step, by port.
    unconfirmed: Vec<(u16, Word)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// The neighbors receive that they are granted nothing.
    Granting,
    /// Open exchanges end.
    Ending,
    /// The neighbors receive the last replies.
    Answering,
}

/// State of the ping that shows that a neighbor has received this step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Word {
    /// Another ping is in flight, possibly sent before this step.
    Waiting,
    /// It waits to be sent in this epoch.
    Due(u32),
    /// It is this one.
    InFlight(Ping),
}

/// The result of a shutdown of the lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Left {
    /// Nothing was left open with any reachable node.
    InOrder,
    /// Time ran out: nothing more is done on links.
    Deaf,
}

impl Lane {
    /// Begins to leave; answered when that is over.
    pub(super) fn leave(&mut self, ticket: u64) {
        self.ports.node.leave();
        self.housekeeping.leaving = Some(Leaving {
            ticket,
            deadline: Instant::now() + LEAVE_MAX,
            step: Step::Granting,
            unconfirmed: self.cables(),
        });
    }

    /// The links that lead to other nodes. Those to other lanes of this daemon end with it.
    fn cables(&self) -> Vec<(u16, Word)> {
        self.ports
            .slots
            .iter()
            .filter(|slot| slot.link && !slot.joins_lanes)
            .map(|slot| (slot.index, Word::Waiting))
            .collect()
    }

    /// Continues a shutdown in progress. Call it once per round, after the frames of links were
    /// sent.
    pub(super) fn go_on_leaving(&mut self) {
        let Some(mut leaving) = self.housekeeping.leaving.take() else {
            return;
        };
        let is_over = self.step_of_leaving(&mut leaving);
        let is_late = Instant::now() >= leaving.deadline;
        if !is_over && !is_late {
            self.housekeeping.leaving = Some(leaving);
            return;
        }
        let in_order = is_over && !self.withholds_outcomes();
        let (_, ports, mut host) = self.parts();
        ports.node.give_back(&mut host);
        self.housekeeping.left = Some(if in_order { Left::InOrder } else { Left::Deaf });
        if !is_over {
            tracing::warn!(
                lane = self.settings.lane,
                step = ?leaving.step,
                "some open objects could not be closed in time: peers and applications are \
                 notified as after a crash"
            );
        } else if !in_order {
            tracing::warn!(
                lane = self.settings.lane,
                "results that the journal failed to store were not reported: peers and \
                 applications are notified as after a crash"
            );
        }
        self.housekeeping.reports.push(Report::Answer {
            ticket: leaving.ticket,
            result: Ok(Answer::Left { in_order }),
        });
    }

    /// A round of one that does nothing more.
    pub(super) fn wait_for_stop(&mut self) {
        if self.take_order() == 0 {
            thread::sleep(DEAF_PAUSE);
        }
        self.housekeeping.report(&mut self.pipes);
    }

    fn step_of_leaving(&mut self, leaving: &mut Leaving) -> bool {
        if leaving.step != Step::Ending {
            leaving.unconfirmed.retain_mut(|(port, word)| {
                let current_ping = self.ports.node.pending_ping(*port);
                match next(*word, current_ping) {
                    Some(Word::Due(epoch)) if *word == Word::Waiting => {
                        self.ports.node.ping(*port);
                        *word = Word::Due(epoch);
                        true
                    }
                    Some(next) => {
                        *word = next;
                        true
                    }
                    None => false,
                }
            });
        }
        match after(
            leaving.step,
            leaving.unconfirmed.is_empty(),
            self.is_settled(),
        ) {
            After::Unchanged => {}
            After::To(step) => {
                match step {
                    Step::Granting => {}
                    Step::Ending => self.verbs.closed = true,
                    Step::Answering => leaving.unconfirmed = self.cables(),
                }
                leaving.step = step;
            }
            After::Over => return true,
        }
        false
    }

    /// Whether nothing is open that can still end.
    fn is_settled(&self) -> bool {
        match &self.journal.durable {
            Some(durable) if durable.has_failed() => self.ports.node.is_settled_but_for_withheld(),
            durable => {
                self.ports.node.is_settled()
                    && durable.as_ref().is_none_or(Durable::has_completed_all)
            }
        }
    }

    /// Whether a verb was executed whose outcome this daemon never reports.
    fn withholds_outcomes(&self) -> bool {
        self.ports.node.withholds_answers()
            || !self
                .journal
                .durable
                .as_ref()
                .is_none_or(Durable::has_completed_all)
    }
}

/// The transition after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum After {
    /// The step continues.
    Unchanged,
    /// This one begins.
    To(Step),
    /// Nothing: that was the last.
    Over,
}

/// Returns the transition after `step`. `is_received`: all neighbors concerned have received it.
/// `is_settled`: nothing is open.
const fn after(step: Step, is_received: bool, is_settled: bool) -> After {
    match step {
        Step::Granting if is_received => After::To(Step::Ending),
        Step::Ending if is_settled => After::To(Step::Answering),
        // A link that came up meanwhile may have sent requests that waited for its peer.
        Step::Answering if is_received && !is_settled => After::To(Step::Ending),
        Step::Answering if is_received => After::Over,
        Step::Granting | Step::Ending | Step::Answering => After::Unchanged,
    }
}

/// Returns the next state for the present state of the link's ping; `None` once the neighbor has
/// received it, or the link is down.
fn next(word: Word, current_ping: Option<Ping>) -> Option<Word> {
    let current_ping = current_ping?;
    match word {
        Word::Waiting if current_ping.record.is_some() => Some(Word::Waiting),
        Word::Waiting => Some(Word::Due(current_ping.epoch)),
        // A link with a new epoch delivered it in the handshake.
        Word::Due(epoch) if epoch != current_ping.epoch => None,
        Word::Due(_) if current_ping.record.is_some() => Some(Word::InFlight(current_ping)),
        Word::Due(_) => Some(word),
        Word::InFlight(sent_ping) => (sent_ping == current_ping).then_some(word),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn current_ping(epoch: u32, record: Option<u32>) -> Option<Ping> {
        Some(Ping { epoch, record })
    }

    #[test]
    fn exchanges_opened_during_the_last_replies_end_too() {
        use Step::{Answering, Ending, Granting};
        for (step, is_received, is_settled, expected) in [
            (Granting, false, true, After::Unchanged),
            (Granting, true, false, After::To(Ending)),
            (Ending, true, false, After::Unchanged),
            (Ending, true, true, After::To(Answering)),
            (Answering, false, true, After::Unchanged),
            (Answering, false, false, After::Unchanged),
            (Answering, true, false, After::To(Ending)),
            (Answering, true, true, After::Over),
        ] {
            assert_eq!(after(step, is_received, is_settled), expected, "{step:?}");
        }
    }

    #[test]
    fn a_step_is_confirmed_when_its_own_ping_returns() {
        let mut word = Word::Waiting;
        for (now, expected) in [
            // An earlier ping, and its return.
            (current_ping(3, Some(7)), Some(Word::Waiting)),
            (current_ping(3, None), Some(Word::Due(3))),
            (current_ping(3, None), Some(Word::Due(3))),
            (
                current_ping(3, Some(9)),
                Some(Word::InFlight(Ping {
                    epoch: 3,
                    record: Some(9),
                })),
            ),
        ] {
            assert_eq!(next(word, now), expected);
            word = expected.unwrap_or(word);
        }
        assert_eq!(next(word, current_ping(3, Some(9))), Some(word));
        assert_eq!(next(word, current_ping(3, None)), None);
        assert_eq!(next(word, current_ping(4, None)), None, "another epoch");
        assert_eq!(next(Word::Waiting, None), None, "no peer is there");
    }
}
