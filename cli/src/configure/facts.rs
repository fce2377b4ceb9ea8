//! The facts that the stages judge, collected once. Needs no privilege and changes nothing.

use std::{collections::BTreeSet, fs, path::Path};

use anyhow::{Context, Result};
use covalent_config::{
    Config, PortConfig, PortKind,
    auto::{Choices, InterfaceFacts, Linux, Wishes, choose},
};
use covalent_ebpf::{AttachedProgram, Holder, attached_programs, holders};
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};
use procfs::process::Process;

use super::{cores::CoreList, world::Machine};
use crate::{
    client,
    netlink::{self, Interface},
    nic::{self, Nic},
    node,
};

/// File with the number of reserved 2 MiB huge pages, independent of the kernel's default huge page
/// size.
pub const NR_HUGE_PAGES: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages";

/// The pool of 2 MiB pages.
const POOL: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB";

/// `CAP_IPC_LOCK` (`capabilities(7)`).
const CAP_IPC_LOCK: u64 = 1 << 14;

/// The machine, and the objects on it that the configuration names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// The Linux that runs.
    pub linux: Linux,
    /// Whether the node runs.
    pub node_runs: bool,
    /// Whether this process is root's.
    pub is_root: bool,
    /// 2 MiB pages; `None` on a kernel without.
    pub huge_pages: Option<Pool>,
    /// Cores that are online.
    pub cores: BTreeSet<u32>,
    /// Whether irqbalance runs, which moves interrupts about.
    pub irqbalance: bool,
    /// How much memory may be locked.
    pub memlock: Memlock,
    /// The interfaces of AF_XDP ports, one for each, in the order of the file.
    pub interfaces: Vec<Named>,
}

/// Huge pages of 2 MiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pool {
    /// Reserved.
    pub reserved: u64,
    /// Reserved and unused.
    pub free: u64,
}

/// The source of the limit on memory that covalentd may lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Memlock {
    /// systemd, which starts it with this limit in bytes; `None` for no limit.
    Unit(Option<u64>),
    /// The user who starts it. This process may lock so many bytes; `None` for no limit.
    Own(Option<u64>),
}

/// The interface of one AF_XDP port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// The port.
    pub port: PortConfig,
    /// The interface's configured name.
    pub name: String,
    /// The kernel's description of it; `None` if the interface does not exist.
    pub found: Option<Interface>,
    /// Its driver; empty if unknown.
    pub driver: String,
    /// The driver's description of it.
    pub nic: Nic,
    /// The XDP programs on it, each with the processes that hold it.
    pub programs: Vec<(AttachedProgram, Vec<Holder>)>,
    /// Interrupts of its receive queues.
    pub interrupts: Vec<Interrupt>,
}

/// The interrupt of a receive queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interrupt {
    /// Its number.
    pub irq: u32,
    /// The queue.
    pub queue: u32,
    /// The cores that take it.
    pub cores: CoreList,
}

impl Facts {
    /// Examines `machine` and the objects that `config` names.
    ///
    /// # Errors
    /// Fails if netlink or `/proc` refuses.
    pub fn gather(machine: &Machine, config: &Config) -> Result<Self> {
        let number = |path: String| machine.text(path)?.parse().ok();
        Ok(Self {
            linux: Linux::running(),
            node_runs: client::answers(&config.socket_path()),
            is_root: nix::unistd::geteuid().is_root(),
            huge_pages: number(format!("{POOL}/nr_hugepages")).map(|reserved| Pool {
                reserved,
                free: number(format!("{POOL}/free_hugepages")).unwrap_or(0),
            }),
            cores: machine
                .text("/sys/devices/system/cpu/online")
                .and_then(|list| list.parse::<CoreList>().ok())
                .unwrap_or_default()
                .0,
            irqbalance: has_process("irqbalance"),
            memlock: memlock(machine)?,
            interfaces: interfaces(machine, config)?,
        })
    }
}

impl Named {
    /// Returns the values that `auto` selects on this interface.
    pub fn choices(&self, linux: Linux) -> Choices {
        choose(&self.auto_facts(linux), wishes(&self.port))
    }

