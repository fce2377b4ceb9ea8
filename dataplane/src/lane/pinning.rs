//! The core of a lane. The system may withdraw it, through the daemon's control group, and return
//! it.

use nix::{
    sched::{CpuSet, sched_getaffinity, sched_setaffinity},
    unistd::Pid,
};

/// The calling thread.
const THIS: Pid = Pid::from_raw(0);

/// Where a lane's thread runs. Every call is about the thread that makes it.
#[derive(Debug)]
pub(super) struct Pinning {
    lane: u32,
    wanted: Option<u32>,
    is_held: bool,
    /// The cores that the thread might use before it was pinned.
    all: Option<CpuSet>,
}

impl Pinning {
    /// Creates the state of a lane that is to run on the core `wanted`, or on any core.
    pub(super) const fn new(lane: u32, wanted: Option<u32>) -> Self {
        Self {
            lane,
            wanted,
            is_held: false,
            all: None,
        }
    }

    /// Pins the thread for the first time.
    pub(super) fn begin(&mut self) {
        self.all = sched_getaffinity(THIS).ok();
        self.pin();
    }

    /// Pins the thread to another core, or restores its initial affinity.
    pub(super) fn want(&mut self, wanted: Option<u32>) {
        if self.wanted != wanted {
            self.wanted = wanted;
            self.pin();
        }
    }

    /// The core that the thread is pinned to, as far as was seen; `None` if it floats.
    pub(super) fn core(&self) -> Option<u32> {
        self.wanted.filter(|_| self.is_held)
    }

    /// Looks whether the thread still has its core, and tries to have it back if not.
    pub(super) fn recheck(&mut self) {
        let Some(core) = self.wanted else {
            return;
        };
        let has_it = is_alone_on(core);
        if has_it == self.is_held && has_it {
            return;
        }
        let had_it = std::mem::replace(&mut self.is_held, has_it || take(core));
        match (had_it, self.is_held) {
            (true, false) => tracing::warn!(
                lane = self.lane,
                core,
                "the system took the lane's core away, and the lane floats; add the core to the \
                 control group of covalentd (`cpuset.cpus`), or configure another one"
            ),
            (false, true) => {
                tracing::info!(lane = self.lane, core, "the lane is on its core again")
            }
            _ => {}
        }
    }

    fn pin(&mut self) {
        let done = match (self.wanted, &self.all) {
            (Some(core), _) => {
                self.is_held = take(core);
                self.is_held
            }
            (None, Some(all)) => sched_setaffinity(THIS, all).is_ok(),
            (None, None) => true,
        };
        if !done {
            tracing::warn!(
                lane = self.lane,
                core = self.wanted,
                "the lane could not be pinned and floats"
            );
        }
    }
}

/// Pins the calling thread to `core`.
fn take(core: u32) -> bool {
    let mut only = CpuSet::new();
    only.set(core as usize).is_ok() && sched_setaffinity(THIS, &only).is_ok()
}

/// Whether the calling thread may use `core`, and no other.
fn is_alone_on(core: u32) -> bool {
    let mut only = CpuSet::new();
    only.set(core as usize).is_ok() && sched_getaffinity(THIS).is_ok_and(|cores| cores == only)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::thread;

    use super::*;

    #[test]
    fn a_core_that_was_taken_away_is_missed_and_taken_back() {
        thread::spawn(|| {
            let all = sched_getaffinity(THIS).unwrap();
            let core = (0..CpuSet::count() as u32)
                .find(|&core| all.is_set(core as usize).unwrap())
                .unwrap();
            let mut pinning = Pinning::new(0, Some(core));
            pinning.begin();
            assert!(is_alone_on(core));
            assert_eq!(pinning.core(), Some(core));
            // As the kernel does when the core leaves the control group.
            sched_setaffinity(THIS, &all).unwrap();
            pinning.recheck();
            assert_eq!(pinning.core(), Some(core));
            assert!(is_alone_on(core), "it was free to take it back");
            pinning.want(None);
            assert_eq!(pinning.core(), None);
            assert_eq!(sched_getaffinity(THIS).unwrap(), all);
            pinning.want(Some(CpuSet::count() as u32 - 1));
            pinning.recheck();
            assert_eq!(pinning.core(), None, "there is no such core");
        })
        .join()
        .unwrap();
    }
}
