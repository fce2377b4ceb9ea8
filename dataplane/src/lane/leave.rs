//! The lane's part of an end in order: what is open comes to its end, within a bounded time, and nothing new begins.
//!
//! ```text
//! nothing more is taken from applications → each neighbour has heard that it is granted nothing → nothing is open → each neighbour has heard all
//! answers → what never left is given back → the host thread is told
//! ```
//!
//! A journal that has failed is not waited for either: what was executed and is not known to be on disk is told to nobody, and such an end is none in order.
//!
//! Who is farther away, at the end of a path, is not waited for: what he begins from then on is refused as not executed.
//!
//! That a neighbour has heard something is known from a ball that asked after it and came back: the cable keeps the order, so whatever the neighbour said before it
//! heard is here by then. From the answer on the lane serves no application. If the time ran out it does not serve its links either, as if it had died: who finds his
//! region as it is then must be sure that it stays so.

use std::{
    thread,
    time::{Duration, Instant},
};

use covalent_protocol::AskingBall;

use super::{
    Lane,
    command::{Answer, Report},
    durable::Durable,
};

/// How long the neighbours have for what is open: many round trips, and the time that a disk takes.
const LEAVE_MAX: Duration = Duration::from_secs(1);

/// Between two looks for the last command.
const DEAF_PAUSE: Duration = Duration::from_millis(1);

/// An end that is under way.
#[derive(Debug)]
pub(super) struct Leaving {
    ticket: u64,
    deadline: Instant,
    step: Step,
    /// The links that have not heard of this step, by port.
    unheard: Vec<(u16, Word)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// The neighbours hear that they are granted nothing.
    Granting,
    /// What is open ends.
    Ending,
    /// The neighbours hear the last answers.
    Answering,
}

/// How far a ball is that tells that a neighbour has heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Word {
    /// Another one is under way, that may have left before.
    Waiting,
    /// It waits to be sent in this epoch.
    Due(u32),
    /// It is this one.
    UnderWay(AskingBall),
}

/// How an end came out for the lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Left {
    /// Nothing was left open with whoever can be reached.
    InOrder,
    /// Time ran out: nothing more is done on links.
    Deaf,
}

impl Lane {
    /// Begins to leave; answered when that is over.
    pub(super) fn leave(&mut self, ticket: u64) {
        self.node.leave();
        self.leaving = Some(Leaving {
            ticket,
            deadline: Instant::now() + LEAVE_MAX,
            step: Step::Granting,
            unheard: self.cables(),
        });
    }

    /// The links that lead to other nodes. Those to other lanes of this daemon end with it.
    fn cables(&self) -> Vec<(u16, Word)> {
        self.ports
            .iter()
            .filter(|slot| slot.link && !slot.joins_lanes)
            .map(|slot| (slot.index, Word::Waiting))
            .collect()
    }

    /// Goes on leaving, if it does, once in a round, when what links have to say was sent.
    pub(super) fn go_on_leaving(&mut self) {
        let Some(mut leaving) = self.leaving.take() else {
            return;
        };
        let is_over = self.step_of_leaving(&mut leaving);
        let is_late = Instant::now() >= leaving.deadline;
        if !is_over && !is_late {
            self.leaving = Some(leaving);
            return;
        }
        let in_order = is_over && !self.owes_what_is_withheld();
        self.node.give_back(&mut self.core);
        self.left = Some(if in_order { Left::InOrder } else { Left::Deaf });
        if !is_over {
            tracing::warn!(
                lane = self.settings.lane,
                step = ?leaving.step,
                "not everything that was open could be ended in time: peers and applications are told as after a crash"
            );
        } else if !in_order {
            tracing::warn!(
                lane = self.settings.lane,
                "what the journal failed to keep was told to nobody: peers and applications are told as after a crash"
            );
        }
        self.core.outbox.push(Report::Answer {
            ticket: leaving.ticket,
            result: Ok(Answer::Left { in_order }),
        });
    }

    /// A round of one that does nothing more.
    pub(super) fn wait_for_stop(&mut self) {
        if self.take_order() == 0 {
            thread::sleep(DEAF_PAUSE);
        }
        self.core.outbox.flush();
    }

