//! Making the machine ready, stage by stage.

use std::{collections::BTreeSet, ffi::OsStr};

use anyhow::{Context, Result};

use super::{
    plan::{Report, State, Step},
    record::{Ledger, Line},
    setting::{Act, Setting},
    show::Told,
    stage::Stage,
    world::World,
};

/// How a stage looks at the machine as it is now.
pub type Look<'a> = &'a mut dyn FnMut(Stage) -> Result<Vec<Report>>;

/// Who hears what is done, before it is done.
pub type Tell<'a> = &'a mut dyn FnMut(Told) -> Result<()>;

/// What all stages find, in order.
///
/// # Errors
/// When the machine cannot be looked at.
pub fn look_at_all(stages: &[Stage], look: Look<'_>) -> Result<Vec<Report>> {
    let mut reports = Vec::new();
    for stage in stages {
        reports.extend(look(*stage)?);
    }
    Ok(reports)
}

/// The programs that `reports` need and that are not among the directories of `path`.
pub fn missing_programs(reports: &[Report], path: &OsStr) -> BTreeSet<String> {
    let steps = reports.iter().flat_map(|report| &report.steps);
    let acts = steps.flat_map(|step| step.setting.acts(&step.wanted));
    let programs = acts.filter_map(|act| match act {
        Act::Run(words) => words.into_iter().next(),
        _ => None,
    });
    let is_there = |program: &String| {
        std::env::split_paths(path).any(|directory| directory.join(program).is_file())
    };
    programs.filter(|program| !is_there(program)).collect()
}

/// Does what the stages want. Each is asked again when its turn comes, for what an earlier one did may have changed what it finds. Before a setting is touched the
/// record says what it was.
///
/// # Errors
/// The first thing that could not be done. What was done so far stays, and is recorded.
pub fn init<W: World, L: Ledger>(
    stages: &[Stage],
    look: Look<'_>,
    world: &mut W,
    ledger: &mut L,
    tell: Tell<'_>,
) -> Result<()> {
    for stage in stages {
        for report in look(*stage)? {
            if report.state == State::Cannot {
                anyhow::bail!(
                    "{} {}: {}\n  cure: {}",
                    report.stage,
                    report.subject,
                    report.found,
                    report.cure
                );
            }
            for step in report.steps {
                tell(Told::step(*stage, &step))?;
                take(*stage, &step, world, ledger, tell)
                    .with_context(|| format!("`{}` failed", step.command()))?;
            }
        }
    }
    Ok(())
}

fn take<W: World, L: Ledger>(
    stage: Stage,
    step: &Step,
    world: &mut W,
    ledger: &mut L,
    tell: Tell<'_>,
) -> Result<()> {
    ledger.note(Line::Intent {
        stage,
        setting: step.setting.clone(),
        before: step.before.clone(),
        wanted: step.wanted.clone(),
    })?;
    let outcome = set(world, &step.setting, &step.wanted);
    // Whatever became of it, this is what is ours from now on.
    if let Some(now) = world.now(&step.setting)? {
        if outcome.is_ok() && now != step.wanted {
            tell(Told::note(
                stage,
                format!("the kernel made it {now}, and not {}", step.wanted),
            ))?;
        }
        ledger.note(Line::Done {
            setting: step.setting.clone(),
            now,
        })?;
    }
    outcome
}

/// Gives `setting` the value.
///
/// # Errors
/// What the system said.
pub fn set<W: World>(world: &mut W, setting: &Setting, value: &str) -> Result<()> {
    for act in setting.acts(value) {
        world.act(&act)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_missing_is_known_before_anything_is_done() {
        let setting = Setting::Offload {
            interface: "eth1".into(),
            index: 2,
            feature: "rx-lro".into(),
        };
        let step = |setting| Step {
            setting,
            before: "on".into(),
            wanted: "off".into(),
            why: String::new(),
        };
        let steps = vec![step(setting), step(Setting::HugePages)];
        let reports = [Report::steps(Stage::Offloads, "eth1", "", steps)];
        let place = tempfile::tempdir().expect("a directory");
        let path = place.path().as_os_str();
        assert_eq!(missing_programs(&reports, path), ["ethtool".into()].into());
        std::fs::write(place.path().join("ethtool"), "").expect("written");
        assert!(missing_programs(&reports, path).is_empty());
    }
}
