//! `[[port]]`: where frames come and go.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{
    dpdk_device,
    faults::FaultsConfig,
    node::{check_socket_path, read_name},
    packet_memory::QUEUES_MAX,
    table::{Choice, Table},
};

/// Most ports of one node.
pub const PORTS_MAX: usize = 256;

/// Longest name of a network interface, in bytes: the kernel's `IFNAMSIZ` less one.
const INTERFACE_BYTES_MAX: usize = 15;

const RING_SLOTS_DEFAULT: u32 = 2048;

/// One port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PortConfig {
    /// Name for people and requests, unique in the file; letters as in a node's name.
    pub name: String,
    /// The lane that owns it, 0-based. Default 0.
    pub lane: u32,
    /// Whether the port runs the link protocol, so its cable leads directly to another node's port.
    /// Default `true`, except for pcap ports, which have no peer: `false`.
    pub link: bool,
    /// Kind of the port, with its settings.
    #[serde(flatten)]
    pub kind: PortKind,
    /// Deliberate damage to its frames. `None` (the default) for a port of a production node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub faults: Option<FaultsConfig>,
}

/// Kind of a port, with its settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum PortKind {
    /// AF_XDP sockets on a network interface.
    AfXdp {
        /// Name of the interface, 1 to 15 bytes. One port only may have it.
        interface: String,
        /// Receive queues to use, starting with queue 0, at most [`QUEUES_MAX`]. 0 (the default):
        /// all queues of the interface.
        queues: u32,
        /// Descriptors in each ring of each queue: a power of two, 64 to 32768. Default 2048.
        ring_slots: u32,
        /// Which XDP hook to use. Default [`XdpMode::Auto`].
        xdp: XdpMode,
        /// Whether frames may be copied by the kernel. Default [`CopyMode::Auto`].
        copy: CopyMode,
    },
    /// Shared memory between two processes: no NIC and no privilege needed.
    Cable {
        /// Unix socket on which the two ends connect, absolute, at most 107 bytes. The first end to
        /// start listens.
        path: PathBuf,
        /// Frames that fit in each direction: a power of two, 64 to 32768. Default 2048.
        ring_slots: u32,
    },
    /// A device driven by a poll-mode driver of DPDK. Needs a daemon that was built with the
    /// feature `dpdk`.
    Dpdk {
        /// The device in DPDK's own syntax, 1 to 1024 bytes. Either a virtual device
        /// (`net_memif0,role=server,socket=/run/a-b.memif`) or a PCI address (`0000:03:00.0`), with
        /// comma-separated arguments. Only one port may use a device.
        device: String,
        /// Receive queues to use, from queue 0, 1 to [`QUEUES_MAX`]. Default 1.
        queues: u32,
        /// Requested descriptors of each ring of each queue; the device may have fewer. A power of
        /// two, 64 to 32768. Default 2048.
        ring_slots: u32,
        /// Handling of a frame whose checksum the device found invalid. Default
        /// [`RxChecksum::Ignore`].
        rx_checksum: RxChecksum,
        /// Whether the device computes the checksums of sent frames. Default [`TxChecksum::Keep`].
        tx_checksum: TxChecksum,
    },
    /// Reads frames from one capture file and writes sent frames to another.
    Pcap {
        /// File to read; absent for nothing to receive.
        #[serde(skip_serializing_if = "Option::is_none")]
        input: Option<PathBuf>,
        /// File to write; absent to count and forget.
        #[serde(skip_serializing_if = "Option::is_none")]
        output: Option<PathBuf>,
    },
}

/// Which XDP hook to use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum XdpMode {
    /// Native if the driver supports it, otherwise generic. The choice is reported.
    #[default]
    Auto,
    /// In the driver, or fail.
    Native,
    /// In the kernel's generic path (slow, every driver).
    Generic,
}

/// Whether frames may be copied by the kernel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CopyMode {
    /// Zero-copy if the driver supports it, otherwise copy. The choice is reported.
    #[default]
    Auto,
    /// Zero-copy or fail.
    ZeroCopy,
    /// Copy.
    Copy,
}

/// Handling of a received frame whose IP, TCP or UDP checksum the device found invalid.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RxChecksum {
    /// It is received like any other frame. The device does not check checksums.
    #[default]
    Ignore,
    /// It is dropped (`rx_bad_checksum`). A device that cannot check is refused at start.
    Drop,
}

/// Whether the device computes the checksums of sent frames.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TxChecksum {
    /// Frames leave as the application wrote them.
    #[default]
    Keep,
    /// The device computes IPv4 header, TCP and UDP checksums and overwrites existing values. A
    /// device that cannot do so is refused at start.
    Fill,
}

impl PortKind {
    /// Name of the kernel interface that the port uses. Its carrier is the port's carrier. `None`
    /// if there is none.
    #[must_use]
    pub fn kernel_interface(&self) -> Option<&str> {
        match self {
            Self::AfXdp { interface, .. } => Some(interface),
            Self::Dpdk { device, .. } => dpdk_device::kernel_interface(device),
            Self::Cable { .. } | Self::Pcap { .. } => None,
        }
    }
}

/// The value of `kind`, before the keys that belong to it are read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    AfXdp,
    Cable,
    Dpdk,
    Pcap,
}

impl PortConfig {
    /// A port on an interface, with its name and all defaults.
    pub(super) fn of_interface(interface: String) -> Self {
        Self {
            name: interface.clone(),
            lane: 0,
            link: true,
            kind: PortKind::AfXdp {
                interface,
                queues: 0,
                ring_slots: RING_SLOTS_DEFAULT,
                xdp: XdpMode::default(),
                copy: CopyMode::default(),
            },
            faults: None,
        }
    }

