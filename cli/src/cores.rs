//! The cores that this process may run on.

use std::{collections::BTreeSet, thread};

use anyhow::{Context, Result};
use nix::{
    sched::{CpuSet, sched_getaffinity, sched_setaffinity},
    unistd::Pid,
};

/// Returns the numbers of the allowed cores. A container or a cpuset may leave fewer than the
/// machine has.
///
/// # Errors
/// Fails if the kernel does not return them.
pub fn allowed() -> Result<BTreeSet<u32>> {
    let set =
        sched_getaffinity(Pid::from_raw(0)).context("cannot read the cores of this process")?;
    Ok((0..CpuSet::count())
        .filter(|&core| set.is_set(core).unwrap_or(false))
        .filter_map(|core| u32::try_from(core).ok())
        .collect())
}

/// Returns those of `cores` to which no thread of this process can be pinned. The function tries
/// it: a core isolated from the scheduler (`isolcpus=`) is not among [`allowed`], but can still be
/// used.
pub fn refused(cores: impl IntoIterator<Item = u32>) -> BTreeSet<u32> {
    let is_refused = |core: &u32| {
        let mut set = CpuSet::new();
        let core = *core as usize;
        if set.set(core).is_err() {
            return true;
        }
        // A thread of its own, which ends with the core that it got.
        let tried = thread::spawn(move || sched_setaffinity(Pid::from_raw(0), &set)).join();
        !matches!(tried, Ok(Ok(())))
    };
    cores.into_iter().filter(is_refused).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allowed_cores_are_accepted_and_missing_ones_refused() {
        let own = allowed().expect("the system reports them");
        assert_eq!(refused(own.iter().copied()), BTreeSet::new());
        assert_eq!(refused([1023, 70_000]), [1023, 70_000].into());
        assert_eq!(
            allowed().expect("the system reports them"),
            own,
            "no thread was moved"
        );
    }
}
