//! Undoing what the record says, in reverse, and nothing else.

use anyhow::Result;

use super::{
    init::{Tell, set},
    record::{Held, Ledger, Line, held},
    show::Told,
    stage::Stage,
    world::World,
};

/// What undoing came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Undone {
    /// Settings that have the value of before.
    pub restored: usize,
    /// Settings that somebody else has changed since, and that were left.
    pub left: usize,
    /// Settings that could not be given their value of before. They stay in the record.
    pub failed: usize,
}

/// Gives every setting that the stages hold its value of before, the last one first. With `dry_run` it only tells.
///
/// # Errors
/// When a setting cannot be read, or the record not be written.
pub fn fini<W: World, L: Ledger>(
    stages: &[Stage],
    dry_run: bool,
    world: &mut W,
    ledger: &mut L,
    tell: Tell<'_>,
) -> Result<Undone> {
    let mut undone = Undone::default();
    let all = held(ledger.lines());
    for held in all.iter().rev().filter(|held| stages.contains(&held.stage)) {
        let over = match stands(world.now(&held.setting)?.as_deref(), held) {
            Stands::Gone => {
                tell(Told::note(
                    held.stage,
                    format!("{}: it is not there any more", held.setting),
                ))?;
                true
            }
            Stands::AsBefore => {
                undone.restored += 1;
                true
            }
            Stands::Changed(now) => {
                undone.left += 1;
                tell(Told::note(
                    held.stage,
                    format!(
                        "{}: somebody made it {now}, so it is left; before `configure init` it was {}",
                        held.setting, held.before
                    ),
                ))?;
                true
            }
            Stands::Ours => {
                tell(Told::undo(held))?;
                if !dry_run {
                    ledger.note(Line::Undoing {
                        setting: held.setting.clone(),
                    })?;
                }
                dry_run || restore(world, held, &mut undone, tell)?
            }
        };
        if over && !dry_run {
            ledger.note(Line::Undone {
                setting: held.setting.clone(),
            })?;
        }
    }
    if !dry_run && super::record::held(ledger.lines()).is_empty() {
        ledger.forget()?;
    }
    Ok(undone)
}

/// Whether it has its value of before now.
fn restore<W: World>(
    world: &mut W,
    held: &Held,
    undone: &mut Undone,
    tell: Tell<'_>,
) -> Result<bool> {
    let outcome = set(world, &held.setting, &held.before);
    let now = world.now(&held.setting)?;
    let failure = match (outcome, now) {
        (_, Some(now)) if now == held.before => {
            undone.restored += 1;
            return Ok(true);
        }
        (Err(error), _) => format!("{error:#}"),
        (Ok(()), now) => format!("it is {}", now.as_deref().unwrap_or("gone")),
    };
    undone.failed += 1;
    tell(Told::note(
        held.stage,
        format!("{}: that failed: {failure}", held.setting),
    ))?;
    Ok(false)
}

/// How a setting stands to its record.
enum Stands<'a> {
    /// What it belongs to is not there.
    Gone,
    /// It was never touched, or is undone already.
    AsBefore,
    /// It has a value that it was given.
    Ours,
    /// It has a value that somebody else gave it.
    Changed(&'a str),
}

fn stands<'a>(now: Option<&'a str>, held: &Held) -> Stands<'a> {
    let Some(now) = now else {
        return Stands::Gone;
    };
    let is_ours = |ours: &String| ours == now;
    let on_the_way = held
        .in_flight
        .as_ref()
        .is_some_and(|wanted| held.setting.is_on_the_way(&held.before, wanted, now));
    if now == held.before {
        Stands::AsBefore
    } else if held.ours.iter().any(is_ours) || on_the_way {
        Stands::Ours
    } else {
        Stands::Changed(now)
    }
}
