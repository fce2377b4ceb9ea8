//! The output of the commands.

use anyhow::Result;
use serde::Serialize;
use serde_json::json;

use super::{
    plan::{Report, State, Step},
    record::Held,
    stage::Stage,
};
use crate::output::{self, Cell, Color, Table, Theme};

/// A message about work in progress.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Notice {
    /// The stage.
    pub stage: Stage,
    /// The command that is about to be run; empty for a remark.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub command: String,
    /// Why, or the remark.
    pub text: String,
}

impl Notice {
    /// A step is about to be taken.
    pub fn step(stage: Stage, step: &Step) -> Self {
        Self {
            stage,
            command: step.command(),
            text: step.why.clone(),
        }
    }

    /// A setting is about to be given its value of before.
    pub fn undo(held: &Held) -> Self {
        Self {
            stage: held.stage,
            command: held.setting.command(&held.before),
            text: format!("{} as before", held.setting),
        }
    }

    /// A remark.
    pub fn remark(stage: Stage, text: String) -> Self {
        Self {
            stage,
            command: String::new(),
            text,
        }
    }

    /// Prints it as text.
    ///
    /// # Errors
    /// Fails if the reader of standard output is gone.
    pub fn print(&self) -> Result<()> {
        match self.command.as_str() {
            "" => output::line(&format!("{:<10} {}", self.stage, self.text)),
            command => output::line(&format!(
                "{:<10} {command}\n{:10}   {}",
                self.stage, "", self.text
            )),
        }
    }
}

/// A report, for programs.
pub fn json(report: &Report) -> serde_json::Value {
    let commands = |of: fn(&Step) -> String| report.steps.iter().map(of).collect::<Vec<_>>();
    json!({
        "stage": report.stage,
        "interface": report.subject,
        "state": report.state,
        "found": report.found,
        "cure": report.cure,
        "commands": commands(Step::command),
        "undo": commands(Step::undo),
    })
}

/// Prints the reports of the stages.
///
/// # Errors
/// Fails if the reader of standard output is gone.
pub fn print(reports: &[Report]) -> Result<()> {
    output::line(&table(Theme::of_stdout(), reports).to_string())?;
    output::line(&summary(reports))
}

fn table(theme: Theme, reports: &[Report]) -> Table {
    let mut table = theme.new_table(["", "stage", "of", "found", "what to do"]);
    for report in reports {
        let (mark, color) = match report.state {
            State::AsWanted => ("✓", Color::Green),
            State::NotApplicable => ("-", Color::Green),
            State::NotAsWanted => ("!", Color::Yellow),
            State::Cannot => ("✗", Color::Red),
        };
        let commands: Vec<String> = report.steps.iter().map(Step::command).collect();
        let cure = match commands.is_empty() {
            true => report.cure.clone(),
            false => commands.join("\n"),
        };
        table.add_row([
            theme.cell(mark, color),
            Cell::new(report.stage),
            Cell::new(&report.subject),
            Cell::new(&report.found),
            Cell::new(cure),
        ]);
    }
    table
}

fn summary(reports: &[Report]) -> String {
    let count = |state| {
        reports
            .iter()
            .filter(|report| report.state == state)
            .count()
    };
    match (count(State::NotAsWanted), count(State::Cannot)) {
        (0, 0) => "Everything is as wanted.".to_owned(),
        (not, 0) => format!("{not} not as wanted; `covalent configure init` changes that."),
        (not, cannot) => {
            format!(
                "{not} not as wanted, and {cannot} that `covalent configure init` cannot change."
            )
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::output::walk;

    /// The widest reports.
    pub fn widest(theme: Theme) -> String {
        let it = walk::INTERFACE;
        let reports = [
            Report::not_applicable(Stage::Hugepages, "", "no port needs packet memory"),
            Report::cannot(
                Stage::Irq,
                it,
                format!(
                    "/proc/irq/1234/smp_affinity_list of {it}-TxRx-127 is 0-127, and irqbalance \
                     moves it; {it} of port {} is on lane 15",
                    walk::NAME
                ),
                format!(
                    "ethtool -L {it} combined 16\necho 127 > /proc/irq/1234/smp_affinity_list\n\
                     echo 0 > /sys/class/net/{it}/queues/rx-127/rps_cpus"
                ),
            ),
        ];
        table(theme, &reports).to_string()
    }
}
