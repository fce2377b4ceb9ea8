//! DPDK: one `dpdk-testpmd` that receives and drops, with its AF_XDP or its AF_PACKET driver.
//!
//! Like the other contestants it uses the interface only during its slice: only one can attach its
//! XDP program there.

use anyhow::{Context, Result, ensure};
use covalent_ebpf::{AttachPoint, attached_programs};
use nix::net::if_::if_nametoindex;

use super::turn::{BURST, Slice, Turn};
use crate::{
    cores::Cores,
    report::Description,
    streams::{HugePages, TESTPMD, Testpmd, testpmd_version},
};

/// Memory of the process, in MiB.
const MEMORY_MIB: u64 = 96;

/// Additional reservation in MiB: other processes that start meanwhile take huge pages too.
const SPARE_MIB: u64 = 32;

/// Size of its pages, in MiB.
const PAGE_MIB: u64 = 2;

/// Its buffers: more than twice the capacity of rings of the default size.
const MBUFS: u32 = 16_384;

/// Which driver, and how it is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Driver {
    /// `net_af_xdp`, which the kernel serves on the sender's core.
    Xdp,
    /// The same, and the headers of each frame are looked at.
    XdpLooking,
    /// `net_af_xdp` with its default busy polling: the kernel receives on the receiver's own core,
    /// this many packets at a time.
    XdpBusyPoll(u32),
    /// `net_af_packet`.
    Packet,
}