    /// `None` if not even its kind is known.
    pub(super) fn read(table: &mut Table<'_, '_>) -> Option<Self> {
        let name = read_name(table, "the port's name");
        let lane = table
            .integer("lane", 0..=u32::MAX, " (a lane's index, from 0)")
            .unwrap_or(0);
        let link = table.bool("link");
        let Some(kind) = table.required_choice::<Kind>("kind") else {
            table.accept_unknown();
            return None;
        };
        Some(Self {
            name,
            lane,
            link: link.unwrap_or(kind != Kind::Pcap),
            kind: kind.read(table),
            faults: FaultsConfig::read_in(table),
        })
    }
}

impl Kind {
    fn read(self, table: &mut Table<'_, '_>) -> PortKind {
        match self {
            Self::AfXdp => {
                let interface = read_interface(table);
                let queues = table
                    .integer(
                        "queues",
                        0..=QUEUES_MAX,
                        " (0 for all that the interface has; the XDP program's table of sockets \
                         has 64 places)",
                    )
                    .unwrap_or(0);
                let ring_slots = read_ring_slots(table);
                let (xdp, copy) = (
                    table.choice("xdp").unwrap_or_default(),
                    table.choice("copy").unwrap_or_default(),
                );
                if (xdp, copy) == (XdpMode::Generic, CopyMode::ZeroCopy) {
                    table.refuse(
                        "copy",
                        "the generic XDP hook always copies; expected \"auto\" \
                        or \"copy\", or `xdp = \"native\"`",
                    );
                }
                PortKind::AfXdp {
                    interface,
                    queues,
                    ring_slots,
                    xdp,
                    copy,
                }
            }
            Self::Cable => {
                let path = match table.has("path") {
                    true => table.path("path"),
                    false => {
                        table.required_text(
                            "path",
                            "the Unix socket where the two ends meet, an absolute path",
                        );
                        None
                    }
                };
                let path = path.unwrap_or_default();
                if let Err(message) = check_socket_path(&path) {
                    table.refuse("path", message);
                }
                PortKind::Cable {
                    path,
                    ring_slots: read_ring_slots(table),
                }
            }
            Self::Dpdk => {
                let device = table.required_text("device", dpdk_device::EXPECTED);
                if let Some(Err(message)) = device.map(dpdk_device::check) {
                    table.refuse("device", message);
                }
                PortKind::Dpdk {
                    device: device.unwrap_or_default().to_owned(),
                    queues: table.integer("queues", 1..=QUEUES_MAX, "").unwrap_or(1),
                    ring_slots: read_ring_slots(table),
                    rx_checksum: table.choice("rx_checksum").unwrap_or_default(),
                    tx_checksum: table.choice("tx_checksum").unwrap_or_default(),
                }
            }
            Self::Pcap => PortKind::Pcap {
                input: table.path("input"),
                output: table.path("output"),
            },
        }
    }
}

fn read_interface(table: &mut Table<'_, '_>) -> String {
    let name = table.required_text(
        "interface",
        "the name of a network interface, as `ip link` shows it",
    );
    if let Some(Err(message)) = name.map(check_interface) {
        table.refuse("interface", message);
    }
    name.unwrap_or_default().to_owned()
}

/// Checks whether the kernel accepts this interface name.
pub(super) fn check_interface(name: &str) -> Result<(), String> {
    if name.is_empty()
        || name.len() > INTERFACE_BYTES_MAX
        || matches!(name, "." | "..")
        || name.contains(|c: char| c.is_whitespace() || c.is_control() || matches!(c, '/' | ':'))
    {
        return Err(format!(
            "{name:?} cannot be a network interface; expected 1 to {INTERFACE_BYTES_MAX} bytes \
             without spaces, `/` and `:`, \
             as `ip link` shows it"
        ));
    }
    Ok(())
}

fn read_ring_slots(table: &mut Table<'_, '_>) -> u32 {
    let slots = table
        .integer("ring_slots", 64..=32_768, ", a power of two")
        .unwrap_or(RING_SLOTS_DEFAULT);
    if !slots.is_power_of_two() {
        let (below, above) = (slots.next_power_of_two() / 2, slots.next_power_of_two());
        table.refuse(
            "ring_slots",
            format!(
                "found the number {slots}; expected a power of two, for example {below} or {above}"
            ),
        );
    }
    slots
}

impl Choice for Kind {
    const CHOICES: &'static [(&'static str, Self)] = &[
        ("af_xdp", Self::AfXdp),
        ("cable", Self::Cable),
        ("dpdk", Self::Dpdk),
        ("pcap", Self::Pcap),
    ];
}

impl Choice for RxChecksum {
    const CHOICES: &'static [(&'static str, Self)] =
        &[("ignore", Self::Ignore), ("drop", Self::Drop)];
}

impl Choice for TxChecksum {
    const CHOICES: &'static [(&'static str, Self)] = &[("keep", Self::Keep), ("fill", Self::Fill)];
}

impl Choice for XdpMode {
    const CHOICES: &'static [(&'static str, Self)] = &[
        ("auto", Self::Auto),
        ("native", Self::Native),
        ("generic", Self::Generic),
    ];
}

impl Choice for CopyMode {
    const CHOICES: &'static [(&'static str, Self)] = &[
        ("auto", Self::Auto),
        ("zero_copy", Self::ZeroCopy),
        ("copy", Self::Copy),
    ];
}
