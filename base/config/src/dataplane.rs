//! `[dataplane]`: settings shared by all lanes.

use serde::{Deserialize, Serialize};

use super::{
    rss_key::RssKey,
    table::{Choice, Table},
};
use covalent_api::rule::Action;

/// Settings shared by all lanes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DataplaneConfig {
    /// Behavior of a lane that finds no work. Default [`Idle::Adaptive`].
    pub idle: Idle,
    /// With `adaptive`: microseconds of polling without work before the lane sleeps, 0 to
    /// 1,000,000. Default 50.
    pub spin_us: u32,
    /// Frames taken from a port at a time, 1 to 1024. Default 64.
    pub burst: u32,
    /// Requested page size of packet memory and pipes. Default [`HugePages::Auto`].
    pub huge_pages: HugePages,
    /// Most pipes in one session, 1 to 4096. Default 1024.
    pub pipes_per_session_max: u32,
    /// Upper limit of the memory of one session's pipes and regions together, in MiB, 1 to
    /// 1,048,576. Default 256. Closed pipes count until the session ends. One user other than root
    /// and the daemon's own user may hold eight times as much over all sessions.
    pub session_memory_max_mib: u32,
    /// Interval between two updates of the counters in shared memory, in milliseconds, 0 to 10,000.
    /// 0 disables them. Default 100.
    pub counters_ms: u32,
    /// Action for a frame that matches no rule and no pipe. Default [`Action::Kernel`].
    pub miss: Action,
    /// The key of the hash by which a set of pipes shares flows. Default [`RssKey::MICROSOFT`].
    pub rss_key: RssKey,
}

/// Behavior of a lane that finds no work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Idle {
    /// Spins for ever: lowest latency, one core burned.
    Poll,
    /// Spins for a while, then sleeps until something arrives.
    Adaptive,
    /// Sleeps at once.
    Interrupt,
}

/// Requested page size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HugePages {
    /// 2 MiB pages if the host has them, reserved or transparent, otherwise 4 KiB. The choice is
    /// reported.
    Auto,
    /// 2 MiB pages or fail.
    Require,
    /// 4 KiB pages.
    Never,
}

impl DataplaneConfig {
    pub(super) fn read(table: &mut Table<'_, '_>) -> Self {
        let default = Self::default();
        Self {
            idle: table.choice("idle").unwrap_or(default.idle),
            spin_us: table
                .integer("spin_us", 0..=1_000_000, " (microseconds)")
                .unwrap_or(default.spin_us),
            burst: table
                .integer("burst", 1..=1024, " (frames)")
                .unwrap_or(default.burst),
            huge_pages: table.choice("huge_pages").unwrap_or(default.huge_pages),
            pipes_per_session_max: table
                .integer("pipes_per_session_max", 1..=4096, "")
                .unwrap_or(default.pipes_per_session_max),
            session_memory_max_mib: table
                .integer("session_memory_max_mib", 1..=1 << 20, " (MiB)")
                .unwrap_or(default.session_memory_max_mib),
            counters_ms: table
                .integer("counters_ms", 0..=10_000, " (milliseconds)")
                .unwrap_or(default.counters_ms),
            miss: table.choice("miss").unwrap_or(default.miss),
            rss_key: RssKey::read(table, "rss_key").unwrap_or(default.rss_key),
        }
    }
}

impl Default for DataplaneConfig {
    fn default() -> Self {
        Self {
            idle: Idle::Adaptive,
            spin_us: 50,
            burst: 64,
            huge_pages: HugePages::Auto,
            pipes_per_session_max: 1024,
            session_memory_max_mib: 256,
            counters_ms: 100,
            miss: Action::Kernel,
            rss_key: RssKey::MICROSOFT,
        }
    }
}

impl Choice for Idle {
    const CHOICES: &'static [(&'static str, Self)] = &[
        ("poll", Self::Poll),
        ("adaptive", Self::Adaptive),
        ("interrupt", Self::Interrupt),
    ];
}

impl Choice for HugePages {
    const CHOICES: &'static [(&'static str, Self)] = &[
        ("auto", Self::Auto),
        ("require", Self::Require),
        ("never", Self::Never),
    ];
}