    /// Returns the key for the table of drivers.
    pub fn auto_facts(&self, linux: Linux) -> InterfaceFacts<'_> {
        let found = self.found.as_ref();
        InterfaceFacts {
            linux,
            driver: &self.driver,
            mtu_bytes: found.map_or(0, |found| found.mtu_bytes),
            queues: self.queues(),
            queues_most: self
                .nic
                .channels
                .map_or(0, |channels| channels.rx_max.max(channels.combined_max)),
        }
    }

    /// Returns the number of receive queues in use: as reported by the driver, else the number that
    /// the interface was created with.
    pub fn queues(&self) -> u32 {
        let made = self.found.as_ref().map_or(1, |found| found.rx_queues);
        let reported = self.nic.channels.map(|channels| channels.receiving());
        reported.unwrap_or(made).max(1)
    }

    /// Its driver in a sentence.
    pub fn driver_name(&self) -> &str {
        match self.driver.as_str() {
            "" => "unknown",
            driver => driver,
        }
    }

    /// The port's `ring_slots`.
    pub fn ring_slots(&self) -> u32 {
        match self.port.kind {
            PortKind::AfXdp { ring_slots, .. } => ring_slots,
            PortKind::Cable { .. } | PortKind::Dpdk { .. } | PortKind::Pcap { .. } => 0,
        }
    }
}

/// Returns the port's settings that may be `auto`.
pub fn wishes(port: &PortConfig) -> Wishes {
    match port.kind {
        PortKind::AfXdp {
            queues, xdp, copy, ..
        } => Wishes { xdp, copy, queues },
        PortKind::Cable { .. } | PortKind::Dpdk { .. } | PortKind::Pcap { .. } => Wishes {
            xdp: Default::default(),
            copy: Default::default(),
            queues: 0,
        },
    }
}

fn interfaces(machine: &Machine, config: &Config) -> Result<Vec<Named>> {
    let named: Vec<(&PortConfig, &str)> = config
        .port
        .iter()
        .filter_map(|port| match &port.kind {
            PortKind::AfXdp { interface, .. } => Some((port, interface.as_str())),
            PortKind::Cable { .. } | PortKind::Dpdk { .. } | PortKind::Pcap { .. } => None,
        })
        .collect();
    if named.is_empty() {
        return Ok(Vec::new());
    }
    let known = netlink::interfaces()?;
    let names: Vec<&str> = named.iter().map(|(_, name)| *name).collect();
    // A kernel without ethtool's netlink family reports nothing about drivers.
    let reported = nic::query(&names).unwrap_or_else(|_| vec![Nic::default(); names.len()]);
    named
        .into_iter()
        .zip(reported)
        .map(|((port, name), nic)| {
            let found = known.iter().find(|it| it.name == name).cloned();
            let kind = found.as_ref().and_then(|found| found.kind.clone());
            Ok(Named {
                driver: kind.or_else(|| driver(machine, name)).unwrap_or_default(),
                programs: match &found {
                    Some(found) => programs(found.index)?,
                    None => Vec::new(),
                },
                interrupts: match &found {
                    Some(_) => interrupts(machine, name),
                    None => Vec::new(),
                },
                port: port.clone(),
                name: name.to_owned(),
                found,
                nic,
            })
        })
        .collect()
}

fn programs(index: u32) -> Result<Vec<(AttachedProgram, Vec<Holder>)>> {
    let programs = attached_programs(index)?;
    Ok(programs
        .into_iter()
        .map(|program| {
            let holders = holders(program.id);
            (program, holders)
        })
        .collect())
}

fn driver(machine: &Machine, interface: &str) -> Option<String> {
    let link = machine.at(format!("/sys/class/net/{interface}/device/driver"));
    Some(fs::read_link(link).ok()?.file_name()?.to_str()?.to_owned())
}

