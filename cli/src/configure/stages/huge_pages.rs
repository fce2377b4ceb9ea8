//! Huge pages that the kernel reserves, for packet memory.

use covalent_config::{Amount, Config, HugePages, queue_memory_bytes};

use super::{
    super::{
        facts::{Facts, Pool},
        plan::{Report, Step},
        setting::Setting,
        stage::Stage,
    },
    channels,
};

const STAGE: Stage = Stage::Hugepages;

/// Size of a huge page, in bytes.
const HUGE_PAGE_BYTES: u64 = 2 << 20;

/// Whether enough are reserved.
pub fn inspect(config: &Config, facts: &Facts) -> Report {
    let needed = needed(config, facts);
    let amount = config.configure.huge_pages;
    match amount {
        Amount::Keep => return Report::kept(STAGE, "", "configure.huge_pages"),
        Amount::Auto if config.dataplane.huge_pages == HugePages::Never => {
            let why = "`dataplane.huge_pages = \"never\"`";
            return Report::not_applicable(STAGE, "", why);
        }
        Amount::Auto if needed == 0 => {
            let why =
                "no port of the kind \"af_xdp\" takes packet memory, and `dpdk.memory_mib` is 0";
            return Report::not_applicable(STAGE, "", why);
        }
        Amount::Auto | Amount::Exactly(_) => {}
    }
    let Some(pool) = facts.huge_pages else {
        return Report::cannot(
            STAGE,
            "",
            "this kernel has no huge pages of 2 MiB",
            "`dataplane.huge_pages = \"never\"`, or a kernel with CONFIG_HUGETLBFS",
        );
    };
    let Pool { reserved, free } = pool;
    let (wanted, why) = match amount {
        Amount::Exactly(pages) => (
            u64::from(pages),
            format!("configured: `configure.huge_pages = {pages}`"),
        ),
        Amount::Auto | Amount::Keep => (
            wanted(needed, pool, facts.node_runs),
            format!(
                "packet memory takes {needed} pages of 2 MiB, and {free} of {reserved} are free"
            ),
        ),
    };
    if wanted == reserved {
        return Report::as_wanted(
            STAGE,
            "",
            format!("{reserved} reserved, {free} free: {why}"),
        );
    }
    let found = format!("{reserved} reserved, wanted {wanted}: {why}");
    let step = Step {
        setting: Setting::HugePages,
        before: reserved.to_string(),
        wanted: wanted.to_string(),
        why,
    };
    Report::steps(STAGE, "", found, vec![step])
}

/// Returns how many pages to reserve so that `needed` are available for this node. Pages in use
/// while the node runs count as its own.
fn wanted(needed: u64, pool: Pool, node_runs: bool) -> u64 {
    let there = if node_runs { pool.reserved } else { pool.free };
    pool.reserved + needed.saturating_sub(there)
}

/// Returns the number of pages that the node takes. The packet memory of each queue is a separate
/// mapping.
fn needed(config: &Config, facts: &Facts) -> u64 {
    let pages = |bytes: u64| bytes.div_ceil(HUGE_PAGE_BYTES);
    let of_ports = facts.interfaces.iter().flat_map(|named| {
        let queues = channels::queues_used(config, facts, named);
        let chunk_bytes = named.choices(facts.linux).chunk_bytes.value;
        queue_memory_bytes(queues, named.ring_slots(), chunk_bytes).map(pages)
    });
    of_ports.sum::<u64>() + pages(u64::from(config.dpdk.memory_mib) << 20)
}

#[cfg(test)]
mod tests {
    use super::{
        super::{super::plan::State, samples},
        *,
    };

    fn facts(reserved: u64, free: u64) -> Facts {
        Facts {
            huge_pages: Some(Pool { reserved, free }),
            ..samples::facts()
        }
    }

    #[test]
    fn as_many_are_added_as_are_missing() {
        let config = samples::config("");
        // Two queues with rings of 2,048 slots: 9.25 and 4.75 MiB.
        assert_eq!(needed(&config, &samples::facts()), 8);
        let report = inspect(&config, &facts(0, 0));
        assert_eq!(report.state, State::NotAsWanted);
        assert_eq!(
            report.steps[0].command(),
            "echo 8 > /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"
        );
        assert_eq!(
            report.steps[0].undo(),
            "echo 0 > /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"
        );
        // Others have some.
        assert_eq!(inspect(&config, &facts(10, 2)).steps[0].wanted, "16");
        for there in [facts(8, 8), facts(100, 50)] {
            assert_eq!(inspect(&config, &there).state, State::AsWanted, "{there:?}");
        }
    }

    #[test]
    fn pages_taken_by_the_running_node_count_as_available() {
        let config = samples::config("");
        let running = Facts {
            node_runs: true,
            ..facts(8, 0)
        };
        assert_eq!(inspect(&config, &running).state, State::AsWanted);
        assert_eq!(inspect(&config, &facts(8, 0)).steps[0].wanted, "16");
    }

    #[test]
    fn larger_chunks_and_memory_of_dpdk_count() {
        let mut igb = samples::facts();
        igb.interfaces[0].driver = "igb".into();
        assert_eq!(needed(&samples::config(""), &igb), 10 + 5);
        let dpdk = samples::config("[dpdk]\nmemory_mib = 65\n");
        assert_eq!(needed(&dpdk, &samples::facts()), 8 + 33);
    }

    #[test]
    fn a_configured_number_of_pages_or_none_is_respected() {
        let of = |more: &str, facts: &Facts| inspect(&samples::config(more), facts);
        let never = of("[dataplane]\nhuge_pages = \"never\"\n", &facts(0, 0));
        assert_eq!(never.state, State::NotApplicable);
        let kept = of("[configure]\nhuge_pages = \"keep\"\n", &facts(0, 0));
        assert_eq!(kept.state, State::NotApplicable);
        assert!(kept.found.contains("configure.huge_pages"), "{kept:?}");
        let exactly = of("[configure]\nhuge_pages = 3\n", &facts(9, 9));
        assert_eq!(exactly.steps[0].wanted, "3");
        let without = Facts {
            huge_pages: None,
            ..samples::facts()
        };
        let none = of("", &without);
        assert_eq!(none.state, State::Cannot);
        let portless = Facts {
            interfaces: Vec::new(),
            ..facts(0, 0)
        };
        assert_eq!(of("", &portless).state, State::NotApplicable);
    }
}
