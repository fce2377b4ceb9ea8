//! Perfect information feedback: every record reflects the last one received, and every reflection
//! is compared with the records sent.
//!
//! Reflection also provides the credit of the cable. The receiver issues a number of records in its
//! handshake and in each keepalive. At most that many records are in flight unreflected, so they
//! fit in its ring. The number is so small that the eight bits of the liveness byte identify one
//! record.

use core::hash::{Hash, Hasher};

use crate::wire::{FRAME_RECORDS_MAX, record::Header, slice};

/// Most records that a receiver may issue: so few that a liveness byte cannot name two records.
pub(crate) const WINDOW_RECORDS_MAX: u16 = 250;
/// Fewest records that it may issue: a frame of messages must fit in the share for messages.
pub(crate) const WINDOW_RECORDS_MIN: u16 = 32;

/// Number of issued records that messages may use. The rest is reserved for keepalives, because
/// they carry the reflection that the peer may be waiting for.
pub(crate) const fn message_window(window_records: u16) -> u32 {
    window_records as u32 * 192 / 250
}

const _: () = assert!(
    message_window(WINDOW_RECORDS_MIN) as usize >= FRAME_RECORDS_MAX,
    "the longest message of one frame can be sent"
);

/// The peer reflects a value that was never sent, or that can no longer be the last one it
/// received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReflectionError;

/// Records sent and received in one epoch.
#[derive(Clone)]
pub(crate) struct Feedback {
    /// Mine halves by the low eight bits of their record sequence.
    sent: [u32; 256],
    /// Sequence of the next record to send.
    next: u32,
    /// The peer is known to have received all records before this sequence.
    reflected: u32,
    /// The peer reflected something in this epoch. Sequences wrap, so no sequence value can encode
    /// this.
    reflected_anything: bool,
    /// The peer's last mine half; 0 for none.
    received: u32,
    /// Sequence of the next record to receive.
    expected: u32,
    /// Sequence of the first record of the epoch, in both directions.
    first: u32,
    /// Receive buffers of the peer, in records.
    window_records: u16,
    /// Records received since this side last sent one.
    unreflected: u32,
}

/// Meaning of a record's sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// The next one.
    InOrder,
    /// Already accepted.
    Duplicate,
    /// At least one before it is lost.
    Gap,
}

impl Feedback {
    /// Nothing sent and nothing received; both directions count from `first`. The receiver has
    /// buffers for `window_records`.
    pub const fn new(first: u32, window_records: u16) -> Self {
        Self {
            sent: [0; 256],
            next: first,
            reflected: first,
            reflected_anything: false,
            received: 0,
            expected: first,
            first,
            window_records,
            unreflected: 0,
        }
    }

    /// From now on the receiver has buffers for `window_records`.
    pub const fn set_window(&mut self, window_records: u16) {
        self.window_records = window_records;
    }

    /// Sequence of the next record to send.
    #[inline]
    pub const fn next_sequence(&self) -> u32 {
        self.next
    }

    /// The value that the next record reflects.
    #[inline]
    pub const fn received(&self) -> u32 {
        self.received
    }

    /// Received records that no sent record reflects yet.
    #[inline]
    pub const fn unreflected(&self) -> u32 {
        self.unreflected
    }

    /// Whether anything was received in this epoch.
    pub const fn received_anything(&self) -> bool {
        self.received != 0
    }

    /// Whether the peer is known to have received the record with this sequence.
    pub const fn is_reflected(&self, sequence: u32) -> bool {
        sequence.wrapping_sub(self.reflected).cast_signed() < 0
    }

    /// Receive buffers of the peer, in records.
    pub const fn credit(&self) -> u32 {
        self.window_records as u32
    }

    /// Sent records that are not known to have been received.
    #[inline]
    pub const fn outstanding(&self) -> u32 {
        self.next.wrapping_sub(self.reflected)
    }

    /// Whether `records` more may be in flight.
    #[inline]
    pub const fn may_send(&self, records: usize) -> bool {
        self.outstanding() as usize + records <= message_window(self.window_records) as usize
    }

    /// How many more records of messages may be in flight.
    pub const fn room(&self) -> usize {
        message_window(self.window_records).saturating_sub(self.outstanding()) as usize
    }

    /// Whether one more keepalive may be in flight.
    pub const fn may_send_keepalive(&self) -> bool {
        self.outstanding() < self.window_records as u32
    }

    /// Notes the mine half of the record just written.
    #[inline]
    pub const fn sent(&mut self, mine: u32) {
        self.sent[(self.next & 0xff) as usize] = mine;
        self.next = self.next.wrapping_add(1);
        self.unreflected = 0;
    }

