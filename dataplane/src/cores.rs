//! Which cores lanes can be pinned to.

use std::thread;

/// Whether a thread of this process can be pinned to `core`. The function tries it: the default
/// affinity of a process lacks the cores that `isolcpus=` excludes from scheduling, but pinning to
/// them works.
pub(crate) fn can_be_had(core: u32) -> bool {
    let id = core as usize;
    // A thread of its own, which ends with the core that it got.
    thread::spawn(move || core_affinity::set_for_current(core_affinity::CoreId { id }))
        .join()
        .unwrap_or(false)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_core_outside_the_affinity_mask_is_usable_and_a_missing_one_is_not() {
        let cores = core_affinity::get_core_ids().unwrap();
        let confined = thread::spawn(move || {
            assert!(core_affinity::set_for_current(cores[0]));
            for core in &cores {
                assert!(can_be_had(u32::try_from(core.id).unwrap()), "{}", core.id);
            }
            assert!(!can_be_had(1023));
            core_affinity::get_core_ids().unwrap().len()
        });
        assert_eq!(confined.join().unwrap(), 1, "no thread was moved");
    }
}
