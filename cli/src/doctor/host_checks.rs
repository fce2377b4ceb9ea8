//! Checks of the machine: each a function of the facts alone.

use covalent_config::{Config, PortKind, packet_memory_bytes};

use super::{facts::Machine, finding::Finding, memory_checks::queues_bytes};

/// The oldest kernel with all used features: XDP programs attached by `bpf_link` (5.9), BPF memory
/// charged to the control group instead of RLIMIT_MEMLOCK (5.11), preferred busy polling of AF_XDP
/// (5.11).
const KERNEL_MIN: (u32, u32) = (5, 11);

/// Capabilities that `covalentd` starts with, by number (`capabilities(7)`), and the purpose of
/// each.
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

/// Returns whether the configuration has a port that needs AF_XDP. Without a configuration, the
/// doctor checks everything.
fn wants_af_xdp(config: Option<&Config>) -> bool {
    config.is_none_or(|config| {
        config
            .port
            .iter()
            .any(|port| matches!(port.kind, PortKind::AfXdp { .. }))
    })
}

/// Checks the capabilities of the calling process: those that `covalentd` would have if it were
/// started from here.
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
        "run as root (sudo covalent …), start the systemd unit, or use a `cable` port, which needs \
         no privilege",
    )
}

/// Locked memory: packet memory counts towards the limit unless the process may lock at will.
pub fn locked_memory(machine: &Machine, config: Option<&Config>) -> Finding {
    const CHECK: &str = "locked memory";
    const CAP_IPC_LOCK: u8 = 14;
    let needed: u64 = config.map_or_else(
        || packet_memory_bytes(1, DEFAULT_RING_SLOTS),
        |config| queues_bytes(config).sum(),
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
            "ulimit -l unlimited as root, `LimitMEMLOCK=infinity` in the unit, or give covalentd \
             CAP_IPC_LOCK",
        ),
    }
}

/// The hard limit on descriptors that `covalentd.service` sets: each pipe costs some.
const DESCRIPTORS: u64 = 1_048_576;

/// Descriptors that a node with few applications takes.
const DESCRIPTORS_MIN: u64 = 1_024;

/// Descriptors: the daemon raises its limit as far as it may.
pub fn descriptors(machine: &Machine, _: Option<&Config>) -> Finding {
    const CHECK: &str = "descriptors";
    let most = machine.descriptors_max;
    if most >= DESCRIPTORS_MIN {
        return Finding::fine(CHECK, format!("{most} at most"));
    }
    Finding::warning(
        CHECK,
        format!(
            "{most} at most for a process (RLIMIT_NOFILE), and each pipe takes some: applications \
             are refused when they are used up"
        ),
        format!("ulimit -Hn {DESCRIPTORS} as root, or `LimitNOFILE={DESCRIPTORS}` in the unit"),
    )
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
            "Linux {major}.{minor} lacks XDP by `bpf_link` or counts BPF memory as locked memory"
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

#[cfg(test)]
mod tests {
    use super::{
        super::{finding::Level, samples},
        *,
    };

    #[test]
    fn missing_capabilities_are_named_and_a_cable_needs_none() {
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
            "two queues with rings of 2048 slots take 9.25 and 4.75 MiB"
        );
        assert!(
            finding.found.contains("8192 KiB") && finding.found.contains("14336 KiB"),
            "{finding:?}"
        );
        let enough = Machine {
            memlock_bytes: Some(14 << 20),
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
    fn few_descriptors_are_reported() {
        let few = Machine {
            descriptors_max: 256,
            ..samples::machine()
        };
        assert_eq!(descriptors(&samples::machine(), None).level, Level::Fine);
        let finding = descriptors(&few, None);
        assert!(finding.level == Level::Warning && finding.found.contains("256 at most"));
    }
}