    fn step_of_leaving(&mut self, leaving: &mut Leaving) -> bool {
        if leaving.step != Step::Ending {
            leaving.unheard.retain_mut(|(port, word)| {
                let ball = self.node.asking_ball(*port);
                match next(*word, ball) {
                    Some(Word::Due(epoch)) if *word == Word::Waiting => {
                        self.node.ask_for_ball(*port);
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
        match after(leaving.step, leaving.unheard.is_empty(), self.is_settled()) {
            After::Stays => {}
            After::To(step) => {
                match step {
                    Step::Granting => {}
                    Step::Ending => self.core.closed = true,
                    Step::Answering => leaving.unheard = self.cables(),
                }
                leaving.step = step;
            }
            After::Over => return true,
        }
        false
    }

    /// Whether nothing is open that may still come to an end.
    fn is_settled(&self) -> bool {
        match &self.core.durable {
            Some(durable) if durable.has_failed() => self.node.is_settled_but_for_withheld(),
            durable => self.node.is_settled() && durable.as_ref().is_none_or(Durable::has_told_all),
        }
    }

    /// Whether something was executed of which whoever wanted it never hears from this daemon.
    fn owes_what_is_withheld(&self) -> bool {
        self.node.withholds_answers()
            || !self.core.durable.as_ref().is_none_or(Durable::has_told_all)
    }
}

/// What follows on a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum After {
    /// It goes on.
    Stays,
    /// This one begins.
    To(Step),
    /// Nothing: that was the last.
    Over,
}

/// What follows on `step` if all neighbours that were to hear of it have, or not, and if nothing is open, or something is.
const fn after(step: Step, is_heard: bool, is_settled: bool) -> After {
    match step {
        Step::Granting if is_heard => After::To(Step::Ending),
        Step::Ending if is_settled => After::To(Step::Answering),
        // A link that came up meanwhile may have taken what waited for its peer.
        Step::Answering if is_heard && !is_settled => After::To(Step::Ending),
        Step::Answering if is_heard => After::Over,
        Step::Granting | Step::Ending | Step::Answering => After::Stays,
    }
}

/// What becomes of a word, as the link's ball stands now; `None` once it was heard, or nobody is there to hear it.
fn next(word: Word, ball: Option<AskingBall>) -> Option<Word> {
    let ball = ball?;
    match word {
        Word::Waiting if ball.record.is_some() => Some(Word::Waiting),
        Word::Waiting => Some(Word::Due(ball.epoch)),
        // Who came up anew heard in the handshake.
        Word::Due(epoch) if epoch != ball.epoch => None,
        Word::Due(_) if ball.record.is_some() => Some(Word::UnderWay(ball)),
        Word::Due(_) => Some(word),
        Word::UnderWay(asked) => (asked == ball).then_some(word),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ball(epoch: u32, record: Option<u32>) -> Option<AskingBall> {
        Some(AskingBall { epoch, record })
    }

    #[test]
    fn what_opens_while_the_last_answers_are_heard_comes_to_its_end_too() {
        use Step::{Answering, Ending, Granting};
        for (step, is_heard, is_settled, expected) in [
            (Granting, false, true, After::Stays),
            (Granting, true, false, After::To(Ending)),
            (Ending, true, false, After::Stays),
            (Ending, true, true, After::To(Answering)),
            (Answering, false, true, After::Stays),
            (Answering, false, false, After::Stays),
            (Answering, true, false, After::To(Ending)),
            (Answering, true, true, After::Over),
        ] {
            assert_eq!(after(step, is_heard, is_settled), expected, "{step:?}");
        }
    }

    #[test]
    fn a_word_was_heard_when_its_own_ball_is_back() {
        let mut word = Word::Waiting;
        for (now, expected) in [
            // Asked before, and back.
            (ball(3, Some(7)), Some(Word::Waiting)),
            (ball(3, None), Some(Word::Due(3))),
            (ball(3, None), Some(Word::Due(3))),
            (
                ball(3, Some(9)),
                Some(Word::UnderWay(AskingBall {
                    epoch: 3,
                    record: Some(9),
                })),
            ),
        ] {
            assert_eq!(next(word, now), expected);
            word = expected.unwrap_or(word);
        }
        assert_eq!(next(word, ball(3, Some(9))), Some(word));
        assert_eq!(next(word, ball(3, None)), None);
        assert_eq!(next(word, ball(4, None)), None, "another epoch");
        assert_eq!(next(Word::Waiting, None), None, "nobody is there");
    }
}
