//! Compares the returning frames with the sent ones: every frame, every byte, in order.

use std::collections::VecDeque;

use serde::Serialize;

/// Shortest Ethernet frame without FCS. NICs pad shorter frames with zeroes, so a short frame may
/// come back longer.
const PADDED_FRAME_BYTES: usize = 60;

/// Returned frames that are remembered to detect duplicates.
const REMEMBERED: usize = 256;

/// Overtaken frames that are still hoped for. Beyond that the oldest is lost for good.
const OVERDUE_MAX: usize = 4096;

/// A frame on its way.
#[derive(Debug, Clone, Copy)]
struct Sent {
    frame: u32,
    at_ns: u64,
}

/// The kind of an arriving frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// The next expected frame, or the first expected frame after missing ones, with its round-trip
    /// time.
    Expected {
        /// From sending to arrival.
        rtt_ns: u64,
    },
    /// A frame that others have overtaken.
    Late {
        /// From sending to arrival.
        rtt_ns: u64,
    },
    /// A frame that came back before.
    Duplicate,
    /// Much like the next frame expected, but with other bytes.
    Altered {
        /// The first byte that differs, or the shorter's length.
        at_byte: usize,
    },
    /// It matches no frame in flight.
    Unknown,
}

/// How the comparison went.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Frames that came back unaltered, including late and padded ones.
    pub received_packets: u64,
    /// Their bytes, as sent.
    pub received_bytes: u64,
    /// Frames that came back with other bytes.
    pub mismatched_packets: u64,
    /// Frames that never came back in any form.
    pub lost_packets: u64,
    /// Frames that came back after a later one.
    pub reordered_packets: u64,
    /// Second copies.
    pub duplicated_packets: u64,
    /// Frames that this process did not send: other traffic of the port.
    pub foreign_packets: u64,
    /// Frames of fewer than 60 bytes that came back zero-padded to 60, as NICs do. They count as
    /// received.
    pub padded_packets: u64,
}

impl Tally {
    /// Whether every frame came back once, unaltered and in order.
    #[must_use]
    pub const fn is_exact(&self) -> bool {
        self.mismatched_packets == 0
            && self.lost_packets == 0
            && self.reordered_packets == 0
            && self.duplicated_packets == 0
    }

    /// Adds another tally.
    pub fn add(&mut self, other: &Self) {
        self.received_packets += other.received_packets;
        self.received_bytes += other.received_bytes;
        self.mismatched_packets += other.mismatched_packets;
        self.lost_packets += other.lost_packets;
        self.reordered_packets += other.reordered_packets;
        self.duplicated_packets += other.duplicated_packets;
        self.foreign_packets += other.foreign_packets;
        self.padded_packets += other.padded_packets;
    }
}

/// The frames in flight on one port, oldest first. The index in a list that the caller keeps
/// identifies a frame.
#[derive(Debug, Default)]
pub struct Comparison {
    in_flight: VecDeque<Sent>,
    /// As they lie in a pipe: each rounded up to its quanta.
    bytes_in_flight: usize,
    /// Overtaken, still hoped for.
    overdue: VecDeque<Sent>,
    /// The last frames that came back.
    returned: VecDeque<u32>,
    tally: Tally,
    /// Overtaken and no longer hoped for.
    gone: u64,
    /// Arrivals that look like an altered frame. At the end, at most as many of them as frames are
    /// missing count as altered.
    suspects: u64,
}

impl Comparison {
    /// No frame is in flight.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// `frame` was sent.
    pub fn sent(&mut self, frame: u32, frames: &[Box<[u8]>], at_ns: u64) {
        self.in_flight.push_back(Sent { frame, at_ns });
        self.bytes_in_flight += ring_bytes(&frames[frame as usize]);
    }

    /// `bytes` arrived.
    pub fn arrived(&mut self, bytes: &[u8], frames: &[Box<[u8]>], now_ns: u64) -> Arrival {
        let place = self
            .in_flight
            .iter()
            .position(|sent| is_same(&frames[sent.frame as usize], bytes));
        if let Some(place) = place {
            for overtaken in self.in_flight.drain(..place) {
                self.bytes_in_flight -= ring_bytes(&frames[overtaken.frame as usize]);
                self.overdue.push_back(overtaken);
            }
            self.forget_oldest_overdue();
            let Some(sent) = self.in_flight.pop_front() else {
                return Arrival::Unknown;
            };
            self.bytes_in_flight -= ring_bytes(&frames[sent.frame as usize]);
            return Arrival::Expected {
                rtt_ns: self.record_return(sent, bytes, frames, now_ns),
            };
        }
        if let Some(place) = self
            .overdue
            .iter()
            .position(|sent| is_same(&frames[sent.frame as usize], bytes))
            && let Some(sent) = self.overdue.remove(place)
        {
            self.tally.reordered_packets += 1;
            return Arrival::Late {
                rtt_ns: self.record_return(sent, bytes, frames, now_ns),
            };
        }
        if self
            .returned
            .iter()
            .any(|frame| is_same(&frames[*frame as usize], bytes))
        {
            self.tally.duplicated_packets += 1;
            return Arrival::Duplicate;
        }
        let altered = self
            .in_flight
            .front()
            .or(self.overdue.front())
            .and_then(|sent| alteration(&frames[sent.frame as usize], bytes));
        match altered {
            Some(at_byte) => {
                self.suspects += 1;
                Arrival::Altered { at_byte }
            }
            None => {
                self.tally.foreign_packets += 1;
                Arrival::Unknown
            }
        }
    }

