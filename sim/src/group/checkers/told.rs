//! What becomes of what was asked.

use covalent_protocol::group::Stop;

use super::{Checker, Fact, Scene, Verdict, forbid};

/// What a survivor asked for is delivered; of one who was stopped it is delivered or was called in doubt.
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
            Fact::Over => {
                let newest = scene
                    .book
                    .newest()
                    .map(|order| (order.view.group, order.view.number));
                let members = scene.book.stays.iter().enumerate();
                for (by, stay) in members.filter(|(_, stay)| stay.view == newest) {
                    let stays = !matches!(
                        stay.stopped,
                        Some((Stop::Excluded | Stop::OtherGroup { .. }, _))
                    );
                    let told = scene
                        .book
                        .last
                        .get(&stay.contact.life)
                        .copied()
                        .unwrap_or(0);
                    let stopped = stay.stopped.is_some();
                    forbid(
                        stay.lives && stays && !stopped && told != stay.asked.len() as u64,
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
