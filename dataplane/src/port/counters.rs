//! The counters of a port.

use super::TxRefusal;

/// Causes of receive drops where the destination of the frame is unknown. Drops of link frames are
/// not included.
const LOST_ON_ARRIVAL: [&str; 6] = [
    "rx_ring_full",
    "fill_ring_empty",
    "rx_dropped",
    "rx_invalid_descriptor",
    "rx_no_buffer",
    "rx_device_error",
];

/// All counters of a port since it was opened. Counters never decrease.
///
/// Conservation: each frame passed to [`super::Port::tx`] is in `tx_packets`, in one refusal cause,
/// or still inside the port. Each frame that reached the port is in `rx_packets` or in one drop
/// cause.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PortCounters {
    /// Frames shown to the lane.
    pub rx_packets: u64,
    /// Their bytes, without FCS.
    pub rx_bytes: u64,
    /// Frames taken for sending.
    pub tx_packets: u64,
    /// Their bytes, without FCS.
    pub tx_bytes: u64,
    /// Frames that the XDP program passed to the kernel; 0 where there is none.
    pub passed_to_kernel_packets: u64,
    /// Frames dropped, by cause. A cause with zero is listed too.
    pub drops: Vec<(&'static str, u64)>,
    /// Frames refused by [`super::Port::tx`], by cause. A cause with zero is listed too.
    pub refusals: Vec<(&'static str, u64)>,
    /// Frames damaged on purpose, by kind of damage; empty for a port without fault injection.
    /// Frames that it lost are among the drops too.
    pub faults: Vec<(&'static str, u64)>,
    /// The device's own counts, by its driver's names; empty for a port whose device has none.
    pub device_counts: Vec<(String, u64)>,
    /// Events that the device reported, by event; empty for a port whose device reports none.
    pub device_events: Vec<(&'static str, u64)>,
    /// The kernel's counts for the port's sockets, by its own names; empty for a port without
    /// sockets.
    pub xdp_counts: Vec<(&'static str, u64)>,
}

impl PortCounters {
    /// Frames that reached the port and were lost before it could show them to the lane.
    #[must_use]
    pub fn lost_on_arrival(&self) -> u64 {
        let causes = self.drops.iter();
        causes
            .filter(|(cause, _)| LOST_ON_ARRIVAL.contains(cause))
            .map(|(_, count)| count)
            .sum()
    }

    /// Adds the counters of another port that was in the same slot before or after this one.
    pub fn add(&mut self, other: Self) {
        self.rx_packets += other.rx_packets;
        self.rx_bytes += other.rx_bytes;
        self.tx_packets += other.tx_packets;
        self.tx_bytes += other.tx_bytes;
        self.passed_to_kernel_packets += other.passed_to_kernel_packets;
        add_causes(&mut self.drops, other.drops);
        add_causes(&mut self.refusals, other.refusals);
        add_causes(&mut self.faults, other.faults);
        add_causes(&mut self.device_counts, other.device_counts);
        add_causes(&mut self.device_events, other.device_events);
        add_causes(&mut self.xdp_counts, other.xdp_counts);
    }
}

fn add_causes<C: PartialEq>(counts: &mut Vec<(C, u64)>, more: Vec<(C, u64)>) {
    for (cause, count) in more {
        match counts.iter_mut().find(|(known, _)| *known == cause) {
            Some((_, total)) => *total = total.saturating_add(count),
            None => counts.push((cause, count)),
        }
    }
}

/// The counters that every port keeps itself, plain integers of one thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    rx_packets: u64,
    rx_bytes: u64,
    tx_packets: u64,
    tx_bytes: u64,
    refused_full: u64,
    refused_too_long: u64,
    refused_runt: u64,
    refused_down: u64,
}

impl Tally {
    /// A frame of `len` bytes was shown to the lane.
    pub fn received(&mut self, len: usize) {
        self.rx_packets += 1;
        self.rx_bytes += len as u64;
    }

    /// A frame of `len` bytes was taken for sending.
    pub fn taken(&mut self, len: usize) {
        self.tx_packets += 1;
        self.tx_bytes += len as u64;
    }

    /// Counts a refused frame and returns the refusal.
    pub fn refused(&mut self, refusal: TxRefusal) -> TxRefusal {
        match refusal {
            TxRefusal::Full => self.refused_full += 1,
            TxRefusal::TooLong { .. } => self.refused_too_long += 1,
            TxRefusal::Runt { .. } => self.refused_runt += 1,
            TxRefusal::Down => self.refused_down += 1,
        }
        refusal
    }

    /// These counters, with the drops that the port adds.
    #[must_use]
    pub fn with_drops(&self, drops: Vec<(&'static str, u64)>) -> PortCounters {
        PortCounters {
            rx_packets: self.rx_packets,
            rx_bytes: self.rx_bytes,
            tx_packets: self.tx_packets,
            tx_bytes: self.tx_bytes,
            passed_to_kernel_packets: 0,
            drops,
            refusals: vec![
                ("full", self.refused_full),
                ("too_long", self.refused_too_long),
                ("runt", self.refused_runt),
                ("down", self.refused_down),
            ],
            faults: Vec::new(),
            device_counts: Vec::new(),
            device_events: Vec::new(),
            xdp_counts: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_one_place_add_up_by_cause() {
        let mut first = Tally::default();
        first.received(60);
        first.taken(100);
        first.refused(TxRefusal::Full);
        let mut before = first.with_drops(vec![("rx_ring_full", 3)]);
        before.device_counts.push(("rx_good".to_owned(), 4));
        let mut second = Tally::default();
        second.received(40);
        second.refused(TxRefusal::Down);
        before.add(second.with_drops(vec![("rx_ring_full", 1), ("port_disabled", 2)]));
        assert_eq!((before.rx_packets, before.rx_bytes), (2, 100));
        assert_eq!((before.tx_packets, before.tx_bytes), (1, 100));
        assert_eq!(before.drops, [("rx_ring_full", 4), ("port_disabled", 2)]);
        let refusals: Vec<_> = before
            .refusals
            .iter()
            .filter(|(_, count)| *count > 0)
            .collect();
        assert_eq!(refusals, [&("full", 1), &("down", 1)]);
        assert_eq!(before.device_counts, [("rx_good".to_owned(), 4)]);
        assert_eq!(
            before.lost_on_arrival(),
            4,
            "none of a port that is disabled"
        );
    }
}
