//! Assignment of threads to cores.
//!
//! Both sides of a comparison use the same cores for the same roles: the sender (or client) and the
//! receiver (or echo). Covalent also has an application beside a lane. The application gets the
//! third core if there is one, else it shares the lane's core.

use anyhow::{Context, Result, ensure};
use core_affinity::CoreId;
use procfs::{CurrentSI as _, KernelStats};

/// The cores of one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cores {
    /// The core of the sender or the client.
    pub near: usize,
    /// The receiver, or the side that answers.
    pub far: usize,
    /// The application; equal to one of the others where there are only two.
    spare: Option<usize>,
}

impl Cores {
    /// Chooses among those that this process may use.
    pub fn choose() -> Result<Self> {
        let available: Vec<usize> = core_affinity::get_core_ids()
            .context("asking for the cores")?
            .into_iter()
            .map(|core| core.id)
            .collect();
        Self::among(&available)
    }

    fn among(available: &[usize]) -> Result<Self> {
        ensure!(
            available.len() >= 2,
            "two busy-polling sides need two cores; this process may use {}",
            available.len()
        );
        Ok(Self {
            near: available[0],
            far: available[1],
            spare: available.get(2).copied(),
        })
    }

    /// The application's core when its lane runs on `lane`, and whether they share it.
    pub fn application_beside(&self, lane: usize) -> (usize, bool) {
        self.spare.map_or((lane, true), |core| (core, false))
    }
}

/// Pins the calling thread.
pub fn pin(core: usize) -> Result<()> {
    ensure!(
        core_affinity::set_for_current(CoreId { id: core }),
        "cannot pin a thread to core {core}"
    );
    Ok(())
}

/// Makes the calling thread run as soon as it wakes, even where a busy-polling lane occupies the
/// core.
///
/// The kernel's fair scheduler would first let the lane finish its time slice of milliseconds, and
/// the slice would dominate the figure.
pub fn run_first() -> Result<()> {
    let priority = libc::sched_param { sched_priority: 1 };
    // SAFETY: the call reads one `sched_param`, which lives until it returns. 0 means the calling
    // thread.
    let answer = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &priority) };
    nix::errno::Errno::result(answer).context("asking for SCHED_FIFO")?;
    Ok(())
}

/// Time that each core was busy since the system started.
#[derive(Debug)]
pub struct CoreTimes(Vec<[u64; 2]>);

impl CoreTimes {
    /// Reads the current times from `/proc/stat`.
    ///
    /// # Errors
    /// `/proc/stat` cannot be read.
    pub fn now() -> Result<Self> {
        let stat = KernelStats::current().context("reading /proc/stat")?;
        Ok(Self(
            stat.cpu_time
                .iter()
                .map(|time| {
                    let idle = time.idle + time.iowait.unwrap_or(0);
                    let taken = time.user
                        + time.nice
                        + time.system
                        + time.irq.unwrap_or(0)
                        + time.softirq.unwrap_or(0)
                        + time.steal.unwrap_or(0);
                    [taken, taken + idle]
                })
                .collect(),
        ))
    }

    /// Returns the busy fraction of `core` since `before`: 1 is always busy. Returns 0 if no time
    /// has passed or the core does not exist.
    pub fn load(&self, core: usize, before: &Self) -> f64 {
        let since = |which: usize| {
            let at = |times: &Self| times.0.get(core).map_or(0, |times| times[which]);
            at(self).saturating_sub(at(before)) as f64
        };
        since(0) / since(1).max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_third_core_is_the_applications() {
        let two = Cores::among(&[4, 6]).expect("two cores");
        assert_eq!(
            (two.near, two.far, two.application_beside(6)),
            (4, 6, (6, true))
        );
        let three = Cores::among(&[0, 1, 2]).expect("three cores");
        assert_eq!(three.application_beside(1), (2, false));
        assert!(Cores::among(&[0]).is_err());
    }

    #[test]
    fn a_core_that_spins_is_busy_and_one_that_is_not_there_is_not() {
        let before = CoreTimes(vec![[10, 20], [5, 50]]);
        let after = CoreTimes(vec![[20, 30], [5, 150]]);
        assert_eq!(
            [0, 1, 2].map(|core| after.load(core, &before)),
            [1.0, 0.0, 0.0]
        );
        assert!(!CoreTimes::now().expect("readable").0.is_empty());
    }
}
