//! Which cores lanes can be pinned to.

use std::thread;

use covalent_config::Config;

/// A configured core does not exist or may not be used.
#[derive(Debug, thiserror::Error)]
#[error(
    "lane {lane} is configured for core {core}, but this process may use cores {available}: \
     change `core` or omit it"
)]
pub struct NoSuchCore {
    /// Index of the lane.
    pub lane: usize,
    /// The configured core.
    pub core: u32,
    /// The cores there are.
    pub available: String,
}

/// Whether each lane's core is there for this thread, and for those that it starts.
///
/// # Errors
/// [`NoSuchCore`] names the first lane without one.
pub(crate) fn check(config: &Config) -> Result<(), NoSuchCore> {
    for (lane, settings) in config.lane.iter().enumerate() {
        if let Some(core) = settings.core
            && !can_be_had(core)
        {
            let available = core_affinity::get_core_ids()
                .unwrap_or_default()
                .iter()
                .map(|core| core.id.to_string())
                .collect::<Vec<_>>()
                .join(", ");
            return Err(NoSuchCore {
                lane,
                core,
                available,
            });
        }
    }
    Ok(())
}

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
