//! Checks of the machine: each a function of the facts alone.

use covalent_api::config::{Config, HugePages, Idle, PortKind, packet_memory_bytes};

use super::{facts::Machine, finding::Finding};

/// The oldest kernel with everything that is used: XDP programs attached as BPF links (5.9), BPF memory counted to the control
/// group instead of RLIMIT_MEMLOCK (5.11), AF_XDP that prefers busy polling (5.11).
const KERNEL_MIN: (u32, u32) = (5, 11);

/// Capabilities that `covalentd` starts with, by number (`capabilities(7)`), and what each is for.
const CAPABILITIES: [(u8, &str, &str); 6] = [
    (12, "CAP_NET_ADMIN", "to attach an XDP program"),
    (13, "CAP_NET_RAW", "to open AF_XDP sockets"),
    (14, "CAP_IPC_LOCK", "to lock packet memory"),
    (23, "CAP_SYS_NICE", "to pin lanes"),
    (
        38,
        "CAP_PERFMON",
        "to load a BPF program that computes packet addresses",
    ),
    (39, "CAP_BPF", "to load a BPF program"),
];

/// CAP_SYS_ADMIN includes both.
const CAP_SYS_ADMIN: u8 = 21;
const IN_SYS_ADMIN: [u8; 2] = [38, 39];

/// Descriptors in each ring of a port with default settings.
const DEFAULT_RING_SLOTS: u32 = 2048;

/// Size of a huge page, in bytes.
const HUGE_PAGE_BYTES: u64 = 2 << 20;

/// Whether the configuration has a port that needs AF_XDP. Without a configuration the doctor looks at everything.
fn wants_af_xdp(config: Option<&Config>) -> bool {
    config.is_none_or(|config| {
        config
            .port
            .iter()
            .any(|port| matches!(port.kind, PortKind::AfXdp { .. }))
    })
}

/// Capabilities of the process that asks: those that `covalentd` would have if it were started from here.
pub fn privilege(machine: &Machine, config: Option<&Config>) -> Finding {
    const CHECK: &str = "privilege";
    if !wants_af_xdp(config) {
        return Finding::fine(CHECK, "none needed: no port uses AF_XDP");
    }
    let has = |number: u8| machine.capabilities & (1 << number) != 0;
    let missing: Vec<String> = CAPABILITIES
        .iter()
        .filter(|(number, ..)| {
            !(has(*number) || IN_SYS_ADMIN.contains(number) && has(CAP_SYS_ADMIN))
        })
        .map(|(_, name, purpose)| format!("{name} ({purpose})"))
        .collect();
    if missing.is_empty() {
        return Finding::fine(CHECK, "every capability that covalentd needs");
    }
    Finding::failed(
        CHECK,
        format!("this user lacks {}", missing.join(", ")),
        "run as root (sudo covalent …), start the systemd unit, or use a `cable` port, which needs no privilege",
    )
}

/// Locked memory: packet memory counts towards the limit unless the process may lock at will.
pub fn locked_memory(machine: &Machine, config: Option<&Config>) -> Finding {
    const CHECK: &str = "locked memory";
    const CAP_IPC_LOCK: u8 = 14;
    let needed: u64 = config.map_or_else(
        || packet_memory_bytes(1, DEFAULT_RING_SLOTS),
        |config| lanes_bytes(config).sum(),
    );
    match machine.memlock_bytes {
        _ if machine.capabilities & (1 << CAP_IPC_LOCK) != 0 => {
            Finding::fine(CHECK, "no limit for this user (CAP_IPC_LOCK)")
        }
        None => Finding::fine(CHECK, "no limit"),
        _ if !wants_af_xdp(config) => Finding::fine(CHECK, "no port locks memory"),
        Some(limit) if limit >= needed => Finding::fine(
            CHECK,
            format!("{} KiB allowed, {} KiB needed", limit / 1024, needed / 1024),
        ),
        Some(limit) => Finding::failed(
            CHECK,
            format!(
                "{} KiB may be locked, but the ports' packet memory takes at least {} KiB",
                limit / 1024,
                needed / 1024
            ),
            "ulimit -l unlimited, `LimitMEMLOCK=infinity` in the unit, or give covalentd CAP_IPC_LOCK",
        ),
    }
}