    /// Classifies the sequence of an arriving record.
    #[inline]
    pub const fn arrival(&self, record_sequence: u32) -> Arrival {
        match record_sequence.wrapping_sub(self.expected).cast_signed() {
            0 => Arrival::InOrder,
            1.. => Arrival::Gap,
            _ => Arrival::Duplicate,
        }
    }

    /// Records a message of `records` records that arrived in order and starts with `header`.
    #[inline]
    pub const fn accept(&mut self, header: &Header, records: usize) {
        self.received = header.mine_at(records - 1);
        self.expected = header.record_sequence.wrapping_add(records as u32);
        self.unreflected = self.unreflected.saturating_add(records as u32);
    }

    #[cfg(feature = "arbitrary-state")]
    pub(crate) fn scramble(&mut self, draw: &mut crate::draw::Draw) {
        self.sent.fill_with(|| draw.half());
        self.next = draw.sequence();
        self.reflected = draw.sequence();
        self.reflected_anything = draw.flag();
        self.received = draw.half();
        self.expected = draw.sequence();
        self.unreflected = draw.below(100);
        self.first = draw.sequence();
        self.window_records = draw.below(u32::from(WINDOW_RECORDS_MAX) + 1) as u16;
    }

    /// Records accepted in this epoch.
    pub const fn records_received(&self) -> u32 {
        self.expected.wrapping_sub(self.first)
    }

    /// Whether a sent record is not known to have been received.
    pub const fn awaits_reflection(&self) -> bool {
        self.outstanding() > 0
    }

    /// Whether sent records await a reflection that the peer may not send by itself. The peer
    /// reflects by itself after a `part`th of the records that messages may use.
    pub const fn awaits_reflection_unasked(&self, part: u32) -> bool {
        self.outstanding() > 0 && self.outstanding() < message_window(self.window_records) / part
    }

    /// Compares the peer's reflection with the records sent. Returns whether it reflects a new
    /// record.
    ///
    /// # Errors
    /// It is none of the records between the last one reflected and the last one sent.
    #[inline]
    pub fn check(&mut self, yours: u32) -> Result<bool, ReflectionError> {
        if yours == 0 {
            return if self.reflected_anything {
                Err(ReflectionError)
            } else {
                Ok(false)
            };
        }
        // The earliest record that the peer may still name is the last one that it named.
        let earliest = self
            .reflected
            .wrapping_sub(u32::from(self.reflected_anything));
        let ahead = slice::liveness_of(yours).wrapping_sub(earliest.to_le_bytes()[0]);
        if u32::from(ahead) >= self.next.wrapping_sub(earliest) {
            return Err(ReflectionError);
        }
        let named = earliest.wrapping_add(u32::from(ahead));
        if self.sent[(named & 0xff) as usize] != yours {
            return Err(ReflectionError);
        }
        let before = core::mem::replace(&mut self.reflected, named.wrapping_add(1));
        self.reflected_anything = true;
        Ok(self.reflected != before)
    }
}

/// Of the sent values, only those that the peer may still reflect count.
impl Hash for Feedback {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self {
            sent,
            next,
            reflected,
            reflected_anything,
            received,
            expected,
            first,
            window_records,
            unreflected,
        } = self;
        let earliest = reflected.wrapping_sub(u32::from(*reflected_anything));
        for ahead in 0..next.wrapping_sub(earliest) {
            sent[(earliest.wrapping_add(ahead) & 0xff) as usize].hash(state);
        }
        (next, reflected, reflected_anything).hash(state);
        (received, expected, unreflected).hash(state);
        (first, window_records).hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::slice::Kind;

    /// The record before sequence 0 is reflected twice; a reflection of nothing is no longer valid.
    #[test]
    fn the_last_sequence_before_the_wrap_may_be_reflected_again() {
        let mine = |sequence| slice::mine(Kind::Keepalive, sequence, 0);
        let mut feedback = Feedback::new(u32::MAX - 1, WINDOW_RECORDS_MAX);
        assert_eq!(feedback.check(0), Ok(false));
        for sequence in [u32::MAX - 1, u32::MAX] {
            feedback.sent(mine(sequence));
        }
        assert_eq!(feedback.check(0), Ok(false));
        assert_eq!(feedback.check(mine(u32::MAX)), Ok(true));
        assert_eq!(feedback.check(mine(u32::MAX)), Ok(false));
        assert_eq!(feedback.check(0), Err(ReflectionError));
        assert_eq!(feedback.check(mine(u32::MAX - 1)), Err(ReflectionError));
        feedback.sent(mine(0));
        assert_eq!(feedback.check(mine(u32::MAX)), Ok(false));
        assert_eq!(feedback.check(mine(0)), Ok(true));
    }
}
