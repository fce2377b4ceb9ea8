//! Packets that the application sends back, to measure the round trip.

use crate::streams::source::{BEFORE, TOUCHED};

/// Bytes of a probe, as of all packets here.
pub const BYTES: usize = 64;

/// The byte that distinguishes a probe from other packets, which have [`BEFORE`] there.
const MARKED: usize = 9;

/// Its value in a probe.
const MARK: u8 = 2;

/// Where the time lies.
const STAMP: usize = 16;

/// A packet with a mark and the time at which it was sent.
#[derive(Debug, Clone, Copy)]
pub struct Probe([u8; BYTES]);

impl Probe {
    /// One that is sent at `now_ns`.
    #[inline]
    pub fn at(now_ns: u64) -> Self {
        let mut bytes = [BEFORE; BYTES];
        bytes[MARKED] = MARK;
        bytes[STAMP..STAMP + 8].copy_from_slice(&now_ns.to_ne_bytes());
        Self(bytes)
    }

    /// Its bytes.
    #[inline]
    pub const fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Whether a packet is a probe.
#[inline]
pub fn is_probe(packet: &[u8]) -> bool {
    packet.get(MARKED) == Some(&MARK)
}

/// When a probe was sent.
#[inline]
pub fn sent_ns(packet: &[u8]) -> Option<u64> {
    let stamp = packet.get(STAMP..)?.first_chunk()?;
    is_probe(packet).then_some(u64::from_ne_bytes(*stamp))
}

const _: () = assert!(TOUCHED != MARKED && TOUCHED < STAMP);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::streams::{case::Size, source::Source};

    #[test]
    fn a_probe_has_its_time_and_other_packets_are_none() {
        let probe = Probe::at(0x0123_4567_89ab_cdef);
        assert!(is_probe(probe.bytes()));
        assert_eq!(sent_ns(probe.bytes()), Some(0x0123_4567_89ab_cdef));
        assert_eq!(probe.bytes()[TOUCHED], BEFORE);
        let mut source = Source::new(Size::Bytes(64), &[]).expect("packets");
        assert!(!is_probe(source.next_packet()));
        assert_eq!(sent_ns(source.next_packet()), None);
        assert_eq!(sent_ns(&probe.bytes()[..20]), None);
    }
}
