//! The measurements that are no comparison of contestants size by size: many pipes of one session.

use anyhow::Result;

use crate::{
    arguments::{Streams, TestName},
    stop,
    streams::{
        case::is_requested,
        goals::{LIMIT, OURS},
        pair::Company,
        part::Part,
        progress::Progress,
        session::{
            CoreShares, SessionPart,
            counts::{self, CountSweep},
            loads::{self, LoadSweep},
        },
    },
};

/// Trials are short, because a sweep has many; this much shorter than another test's repetition.
const TRIALS_PER_SLICE: u32 = 4;

/// Of a trial's time, how much more goes by before it counts.
const SETTLE_PER_SLICE: u32 = 4;

/// The selected sweeps.
#[derive(Debug, Clone, Copy)]
pub struct Sweeps {
    loads: bool,
    counts: bool,
    bare: bool,
}

impl Sweeps {
    /// Returns the sweeps that the command line selects. Our pipes must be among the contestants.
    pub fn requested(options: &Streams, names: &[&str]) -> Self {
        let takes_part = |name: &str| names.contains(&name);
        let requested = |test| takes_part(OURS) && is_requested(options, test);
        Self {
            loads: requested(TestName::Loads),
            counts: requested(TestName::PipeCount),
            bare: takes_part(LIMIT),
        }
    }

    /// Whether there is one.
    pub const fn any(self) -> bool {
        self.loads || self.counts
    }

    /// Measures them. `part` is any part of the run.
    pub fn measure(
        self,
        company: &Company,
        part: &Part,
        far_core: usize,
        rounds: u32,
    ) -> Result<(Option<LoadSweep>, Option<CountSweep>)> {
        let runs = [
            (self.loads, loads::runs(rounds)),
            (self.counts, counts::runs(rounds, self.bare)),
        ];
        let runs = runs
            .iter()
            .filter(|(requested, _)| *requested)
            .map(|(_, runs)| runs);
        let progress = Progress::new(u64::from(runs.sum::<u32>()));
        let slice = part.slice / TRIALS_PER_SLICE;
        let base = SessionPart::new(part, slice / SETTLE_PER_SLICE, slice);
        let run = |part: &SessionPart, what: &str, shares: &mut Vec<[f64; 2]>| {
            progress.step(what);
            stop::check()?;
            let (trials, both) = company.measure_session(part, far_core)?;
            shares.push(both);
            Ok(trials)
        };
        let loads = self.loads.then(|| {
            let mut shares = Vec::new();
            let sweep = loads::measure(&base, rounds, &mut |part, what| {
                run(part, what, &mut shares)
            })?;
            anyhow::Ok(LoadSweep {
                cores: CoreShares::of(&shares),
                ..sweep
            })
        });
        let loads = loads.transpose()?;
        let counts = self.counts.then(|| {
            let mut shares = Vec::new();
            let sweep = counts::measure(&base, rounds, self.bare, &mut |part, what| {
                run(part, what, &mut shares)
            })?;
            anyhow::Ok(CountSweep {
                cores: CoreShares::of(&shares),
                ..sweep
            })
        });
        let counts = counts.transpose()?;
        progress.done();
        Ok((loads, counts))
    }
}
