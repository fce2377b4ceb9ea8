//! The command line.

use std::{path::PathBuf, time::Duration};

use clap::{Parser, ValueEnum};

/// Measures Covalent against bare AF_XDP on the same virtual cable, in turn, in one run.
///
/// It needs root, makes its own network namespaces and leaves nothing behind, also when SIGINT or SIGTERM ends it. Exit status: 0 the
/// goal is met (with `all`: every goal), 1 it is not, 2 the measurement could not be made.
#[derive(Debug, Parser)]
#[command(
    name = "covalent-bench",
    version,
    after_help = "Examples:\n  \
        sudo covalent-bench all --results bench/results\n  \
        sudo covalent-bench rtt --seconds 10 --format json"
)]
pub struct Arguments {
    /// What to measure.
    #[arg(value_enum)]
    pub measurement: Measurement,
    /// Seconds to measure each side, shared out over the repeats.
    #[arg(long, default_value_t = 3.0, env = "COVALENT_BENCH_SECONDS", value_parser = seconds)]
    pub seconds: f64,
    /// How often both sides take turns.
    #[arg(long, default_value_t = 5, env = "COVALENT_BENCH_REPEATS", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub repeats: u32,
    /// Descriptors in each AF_XDP ring of both sides: a power of two, 64 to 32768.
    #[arg(long, default_value_t = 2048, env = "COVALENT_BENCH_RING_SLOTS", value_parser = ring_slots)]
    pub ring_slots: u32,
    /// How the result is printed.
    #[arg(
        long,
        value_enum,
        default_value = "table",
        env = "COVALENT_BENCH_FORMAT"
    )]
    pub format: Format,
    /// Folder for the raw results, one JSON file for each run. Made if missing.
    #[arg(long, value_name = "DIR", env = "COVALENT_BENCH_RESULTS")]
    pub results: Option<PathBuf>,
    /// The daemon to measure; without it the `covalentd` beside this program.
    #[arg(long, value_name = "FILE", env = "COVALENT_BENCH_DAEMON")]
    pub covalentd: Option<PathBuf>,
    /// Measures even in a debug build.
    #[arg(long)]
    pub force_debug: bool,
}

impl Arguments {
    /// How long one side is measured in one repeat.
    pub fn slice(&self) -> Duration {
        Duration::from_secs_f64(self.seconds / f64::from(self.repeats))
    }
}

/// What can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Measurement {
    /// One lane receives 64-byte frames into an application's pipe: at least 0.90 of a bare receiver's rate.
    Rx,
    /// Round trip of a fetch-and-add: below 2 times a bare echo's.
    Rtt,
    /// Two linked daemons with nothing to do: below 2 % of a core and 100 MiB each.
    Idle,
    /// The three of them, one after the other, and which came off worst.
    All,
}

/// How the result is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// One JSON object on one line.
    Json,
    /// For people.
    Table,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.1..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("expected 0.1 to 3600".to_owned()),
    }
}

fn ring_slots(text: &str) -> Result<u32, String> {
    match text.parse::<u32>() {
        Ok(slots) if (64..=32_768).contains(&slots) && slots.is_power_of_two() => Ok(slots),
        _ => Err("expected a power of two from 64 to 32768".to_owned()),
    }
}
