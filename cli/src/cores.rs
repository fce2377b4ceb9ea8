//! The cores that this process may run on.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use nix::{
    sched::{CpuSet, sched_getaffinity},
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
