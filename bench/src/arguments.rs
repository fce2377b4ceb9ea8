//! Options that several suites have, and those of small suites.

use std::{path::PathBuf, time::Duration};

use clap::{Args, ValueEnum};

use crate::{against::Against, repeats::Repeats};

/// Restarts of daemons.
#[derive(Debug, Args)]
pub struct Restart {
    /// How often each of the two daemons is restarted, both gracefully and by a kill.
    #[arg(
        long,
        default_value_t = 20,
        env = "COVALENT_BENCH_RESTARTS",
        value_parser = clap::value_parser!(u32).range(1..=10_000),
    )]
    pub restarts: u32,
    /// Idle policy of the lanes: `poll` or `adaptive`.
    #[arg(
        long,
        default_value = "adaptive",
        env = "COVALENT_BENCH_IDLE",
        value_parser = ["poll", "adaptive"],
    )]
    pub idle: String,
    /// The cable.
    #[command(flatten)]
    pub wire: Wire,
}

/// Measurements on a virtual cable.
#[derive(Debug, Args)]
pub struct Wire {
    /// Seconds to measure each side, shared out over the least number of repeats.
    #[arg(long, default_value_t = 3.0, env = "COVALENT_BENCH_SECONDS", value_parser = seconds)]
    pub seconds: f64,
    /// How often all sides take turns.
    #[command(flatten)]
    pub repeats: Repeats,
    /// Descriptors in each AF_XDP ring of both sides: a power of two, 64 to 32768.
    #[arg(
        long,
        default_value_t = 2048,
        env = "COVALENT_BENCH_RING_SLOTS",
        value_parser = ring_slots,
    )]
    pub ring_slots: u32,
    /// The daemon to measure; without it the `covalentd` beside this program.
    #[arg(long, value_name = "FILE", env = "COVALENT_BENCH_DAEMON")]
    pub covalentd: Option<PathBuf>,
    /// Output options.
    #[command(flatten)]
    pub output: Output,
}

impl Wire {
    /// How long one side is measured in one repeat.
    pub fn slice(&self) -> Duration {
        Duration::from_secs_f64(self.seconds / f64::from(self.repeats.least))
    }
}

/// Atomic additions at another node.
#[derive(Debug, Args)]
pub struct Atomics {
    /// Systems to compare with.
    #[command(flatten)]
    pub against: Against,
    /// Where and how long.
    #[command(flatten)]
    pub wire: Wire,
}

/// Exchanges over one link on a cable in memory.
#[derive(Debug, Args)]
pub struct Exchanges {
    /// Seconds to measure each side, shared out over the least number of repeats.
    #[arg(long, default_value_t = 2.0, env = "COVALENT_BENCH_SECONDS", value_parser = seconds)]
    pub seconds: f64,
    /// How often all sides take turns.
    #[command(flatten)]
    pub repeats: Repeats,
    /// Longest frames that the cable holds each way: a power of two, 64 to 32768.
    #[arg(
        long,
        default_value_t = 256,
        env = "COVALENT_BENCH_RING_SLOTS",
        value_parser = ring_slots,
    )]
    pub ring_slots: u32,
    /// Output options.
    #[command(flatten)]
    pub output: Output,
}

impl Exchanges {
    /// How long one side is measured in one repeat.
    pub fn slice(&self) -> Duration {
        Duration::from_secs_f64(self.seconds / f64::from(self.repeats.least))
    }
}

/// Links that are cut under load.
#[derive(Debug, Args)]
pub struct Failover {
    /// Systems to compare with.
    #[command(flatten)]
    pub against: Against,
    /// How often a link is cut in each way, shared out over the least number of repeats.
    #[arg(
        long,
        default_value_t = 200,
        env = "COVALENT_BENCH_CUTS",
        value_parser = clap::value_parser!(u32).range(1..=100_000),
    )]
    pub cuts: u32,
    /// How often the cuts are made anew.
    #[command(flatten)]
    pub repeats: Repeats,
    /// Verbs that the application keeps open.
    #[arg(
        long,
        default_value_t = 32,
        env = "COVALENT_BENCH_OPEN",
        value_parser = clap::value_parser!(u32).range(1..=64),
    )]
    pub open: u32,
    /// `link.event_ratio` of both daemons; the default of the daemon unless it is given.
    #[arg(long, env = "COVALENT_BENCH_EVENT_RATIO")]
    pub event_ratio: Option<u32>,
    /// Descriptors in each AF_XDP ring: a power of two, 64 to 32768.
    #[arg(
        long,
        default_value_t = 2048,
        env = "COVALENT_BENCH_RING_SLOTS",
        value_parser = ring_slots,
    )]
    pub ring_slots: u32,
    /// The daemon to measure; without it the `covalentd` beside this program.
    #[arg(long, value_name = "FILE", env = "COVALENT_BENCH_DAEMON")]
    pub covalentd: Option<PathBuf>,
    /// Output options.
    #[command(flatten)]
    pub output: Output,
}

