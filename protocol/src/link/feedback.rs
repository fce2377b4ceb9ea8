//! Perfect information feedback: every record reflects the last one heard, and every reflection is compared with what
//! was said.
//!
//! The reflection also is the credit of the cable: at most so many records are under way unreflected as the receiver issued
//! in its handshake, and again in each ball, so what is under way has room in its ring, and never so many that the eight bits of the liveness byte
//! could name two records.

use core::hash::{Hash, Hasher};

use crate::wire::{FRAME_RECORDS_MAX, record::Header, slice};

/// Most records that a receiver may issue: so few that a liveness byte cannot name two records.
pub(crate) const WINDOW_RECORDS_MAX: u16 = 250;
/// Fewest that it may issue: a frame of messages must fit into what is left for them.
pub(crate) const WINDOW_RECORDS_MIN: u16 = 32;

/// How many of the records that a receiver issued messages may take. The rest is for balls, because they carry the reflection
/// that the peer may be waiting for.
pub(crate) const fn message_window(window_records: u16) -> u32 {
    window_records as u32 * 192 / 250
}

const _: () = assert!(
    message_window(WINDOW_RECORDS_MIN) as usize >= FRAME_RECORDS_MAX,
    "the longest message of one frame can be sent"
);

/// The peer reflects something that was never said, or no longer can be the last that it heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReflectionError;

/// What was said and heard in one epoch.
#[derive(Clone)]
pub(crate) struct Feedback {
    /// Mine halves by the low eight bits of their record sequence.
    said: [u32; 256],
    /// Sequence of the next record to say.
    next: u32,
    /// Records that the peer is known to have heard: all before this sequence.
    reflected: u32,
    /// The peer reflected something in this epoch. The sequences wrap, so none of them can say so.
    reflected_anything: bool,
    /// The peer's last mine half; 0 for none.
    heard: u32,
    /// Sequence of the next record to hear.
    expected: u32,
    /// Sequence of the first record of the epoch, said or heard.
    first: u32,
    /// Records that the receiver has room for.
    window_records: u16,
    /// Records heard since this side last said something.
    unreflected: u32,
}

