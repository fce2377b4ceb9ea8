//! Undoes the changes in the record, in reverse order, and nothing else.

use anyhow::Result;

use super::{
    init::{Reporter, set},
    record::{Held, Ledger, Line, held},
    show::Notice,
    stage::Stage,
    world::World,
};

/// The result of undoing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Undone {
    /// Settings that have the value of before.
    pub restored: usize,
    /// Settings that were left because another program changed them since.
    pub left: usize,
    /// Settings whose original value could not be restored. They stay in the record.
    pub failed: usize,
}

/// Restores the original value of every setting that the stages hold, the last one first. With
/// `dry_run`, only reports it.
///
/// # Errors
/// Fails if a setting cannot be read, or if the record cannot be written.
pub fn fini<W: World, L: Ledger>(
    stages: &[Stage],
    dry_run: bool,
    world: &mut W,
    ledger: &mut L,
    report_notice: Reporter<'_>,
) -> Result<Undone> {
    let mut undone = Undone::default();
    let all = held(ledger.lines());
    for held in all.iter().rev().filter(|held| stages.contains(&held.stage)) {
        let over = match stands(world.now(&held.setting)?.as_deref(), held) {
            Stands::Gone => {
                report_notice(Notice::remark(
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
                report_notice(Notice::remark(
                    held.stage,
                    format!(
                        "{}: it was changed to {now} by other means, so it is left alone; before \
                         `configure init` it was {}",
                        held.setting, held.before
                    ),
                ))?;
                true
            }
            Stands::Ours => {
                report_notice(Notice::undo(held))?;
                if !dry_run {
                    ledger.add_line(Line::Undoing {
                        setting: held.setting.clone(),
                    })?;
                }
                dry_run || restore(world, held, &mut undone, report_notice)?
            }
        };
        if over && !dry_run {
            ledger.add_line(Line::Undone {
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
    report_notice: Reporter<'_>,
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
    report_notice(Notice::remark(
        held.stage,
        format!("{}: that failed: {failure}", held.setting),
    ))?;
    Ok(false)
}

/// How a setting stands to its record.
enum Stands<'a> {
    /// The object that it belongs to does not exist.
    Gone,
    /// It was never touched, or is undone already.
    AsBefore,
    /// It has a value that it was given.
    Ours,
    /// Another program gave it this value.
    Changed(&'a str),
}

fn stands<'a>(now: Option<&'a str>, held: &Held) -> Stands<'a> {
    let Some(now) = now else {
        return Stands::Gone;
    };
    let is_ours = |ours: &String| ours == now;
    let is_intermediate = held
        .in_flight
        .as_ref()
        .is_some_and(|wanted| held.setting.may_be_intermediate(&held.before, wanted, now));
    if now == held.before {
        Stands::AsBefore
    } else if held.ours.iter().any(is_ours) || is_intermediate {
        Stands::Ours
    } else {
        Stands::Changed(now)
    }
}