/// Packets and messages between two processes.
#[derive(Debug, Clone, Args)]
pub struct Streams {
    /// Systems to compare with.
    #[command(flatten)]
    pub against: Against,
    /// How often all contestants take turns.
    #[command(flatten)]
    pub repeats: Repeats,
    /// Milliseconds per repetition, after a warm-up of 0.1 s.
    #[arg(
        long,
        default_value_t = 250,
        env = "COVALENT_BENCH_SLICE_MS",
        value_parser = clap::value_parser!(u64).range(20..=60_000),
    )]
    pub slice_ms: u64,
    /// Only these tests.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "TEST")]
    pub tests: Vec<TestName>,
    /// Only these packet and message sizes, in bytes; `mix` for the captures' mix.
    #[arg(long, value_delimiter = ',', value_name = "BYTES")]
    pub sizes: Vec<String>,
    /// Size of the packet rings of pipes and of the bare ring, in KiB: a power of two.
    #[arg(long, default_value_t = 2048, env = "COVALENT_BENCH_RING_KIB", value_parser = ring_kib)]
    pub ring_kib: u64,
    /// Page size of the pipes' rings and of the bare ring; the pages are reserved for the run. DPDK
    /// always gets 2 MiB pages.
    #[arg(long, value_enum, default_value = "huge", env = "COVALENT_BENCH_PAGES")]
    pub pages: Pages,
    /// Folder with captures for the mix; `../shared/data` if it is there, else a built-in sample.
    #[arg(long, value_name = "DIR", env = "COVALENT_BENCH_CAPTURES")]
    pub captures: Option<PathBuf>,
    /// Output options.
    #[command(flatten)]
    pub output: Output,
}

/// Format and destination of the results.
#[derive(Debug, Clone, Args)]
pub struct Output {
    /// How the result is printed.
    #[arg(
        long,
        value_enum,
        default_value = "table",
        env = "COVALENT_BENCH_FORMAT"
    )]
    pub format: Format,
    /// Folder for the raw result, SUITE.json, which replaces an earlier one. Made if missing.
    #[arg(long, value_name = "DIR", env = "COVALENT_BENCH_RESULTS")]
    pub results: Option<PathBuf>,
    /// Measures even in a debug build.
    #[arg(long)]
    pub force_debug: bool,
}

/// The page to write.
#[derive(Debug, Args)]
pub struct Page {
    /// Folder of the results. That of `streams` must be there.
    #[arg(default_value = "bench/results")]
    pub results: PathBuf,
    /// The page. Its plots go into a folder of the same name without `.md`.
    #[arg(long, value_name = "FILE", default_value = "docs/performance.md")]
    pub out: PathBuf,
}

/// The tests of `streams`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TestName {
    /// There and back.
    Echo,
    /// There only.
    OneWay,
    /// Length-prefixed messages.
    Stream,
    /// One small message at a time, there and back.
    RoundTrip,
    /// Notification methods, over the load.
    Loads,
    /// 1 to 4096 pipes in turn.
    PipeCount,
}

/// Page sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Pages {
    /// 4 KiB.
    Small,
    /// 2 MiB.
    Huge,
}

/// How the result is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// One JSON object on one line.
    Json,
    /// For people.
    Table,
}

/// A time in seconds: 0.1 to 3600.
/// Seconds, as an option.
pub fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.1..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("expected 0.1 to 3600".to_owned()),
    }
}

/// Descriptors of a ring: a power of two, 64 to 32768.
pub fn ring_slots(text: &str) -> Result<u32, String> {
    match text.parse::<u32>() {
        Ok(slots) if (64..=32_768).contains(&slots) && slots.is_power_of_two() => Ok(slots),
        _ => Err("expected a power of two from 64 to 32768".to_owned()),
    }
}

fn ring_kib(text: &str) -> Result<u64, String> {
    match text.parse::<u64>() {
        Ok(kib) if (16..=65_536).contains(&kib) && kib.is_power_of_two() => Ok(kib),
        _ => Err("expected a power of two from 16 to 65536".to_owned()),
    }
}