/// Returns the interrupts of an interface's receive queues, by queue. For virtio, the parent device
/// has the interrupts.
fn interrupts(machine: &Machine, interface: &str) -> Vec<Interrupt> {
    let device = machine.at(format!("/sys/class/net/{interface}/device"));
    let listed = [device.join("msi_irqs"), device.join("../msi_irqs")]
        .into_iter()
        .find_map(|directory| fs::read_dir(directory).ok());
    let mut found: Vec<Interrupt> = listed
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(|irq: u32| {
            let action = machine.text(format!("/sys/kernel/irq/{irq}/actions"))?;
            let cores = machine.text(format!("/proc/irq/{irq}/smp_affinity_list"))?;
            Some(Interrupt {
                irq,
                queue: receive_queue(&action)?,
                cores: cores.parse().ok()?,
            })
        })
        .collect();
    found.sort_by_key(|interrupt| (interrupt.queue, interrupt.irq));
    found
}

/// Returns the receive queue of an interrupt, from the name that the driver gave it: `eth1-TxRx-3`,
/// `i40e-eth1-TxRx-3`, `eth1-rx-0`, `virtio2-input.0`, `mlx5_comp3@pci:0000:03:00.0`,
/// `eth1-Tx-Rx-3` (ena). Returns `None` for other interrupts, such as those of transmit queues.
fn receive_queue(action: &str) -> Option<u32> {
    const BEFORE_THE_NUMBER: [&str; 5] = ["txrx-", "rxtx-", "rx-", "input.", "_comp"];
    let name = action.split(['@', ',']).next()?.trim();
    let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let (name, number) = name.split_at(name.len() - digits);
    let name = name.to_lowercase();
    let receives = BEFORE_THE_NUMBER.iter().any(|end| name.ends_with(end));
    number.parse().ok().filter(|_| receives)
}

fn has_process(name: &str) -> bool {
    procfs::process::all_processes().is_ok_and(|processes| {
        processes
            .filter_map(|process| process.ok()?.stat().ok())
            .any(|stat| stat.comm == name)
    })
}

fn memlock(machine: &Machine) -> Result<Memlock> {
    if let Some(limit) = unit_limit(machine) {
        return Ok(Memlock::Unit(limit));
    }
    let own = Process::myself()
        .and_then(|own| own.status())
        .context("cannot read /proc/self/status")?;
    let (limit, _) =
        getrlimit(Resource::RLIMIT_MEMLOCK).context("cannot read the limit on locked memory")?;
    let bounded = own.capeff & CAP_IPC_LOCK == 0 && limit != RLIM_INFINITY;
    Ok(Memlock::Own(bounded.then_some(limit)))
}

/// Returns the limit in covalentd's unit and its drop-ins, if systemd runs the machine and has the
/// unit. Without an explicit limit, systemd's default of 8 MiB applies.
fn unit_limit(machine: &Machine) -> Option<Option<u64>> {
    const DEFAULT_BYTES: u64 = 8 << 20;
    const UNIT: &str = "covalentd.service";
    if !machine.at("/run/systemd/system").is_dir() {
        return None;
    }
    let directories = node::UNIT_DIRECTORIES.map(Path::new);
    let unit = directories
        .iter()
        .find_map(|directory| machine.text(directory.join(UNIT)))?;
    // Of files with the same name, the first directory wins. All files are read in the order of
    // their names.
    let mut drop_ins: Vec<(String, String)> = Vec::new();
    for directory in directories {
        let below = machine.at(directory.join(format!("{UNIT}.d")));
        for entry in fs::read_dir(below).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let is_new = drop_ins.iter().all(|(known, _)| *known != name);
            if is_new && name.ends_with(".conf") {
                drop_ins.push((name, fs::read_to_string(entry.path()).unwrap_or_default()));
            }
        }
    }
    drop_ins.sort();
    let texts = std::iter::once(unit).chain(drop_ins.into_iter().map(|(_, text)| text));
    let mut limit = Some(DEFAULT_BYTES);
    for text in texts {
        for line in text.lines() {
            if let Some(value) = line.trim().strip_prefix("LimitMEMLOCK=") {
                limit = limit_bytes(value.trim());
            }
        }
    }
    Some(limit)
}

