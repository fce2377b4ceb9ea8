//! The suite's command line.

use std::{fmt, path::PathBuf, time::Duration};

use clap::{Args, ValueEnum};

use crate::{
    against::Against,
    arguments::{Output, seconds},
    repeats::Repeats,
};

/// Messages that all members of a group deliver in one order.
#[derive(Debug, Args)]
pub struct Multicast {
    /// Systems to compare with.
    #[command(flatten)]
    pub against: Against,
    /// Members of the group, each with a daemon of its own.
    #[arg(
        long,
        default_value_t = 4,
        env = "COVALENT_BENCH_MEMBERS",
        value_parser = clap::value_parser!(u8).range(2..=8),
    )]
    pub members: u8,
    /// Message sizes in bytes. The goal is for 64; 1280 is the size of a write of etcd's benchmark,
    /// for comparison.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "64,1280",
        value_name = "BYTES",
        value_parser = clap::value_parser!(u32).range(8..=3770),
    )]
    pub sizes: Vec<u32>,
    /// How the daemons' lanes wait.
    #[arg(long, value_enum, default_value_t = Idle::Adaptive)]
    pub idle: Idle,
    /// Seconds per side, split over the minimum number of repeats. etcd's own benchmark always
    /// takes a minute.
    #[arg(long, default_value_t = 5.0, env = "COVALENT_BENCH_SECONDS", value_parser = seconds)]
    pub seconds: f64,
    /// How often all sides take turns.
    #[command(flatten)]
    pub repeats: Repeats,
    /// The daemon to measure; without it the `covalentd` beside this program.
    #[arg(long, value_name = "FILE", env = "COVALENT_BENCH_DAEMON")]
    pub covalentd: Option<PathBuf>,
    /// Output options.
    #[command(flatten)]
    pub output: Output,
}

impl Multicast {
    /// How long one side is measured in one repeat.
    pub fn slice(&self) -> Duration {
        Duration::from_secs_f64(self.seconds / f64::from(self.repeats.least))
    }
}

/// How a lane with nothing to do waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Idle {
    /// It sleeps.
    Adaptive,
    /// It keeps polling.
    Poll,
}

impl fmt::Display for Idle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Adaptive => "adaptive",
            Self::Poll => "poll",
        })
    }
}
