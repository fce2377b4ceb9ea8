//! The command line of `latency`.

use std::{path::PathBuf, time::Duration};

use clap::Args;

use super::{drive::Plan, pacing::Pacing};
use crate::{
    against::Against,
    arguments::{Output, ring_slots, seconds},
    repeats::Repeats,
};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_millis(500);

/// Requests one after the other before anything counts. Figures of a debug build mean nothing.
const WARM_UP: u64 = if cfg!(debug_assertions) { 20 } else { 200 };

/// Round trips of Covalent and of other systems.
#[derive(Debug, Clone, Args)]
pub struct Latency {
    /// Systems to compare with.
    #[command(flatten)]
    pub against: Against,
    /// Bytes of each request and each answer, without headers: 8 to 65536.
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "BYTES",
        default_value = "8,64,1024",
        value_parser = clap::value_parser!(u32).range(8..=65_536),
    )]
    pub sizes: Vec<u32>,
    /// Requests due per second, regardless of replies: 1 to 5000000.
    #[arg(long, default_value_t = 10_000.0, env = "COVALENT_BENCH_RATE", value_parser = rate)]
    pub rate: f64,
    /// Sends the next request when the reply arrives, as perftest does. There is no schedule, so a
    /// stall counts once.
    #[arg(long, conflicts_with = "rate")]
    pub ping_pong: bool,
    /// Seconds per side and size, split over the minimum number of repeats.
    #[arg(long, default_value_t = 3.0, env = "COVALENT_BENCH_SECONDS", value_parser = seconds)]
    pub seconds: f64,
    /// How often all sides take turns.
    #[command(flatten)]
    pub repeats: Repeats,
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

impl Latency {
    /// Returns the plan of one repeat.
    pub fn plan(&self) -> Plan {
        let nanoseconds =
            |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Plan {
            pacing: if self.ping_pong {
                Pacing::PingPong
            } else {
                Pacing::Open {
                    rate_per_s: self.rate,
                }
            },
            warm_up: WARM_UP,
            slice_ns: nanoseconds(Duration::from_secs_f64(
                self.seconds / f64::from(self.repeats.least),
            )),
            patience_ns: nanoseconds(PATIENCE),
        }
    }
}

/// Requests a second: 1 to 5000000.
pub fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if (1.0..=5e6).contains(&rate) => Ok(rate),
        _ => Err("expected 1 to 5000000".to_owned()),
    }
}
