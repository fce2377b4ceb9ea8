//! One end of one cable.

pub(crate) mod ball;
pub(crate) mod feedback;
pub(crate) mod handshake;
pub(crate) mod outbound;

use alloc::{collections::VecDeque, vec::Vec};

use self::{
    feedback::{Feedback, ReflectionError},
    handshake::Handshake,
    outbound::Outbound,
};
use crate::{
    counters::LinkCounters,
    transaction::Index,
    wire::{
        RECORD_PAYLOAD_BYTES, frame::FrameWriter, message::records_for, record::Header, slice::Kind,
    },
};

/// Records accepted and not yet reflected after which a ball goes out although nothing else does. Well below
/// [`feedback::WINDOW`], so that a peer that only listens never stalls one that only talks.
const REFLECT_EVERY: u32 = 64;

/// Where a link stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LinkState {
    /// No carrier.
    Down,
    /// Carrier, and the two ends are agreeing on an epoch.
    Init,
    /// Both ends hold the same epoch.
    Up,
}

impl LinkState {
    /// `down`, `init` or `up`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Down => "down",
            Self::Init => "init",
            Self::Up => "up",
        }
    }
}

/// Who is at the other end, as its handshake said.
#[derive(Debug, Clone, Copy, Hash)]
pub(crate) struct Attachment {
    /// Index of the peer.
    pub peer: usize,
    /// Index of the latches of the peer's port.
    pub set: usize,
    /// The peer's index of its port.
    pub port: u16,
    pub mac: [u8; 6],
    /// Slots that the peer lets this side use.
    pub granted: u8,
}

/// A message that waits for transmission and whose content lies in a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Due {
    /// Message 3 of an exchange of this side.
    Commit(u8),
    /// The answer to an exchange of the peer.
    Answer(u8),
}

/// An answer to a resolution that waits for transmission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Verdict {
    /// The port of the initiator whose exchange is asked about.
    pub port: u16,
    pub slot: u8,
    pub sequence: u32,
}

/// One end of one cable.
#[derive(Clone, Hash)]
pub(crate) struct Link {
    /// The caller's index of the port.
    pub port: u16,
    pub mac: [u8; 6],
    pub state: LinkState,
    /// The epoch in force, or proposed while in handshake.
    pub epoch: u32,
    pub handshake: Handshake,
    /// The peer, exactly while the link is up.
    pub attachment: Option<Attachment>,
    pub feedback: Feedback,
    pub outbound: Outbound,
    /// Messages due, in order. Holds each slot of each direction once at most.
    pub due: VecDeque<Due>,
    /// Answers to resolutions due. The peer may have as many questions under way as it has slots here.
    pub verdicts: VecDeque<Verdict>,
    /// Transactions being asked about on this link.
    pub asked: Vec<Index>,
    /// Ticks since something was heard.
    pub silent_paces: u32,
    /// Something other than the ball was sent since the last tick.
    pub sent_since_tick: bool,
    pub ball_due: bool,
    pub counters: LinkCounters,
}

impl Link {
    pub fn new(port: u16, mac: [u8; 6], slots: u8, first_sequence: u32) -> Self {
        let slots_len = usize::from(slots);
        Self {
            port,
            mac,
            state: LinkState::Down,
            epoch: first_sequence.wrapping_add(1),
            handshake: Handshake::new(),
            attachment: None,
            feedback: Feedback::new(first_sequence),
            outbound: Outbound::new(slots, first_sequence),
            due: VecDeque::with_capacity(2 * slots_len),
            verdicts: VecDeque::with_capacity(slots_len),
            asked: Vec::with_capacity(slots_len),
            silent_paces: 0,
            sent_since_tick: false,
            ball_due: false,
            counters: LinkCounters::default(),
        }
    }

    /// Slots that this side lets the peer use.
    #[inline]
    pub fn slots(&self) -> u8 {
        self.outbound.slots()
    }

    /// Enters an epoch: nothing was said and nothing heard in it. Its records count from `first_sequence`.
    pub fn enter_epoch(&mut self, first_sequence: u32) {
        self.state = LinkState::Up;
        self.feedback = Feedback::new(first_sequence);
        self.silent_paces = 0;
        self.sent_since_tick = false;
        self.ball_due = false;
        self.counters.ups += 1;
        let granted = self.attachment.map_or(0, |attachment| attachment.granted);
        self.outbound.enter_epoch(granted);
    }

    /// Notes that the records of a message were accepted and what they reflect.
    #[inline]
    pub fn accept(&mut self, header: &Header, records: usize) -> Result<(), ReflectionError> {
        self.silent_paces = 0;
        self.counters.rx_records += records as u64;
        self.feedback.accept(header, records);
        if self.feedback.unreflected() >= REFLECT_EVERY {
            self.ball_due = true;
        }
        self.feedback.check(header.yours)
    }

    /// Whether a message of `payload_bytes` may be written to `writer` now.
    #[inline]
    pub fn may_send(&self, writer: &FrameWriter<'_>, payload_bytes: usize) -> bool {
        let records = records_for(payload_bytes);
        records <= writer.room() && self.feedback.may_send(records)
    }

    /// Writes one message; [`Self::may_send`] must have allowed it. Returns the sequence of its last record.
    #[inline]
    pub fn write(
        &mut self,
        writer: &mut FrameWriter<'_>,
        kind: Kind,
        slot: u8,
        slot_sequence: u32,
        payload: &[u8],
    ) -> u32 {
        let records = records_for(payload.len());
        let mut rest = payload;
        let mut record_sequence = 0;
        for index in 0..records {
            let Some(record) = writer.next_record() else {
                break;
            };
            let (part, behind) = rest.split_at(rest.len().min(RECORD_PAYLOAD_BYTES));
            rest = behind;
            record_sequence = self.feedback.next_sequence();
            let header = Header {
                kind,
                yours: self.feedback.heard(),
                epoch: self.epoch,
                record_sequence,
                slot_sequence,
                slot,
                payload_bytes: part.len() as u8,
                records: records as u8,
                index: index as u8,
            };
            header.write(part, record);
            self.feedback.said(header.mine());
        }
        self.counters.tx_records += records as u64;
        // The ball itself does not count, or an idle link would bounce it at every other pace only.
        self.sent_since_tick |= kind != Kind::Ball;
        self.ball_due = false;
        record_sequence
    }

    /// Whether exchanges wait for this side: a ball says so, because the peer may then not conclude anything from it.
    #[inline]
    pub fn owes(&self) -> bool {
        !self.due.is_empty() || !self.verdicts.is_empty()
    }
}