/// Packet memory of each lane's AF_XDP ports, in bytes; a port that uses all queues counts with one.
fn lanes_bytes(config: &Config) -> impl Iterator<Item = u64> {
    (0..).take(config.lane.len().max(1)).map(|lane| {
        let ports = config.port.iter().filter(|port| port.lane == lane);
        ports
            .map(|port| match port.kind {
                PortKind::AfXdp {
                    queues, ring_slots, ..
                } => packet_memory_bytes(queues.max(1), ring_slots),
                PortKind::Cable { .. } | PortKind::Dpdk { .. } | PortKind::Pcap { .. } => 0,
            })
            .sum()
    })
}

/// Huge pages that the packet memory of all lanes takes: each lane's is a mapping of its own, in whole pages.
fn huge_pages_needed(config: &Config) -> u64 {
    lanes_bytes(config)
        .map(|bytes| bytes.div_ceil(HUGE_PAGE_BYTES))
        .sum()
}

/// The kernel's age.
pub fn kernel(machine: &Machine, config: Option<&Config>) -> Finding {
    const CHECK: &str = "kernel";
    let (major, minor) = machine.kernel;
    if machine.kernel >= KERNEL_MIN || !wants_af_xdp(config) {
        return Finding::fine(CHECK, format!("Linux {major}.{minor}"));
    }
    Finding::failed(
        CHECK,
        format!(
            "Linux {major}.{minor} lacks XDP as a BPF link or counts BPF memory as locked memory"
        ),
        format!(
            "use Linux {}.{} or newer (Debian 12 has 6.1)",
            KERNEL_MIN.0, KERNEL_MIN.1
        ),
    )
}

/// AF_XDP and BPF in the kernel.
pub fn kernel_features(machine: &Machine, config: Option<&Config>) -> Finding {
    const CHECK: &str = "AF_XDP and BPF";
    let missing: Vec<&str> = [
        (machine.af_xdp, "AF_XDP sockets (CONFIG_XDP_SOCKETS)"),
        (
            machine.bpf_jit,
            "the BPF JIT (CONFIG_BPF_SYSCALL, CONFIG_BPF_JIT)",
        ),
    ]
    .iter()
    .filter(|(there, _)| !there)
    .map(|(_, name)| *name)
    .collect();
    if missing.is_empty() {
        return Finding::fine(
            CHECK,
            "in this kernel; bpffs is not needed: nothing is pinned",
        );
    }
    let found = format!("this kernel lacks {}", missing.join(" and "));
    let cure =
        "boot a distribution kernel (Debian's and Ubuntu's have both), or use a `cable` port";
    if wants_af_xdp(config) {
        Finding::failed(CHECK, found, cure)
    } else {
        Finding::fine(CHECK, format!("{found}; no port needs it"))
    }
}

/// Huge pages against the policy.
pub fn huge_pages(machine: &Machine, config: Option<&Config>) -> Finding {
    const CHECK: &str = "huge pages";
    const CURE: &str = "sysctl vm.nr_hugepages=256 (512 MiB; in /etc/sysctl.d/ to keep it)";
    let free = machine.huge_pages_free;
    let policy = config.map_or(HugePages::Auto, |config| config.dataplane.huge_pages);
    let needed = config.map_or(1, huge_pages_needed);
    let found = format!("{free} free pages of 2 MiB, {needed} needed");
    match policy {
        HugePages::Never => Finding::fine(CHECK, "not wanted: 4 KiB pages are used"),
        HugePages::Auto | HugePages::Require if free >= needed => Finding::fine(CHECK, found),
        HugePages::Require => Finding::failed(
            CHECK,
            format!("{found}: with dataplane.huge_pages = \"require\" covalentd will not start"),
            CURE,
        ),
        HugePages::Auto => Finding::warning(
            CHECK,
            format!("{found}: 4 KiB pages are used, which costs TLB misses with large rings"),
            format!("{CURE}, or huge_pages = \"never\" to say that it is meant so"),
        ),
    }
}