    fn record_return(
        &mut self,
        sent: Sent,
        bytes: &[u8],
        frames: &[Box<[u8]>],
        now_ns: u64,
    ) -> u64 {
        let frame = &frames[sent.frame as usize];
        self.tally.received_packets += 1;
        self.tally.received_bytes += frame.len() as u64;
        self.tally.padded_packets += u64::from(bytes.len() != frame.len());
        if self.returned.len() == REMEMBERED {
            self.returned.pop_front();
        }
        self.returned.push_back(sent.frame);
        now_ns.saturating_sub(sent.at_ns)
    }

    /// Gives up on all frames in flight. They count as lost unless they still come back. Sending
    /// can continue.
    pub fn give_up(&mut self) {
        self.bytes_in_flight = 0;
        self.overdue.append(&mut self.in_flight);
        self.forget_oldest_overdue();
    }

    fn forget_oldest_overdue(&mut self) {
        let excess = self.overdue.len().saturating_sub(OVERDUE_MAX);
        self.gone += excess as u64;
        self.overdue.drain(..excess);
    }

    /// Frames in flight.
    #[must_use]
    pub fn packets_in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// The space of these frames in a pipe in bytes: each frame is rounded up to a multiple of 64.
    #[must_use]
    pub const fn bytes_in_flight(&self) -> usize {
        self.bytes_in_flight
    }

    /// Returns the current counts. Frames in flight are not lost yet; overtaken frames are.
    #[must_use]
    pub fn tally(&self) -> Tally {
        let missing = self.gone + self.overdue.len() as u64;
        // Each altered frame leaves its original missing. A suspect without a missing original is
        // foreign.
        let mismatched_packets = self.suspects.min(missing);
        Tally {
            mismatched_packets,
            lost_packets: missing - mismatched_packets,
            foreign_packets: self.tally.foreign_packets + self.suspects - mismatched_packets,
            ..self.tally
        }
    }
}

/// The space that a frame takes in a pipe, in bytes.
#[must_use]
pub const fn ring_bytes(frame: &[u8]) -> usize {
    frame.len().next_multiple_of(64)
}

/// Whether `bytes` is `frame`, or `frame` padded as a NIC does.
fn is_same(frame: &[u8], bytes: &[u8]) -> bool {
    if frame.len() == bytes.len() {
        return frame == bytes;
    }
    frame.len() < PADDED_FRAME_BYTES
        && bytes.len() == PADDED_FRAME_BYTES
        && bytes.starts_with(frame)
        && bytes[frame.len()..].iter().all(|byte| *byte == 0)
}