/// Parses `infinity`, or bytes with a systemd suffix. Of two bounds (`soft:hard`), the first
/// applies. A malformed value counts as 0 bytes.
fn limit_bytes(value: &str) -> Option<u64> {
    let value = value.split(':').next().unwrap_or(value);
    if value == "infinity" {
        return None;
    }
    let digits = value.trim_end_matches(|c: char| !c.is_ascii_digit());
    let shift = match &value[digits.len()..] {
        "" | "B" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return Some(0),
    };
    Some(
        digits
            .parse::<u64>()
            .unwrap_or(0)
            .saturating_mul(1 << shift),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupts_of_receive_queues_are_recognized_by_name() {
        for (action, queue) in [
            ("eth1-TxRx-3", Some(3)),
            ("i40e-eth1-TxRx-12", Some(12)),
            ("ice-eth1-TxRx-0", Some(0)),
            ("eth1-rx-0", Some(0)),
            ("eth1-rxtx-5", Some(5)),
            ("eth1-Tx-Rx-7", Some(7)),
            ("virtio2-input.1", Some(1)),
            ("mlx5_comp3@pci:0000:03:00.0", Some(3)),
            ("eth1-tx-0", None),
            ("virtio2-output.1", None),
            ("virtio2-config", None),
            ("mlx5_async0@pci:0000:03:00.0", None),
            ("eth1", None),
            ("ena-mgmnt@pci:0000:00:05.0", None),
            ("", None),
        ] {
            assert_eq!(receive_queue(action), queue, "{action}");
        }
    }

    #[test]
    fn the_interrupts_of_a_device_are_found_by_queue() {
        let root = tempfile::tempdir().expect("a directory");
        let machine = Machine::below(root.path());
        let write = |path: String, text: &str| {
            let path = machine.at(path);
            fs::create_dir_all(path.parent().expect("a directory")).expect("made");
            fs::write(path, text).expect("written");
        };
        for (irq, action, cores) in [
            (40, "virtio2-config", "0-3"),
            (42, "virtio2-input.1", "2"),
            (41, "virtio2-input.0", "0-1"),
            (43, "virtio2-output.0", "3"),
        ] {
            write(format!("/sys/class/net/eth1/msi_irqs/{irq}"), "msix");
            write(
                format!("/sys/kernel/irq/{irq}/actions"),
                &format!("{action}\n"),
            );
            write(
                format!("/proc/irq/{irq}/smp_affinity_list"),
                &format!("{cores}\n"),
            );
        }
        // The device lies one directory below the one that has the interrupts.
        fs::create_dir_all(machine.at("/sys/class/net/eth1/device")).expect("made");
        let found = interrupts(&machine, "eth1");
        let plain: Vec<_> = found
            .iter()
            .map(|it| (it.irq, it.queue, it.cores.to_string()))
            .collect();
        assert_eq!(plain, [(41, 0, "0-1".into()), (42, 1, "2".into())]);
        assert_eq!(interrupts(&machine, "eth2"), []);
    }

    #[test]
    fn the_units_limit_is_that_of_the_last_drop_in() {
        let root = tempfile::tempdir().expect("a directory");
        let machine = Machine::below(root.path());
        let write = |path: &str, text: &str| {
            let path = machine.at(path);
            fs::create_dir_all(path.parent().expect("a directory")).expect("made");
            fs::write(path, text).expect("written");
        };
        assert_eq!(unit_limit(&machine), None, "no systemd");
        fs::create_dir_all(machine.at("/run/systemd/system")).expect("made");
        assert_eq!(unit_limit(&machine), None, "no unit");
        write("/usr/lib/systemd/system/covalentd.service", "[Service]\n");
        assert_eq!(unit_limit(&machine), Some(Some(8 << 20)));
        write(
            "/etc/systemd/system/covalentd.service.d/10-memory.conf",
            "[Service]\nLimitMEMLOCK=64M\n",
        );
        assert_eq!(unit_limit(&machine), Some(Some(64 << 20)));
        write(
            "/run/systemd/system/covalentd.service.d/50-covalent-configure.conf",
            "[Service]\nLimitMEMLOCK=infinity\n",
        );
        assert_eq!(unit_limit(&machine), Some(None));
    }

    #[test]
    fn limits_are_read_as_systemd_writes_them() {
        assert_eq!(limit_bytes("infinity"), None);
        assert_eq!(limit_bytes("65536"), Some(65_536));
        assert_eq!(limit_bytes("2G"), Some(2 << 30));
        assert_eq!(limit_bytes("1M:2M"), Some(1 << 20));
        assert_eq!(limit_bytes("much"), Some(0));
    }
}
