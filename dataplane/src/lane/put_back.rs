//! Returns ports that were detached for a refused configuration. The lane installs the rules in
//! force on each port again, a bounded part per round.

use super::{
    Lane,
    command::{Answer, LaneObjection, Report, Stepped},
    fill::Fill,
    new_port::NewPort,
};
use crate::port::{Port, absent::AbsentPort};

/// Steps of one round: a rule installed on one port.
const STEPS_PER_ROUND: usize = 64;

/// The return of ports in progress on a lane.
#[derive(Debug)]
pub(super) struct Returning {
    ticket: u64,
    /// Ports without all of their rules. The last one is next.
    waiting: Vec<Fill>,
    /// Replaced ports, and ports that cannot be used any more.
    left: Vec<(u16, Box<dyn Port>)>,
}

impl Lane {
    /// Begins to put ports back. `Some`: it is answered at once.
    pub(super) fn put_back(
        &mut self,
        ticket: u64,
        epoch: u64,
        ports: Vec<NewPort>,
    ) -> Option<Answer> {
        if !self.slot.put_back(epoch) {
            let numbered = ports.into_iter().map(|new| (new.number, new.port));
            return Some(Answer::Stepped(Box::new(Stepped {
                went: Err(LaneObjection {
                    matches: None,
                    port: None,
                    reason: "no port was returned for this".to_owned(),
                }),
                ports: numbered.collect(),
            })));
        }
        let fills = ports.into_iter().map(|new| {
            let has_place = self.has_place(new.number);
            Fill::new(new, has_place)
        });
        self.returning = Some(Returning {
            ticket,
            waiting: fills.collect(),
            left: Vec::new(),
        });
        None
    }

    /// Does this round's part of the work in progress. Returns whether there was any.
    pub(super) fn go_on_putting_back(&mut self) -> bool {
        let Some(mut returning) = self.returning.take() else {
            return false;
        };
        let policy = std::sync::Arc::clone(&self.settings.policy);
        for _ in 0..STEPS_PER_ROUND {
            let Some(fill) = returning.waiting.last_mut() else {
                let ticket = returning.ticket;
                let answer = Answer::Stepped(Box::new(Stepped {
                    went: Ok(self.view()),
                    ports: returning.left,
                }));
                let result = Ok(answer);
                self.core.outbox.push(Report::Answer { ticket, result });
                return true;
            };
            match fill.step(&policy, &self.core) {
                Ok(false) => {}
                Ok(true) => {
                    let stood = returning.waiting.pop().and_then(|fill| self.place(fill));
                    returning.left.extend(stood);
                }
                Err(objection) => {
                    if let Some(fill) = returning.waiting.pop() {
                        returning.left.push(self.give_up(fill, objection.reason));
                    }
                }
            }
        }
        self.returning = Some(returning);
        true
    }

    /// A port that accepted its rules before now refuses them: a placeholder port stays in its
    /// slot.
    fn give_up(&mut self, fill: Fill, reason: String) -> (u16, Box<dyn Port>) {
        let (number, port) = fill.into_port();
        if let Some(slot) = self.ports.iter_mut().find(|slot| slot.index == number) {
            let absent = AbsentPort::in_place_of(port.info().clone(), &reason);
            slot.exchange(Box::new(absent));
            self.core.outbox.push(Report::PortGone {
                port: number,
                reason,
                remains: None,
            });
        }
        (number, port)
    }
}
