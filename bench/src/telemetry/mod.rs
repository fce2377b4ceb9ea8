//! The cost of telemetry: a lane with and without counters in shared memory, and a scrape of a node
//! with many pipes.

mod arguments;
pub mod lanes;
pub mod scrape;

use std::{fmt::Write as _, path::Path, time::Duration};

use anyhow::{Context, Result};
use covalent::{Device, TxPipe};

pub use self::arguments::{Counters, Scrape};

/// Returns the configuration of a node without links, whose ports `p0` and `p1` are the two ends of
/// one in-memory cable.
fn toml(place: &Path, dataplane: &str, core: Option<usize>, more: &str) -> String {
    let place = place.display();
    let core = core
        .map(|core| format!("core = {core}\n"))
        .unwrap_or_default();
    let mut text = format!(
        "[node]\nname = \"a\"\nruntime_dir = \"{place}/run\"\nstate_dir \
         = \"{place}/state\"\n[dataplane]\n{dataplane}\
         pipes_per_session_max = 4096\nsession_memory_max_mib = 1024\n{more}[[lane]]\n{core}"
    );
    for port in ["p0", "p1"] {
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "[[port]]\nname = \"{port}\"\nlink = false\nkind = \"cable\"\npath \
             = \"{place}/cable.sock\"\n"
        );
    }
    text
}

/// So many pipes in which nothing happens.
fn idle_pipes(device: &Device, count: usize) -> Result<Vec<TxPipe<'_>>> {
    const BYTES: u64 = 64 << 10;
    (0..count)
        .map(|_| device.tx_pipe(BYTES, "p0").context("opening a pipe"))
        .collect()
}

/// Timeout for a node to reach the required state.
const PATIENCE: Duration = Duration::from_secs(20);
