//! The findings of a stage, and the steps that it would take.

use std::fmt;

use serde::Serialize;

use super::{setting::Setting, stage::Stage};

/// How a stage finds a thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// As wanted.
    AsWanted,
    /// Nothing is wanted: the configuration keeps the setting, or the object does not exist here.
    NotApplicable,
    /// Not as wanted; this command can change it.
    NotAsWanted,
    /// Not as wanted or unknown; this command cannot change it.
    Cannot,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::AsWanted => "as wanted",
            Self::NotApplicable => "not applicable",
            Self::NotAsWanted => "not as wanted",
            Self::Cannot => "CANNOT",
        })
    }
}

/// One thing that is to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The setting to change.
    pub setting: Setting,
    /// Its value now.
    pub before: String,
    /// The wanted value.
    pub wanted: String,
    /// Why.
    pub why: String,
}

impl Step {
    /// The command that does it.
    pub fn command(&self) -> String {
        self.setting.command(&self.wanted)
    }

    /// The command that undoes it.
    pub fn undo(&self) -> String {
        self.setting.command(&self.before)
    }
}

/// The report of a stage on one object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The stage.
    pub stage: Stage,
    /// Of which interface; empty for the whole machine.
    pub subject: String,
    /// How it is.
    pub state: State,
    /// The finding, and why another value is wanted.
    pub found: String,
    /// The action that the user must take; empty if none is needed or if `steps` suffice.
    pub cure: String,
    /// The steps that establish the wanted state.
    pub steps: Vec<Step>,
}

impl Report {
    /// A report without steps.
    pub fn new(stage: Stage, subject: &str, state: State, found: impl Into<String>) -> Self {
        Self {
            stage,
            subject: subject.to_owned(),
            state,
            found: found.into(),
            cure: String::new(),
            steps: Vec::new(),
        }
    }

    /// Returns a report that the object is as wanted.
    pub fn as_wanted(stage: Stage, subject: &str, found: impl Into<String>) -> Self {
        Self::new(stage, subject, State::AsWanted, found)
    }

    /// Returns a report that nothing is wanted.
    pub fn not_applicable(stage: Stage, subject: &str, why: impl Into<String>) -> Self {
        Self::new(stage, subject, State::NotApplicable, why)
    }

    /// Returns a report that the configuration keeps the setting.
    pub fn kept(stage: Stage, subject: &str, key: &str) -> Self {
        Self::not_applicable(stage, subject, format!("`{key} = \"keep\"`"))
    }

    /// This command cannot make it so.
    pub fn cannot(
        stage: Stage,
        subject: &str,
        found: impl Into<String>,
        cure: impl Into<String>,
    ) -> Self {
        Self {
            cure: cure.into(),
            ..Self::new(stage, subject, State::Cannot, found)
        }
    }

    /// The steps make it so.
    pub fn steps(stage: Stage, subject: &str, found: impl Into<String>, steps: Vec<Step>) -> Self {
        Self {
            steps,
            ..Self::new(stage, subject, State::NotAsWanted, found)
        }
    }
}

/// Returns the command's exit status.
pub fn exit_status(reports: &[Report]) -> u8 {
    match reports.iter().map(|report| report.state).max() {
        None | Some(State::AsWanted | State::NotApplicable) => 0,
        Some(State::NotAsWanted) => 1,
        Some(State::Cannot) => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_decides_the_exit_status() {
        let report = |state| Report::new(Stage::Xdp, "", state, "");
        let of = |states: &[State]| {
            exit_status(
                &states
                    .iter()
                    .map(|&state| report(state))
                    .collect::<Vec<_>>(),
            )
        };
        assert_eq!(of(&[]), 0);
        assert_eq!(of(&[State::AsWanted, State::NotApplicable]), 0);
        assert_eq!(of(&[State::AsWanted, State::NotAsWanted]), 1);
        assert_eq!(of(&[State::Cannot, State::NotAsWanted]), 2);
    }
}
