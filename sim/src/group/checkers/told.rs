//! What becomes of what was asked.

use covalent_protocol::group::Life;

use super::{Checker, Fact, Scene, Verdict, forbid};

/// What a survivor asked for is delivered; of one who was stopped it is delivered or was called in doubt; and who
/// asks in the next stay hears how many were.
///
/// Whoever has no state yet counts what the others are sure to deliver before they do, so what was told is held against what came of it in the end.
#[derive(Debug, Default)]
pub struct Told {
    /// Who was stopped, and which of its messages was the first one in doubt.
    stopped: Vec<(usize, u64)>,
    /// Who asked about which former stay, and how many of its messages it was told were delivered.
    fates: Vec<(usize, Life, u64)>,
}

impl Checker for Told {
    fn name(&self) -> &'static str {
        "told"
    }

    fn see(&mut self, fact: &Fact<'_>, scene: &Scene<'_>) -> Verdict {
        match fact {
            Fact::Asked { by, sequence, .. } => {
                let asked = scene.book.stays[*by].asked.len() as u64;
                forbid(*sequence != asked + 1, || {
                    format!(
                        "s{by} asked for its message {} and got the number {sequence}",
                        asked + 1
                    )
                })
            }
            Fact::Stopped {
                by, undelivered, ..
            } => {
                self.stopped.push((*by, *undelivered));
                Ok(())
            }
            Fact::Fate { by, delivered_to } => {
                let former = scene.book.stays[*by].former.unwrap_or_default();
                self.fates.push((*by, former, *delivered_to));
                Ok(())
            }
            Fact::Over => {
                let delivered = |life: &Life| scene.book.last.get(life).copied().unwrap_or(0);
                for (by, undelivered) in &self.stopped {
                    let told = delivered(&scene.book.stays[*by].contact.life);
                    forbid(*undelivered > told + 1, || {
                        format!(
                            "s{by} was stopped and told that its messages below {undelivered} are delivered; {told} are"
                        )
                    })?;
                }
                for (by, former, delivered_to) in &self.fates {
                    let told = delivered(former);
                    forbid(*delivered_to != told, || {
                        format!(
                            "s{by} was told that {delivered_to} messages of its former stay were delivered; {told} were"
                        )
                    })?;
                }
                let newest = scene.book.newest_of_each();
                let newest: Vec<_> = (newest.iter())
                    .map(|order| (order.view.group, order.view.number))
                    .collect();
                let members = scene.book.stays.iter().enumerate();
                for (by, stay) in
                    members.filter(|(_, stay)| stay.view.is_some_and(|view| newest.contains(&view)))
                {
                    let told = delivered(&stay.contact.life);
                    let stopped = stay.stopped.is_some();
                    forbid(
                        !stay.is_over() && !stopped && told != stay.asked.len() as u64,
                        || {
                            format!(
                                "of {} messages of s{by}, which is a member, {told} are delivered",
                                stay.asked.len()
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
