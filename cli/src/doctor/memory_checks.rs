//! Memory that a start takes: each a function of the facts alone.

use covalent_config::{CHUNK_BYTES, Config, HugePages, PortKind, queue_memory_bytes};

use super::{facts::Machine, finding::Finding};

/// Size of a huge page, in bytes.
const HUGE_PAGE_BYTES: u64 = 2 << 20;

/// Returns the packet memory of each queue of every AF_XDP port, in bytes. A port that uses all
/// queues counts with one.
pub fn queues_bytes(config: &Config) -> impl Iterator<Item = u64> {
    config.port.iter().flat_map(|port| {
        let (queues, ring_slots) = match port.kind {
            PortKind::AfXdp {
                queues, ring_slots, ..
            } => (queues.max(1), ring_slots),
            PortKind::Cable { .. } | PortKind::Dpdk { .. } | PortKind::Pcap { .. } => (0, 0),
        };
        queue_memory_bytes(queues, ring_slots, CHUNK_BYTES)
    })
}

/// Huge pages that all packet memory takes: each queue's is a mapping of its own, in whole pages.
fn huge_pages_needed(config: &Config) -> u64 {
    queues_bytes(config)
        .map(|bytes| bytes.div_ceil(HUGE_PAGE_BYTES))
        .sum()
}

/// Checks huge pages against the policy: 2 MiB pages, or 4 KiB pages if those are too few. Pages of
/// 1 GiB are never used.
pub fn huge_pages(machine: &Machine, config: Option<&Config>) -> Finding {
    const CHECK: &str = "huge pages";
    let free = machine.huge_pages_free;
    let policy = config.map_or(HugePages::Auto, |config| config.dataplane.huge_pages);
    let needed = config.map_or(1, huge_pages_needed);
    // Includes space for pipes.
    let reserve = needed.max(1).next_power_of_two().max(256);
    let cure = format!("sysctl -w vm.nr_hugepages={reserve}");
    let giant = match machine.giant_pages_free {
        0 => String::new(),
        free => format!(" ({free} of 1 GiB are free, but not used)"),
    };
    let found = format!("{free} huge pages of 2 MiB are free, {needed} needed{giant}");
    match policy {
        HugePages::Never => Finding::fine(CHECK, "disabled: 4 KiB pages are used"),
        HugePages::Auto | HugePages::Require if free >= needed => Finding::fine(CHECK, found),
        HugePages::Require => Finding::failed(
            CHECK,
            format!(
                "{found}: covalentd will not start, because dataplane.huge_pages is \"require\""
            ),
            format!(
                "{cure}, which takes {} MiB",
                (reserve * HUGE_PAGE_BYTES) >> 20
            ),
        ),
        HugePages::Auto => Finding::warning(
            CHECK,
            format!("{found}: covalentd will use pages of 4 KiB, which are slower"),
            format!(
                "{cure}, which takes {} MiB; or accept it: dataplane.huge_pages = \"never\"",
                (reserve * HUGE_PAGE_BYTES) >> 20
            ),
        ),
    }
}

/// Checks the memory for packets. Ports and pipes allocate their memory when they are opened, so a
/// lack of memory is an error then, never a SIGBUS later. The memory is not in /dev/shm, so a full
/// /dev/shm does not matter.
pub fn memory(machine: &Machine, config: Option<&Config>) -> Finding {
    const CHECK: &str = "memory";
    let needed: u64 = config.map_or(0, |config| queues_bytes(config).sum());
    match machine.available_bytes {
        None => Finding::fine(CHECK, "the kernel does not report the available memory"),
        Some(free) if free >= needed => Finding::fine(
            CHECK,
            format!(
                "{} MiB available, {} MiB needed for packets; /dev/shm is not used",
                free >> 20,
                needed >> 20
            ),
        ),
        Some(free) => Finding::failed(
            CHECK,
            format!(
                "{} MiB available, but packet memory takes {} MiB",
                free >> 20,
                needed >> 20
            ),
            "smaller `ring_slots`, fewer `queues`, or stop the programs that use the memory (ps \
             --sort=-rss -eo rss,pid,comm | head)",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{finding::Level, samples},
        *,
    };

    #[test]
    fn the_policy_sets_the_level_of_too_few_huge_pages() {
        // Two queues with rings of 2048 slots: 9.25 and 4.75 MiB.
        let mut config = samples::af_xdp_config();
        let level = |config: &Config, huge_pages_free| {
            let machine = Machine {
                huge_pages_free,
                ..samples::machine()
            };
            huge_pages(&machine, Some(config)).level
        };
        for (policy, lacking) in [
            (HugePages::Never, Level::Fine),
            (HugePages::Auto, Level::Warning),
            (HugePages::Require, Level::Failed),
        ] {
            config.dataplane.huge_pages = policy;
            assert_eq!(level(&config, 0), lacking);
            assert_eq!(level(&config, 7), lacking);
            assert_eq!(level(&config, 8), Level::Fine);
        }
        let mut cable = samples::cable_config();
        cable.dataplane.huge_pages = HugePages::Require;
        assert_eq!(level(&cable, 0), Level::Fine, "no packet memory at all");
    }

    #[test]
    fn the_cure_reserves_the_needed_pages_and_useless_ones_are_named() {
        let mut config = samples::af_xdp_config();
        let PortKind::AfXdp {
            queues, ring_slots, ..
        } = &mut config.port[0].kind
        else {
            unreachable!("the sample is AF_XDP")
        };
        (*queues, *ring_slots) = (31, 32_768);
        let machine = Machine {
            huge_pages_free: 3,
            giant_pages_free: 4,
            ..samples::machine()
        };
        let finding = huge_pages(&machine, Some(&config));
        assert!(
            finding
                .found
                .contains("3 huge pages of 2 MiB are free, 1055 needed (4 of 1 GiB"),
            "{finding:?}"
        );
        assert!(finding.found.contains("pages of 4 KiB, which are slower"));
        assert!(
            finding
                .cure
                .starts_with("sysctl -w vm.nr_hugepages=2048, which takes 4096 MiB; or"),
            "{finding:?}"
        );
    }

    #[test]
    fn packet_memory_must_be_there() {
        let config = samples::af_xdp_config();
        let level = |available_bytes| {
            let machine = Machine {
                available_bytes,
                ..samples::machine()
            };
            memory(&machine, Some(&config)).level
        };
        assert_eq!(level(None), Level::Fine);
        assert_eq!(level(Some(14 << 20)), Level::Fine);
        assert_eq!(level(Some(13 << 20)), Level::Failed);
    }
}
