//! The cores that this process may run on.

use std::{collections::BTreeSet, thread};

use anyhow::{Context, Result};
use nix::{
    sched::{CpuSet, sched_getaffinity, sched_setaffinity},
    unistd::Pid,
};

/// Their numbers: a container or a cpuset may leave fewer than the machine has.
///
/// # Errors
/// When the system refuses to tell.
pub fn allowed() -> Result<BTreeSet<u32>> {
    let set =
        sched_getaffinity(Pid::from_raw(0)).context("cannot read the cores of this process")?;
    Ok((0..CpuSet::count())
        .filter(|&core| set.is_set(core).unwrap_or(false))
        .filter_map(|core| u32::try_from(core).ok())
        .collect())
}

/// Which of `cores` no thread of this process can be pinned to. It is tried: a core that the scheduler leaves alone (`isolcpus=`) is not among
/// [`allowed`] and can be had nevertheless.
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
    fn ones_own_cores_can_be_had_and_those_that_are_not_there_cannot() {
        let own = allowed().expect("the system tells");
        assert_eq!(refused(own.iter().copied()), BTreeSet::new());
        assert_eq!(refused([1023, 70_000]), [1023, 70_000].into());
        assert_eq!(
            allowed().expect("the system tells"),
            own,
            "nobody was moved"
        );
    }
}
