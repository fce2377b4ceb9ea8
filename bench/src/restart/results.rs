//! The measured results. Other programs read them, and a table is made from them.

use std::fmt::Write as _;

use covalent::status::PortMode;
use serde::{Deserialize, Serialize};

use crate::{cell, host::Host, kept::Kept};

/// A whole run.
///
/// The names of these fields are stable: other programs read them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// The suite.
    pub name: String,
    /// When it began, in milliseconds since 1970.
    pub began_unix_ms: u64,
    /// Where.
    pub host: Host,
    /// How.
    pub setup: Setup,
    /// The gaps that clients saw, by restarted daemon.
    pub gaps: Vec<Gaps>,
    /// Whether the counter stands where it may.
    pub is_exact: bool,
    /// Additions reported as done to their callers.
    pub done: u64,
    /// Additions with an unknown outcome.
    pub unknown: u64,
    /// Where the counter stands.
    pub counted: u64,
}

/// How a run was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Setup {
    /// How often each daemon was shut down gracefully, and as often killed.
    pub restarts: u32,
    /// Descriptors in each AF_XDP ring.
    pub ring_slots: u32,
    /// Idle policy of the lanes.
    pub idle: String,
    /// The mode of a port as it was read back.
    pub mode: PortMode,
    /// The daemons' command lines.
    pub commands: Vec<Vec<String>>,
}

/// How a daemon was ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// By SIGTERM: the daemon resolves open exchanges first.
    InOrder,
    /// By SIGKILL.
    Killed,
}

/// The gaps of one client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gaps {
    /// The restarted daemon, and the counter that the client adds to.
    pub what: String,
    /// How it was ended.
    pub ended: Ended,
    /// One gap per restart, sorted, in nanoseconds.
    pub ns: Vec<u64>,
}

impl Ended {
    /// For people.
    pub const fn words(self) -> &'static str {
        match self {
            Self::InOrder => "in order",
            Self::Killed => "killed",
        }
    }
}

impl Gaps {
    /// Creates the gaps of `what`.
    pub fn new(what: &str, ended: Ended, mut ns: Vec<u64>) -> Self {
        ns.sort_unstable();
        Self {
            what: what.to_owned(),
            ended,
            ns,
        }
    }

    /// The gap that `percent` of 100 do not exceed; 0 where there is none.
    pub fn percentile_ns(&self, percent: usize) -> u64 {
        let rank = (self.ns.len() * percent).div_ceil(100).max(1);
        self.ns.get(rank - 1).copied().unwrap_or(0)
    }
}

impl Kept for Results {
    const NAME: &'static str = "restart";

    fn began_unix_ms(&self) -> u64 {
        self.began_unix_ms
    }

    fn table(&self) -> String {
        let Setup {
            restarts,
            ring_slots,
            idle,
            mode,
            ..
        } = &self.setup;
        let mut out = format!(
            "restart: the longest time between two completions that a client \
             sees\n  {:<46}{:<10}{:>10}{:>10}{:>10}{:>10}\n",
            "restarted", "ended", "min ms", "p50 ms", "p90 ms", "max ms"
        );
        // Writing to a string cannot fail.
        for gaps in &self.gaps {
            let _ = write!(out, "  {:<46}{:<10}", gaps.what, gaps.ended.words());
            for percent in [0, 50, 90, 100] {
                let ms = gaps.percentile_ns(percent) as f64 / 1e6;
                let _ = write!(out, "{ms:>10.2}");
            }
            out.push('\n');
        }
        let _ = writeln!(
            out,
            "  additions: {} done, {} with unknown outcome, {} counted: {}\n  \
             {restarts} restarts of each kind of each daemon; lanes {idle}, not pinned; {}, rings \
             of {ring_slots}\n  \
             {}",
            self.done,
            self.unknown,
            self.counted,
            if self.is_exact { "exact" } else { "NOT EXACT" },
            cell::mode(mode),
            self.host.words()
        );
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_gaps_that_were_seen() {
        let gaps = Gaps::new("x", Ended::InOrder, vec![30, 10, 20, 40]);
        let percentiles = [0, 50, 90, 100].map(|percent| gaps.percentile_ns(percent));
        assert_eq!(percentiles, [10, 20, 40, 40]);
        assert_eq!(
            Gaps::new("x", Ended::Killed, Vec::new()).percentile_ns(50),
            0
        );
    }
}