/// Lanes against cores.
pub fn lanes(machine: &Machine, config: &Config) -> Vec<Finding> {
    let cores = &machine.cores;
    let mut findings = Vec::new();
    for (index, lane) in config.lane.iter().enumerate() {
        let check = format!("lane {index}");
        let shared = config.lane[..index]
            .iter()
            .position(|earlier| earlier.core.is_some() && earlier.core == lane.core);
        findings.push(match (lane.core, shared) {
            (Some(core), _) if !cores.contains(&core) => Finding::failed(
                check,
                format!("core {core} does not exist or this process may not run there (it has {cores:?})"),
                "name a core of that list, widen the cpuset, or leave `core` out to let the lane float",
            ),
            (Some(core), Some(other)) => Finding::warning(
                check,
                format!("shares core {core} with lane {other}: each waits for the other"),
                "give each lane a core of its own",
            ),
            (Some(core), None) => Finding::fine(check, format!("core {core}")),
            (None, _) => Finding::fine(check, "floats"),
        });
    }
    if config.dataplane.idle == Idle::Poll && config.lane.len() >= cores.len() {
        findings.push(Finding::warning(
            "lanes",
            format!(
                "{} lanes that spin for ever (idle = \"poll\") on {} cores leave none for applications and the kernel's own packet work",
                config.lane.len(),
                cores.len()
            ),
            "idle = \"adaptive\", or fewer lanes",
        ));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::{
        super::{finding::Level, samples},
        *,
    };

    #[test]
    fn a_user_without_capabilities_is_told_which_are_missing_and_that_a_cable_needs_none() {
        let machine = Machine {
            capabilities: 1 << 12,
            ..samples::machine()
        };
        let finding = privilege(&machine, Some(&samples::af_xdp_config()));
        assert_eq!(finding.level, Level::Failed);
        assert!(
            finding.found.contains("CAP_BPF") && !finding.found.contains("CAP_NET_ADMIN"),
            "{finding:?}"
        );
        assert!(finding.cure.contains("cable"));
        assert_eq!(
            privilege(&machine, Some(&samples::cable_config())).level,
            Level::Fine
        );
        assert_eq!(
            privilege(&samples::machine(), Some(&samples::af_xdp_config())).level,
            Level::Fine
        );

        let old_style = Machine {
            capabilities: samples::machine().capabilities & !(3 << 38) | 1 << 21,
            ..samples::machine()
        };
        assert_eq!(
            privilege(&old_style, None).level,
            Level::Fine,
            "CAP_SYS_ADMIN includes CAP_BPF and CAP_PERFMON"
        );
    }

    #[test]
    fn a_small_limit_on_locked_memory_matters_only_without_the_capability() {
        let config = samples::af_xdp_config();
        let small = Machine {
            memlock_bytes: Some(8 << 20),
            ..samples::machine()
        };
        assert_eq!(locked_memory(&small, Some(&config)).level, Level::Fine);
        let bare = Machine {
            capabilities: 0,
            ..small
        };
        let finding = locked_memory(&bare, Some(&config));
        assert_eq!(
            finding.level,
            Level::Failed,
            "(2 queues + 1) × 2048 slots × 2 KiB is 12 MiB"
        );
        assert!(
            finding.found.contains("8192 KiB") && finding.found.contains("12288 KiB"),
            "{finding:?}"
        );
        let enough = Machine {
            memlock_bytes: Some(12 << 20),
            ..bare
        };
        assert_eq!(locked_memory(&enough, Some(&config)).level, Level::Fine);
    }

    #[test]
    fn an_old_or_poor_kernel_fails_only_where_it_is_needed() {
        let old = Machine {
            kernel: (5, 10),
            af_xdp: false,
            ..samples::machine()
        };
        for check in [kernel, kernel_features] {
            assert_eq!(
                check(&old, Some(&samples::af_xdp_config())).level,
                Level::Failed
            );
            assert_eq!(
                check(&old, Some(&samples::cable_config())).level,
                Level::Fine
            );
            assert_eq!(check(&samples::machine(), None).level, Level::Fine);
        }
    }

    #[test]
    fn too_few_huge_pages_are_as_bad_as_the_policy_says() {
        // Two queues and one to send from, 2048 slots of 2 KiB each: 12 MiB.
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
            assert_eq!(level(&config, 5), lacking);
            assert_eq!(level(&config, 6), Level::Fine);
        }
        let mut cable = samples::cable_config();
        cable.dataplane.huge_pages = HugePages::Require;
        assert_eq!(level(&cable, 0), Level::Fine, "no packet memory at all");
    }

    #[test]
    fn lanes_need_cores_that_exist_and_their_own() {
        let mut config = samples::cable_config();
        config.lane = [Some(0), Some(7), Some(0), None]
            .map(|core| covalent_api::config::LaneConfig { core })
            .to_vec();
        let levels: Vec<Level> = lanes(&samples::machine(), &config)
            .iter()
            .map(|finding| finding.level)
            .collect();
        assert_eq!(
            levels,
            [Level::Fine, Level::Failed, Level::Warning, Level::Fine]
        );

        config.lane.truncate(1);
        config.dataplane.idle = Idle::Poll;
        let one_core = Machine {
            cores: [0].into(),
            ..samples::machine()
        };
        assert!(
            lanes(&one_core, &config)
                .iter()
                .any(|finding| finding.cure.contains("adaptive"))
        );
    }
}
