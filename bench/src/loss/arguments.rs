//! The command line of `loss`.

use std::{path::PathBuf, time::Duration};

use clap::Args;

use super::wire::MILLION;
use crate::{
    arguments::{Output, ring_slots, seconds},
    latency::{Pacing, Plan},
};

/// How long an answer may take: longer than a timeout of TCP that has doubled a few times.
const PATIENCE: Duration = Duration::from_secs(5);

/// Requests one after the other before anything counts. Figures of a debug build mean nothing.
const WARM_UP: u64 = if cfg!(debug_assertions) { 20 } else { 100 };

/// The options of `loss`: a cable that loses frames and is cut.
#[derive(Debug, Clone, Args)]
pub struct Loss {
    /// Systems to put on the same cable. A name means the same in every suite. Covalent's sides
    /// always take part. A name that this suite does not know is an error, which lists the known
    /// names.
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "NAME",
        default_value = "tcp,tcp-rto",
        value_parser = crate::against::parser()
    )]
    pub against: Vec<String>,
    /// Parts of all frames that the cable loses each way, in percent.
    #[arg(
        long = "losses",
        value_delimiter = ',',
        value_name = "PERCENT",
        default_value = "0,0.01,0.1,1",
        value_parser = parts,
    )]
    pub parts_per_million: Vec<u32>,
    /// How often the cable is cut in each way; 0 leaves cuts out.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub cuts: u32,
    /// How long each cut lasts, in milliseconds.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=5000))]
    pub cut_ms: u64,
    /// Bytes of each request and each answer, without headers: 8 to 4084.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(8..=4084))]
    pub size: u32,
    /// Requests a second that are due.
    #[arg(
        long,
        default_value_t = 5000.0,
        env = "COVALENT_BENCH_RATE",
        value_parser = crate::latency::rate,
    )]
    pub rate: f64,
    /// Seconds that each side is measured under each loss, shared out over the repeats.
    #[arg(long, default_value_t = 6.0, env = "COVALENT_BENCH_SECONDS", value_parser = seconds)]
    pub seconds: f64,
    /// How often all sides take turns.
    #[arg(
        long,
        default_value_t = 3,
        env = "COVALENT_BENCH_REPEATS",
        value_parser = clap::value_parser!(u32).range(1..=100),
    )]
    pub repeats: u32,
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

impl Loss {
    /// Returns the plan for `length`.
    pub fn plan(&self, length: Duration) -> Plan {
        let nanoseconds =
            |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Plan {
            pacing: Pacing::Open {
                rate_per_s: self.rate,
            },
            warm_up: WARM_UP,
            slice_ns: nanoseconds(length),
            patience_ns: nanoseconds(PATIENCE),
        }
    }

    /// How long one side is measured in one repeat.
    pub fn slice(&self) -> Duration {
        Duration::from_secs_f64(self.seconds / f64::from(self.repeats))
    }

    /// How long each cut lasts.
    pub const fn cut(&self) -> Duration {
        Duration::from_millis(self.cut_ms)
    }
}

/// Percent, as parts of a million.
fn parts(text: &str) -> Result<u32, String> {
    match text.parse::<f64>() {
        Ok(percent) if (0.0..=50.0).contains(&percent) => {
            Ok((percent / 100.0 * f64::from(MILLION)).round() as u32)
        }
        _ => Err("expected 0 to 50 (percent)".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percents_are_parts_of_a_million() {
        assert_eq!(
            ["0", "0.01", "1", "50"].map(|text| parts(text).expect("read")),
            [0, 100, 10_000, 500_000]
        );
        for wrong in ["-1", "51", "NaN", "", "1%"] {
            parts(wrong).expect_err(wrong);
        }
    }
}
