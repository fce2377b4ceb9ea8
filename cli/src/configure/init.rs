//! Making the machine ready, stage by stage.

use std::{collections::BTreeSet, ffi::OsStr};

use anyhow::{Context, Result};

use super::{
    plan::{Report, State, Step},
    record::{Ledger, Line},
    setting::{Act, Setting},
    show::Notice,
    stage::Stage,
    world::World,
};

/// How a stage looks at the machine as it is now.
pub type Inspect<'a> = &'a mut dyn FnMut(Stage) -> Result<Vec<Report>>;

/// Callback that receives each action before it is executed.
pub type Reporter<'a> = &'a mut dyn FnMut(Notice) -> Result<()>;

/// Returns the reports of all stages, in order.
///
/// # Errors
/// Fails if the machine cannot be examined.
pub fn inspect_all(stages: &[Stage], inspect: Inspect<'_>) -> Result<Vec<Report>> {
    let mut reports = Vec::new();
    for stage in stages {
        reports.extend(inspect(*stage)?);
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

/// Makes the changes that the stages want. Each stage is evaluated again when its turn comes,
/// because an earlier stage may have changed its findings. The record holds the original value
/// before a setting is changed.
///
/// # Errors
/// Returns the first failure. Earlier changes stay, and are recorded.
pub fn init<W: World, L: Ledger>(
    stages: &[Stage],
    inspect: Inspect<'_>,
    world: &mut W,
    ledger: &mut L,
    report_notice: Reporter<'_>,
) -> Result<()> {
    for stage in stages {
        for report in inspect(*stage)? {
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
                report_notice(Notice::step(*stage, &step))?;
                take(*stage, &step, world, ledger, report_notice)
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
    report_notice: Reporter<'_>,
) -> Result<()> {
    ledger.add_line(Line::Intent {
        stage,
        setting: step.setting.clone(),
        before: step.before.clone(),
        wanted: step.wanted.clone(),
    })?;
    let outcome = set(world, &step.setting, &step.wanted);
    // Whatever the outcome, the current value is ours from now on.
    if let Some(now) = world.now(&step.setting)? {
        if outcome.is_ok() && now != step.wanted {
            report_notice(Notice::remark(
                stage,
                format!("the kernel made it {now}, and not {}", step.wanted),
            ))?;
        }
        ledger.add_line(Line::Done {
            setting: step.setting.clone(),
            now,
        })?;
    }
    outcome
}

/// Sets `setting` to `value`.
///
/// # Errors
/// Returns the system's error.
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
