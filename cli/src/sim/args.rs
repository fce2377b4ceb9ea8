//! The arguments of `covalent sim`.

use std::ops::Range;

use clap::{Args, Subcommand};
use covalent_sim::{
    Mutant,
    options::{Faults, Topology},
};

use super::{group::GroupArgs, hunt::HuntArgs, mesh::MeshArgs};
use crate::args::Format;

/// `covalent sim`
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "A seed determines everything that no option sets: nodes, cables, faults, verbs \
    and the order of every event. The same seed with the same options gives the same run. Every \
    invariant has a checker that is always on. It reports a broken invariant with the command that \
    replays the run.\n\n\
    Classes of faults: loss, corrupt, duplicate, cut-one-way, cut-both, carrier, transmit, stall, \
    crash, restart, move, cancel, noise, arbitrary, forge; or `all`, or `none`; and lie, which \
    `all` does not include. Without `--faults` a seed has neither forge nor lie.\n\n\
    Exit status: 0 if every invariant held, 1 otherwise.\n\n\
    Examples:\n  \
    covalent sim --seed 7                                    one run, event by event\n  \
    covalent sim --seed 7 --nodes 3 --faults loss,cut-both   three nodes, these faults\n  \
    covalent sim --seed 7 --frames                           every frame and tick as well\n  \
    covalent sim --seeds 0..10000                            many runs, with seeds per second\n  \
    covalent sim hunt --minutes 30                           fresh seeds of all simulators\n  \
    covalent sim --mutant retries-blindly --faults cut-both  finds a deliberate defect\n  \
    covalent sim --seed 7 --format json | jq '.trace[] | select(.subject == \"link\").text'"
)]
pub struct SimArgs {
    /// A simulation other than that of links.
    #[command(subcommand)]
    pub what: Option<SimCommand>,
    /// Which runs, and how they are printed.
    #[command(flatten)]
    pub runs: RunArgs,
    /// Number of nodes.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(2..=16))]
    pub nodes: Option<u8>,
    /// The topology: line, ring, full or random.
    #[arg(long, value_name = "SHAPE")]
    pub topology: Option<Topology>,
    /// Classes of faults, separated by commas. Each occurs rarely or often.
    #[arg(long, value_name = "CLASSES")]
    pub faults: Option<Faults>,
    /// Number of events until the faults stop and all work must complete.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub steps: Option<u32>,
    /// Break the implementation on purpose.
    #[arg(long, value_name = "NAME")]
    pub mutant: Option<Mutant>,
    /// Also print every frame and every tick.
    #[arg(long, conflicts_with = "seeds")]
    pub frames: bool,
}

/// The simulations that have options of their own.
#[derive(Debug, Subcommand)]
pub enum SimCommand {
    /// Run a group of applications over paths that appear and disappear, and print the run.
    Group(GroupArgs),
    /// Run a mesh of up to a thousand nodes with time and faults, and print the run.
    Mesh(MeshArgs),
    /// Search fresh seeds of all simulations for a broken invariant, and find the smallest case
    /// that breaks it.
    Hunt(HuntArgs),
}

/// Which runs of a simulation, and how they are printed.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// The seed of the run to print.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Run these seeds, excluding the last, and print the combined result.
    #[arg(long, value_name = "A..B", conflicts_with = "seed")]
    pub seeds: Option<SeedRange>,
    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Table, display_order = 900)]
    pub format: Format,
}

impl RunArgs {
    /// Returns the seeds to run: the given range, or the single seed.
    pub(super) fn numbers(&self) -> Range<u64> {
        self.seeds
            .as_ref()
            .map_or(self.seed..self.seed.saturating_add(1), |seeds| {
                seeds.0.clone()
            })
    }
}

/// Some seeds: `A..B`, without B.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeedRange(pub Range<u64>);

impl std::str::FromStr for SeedRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bounds = text
            .split_once("..")
            .and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?));
        match bounds {
            Some(range) if !range.is_empty() => Ok(Self(range)),
            Some(_) => Err("the range has no seed: the first must be below the last".into()),
            None => Err("seeds are two numbers with `..` between, such as 0..1000".into()),
        }
    }
}
