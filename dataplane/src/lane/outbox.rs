//! Reports on their way to the host thread.

use std::{collections::VecDeque, sync::Arc};

use super::command::Report;
use crate::mailbox::Mailbox;

/// Events kept while the host thread is slow. Later ones are counted as lost, never waited for.
const EVENTS_MAX: usize = 256;

/// A lane's reports: answers and violations are never lost, events are bounded.
///
/// The host limits the answers to the number of commands in flight, and each session is reported at
/// most once. So the reports that must not be lost are bounded too.
#[derive(Debug)]
pub struct Outbox {
    mailbox: Arc<Mailbox<Report>>,
    waiting: VecDeque<Report>,
    events_waiting: usize,
    /// Lost events that are not reported to the host yet.
    events_lost: u64,
}

impl Outbox {
    /// An empty outbox in front of `mailbox`.
    pub fn new(mailbox: Arc<Mailbox<Report>>) -> Self {
        Self {
            mailbox,
            waiting: VecDeque::with_capacity(EVENTS_MAX),
            events_waiting: 0,
            events_lost: 0,
        }
    }

    /// Passes `report` to the host now or at a later [`Outbox::flush`], in order.
    pub fn push(&mut self, report: Report) {
        if matches!(report, Report::Event(_)) {
            if self.events_waiting == EVENTS_MAX {
                self.events_lost += 1;
                return;
            }
            if self.events_lost > 0 {
                let lost = std::mem::take(&mut self.events_lost);
                self.waiting.push_back(Report::EventsLost(lost));
            }
            self.events_waiting += 1;
        }
        self.waiting.push_back(report);
        self.flush();
    }

    /// Passes the waiting reports to the host, as far as they fit.
    pub fn flush(&mut self) {
        while let Some(report) = self.waiting.pop_front() {
            let is_event = matches!(report, Report::Event(_));
            match self.mailbox.push(report) {
                Ok(()) => self.events_waiting -= usize::from(is_event),
                Err(report) => {
                    self.waiting.push_front(report);
                    return;
                }
            }
        }
    }

    /// Whether no report waits for space.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use covalent_api::event::EventKind;

    use super::*;
    use crate::lane::command::Answer;

    #[test]
    fn answers_survive_a_slow_host_and_events_are_bounded() {
        let mailbox = Arc::new(Mailbox::new(2).unwrap());
        let mut outbox = Outbox::new(mailbox.clone());
        for _ in 0..EVENTS_MAX + 10 {
            outbox.push(Report::Event(EventKind::Carrier {
                port: "p".into(),
                up: true,
            }));
        }
        for ticket in 0..5 {
            outbox.push(Report::Answer {
                ticket,
                result: Ok(Answer::Done),
            });
        }
        let (mut events, mut answers) = (0_u64, Vec::new());
        let mut drained = false;
        loop {
            while let Some(report) = mailbox.pop() {
                match report {
                    Report::Event(_) => events += 1,
                    Report::EventsLost(lost) => events += lost,
                    Report::Answer { ticket, .. } => answers.push(ticket),
                    other => panic!("unexpected {other:?}"),
                }
            }
            if outbox.is_empty() && drained {
                break;
            }
            if outbox.is_empty() {
                // A report of the lost events precedes the next event.
                outbox.push(Report::Event(EventKind::Carrier {
                    port: "p".into(),
                    up: false,
                }));
                drained = true;
            }
            outbox.flush();
        }
        assert_eq!(answers, [0, 1, 2, 3, 4]);
        assert_eq!(events, EVENTS_MAX as u64 + 11);
    }
}