impl Driver {
    /// Returns its name in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Xdp => "dpdk-af_xdp",
            Self::XdpLooking => "dpdk-af_xdp-looking",
            Self::XdpBusyPoll(_) => "dpdk-af_xdp-busy",
            Self::Packet => "dpdk-af_packet",
        }
    }

    /// Huge pages of 2 MiB that it needs.
    pub const PAGES: u64 = (MEMORY_MIB + SPARE_MIB) / PAGE_MIB;

    /// Returns its description.
    pub const fn what(self) -> &'static str {
        match self {
            Self::Xdp => {
                "DPDK net_af_xdp without busy polling; its mbufs are the packet memory, so it \
                 copies nothing itself"
            }
            Self::XdpLooking => {
                "the same, looking at the headers of each frame, as the application of a pipe \
                 looks at a byte of each"
            }
            Self::XdpBusyPoll(_) => {
                "DPDK net_af_xdp with preferred busy polling, its default: the kernel may receive \
                 on the receiver's core"
            }
            Self::Packet => {
                "DPDK net_af_packet: a TPACKET_V2 ring from which each frame is copied into an mbuf"
            }
        }
    }

    /// Returns its description, or the reason why it cannot take part.
    pub fn describe(self, turn: &Turn<'_>) -> Result<Description> {
        Ok(Description {
            what: self.what().to_owned(),
            version: testpmd_version()?,
            tuning: format!(
                "forwarding mode {}; bursts of {BURST}, {MBUFS} mbufs, {PAGE_MIB} MiB pages",
                match self {
                    Self::XdpLooking =>
                        "icmpecho, which frees the mbuf of each frame that is no request for an \
                         echo or an address",
                    _ => "rxonly, which frees each mbuf and looks at none",
                }
            ),
            commands: vec![format!("{TESTPMD} {}", self.receiving(turn).join(" "))],
        })
    }

    fn receiving(self, turn: &Turn<'_>) -> Vec<String> {
        let mode = match self {
            Self::XdpLooking => "icmpecho",
            _ => "rxonly",
        };
        self.arguments(mode, turn.cores, turn.ring_slots)
    }

    /// The arguments of a testpmd at the far end in a forwarding mode.
    pub fn arguments(self, mode: &str, cores: Cores, slots: u32) -> Vec<String> {
        let device = match self {
            Self::Xdp | Self::XdpLooking => "net_af_xdp0,iface=b0,busy_budget=0".to_owned(),
            Self::XdpBusyPoll(budget) => format!("net_af_xdp0,iface=b0,busy_budget={budget}"),
            Self::Packet => format!("net_af_packet0,iface=b0,framecnt={slots}"),
        };
        vec![
            // The main thread only waits for commands.
            format!("--lcores=0@{},1@{}", cores.near, cores.far),
            format!(
                "--file-prefix=covalent-bench-{}-{}",
                std::process::id(),
                self.name()
            ),
            "--in-memory".to_owned(),
            "-m".to_owned(),
            MEMORY_MIB.to_string(),
            "--no-pci".to_owned(),
            "--no-telemetry".to_owned(),
            format!("--vdev={device}"),
            "--".to_owned(),
            "-i".to_owned(),
            format!("--forward-mode={mode}"),
            format!("--total-num-mbufs={MBUFS}"),
            format!("--burst={BURST}"),
            format!("--rxd={slots}"),
            format!("--txd={slots}"),
            "--no-mlockall".to_owned(),
        ]
    }

    /// One slice of it.
    pub fn slice(self, turn: &Turn<'_>) -> Result<Slice> {
        // Reserve the pages only for its slice: in other slices the kernel would give them to any
        // process.
        let _pages = HugePages::reserve(Self::PAGES)?;
        let folder = tempfile::tempdir().context("making a folder")?;
        let mut testpmd = turn.stage.b.within(|| {
            let testpmd = HugePages::start(Self::PAGES, || {
                Testpmd::start(TESTPMD, &self.receiving(turn), folder.path())
            })?;
            self.ensure_native()?;
            Ok(testpmd)
        })?;
        testpmd.send_command("start")?;
        turn.read_around_sending(|| Ok((testpmd.packets_received()?, testpmd.cpu_seconds()?)))
    }

    /// Checks for native mode. The driver accepts any mode, but only the mode of the other
    /// contestants is comparable.
    pub fn ensure_native(self) -> Result<()> {
        if self == Self::Packet {
            return Ok(());
        }
        let index = if_nametoindex("b0").context("finding b0")?;
        let programs = attached_programs(index).context("asking for the XDP program on b0")?;
        ensure!(
            programs
                .iter()
                .any(|program| program.at == AttachPoint::Native),
            "DPDK's XDP program is not in native mode: {programs:?}"
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::{path::Path, time::Duration};

    use super::*;
    use crate::{rate::Load, stage::Stage};

    #[test]
    fn rings_bursts_and_cores_are_those_of_the_others() {
        if !nix::unistd::geteuid().is_root() {
            eprintln!("skipped: making network namespaces needs root");
            return;
        }
        let (Ok(cores), Ok(stage)) = (Cores::choose(), Stage::build(1, 1)) else {
            eprintln!("skipped: two polling sides need two cores");
            return;
        };
        let turn = Turn {
            stage: &stage,
            cores,
            ring_slots: 512,
            slice: Duration::ZERO,
            load: &Load::small(),
            daemon: Path::new("covalentd"),
        };
        let line = |driver: Driver| driver.receiving(&turn).join(" ");
        let cores = format!("--lcores=0@{},1@{} ", cores.near, cores.far);
        for driver in [
            Driver::Xdp,
            Driver::XdpLooking,
            Driver::XdpBusyPoll(64),
            Driver::Packet,
        ] {
            let line = line(driver);
            assert!(
                line.starts_with(&cores) && line.contains("--burst=64 --rxd=512"),
                "{line}"
            );
        }
        assert!(line(Driver::Xdp).contains("iface=b0,busy_budget=0 "));
        assert!(line(Driver::Xdp).contains("--forward-mode=rxonly "));
        assert!(line(Driver::XdpLooking).contains("--forward-mode=icmpecho "));
        assert!(line(Driver::XdpBusyPoll(64)).contains("iface=b0,busy_budget=64 "));
        assert!(line(Driver::Packet).contains("net_af_packet0,iface=b0,framecnt=512 "));
    }
}
