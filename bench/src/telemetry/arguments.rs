//! The command lines.

use std::{path::PathBuf, time::Duration};

use clap::Args;

use crate::{arguments::Output, repeats::Repeats};

/// A lane with and without counters in shared memory.
#[derive(Debug, Args)]
pub struct Counters {
    /// Seconds to measure each side, shared out over the least number of repeats.
    #[arg(
        long,
        default_value_t = 10.0,
        env = "COVALENT_BENCH_SECONDS",
        value_parser = crate::arguments::seconds,
    )]
    pub seconds: f64,
    /// How often both sides take turns.
    #[command(flatten)]
    pub repeats: Repeats,
    /// Pipes of the lane beside the two that carry the traffic.
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(0..=4000))]
    pub pipes: u32,
    /// `dataplane.counters_ms` of the side that writes them.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub counters_ms: u32,
    /// The daemon to measure; without it the `covalentd` beside this program.
    #[arg(long, value_name = "FILE", env = "COVALENT_BENCH_DAEMON")]
    pub covalentd: Option<PathBuf>,
    /// Output options.
    #[command(flatten)]
    pub output: Output,
}

impl Counters {
    /// How long one side is measured in one turn.
    pub fn slice(&self) -> Duration {
        Duration::from_secs_f64(self.seconds / f64::from(self.repeats.least * super::lanes::PAIRS))
    }
}

/// A scrape of a node with many pipes.
#[derive(Debug, Args)]
pub struct Scrape {
    /// Pipes of the node.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=4000))]
    pub pipes: u32,
    /// How often it is scraped.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub scrapes: u32,
    /// The daemon; without it the `covalentd` beside this program. `covalent-control` must be
    /// beside the daemon.
    #[arg(long, value_name = "FILE", env = "COVALENT_BENCH_DAEMON")]
    pub covalentd: Option<PathBuf>,
    /// Output options.
    #[command(flatten)]
    pub output: Output,
}
