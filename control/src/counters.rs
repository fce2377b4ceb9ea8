//! The counters that the daemon keeps in shared memory, for `/metrics`.

use std::path::PathBuf;

use covalent_counters::{CountersFile, Liveness, ReadError, Snapshot};
use nix::time::{ClockId, clock_gettime};
use tokio::time::{Duration, sleep};
use tracing::debug;

/// How often a set that changes while it is read is taken again, and how long after.
const TRIES: usize = 20;
const PAUSE: Duration = Duration::from_millis(1);

/// Delay beyond its configured interval after which a daemon that wrote no counters counts as hung
/// or stopped. Control then queries it, and reports a missing reply.
const LATE: Duration = Duration::from_secs(2);

/// Where they are.
#[derive(Debug, Clone)]
pub struct Counters {
    path: PathBuf,
}

impl Counters {
    /// Those in the file at `path`.
    #[must_use]
    pub const fn at(path: PathBuf) -> Self {
        Self { path }
    }

    /// The last counters of a running daemon. `None` if there is no daemon, if it makes no
    /// progress, or if it writes no counters.
    pub async fn read(&self) -> Option<Snapshot> {
        let file = match CountersFile::open(&self.path) {
            Ok(file) => file,
            Err(problem) => {
                debug!("no counters in shared memory: {problem}");
                return None;
            }
        };
        for _ in 0..TRIES {
            match file.try_read() {
                Ok(snapshot) => return is_fresh(&snapshot).then_some(snapshot),
                Err(ReadError::Busy { .. }) => sleep(PAUSE).await,
                Err(problem) => {
                    debug!("the counters in shared memory: {problem}");
                    return None;
                }
            }
        }
        None
    }
}

fn is_fresh(snapshot: &Snapshot) -> bool {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(Duration::ZERO, Duration::from);
    let late = Duration::from_nanos(snapshot.interval_ns).saturating_add(LATE);
    snapshot.liveness == Liveness::Running
        && snapshot.writers.iter().all(|writer| {
            let written = Duration::from_nanos(writer.written_monotonic_ns);
            !written.is_zero() && now.saturating_sub(written) <= late
        })
}
