//! Runs that leave nothing to a seed: every case of a list.

use std::ops::{ControlFlow, Range};

use super::{
    figures::MeshReport, options::MeshOptions, sixteen, three, trace::Trace, world::MeshWorld,
};
use crate::{
    harness::{Command, Failure, run_all},
    named::named,
    shape::Shape,
};

/// Round trips in a tick interval. No repair waits for a tick, but the detection of a silent
/// failure takes several.
const TICK_RT: u32 = 20;

named! {
    "list of cases":
    /// Which list of cases.
    Exhaustive {
        /// Each of the 63 ways in which the cables of a triangle can fail together, at every
        /// relevant moment.
        Three = "three",
        /// Each cable and each node of a 4×4 grid, alone and in pairs.
        Sixteen = "sixteen",
    }
}

impl Exhaustive {
    /// How many cases there are.
    #[must_use]
    pub fn cases(self) -> u64 {
        match self {
            Self::Three => three::cases(),
            Self::Sixteen => sixteen::cases(),
        }
    }

    /// How many of them, the first ones, are of one failure alone, or of the 63 ways at rest.
    #[must_use]
    pub fn first_cases(self) -> u64 {
        match self {
            Self::Three => three::first_cases(),
            Self::Sixteen => sixteen::first_cases(),
        }
    }

    /// Shape of all cases of the list.
    #[must_use]
    pub fn shape(self) -> Shape {
        match self {
            Self::Three => Shape::ring(3),
            Self::Sixteen => Shape::grid(4, 4),
        }
    }

    /// The command that makes a case again.
    #[must_use]
    pub fn command(self, case: u64, options: &MeshOptions) -> String {
        let command = Command::new(format!(
            "covalent sim mesh --exhaustive {self} --case {case}"
        ))
        .unless("load", options.load, &MeshOptions::new().load)
        .with("mutant", options.mutant);
        command.0
    }
}

/// Runs one case to its end: the events of the list, a rest, repairs, and a second rest. `trace`
/// records the events, if given.
pub fn run_case(
    list: Exhaustive,
    case: u64,
    options: &MeshOptions,
    trace: Option<Trace>,
) -> (Result<MeshReport, Box<Failure>>, Option<Trace>) {
    let options = &MeshOptions {
        tick_rt: TICK_RT,
        ..options.clone()
    };
    let mut world =
        MeshWorld::new(list.shape(), options, case, trace).replayed_by(list.command(case, options));
    match list {
        Exhaustive::Three => three::happen(case, &mut world),
        Exhaustive::Sixteen => sixteen::happen(case, &mut world),
    }
    world.rest();
    world.mend_everything();
    world.rest();
    world.finish()
}

/// Runs cases and returns the combined report. `progress` is called after each case with the number
/// of finished cases. It may stop the loop: then the finished cases count.
///
/// # Errors
/// Returns the failure of the lowest case that failed.
pub fn run_cases(
    list: Exhaustive,
    cases: Range<u64>,
    options: &MeshOptions,
    progress: impl Fn(u64) -> ControlFlow<()> + Sync,
) -> Result<MeshReport, Box<Failure>> {
    run_all(
        cases,
        |case| run_case(list, case, options, None).0,
        progress,
    )
}