/// Returns the first position at which `bytes` differs from `frame`, if at least half of the longer
/// one is the same in both.
fn alteration(frame: &[u8], bytes: &[u8]) -> Option<usize> {
    let same = frame
        .iter()
        .zip(bytes)
        .filter(|(left, right)| left == right)
        .count();
    let longer = frame.len().max(bytes.len());
    let at_byte = frame
        .iter()
        .zip(bytes)
        .position(|(left, right)| left != right)
        .unwrap_or(frame.len().min(bytes.len()));
    (same * 2 >= longer).then_some(at_byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames of 64 bytes that differ from each other in every byte.
    fn frames(count: u8) -> Vec<Box<[u8]>> {
        (0..count)
            .map(|index| vec![index + 1; 64].into_boxed_slice())
            .collect()
    }

    fn sent(count: u8) -> (Comparison, Vec<Box<[u8]>>) {
        let frames = frames(count);
        let mut comparison = Comparison::new();
        for index in 0..count {
            comparison.sent(u32::from(index), &frames, u64::from(index));
        }
        (comparison, frames)
    }

    #[test]
    fn frames_returned_in_order_are_exact() {
        let (mut comparison, frames) = sent(3);
        assert_eq!(comparison.bytes_in_flight(), 192);
        for (index, frame) in frames.iter().enumerate() {
            let arrival = comparison.arrived(frame, &frames, 100);
            assert_eq!(
                arrival,
                Arrival::Expected {
                    rtt_ns: 100 - index as u64
                }
            );
        }
        let tally = comparison.tally();
        assert!(tally.is_exact());
        assert_eq!((tally.received_packets, tally.received_bytes), (3, 192));
        assert_eq!(
            (comparison.packets_in_flight(), comparison.bytes_in_flight()),
            (0, 0)
        );
    }

    #[test]
    fn a_loss_is_seen_at_the_next_arrival_and_does_not_disturb_it() {
        let (mut comparison, frames) = sent(3);
        assert_eq!(
            comparison.arrived(&frames[1], &frames, 9),
            Arrival::Expected { rtt_ns: 8 }
        );
        assert_eq!(
            comparison.arrived(&frames[2], &frames, 9),
            Arrival::Expected { rtt_ns: 7 }
        );
        let tally = comparison.tally();
        assert_eq!((tally.lost_packets, tally.received_packets), (1, 2));
        assert!(!tally.is_exact());
    }

    #[test]
    fn overtaken_frames_are_late_and_not_lost() {
        let (mut comparison, frames) = sent(2);
        comparison.arrived(&frames[1], &frames, 9);
        assert_eq!(
            comparison.arrived(&frames[0], &frames, 9),
            Arrival::Late { rtt_ns: 9 }
        );
        let tally = comparison.tally();
        assert_eq!(
            (
                tally.reordered_packets,
                tally.lost_packets,
                tally.received_packets
            ),
            (1, 0, 2)
        );
        assert!(!tally.is_exact());
    }

    #[test]
    fn one_altered_byte_is_a_mismatch_and_not_a_loss() {
        let (mut comparison, frames) = sent(2);
        let mut altered = frames[0].clone();
        altered[40] ^= 1;
        assert_eq!(
            comparison.arrived(&altered, &frames, 9),
            Arrival::Altered { at_byte: 40 }
        );
        comparison.arrived(&frames[1], &frames, 9);
        let tally = comparison.tally();
        assert_eq!(
            (
                tally.mismatched_packets,
                tally.lost_packets,
                tally.received_packets
            ),
            (1, 0, 1)
        );
    }

    #[test]
    fn a_truncated_frame_is_a_mismatch() {
        let (mut comparison, frames) = sent(1);
        assert_eq!(
            comparison.arrived(&frames[0][..50], &frames, 9),
            Arrival::Altered { at_byte: 50 }
        );
        comparison.give_up();
        assert_eq!(comparison.tally().mismatched_packets, 1);
    }

    #[test]
    fn a_second_copy_is_a_duplicate() {
        let (mut comparison, frames) = sent(2);
        comparison.arrived(&frames[0], &frames, 9);
        assert_eq!(
            comparison.arrived(&frames[0], &frames, 9),
            Arrival::Duplicate
        );
        assert!(!comparison.tally().is_exact());
    }

    #[test]
    fn other_traffic_is_foreign_and_disturbs_nothing() {
        let (mut comparison, frames) = sent(1);
        assert_eq!(
            comparison.arrived(&[0xaa; 90], &frames, 9),
            Arrival::Unknown
        );
        // Looks like an altered frame, until the frame itself comes back.
        let mut alike = frames[0].clone();
        alike[0] ^= 1;
        assert!(matches!(
            comparison.arrived(&alike, &frames, 9),
            Arrival::Altered { .. }
        ));
        comparison.arrived(&frames[0], &frames, 9);
        let tally = comparison.tally();
        assert!(tally.is_exact());
        assert_eq!(tally.foreign_packets, 2);
    }

    #[test]
    fn losses_without_end_take_bounded_memory_and_are_all_counted() {
        let frames = frames(1);
        let mut comparison = Comparison::new();
        for _ in 0..3 * OVERDUE_MAX {
            comparison.sent(0, &frames, 0);
            comparison.give_up();
        }
        assert_eq!(comparison.tally().lost_packets, 3 * OVERDUE_MAX as u64);
        assert_eq!(comparison.overdue.len(), OVERDUE_MAX);
    }

    #[test]
    fn equal_frames_in_a_row_are_distinguished_by_count_only() {
        let frames: Vec<Box<[u8]>> = vec![vec![7; 64].into(), vec![7; 64].into()];
        let mut comparison = Comparison::new();
        comparison.sent(0, &frames, 0);
        comparison.sent(1, &frames, 0);
        comparison.arrived(&frames[0], &frames, 1);
        comparison.give_up();
        assert_eq!(comparison.tally().lost_packets, 1);
        assert_eq!(comparison.tally().duplicated_packets, 0);
    }

    #[test]
    fn a_short_frame_may_return_padded_with_zeroes_only() {
        let frames: Vec<Box<[u8]>> = vec![vec![7; 42].into()];
        let mut padded = [0; 60];
        padded[..42].fill(7);
        let mut comparison = Comparison::new();
        comparison.sent(0, &frames, 0);
        comparison.arrived(&padded, &frames, 1);
        assert_eq!(
            (
                comparison.tally().padded_packets,
                comparison.tally().received_bytes
            ),
            (1, 42)
        );
        assert!(comparison.tally().is_exact());

        comparison.sent(0, &frames, 0);
        padded[59] = 1;
        assert_eq!(
            comparison.arrived(&padded, &frames, 1),
            Arrival::Altered { at_byte: 42 }
        );
    }
}
