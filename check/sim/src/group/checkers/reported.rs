//! Checks the outcomes of requested messages.

use covalent_protocol::group::Incarnation;

use super::{Checker, Fact, Groups, Scene, Verdict, forbid};

/// A message that a survivor requested is delivered. A message of a stopped member is delivered or
/// was reported in doubt. The next incarnation is notified how many were delivered.
///
/// A member without the state counts what the others are sure to deliver before they do. So the
/// checker compares the reports with the deliveries at the end of the run.
#[derive(Debug, Default)]
pub struct Reported {
    /// Stopped incarnations, each with its first message in doubt.
    stopped: Vec<(usize, u64)>,
    /// Queries: the querying incarnation, the former one, and how many of its messages were
    /// reported delivered.
    outcomes: Vec<(usize, Incarnation, u64)>,
}

impl Checker<Groups> for Reported {
    fn see(&mut self, fact: &Fact<'_>, scene: &Scene<'_>) -> Verdict {
        match fact {
            Fact::Requested { by, sequence, .. } => {
                let requested = scene.book.stays[*by].requested.len() as u64;
                forbid(*sequence != requested + 1, || {
                    format!(
                        "s{by} sent its message {} and got the number {sequence}",
                        requested + 1
                    )
                })
            }
            Fact::Stopped {
                by, undelivered, ..
            } => {
                self.stopped.push((*by, *undelivered));
                Ok(())
            }
            Fact::Outcome { by, delivered_to } => {
                let former = scene.book.stays[*by].former.unwrap_or_default();
                self.outcomes.push((*by, former, *delivered_to));
                Ok(())
            }
            Fact::Over => {
                let delivered = |incarnation: &Incarnation| {
                    scene.book.last.get(incarnation).copied().unwrap_or(0)
                };
                for (by, undelivered) in &self.stopped {
                    let reported = delivered(&scene.book.stays[*by].contact.incarnation);
                    forbid(*undelivered > reported + 1, || {
                        format!(
                            "s{by} was stopped and notified that its messages below {undelivered} \
                             are delivered; {reported} are"
                        )
                    })?;
                }
                for (by, former, delivered_to) in &self.outcomes {
                    let reported = delivered(former);
                    forbid(*delivered_to != reported, || {
                        format!(
                            "s{by} was notified that {delivered_to} messages of its former \
                             incarnation were delivered; {reported} were"
                        )
                    })?;
                }
                let newest = scene.book.newest_of_each();
                let newest: Vec<_> = (newest.iter())
                    .map(|order| (order.view.group, order.view.number))
                    .collect();
                let members = scene.book.stays.iter().enumerate();
                for (by, membership) in members.filter(|(_, membership)| {
                    membership.view.is_some_and(|view| newest.contains(&view))
                }) {
                    let reported = delivered(&membership.contact.incarnation);
                    let stopped = membership.stopped.is_some();
                    forbid(
                        !membership.is_over()
                            && !stopped
                            && reported != membership.requested.len() as u64,
                        || {
                            format!(
                                "of {} messages of s{by}, which is a member, {reported} are \
                                 delivered",
                                membership.requested.len()
                            )
                        },
                    )?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}
