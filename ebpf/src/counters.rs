//! The program's counters.

use crate::layout::{
    COUNTER_NO_SOCKET, COUNTER_REDIRECT_REFUSED, COUNTERS, Cause, CounterBlock, dropped,
    to_dataplane, to_kernel,
};

/// Frames by where one cause sent them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Verdicts {
    /// Frames passed to the socket of their queue. The socket may have no space for a frame. The
    /// kernel then drops it and counts it in the socket's `XDP_STATISTICS` (`rx_ring_full`,
    /// `rx_fill_ring_empty_descs`).
    pub to_dataplane: u64,
    /// Frames passed to the kernel's network stack because of this cause's action.
    pub to_kernel: u64,
    /// Frames dropped because of this cause's action.
    pub dropped: u64,
}

/// Frames since the program was loaded, summed over all CPUs. Every frame is in exactly one of the
/// counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Link frames; only `to_dataplane` counts any.
    pub link: Verdicts,
    /// Frames that a five-tuple rule decided.
    pub five_tuple: Verdicts,
    /// Frames that a destination rule decided.
    pub destination: Verdicts,
    /// Frames that a port rule decided.
    pub port: Verdicts,
    /// Frames that a prefix rule decided.
    pub prefix: Verdicts,
    /// Frames that a VLAN rule decided.
    pub vlan: Verdicts,
    /// Frames that an EtherType rule decided.
    pub ethertype: Verdicts,
    /// Frames that no rule matched.
    pub default: Verdicts,
    /// Frames under 14 bytes; they follow the default action.
    pub runt: Verdicts,
    /// Frames with truncated or inconsistent headers. The default action applies to them.
    pub unparsable: Verdicts,
    /// Frames meant for the dataplane that went to the kernel because their queue has no socket.
    pub no_socket: u64,
    /// Frames for the dataplane that went to the kernel because the kernel refused the redirect
    /// itself.
    pub redirect_refused: u64,
}

impl Counters {
    /// Adds up the blocks of all CPUs.
    pub(crate) fn sum(blocks: &[CounterBlock]) -> Self {
        let mut total: CounterBlock = [0; COUNTERS];
        for block in blocks {
            for (sum, value) in total.iter_mut().zip(block) {
                *sum = sum.wrapping_add(*value);
            }
        }
        let verdicts = |cause| Verdicts {
            to_dataplane: total[to_dataplane(cause) as usize],
            to_kernel: total[to_kernel(cause) as usize],
            dropped: total[dropped(cause) as usize],
        };
        Self {
            link: verdicts(Cause::Link),
            five_tuple: verdicts(Cause::FiveTuple),
            destination: verdicts(Cause::Destination),
            port: verdicts(Cause::Port),
            prefix: verdicts(Cause::Prefix),
            vlan: verdicts(Cause::Vlan),
            ethertype: verdicts(Cause::EtherType),
            default: verdicts(Cause::Default),
            runt: verdicts(Cause::Runt),
            unparsable: verdicts(Cause::Unparsable),
            no_socket: total[COUNTER_NO_SOCKET as usize],
            redirect_refused: total[COUNTER_REDIRECT_REFUSED as usize],
        }
    }

    /// The verdicts by the name of their cause, in the order of decision.
    #[must_use]
    pub const fn by_cause(&self) -> [(&'static str, Verdicts); 10] {
        [
            ("runt", self.runt),
            ("link", self.link),
            ("unparsable", self.unparsable),
            ("five_tuple", self.five_tuple),
            ("destination", self.destination),
            ("port", self.port),
            ("prefix", self.prefix),
            ("vlan", self.vlan),
            ("ethertype", self.ethertype),
            ("default", self.default),
        ]
    }

    /// Frames handed to sockets.
    #[must_use]
    pub fn to_dataplane(&self) -> u64 {
        self.by_cause()
            .iter()
            .map(|(_, verdicts)| verdicts.to_dataplane)
            .sum()
    }

    /// Returns the frames passed to the kernel for any reason.
    #[must_use]
    pub fn to_kernel(&self) -> u64 {
        let decided: u64 = self
            .by_cause()
            .iter()
            .map(|(_, verdicts)| verdicts.to_kernel)
            .sum();
        decided + self.no_socket + self.redirect_refused
    }

    /// Returns the frames dropped by a rule or by the default action.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.by_cause()
            .iter()
            .map(|(_, verdicts)| verdicts.dropped)
            .sum()
    }

    /// Frames seen.
    #[must_use]
    pub fn frames(&self) -> u64 {
        self.to_dataplane() + self.to_kernel() + self.dropped()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_is_in_the_sum_once() {
        // Powers of two: a counter that is forgotten or taken twice shows.
        let mut block: CounterBlock = [0; COUNTERS];
        for (index, value) in block.iter_mut().enumerate() {
            *value = 1 << index;
        }
        let all = (1u64 << COUNTERS) - 1;
        assert_eq!(Counters::sum(&[block]).frames(), all);
        assert_eq!(Counters::sum(&[block, block]).frames(), 2 * all);
        assert_eq!(Counters::sum(&[]), Counters::default());
    }
}
