//! Which thread runs where.
//!
//! Both sides of a comparison get the same cores for the same parts: the sender (or client) and the receiver (or echo). What Covalent has
//! more, the application beside a lane, gets a core of its own where there is a third one; else it shares one with a lane.

use anyhow::{Context, Result, ensure};
use core_affinity::CoreId;
use procfs::{CurrentSI as _, KernelStats};

/// The cores of one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cores {
    /// The sender, or the side that asks.
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

/// Lets the calling thread run at once whenever it wakes, even where a busy-polling lane has the core.
///
/// The kernel's fair scheduler would let the lane run out its slice of milliseconds first, and the figure would be the slice.
pub fn run_first() -> Result<()> {
    let priority = libc::sched_param { sched_priority: 1 };
    // SAFETY: the call reads one `sched_param`, which lives until it returns; 0 means the calling thread.
    let answer = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &priority) };
    nix::errno::Errno::result(answer).context("asking for SCHED_FIFO")?;
    Ok(())
}

/// Time that each core was busy since the system started.
#[derive(Debug)]
pub struct CoreTimes(Vec<[u64; 2]>);

impl CoreTimes {
    /// As `/proc/stat` tells it now.
    ///
    /// # Errors
    /// It cannot be read.
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

    /// How busy `core` was since `before`: 1 is all the time; 0 if no time has passed or there is no such core.
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
