//! What becomes of what was asked.

use super::{Checker, Fact, Scene, Verdict, forbid};

/// What a survivor asked for is delivered; of one who was stopped it is delivered or was called in doubt; and who
/// asks in the next stay hears how many were.
#[derive(Debug)]
pub struct Told;

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
                let life = scene.book.stays[*by].contact.life;
                let told = scene.book.last.get(&life).copied().unwrap_or(0);
                forbid(*undelivered > told + 1, || {
                    format!(
                        "s{by} was stopped and told that its messages below {undelivered} are delivered; {told} are"
                    )
                })
            }
            Fact::Fate { by, delivered_to } => {
                let former = scene.book.stays[*by].former.unwrap_or_default();
                let told = scene.book.last.get(&former).copied().unwrap_or(0);
                forbid(*delivered_to != told, || {
                    format!(
                        "s{by} was told that {delivered_to} messages of its former stay were delivered; {told} were"
                    )
                })
            }
            Fact::Over => {
                let newest = scene.book.newest_of_each();
                let newest: Vec<_> = (newest.iter())
                    .map(|order| (order.view.group, order.view.number))
                    .collect();
                let members = scene.book.stays.iter().enumerate();
                for (by, stay) in
                    members.filter(|(_, stay)| stay.view.is_some_and(|view| newest.contains(&view)))
                {
                    let told = scene
                        .book
                        .last
                        .get(&stay.contact.life)
                        .copied()
                        .unwrap_or(0);
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