/// What a record's sequence tells.
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
    /// Nothing said and nothing heard; both directions count from `first`. The receiver has room for `window_records`.
    pub const fn new(first: u32, window_records: u16) -> Self {
        Self {
            said: [0; 256],
            next: first,
            reflected: first,
            reflected_anything: false,
            heard: 0,
            expected: first,
            first,
            window_records,
            unreflected: 0,
        }
    }

    /// The receiver has room for `window_records` from now on.
    pub const fn set_window(&mut self, window_records: u16) {
        self.window_records = window_records;
    }

    /// Sequence of the next record to say.
    #[inline]
    pub const fn next_sequence(&self) -> u32 {
        self.next
    }

    /// What the next record reflects.
    #[inline]
    pub const fn heard(&self) -> u32 {
        self.heard
    }

    /// Records heard that nothing said since reflects.
    #[inline]
    pub const fn unreflected(&self) -> u32 {
        self.unreflected
    }

    /// Whether anything was heard in this epoch.
    pub const fn heard_anything(&self) -> bool {
        self.heard != 0
    }

    /// Whether the peer is known to have heard the record with this sequence.
    pub const fn is_reflected(&self, sequence: u32) -> bool {
        sequence.wrapping_sub(self.reflected).cast_signed() < 0
    }

    /// Records that the receiver has room for.
    pub const fn credit(&self) -> u32 {
        self.window_records as u32
    }

    /// Records that are not known to have been heard.
    #[inline]
    pub const fn outstanding(&self) -> u32 {
        self.next.wrapping_sub(self.reflected)
    }

    /// Whether `records` more may be under way.
    #[inline]
    pub const fn may_send(&self, records: usize) -> bool {
        self.outstanding() as usize + records <= message_window(self.window_records) as usize
    }

    /// How many records of messages may be under way besides those that are.
    pub const fn room(&self) -> usize {
        message_window(self.window_records).saturating_sub(self.outstanding()) as usize
    }

    /// Whether a ball may be under way.
    pub const fn may_send_ball(&self) -> bool {
        self.outstanding() < self.window_records as u32
    }

    /// Notes the mine half of the record just written.
    #[inline]
    pub const fn said(&mut self, mine: u32) {
        self.said[(self.next & 0xff) as usize] = mine;
        self.next = self.next.wrapping_add(1);
        self.unreflected = 0;
    }

    /// What the sequence of an arriving record tells.
    #[inline]
    pub const fn arrival(&self, record_sequence: u32) -> Arrival {
        match record_sequence.wrapping_sub(self.expected).cast_signed() {
            0 => Arrival::InOrder,
            1.. => Arrival::Gap,
            _ => Arrival::Duplicate,
        }
    }

    /// Notes a message of `records` records that arrived in order and starts with `header`.
    #[inline]
    pub const fn accept(&mut self, header: &Header, records: usize) {
        self.heard = header.mine_at(records - 1);
        self.expected = header.record_sequence.wrapping_add(records as u32);
        self.unreflected = self.unreflected.saturating_add(records as u32);
    }

    #[cfg(feature = "arbitrary-state")]
    pub(crate) fn scramble(&mut self, draw: &mut crate::node::arbitrary::Draw) {
        self.said.fill_with(|| draw.half());
        self.next = draw.sequence();
        self.reflected = draw.sequence();
        self.reflected_anything = draw.flag();
        self.heard = draw.half();
        self.expected = draw.sequence();
        self.unreflected = draw.below(100);
        self.first = draw.sequence();
        self.window_records = draw.below(u32::from(WINDOW_RECORDS_MAX) + 1) as u16;
    }

    /// Records accepted in this epoch.
    pub const fn records_heard(&self) -> u32 {
        self.expected.wrapping_sub(self.first)
    }

    /// Whether something was said that the peer is not known to have heard.
    pub const fn awaits_reflection(&self) -> bool {
        self.outstanding() > 0
    }

    /// Whether something was said that the peer may not reflect by itself, who does so when it has heard a `part`th of what
    /// messages may take.
    pub const fn awaits_reflection_unasked(&self, part: u32) -> bool {
        self.outstanding() > 0 && self.outstanding() < message_window(self.window_records) / part
    }

    /// Compares what the peer reflects with what was said; tells whether it reflects something new.
    ///
    /// # Errors
    /// It is none of the records between the last one reflected and the last one said.
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
        if self.said[(named & 0xff) as usize] != yours {
            return Err(ReflectionError);
        }
        let before = core::mem::replace(&mut self.reflected, named.wrapping_add(1));
        self.reflected_anything = true;
        Ok(self.reflected != before)
    }
}

/// Of what was said counts what the peer may still reflect.
impl Hash for Feedback {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self {
            said,
            next,
            reflected,
            reflected_anything,
            heard,
            expected,
            first,
            window_records,
            unreflected,
        } = self;
        let earliest = reflected.wrapping_sub(u32::from(*reflected_anything));
        for ahead in 0..next.wrapping_sub(earliest) {
            said[(earliest.wrapping_add(ahead) & 0xff) as usize].hash(state);
        }
        (next, reflected, reflected_anything).hash(state);
        (heard, expected, unreflected).hash(state);
        (first, window_records).hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::slice::Kind;

    /// The record whose successor has the sequence 0 is reflected twice, and a reflection of nothing is no longer one.
    #[test]
    fn the_last_sequence_before_the_wrap_may_be_reflected_again() {
        let mine = |sequence| slice::mine(Kind::Ball, sequence, 0);
        let mut feedback = Feedback::new(u32::MAX - 1, WINDOW_RECORDS_MAX);
        assert_eq!(feedback.check(0), Ok(false));
        for sequence in [u32::MAX - 1, u32::MAX] {
            feedback.said(mine(sequence));
        }
        assert_eq!(feedback.check(0), Ok(false));
        assert_eq!(feedback.check(mine(u32::MAX)), Ok(true));
        assert_eq!(feedback.check(mine(u32::MAX)), Ok(false));
        assert_eq!(feedback.check(0), Err(ReflectionError));
        assert_eq!(feedback.check(mine(u32::MAX - 1)), Err(ReflectionError));
        feedback.said(mine(0));
        assert_eq!(feedback.check(mine(u32::MAX)), Ok(false));
        assert_eq!(feedback.check(mine(0)), Ok(true));
    }
}
