//! The emulated NICs: two pairs in each guest. A cable joins each pair. Each NIC is behind its own
//! root port, so that it can be unplugged.

use std::path::Path;

use serde::{Deserialize, Serialize};

/// Ends of the two cables. Both the job's interfaces and the monitor's devices have these names.
pub const ENDS: [[&str; 2]; 2] = [["near0", "far0"], ["near1", "far1"]];

/// A model of NIC that QEMU emulates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Nic {
    /// virtio-net.
    Virtio,
    /// Intel 82576.
    Igb,
    /// Intel 82574.
    E1000e,
    /// VMware's.
    Vmxnet3,
}

impl Nic {
    /// The kernel's driver for it, and the module that has it.
    pub fn driver(self) -> &'static str {
        match self {
            Self::Virtio => "virtio_net",
            Self::Igb => "igb",
            Self::E1000e => "e1000e",
            Self::Vmxnet3 => "vmxnet3",
        }
    }

    /// QEMU's name and settings.
    fn device(self) -> &'static str {
        match self {
            // The modern interface, and DMA addresses through an IOMMU if there is one: zero-copy
            // needs both.
            Self::Virtio => "virtio-net-pci,disable-legacy=on,iommu_platform=on",
            Self::Igb => "igb",
            Self::E1000e => "e1000e",
            Self::Vmxnet3 => "vmxnet3",
        }
    }

    /// Returns QEMU's arguments for both pairs. A cable is two datagram sockets in `folder`: first
    /// in, first out, and a sender waits if it is full. QEMU's own hub is suspected of reordering
    /// frames when a receiver is full (decision 29).
    pub fn arguments(self, folder: &Path) -> Vec<String> {
        let mut arguments = Vec::new();
        for (cable, ends) in ENDS.iter().enumerate() {
            for (side, end) in ends.iter().enumerate() {
                let slot = 1 + cable * 2 + side;
                let mac = mac(cable, side);
                let socket = |end: &str| folder.join(format!("{end}.sock")).display().to_string();
                arguments.extend([
                    "-netdev".to_owned(),
                    format!(
                        "dgram,id=wire-{end},local.type=unix,local.path={},remote.type=unix,remote.path={}",
                        socket(end),
                        socket(ends[1 - side])
                    ),
                    "-device".to_owned(),
                    format!("pcie-root-port,id=port-{end},chassis={slot},slot={slot}"),
                    "-device".to_owned(),
                    format!(
                        "{},id={end},bus=port-{end},netdev=wire-{end},mac={mac},romfile=",
                        self.device()
                    ),
                ]);
            }
        }
        arguments
    }
}

/// Returns the address by which a job distinguishes the ends.
pub fn mac(cable: usize, side: usize) -> String {
    format!("52:54:00:00:{cable:02x}:{side:02x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_end_has_its_own_slot_and_address() {
        let arguments = Nic::Igb.arguments(Path::new("/run"));
        let devices: Vec<_> = arguments
            .iter()
            .filter(|argument| argument.starts_with("igb,"))
            .collect();
        assert_eq!(devices.len(), 4);
        for end in ENDS.concat() {
            assert_eq!(
                devices
                    .iter()
                    .filter(|device| device
                        .contains(&format!("id={end},bus=port-{end},netdev=wire-{end},")))
                    .count(),
                1,
                "{end}"
            );
        }
        let mut macs: Vec<_> = (0..2)
            .flat_map(|cable| (0..2).map(move |side| mac(cable, side)))
            .collect();
        macs.dedup();
        assert_eq!(macs.len(), 4);
    }
}
