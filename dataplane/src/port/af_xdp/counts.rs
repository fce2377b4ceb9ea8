//! The kernel's counts of an AF_XDP port: each lost frame under one cause.

use super::queue::QueueStatistics;

/// The kernel's counts for a port.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct KernelCounts {
    pub(super) drops: KernelDrops,
    /// All queues together, by the kernel's own names.
    pub(super) sum: ReportedCounts,
    /// Of the XDP program.
    pub(super) program: covalent_ebpf::Counters,
}

/// The kernel's counts of all queues together, each frame under one cause.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct KernelDrops {
    pub(super) rx_ring_full: u64,
    pub(super) link_rx_ring_full: u64,
    pub(super) fill_ring_empty: u64,
    pub(super) rx_other: u64,
    pub(super) rx_invalid: u64,
    pub(super) tx_invalid: u64,
}

/// The kernel's counts for the sockets of one queue together (`struct xdp_statistics`).
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ReportedCounts {
    rx_ring_full: u64,
    /// How many of these were the link's.
    link_rx_ring_full: u64,
    fill_ring_empty: u64,
    rx_dropped: u64,
    rx_invalid: u64,
    tx_invalid: u64,
    tx_ring_empty: u64,
}

impl ReportedCounts {
    pub(super) fn add(&mut self, other: &Self) {
        self.rx_ring_full += other.rx_ring_full;
        self.link_rx_ring_full += other.link_rx_ring_full;
        self.fill_ring_empty += other.fill_ring_empty;
        self.rx_dropped += other.rx_dropped;
        self.rx_invalid += other.rx_invalid;
        self.tx_invalid += other.tx_invalid;
        self.tx_ring_empty += other.tx_ring_empty;
    }

    /// As `linux/if_xdp.h` has them.
    pub(super) fn by_name(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("rx_dropped", self.rx_dropped),
            ("rx_invalid_descs", self.rx_invalid),
            ("tx_invalid_descs", self.tx_invalid),
            ("rx_ring_full", self.rx_ring_full),
            ("rx_fill_ring_empty_descs", self.fill_ring_empty),
            ("tx_ring_empty_descs", self.tx_ring_empty),
        ]
    }
}

impl From<&QueueStatistics> for ReportedCounts {
    fn from(counts: &QueueStatistics) -> Self {
        let of = |counts: &xsk_rs::socket::XdpStatistics| Self {
            rx_ring_full: counts.rx_ring_full(),
            link_rx_ring_full: 0,
            fill_ring_empty: counts.rx_fill_ring_empty_descs(),
            rx_dropped: counts.rx_dropped(),
            rx_invalid: counts.rx_invalid_descs(),
            tx_invalid: counts.tx_invalid_descs(),
            tx_ring_empty: counts.tx_ring_empty_descs(),
        };
        let mut reported = of(&counts.others);
        if let Some(link) = &counts.link {
            let mut link = of(link);
            link.link_rx_ring_full = link.rx_ring_full;
            // The sockets share one fill ring, and the kernel reports the same counts for both.
            (link.fill_ring_empty, link.rx_invalid) = (0, 0);
            reported.add(&link);
        }
        reported
    }
}

impl KernelDrops {
    pub(super) fn add(&mut self, reported: &ReportedCounts, zero_copy: bool) {
        // Zero-copy: the driver takes chunks ahead, so this counts checks without result. The
        // device counts lost frames. Copy mode: each is a frame, also counted as dropped.
        let empty = if zero_copy {
            0
        } else {
            reported.fill_ring_empty
        };
        self.rx_ring_full += reported.rx_ring_full - reported.link_rx_ring_full;
        self.link_rx_ring_full += reported.link_rx_ring_full;
        self.fill_ring_empty += empty;
        self.rx_other += reported.rx_dropped.saturating_sub(empty);
        self.rx_invalid += reported.rx_invalid;
        self.tx_invalid += reported.tx_invalid;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_that_found_no_chunk_lost_no_frame() {
        let reported = ReportedCounts {
            rx_ring_full: 1,
            fill_ring_empty: 5,
            rx_dropped: 7,
            ..ReportedCounts::default()
        };
        let of = |zero_copy| {
            let mut drops = KernelDrops::default();
            drops.add(&reported, zero_copy);
            (drops.rx_ring_full, drops.fill_ring_empty, drops.rx_other)
        };
        assert_eq!(of(true), (1, 0, 7));
        assert_eq!(of(false), (1, 5, 2), "each frame under one cause");
    }
}
