//! A simulator: options that make one run of each seed.

use std::fmt::{Debug, Display};

use super::{Failure, Violation, When};
use crate::{
    named::{Named, Set},
    shape::BadShape,
};

/// Options of a run. The seed decides the rest: the same seed and options are the same run.
pub trait Simulator: Clone + Debug + Send + Sync {
    /// Figures of a run.
    type Report: Tally;
    /// Its classes of faults.
    type Fault: Named;

    /// The command that makes the run of `seed` again.
    #[must_use]
    fn command(&self, seed: u64) -> String;

    /// Runs a seed to its end.
    ///
    /// # Errors
    /// Returns the broken invariant with the seed.
    fn run(&self, seed: u64) -> Result<Self::Report, Box<Failure>>;

    /// What the seed decides. `None` if there is no such world.
    fn drawn(&self, seed: u64) -> Option<Drawn<Self::Fault>>;

    /// With so many nodes. The seed draws the rest again.
    #[must_use]
    fn with_nodes(self, seed: u64, nodes: usize) -> Self;

    /// With these classes of faults.
    #[must_use]
    fn with_faults(self, faults: Set<Self::Fault>) -> Self;

    /// With so many events at most. The seed makes the same events as before, up to that number.
    #[must_use]
    fn with_events(self, events: u32) -> Self;

    /// The failure of a seed without a world.
    fn without_world(&self, seed: u64, error: &BadShape) -> Box<Failure> {
        Box::new(Failure {
            seed,
            replay: self.command(seed),
            when: "before the first event".to_owned(),
            violation: Violation {
                checker: "shape",
                what: error.to_string(),
                when: When::Step(0),
            },
        })
    }
}

/// The world that a seed draws.
#[derive(Debug, Clone, Copy)]
pub struct Drawn<Fault> {
    /// Nodes.
    pub nodes: usize,
    /// Classes of faults that occur.
    pub faults: Set<Fault>,
    /// Events of links; faults of groups and meshes, at most.
    pub events: u32,
}

/// Figures of a run, or of several together.
pub trait Tally: Default + Send {
    /// Adds the figures of another run.
    fn add(&mut self, other: &Self);
}

/// A command with its options.
pub(crate) struct Command(pub String);

impl Command {
    pub fn new(command: impl Into<String>) -> Self {
        Self(command.into())
    }

    /// Adds an option, if it has a value.
    pub fn with(mut self, option: &str, value: Option<impl Display>) -> Self {
        if let Some(value) = value {
            self.0 += &format!(" --{option} {value}");
        }
        self
    }

    /// Adds an option that has another value than usual.
    pub fn unless<T: Display + PartialEq>(self, option: &str, value: T, usual: &T) -> Self {
        let value = (value != *usual).then_some(value);
        self.with(option, value)
    }
}
