//! One end of one cable.

pub(crate) mod arriving;
pub(crate) mod departing;
pub(crate) mod feedback;
pub(crate) mod handshake;
pub(crate) mod keepalive;
pub(crate) mod liveness;
pub(crate) mod outbound;
pub(crate) mod wiring;

use alloc::{collections::VecDeque, vec::Vec};

use self::{
    arriving::Arriving,
    departing::Departing,
    feedback::{Feedback, ReflectionError, WINDOW_RECORDS_MAX, WINDOW_RECORDS_MIN, message_window},
    handshake::Handshake,
    liveness::Liveness,
    outbound::Outbound,
    wiring::Wiring,
};
use crate::{
    clock::Clock,
    counters::LinkCounters,
    latch::{LatchSet, Verdict},
    transaction::Index,
    wire::{
        frame::FrameWriter,
        message::{self, records_for},
        record::{Header, NO_PIGGYBACK, Shape},
        slice::Kind,
    },
};

/// Part of the records for the peer's messages that, accepted and not yet reflected, triggers a
/// keepalive without other traffic. An end that only receives thus never stalls one that only
/// sends.
const REFLECT_PART: u32 = 3;
/// Records accepted in an epoch that show it to be good for something although no exchange ended.
const PROGRESS_RECORDS: u32 = 64;

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

/// The other end of the link, as its handshake reported it.
#[derive(Debug, Clone, Copy, Hash)]
pub(crate) struct Attachment {
    /// Index of the peer.
    pub peer: usize,
    /// Index of the latches of the peer's port.
    pub set: usize,
    /// The peer's index of its port.
    pub port: u16,
    pub mac: [u8; 6],
    /// Short hash that distinguishes the name that the peer sent here.
    pub name: u16,
    /// Slots that the peer has.
    pub slots: u8,
    /// Slots that this side may use now, granted by the peer.
    pub granted: u8,
    /// Receive buffers of the peer, in records.
    pub window_records: u16,
}

/// One end of one cable.
#[derive(Clone, Hash)]
pub(crate) struct Link {
    /// The caller's index of the port.
    pub port: u16,
    pub mac: [u8; 6],
    pub state: LinkState,
    /// Slots that the peer may use now, granted by this side.
    pub grant: u8,
    /// Receive buffers of this side, in records.
    pub window_records: u16,
    /// The epoch in force, or proposed while in handshake.
    pub epoch: u32,
    pub handshake: Handshake,
    /// The peer, exactly while the link is up.
    pub attachment: Option<Attachment>,
    pub feedback: Feedback,
    pub liveness: Liveness,
    pub outbound: Outbound,
    /// Slots of this side whose message 3 is due.
    pub commits: VecDeque<u8>,
    /// Slots of the peer whose message 2 of a 2PC is due.
    pub reflections: VecDeque<u8>,
    /// Slots of the peer whose other replies are due.
    pub answers: VecDeque<u8>,
    /// Slots of the peer whose other replies become due when their executions are durable, in that
    /// order.
    pub withheld_answers: VecDeque<u8>,
    /// Due replies to resolution queries. The peer may have as many queries in flight as it has
    /// slots here.
    pub verdicts: VecDeque<Verdict>,
    /// Replies that become due when their executions are durable. They count as in flight.
    pub withheld_verdicts: VecDeque<Verdict>,
    /// The one that is departing, if it is about an exchange over a path.
    pub departing_verdict: Option<Verdict>,
    /// Transactions being queried on this link.
    pub queried: Vec<Index>,
    pub arriving: Arriving,
    pub departing: Departing,
    /// Ticks since the last reception.
    pub keepalive_misses: u32,
    /// A message other than keepalives and control messages was sent since the last tick.
    pub sent_since_tick: bool,
    pub keepalive_due: bool,
    /// Upper half of the peer's clock, from its last keepalive in this epoch.
    pub received_era: u32,
    /// Upper half of this side's clock, from its last keepalive in this epoch; 0 is known without
    /// one.
    pub sent_era: u32,
    /// Whether its round trips count against other links, and theirs against it.
    pub is_measured: bool,
    /// Where trees know the neighbor, while the link is up and takes part in them.
    pub neighbor: Option<u8>,
    pub wiring: Wiring,
    pub counters: LinkCounters,
    /// Exchanges that had ended when the epoch in force began.
    ended_before_epoch: u64,
}

impl Link {
    /// The link of a port, down. Its messages have up to `payload_bytes_max` bytes of payload.
    pub fn new(
        port: u16,
        mac: [u8; 6],
        slots: u8,
        payload_bytes_max: usize,
        first_sequence: u32,
    ) -> Self {
        let slots_len = usize::from(slots);
        Self {
            port,
            mac,
            state: LinkState::Down,
            grant: slots,
            window_records: WINDOW_RECORDS_MAX,
            epoch: first_sequence.wrapping_add(1),
            handshake: Handshake::new(),
            attachment: None,
            feedback: Feedback::new(first_sequence, WINDOW_RECORDS_MAX),
            liveness: Liveness::new(first_sequence),
            outbound: Outbound::new(slots, first_sequence),
            commits: VecDeque::with_capacity(slots_len),
            reflections: VecDeque::with_capacity(slots_len),
            answers: VecDeque::with_capacity(slots_len),
            withheld_answers: VecDeque::with_capacity(slots_len),
            verdicts: VecDeque::with_capacity(slots_len),
            withheld_verdicts: VecDeque::with_capacity(slots_len),
            departing_verdict: None,
            queried: Vec::with_capacity(slots_len),
            arriving: Arriving::new(payload_bytes_max),
            departing: Departing::new(payload_bytes_max),
            keepalive_misses: 0,
            sent_since_tick: false,
            keepalive_due: false,
            received_era: 0,
            sent_era: 0,
            is_measured: true,
            neighbor: None,
            wiring: Wiring::new(),
            counters: LinkCounters::default(),
            ended_before_epoch: 0,
        }
    }

    /// Most slots that this side lets the peer use.
    #[inline]
    pub fn slots(&self) -> u8 {
        self.outbound.slots()
    }

    /// Enters an epoch in which nothing was sent or received. Its records count from
    /// `first_sequence`.
    pub fn enter_epoch(&mut self, first_sequence: u32) {
        self.state = LinkState::Up;
        let (granted, window_records) = self
            .attachment
            .map_or((0, WINDOW_RECORDS_MIN), |attachment| {
                (attachment.granted, attachment.window_records)
            });
        self.feedback = Feedback::new(first_sequence, window_records);
        self.liveness = Liveness::new(first_sequence);
        self.keepalive_misses = 0;
        self.sent_since_tick = false;
        self.keepalive_due = false;
        self.received_era = 0;
        self.sent_era = 0;
        self.counters.ups += 1;
        self.ended_before_epoch = self.counters.exchanges_ended();
        self.outbound.enter_epoch(granted);
    }

    /// Accepts the records of a message and what they reflect. Returns whether they reflect a new
    /// record.
    ///
    /// # Errors
    /// They reflect a record that was not sent.
    #[inline]
    pub fn accept(&mut self, header: &Header, records: usize) -> Result<bool, ReflectionError> {
        self.keepalive_misses = 0;
        self.counters.rx_records += records as u64;
        self.feedback.accept(header, records);
        if self.feedback.unreflected() >= message_window(self.window_records) / REFLECT_PART {
            self.keepalive_due = true;
        }
        self.feedback.check(header.yours)
    }

    /// Whether a message of `payload_bytes` may be written to `writer` now.
    #[inline]
    pub fn may_send(&self, writer: &FrameWriter<'_>, payload_bytes: usize) -> bool {
        let records = records_for(payload_bytes);
        records <= writer.room() && self.feedback.may_send(records)
    }

    /// Writes one part, which [`Self::may_send`] must have allowed. Returns the sequence of its
    /// last record.
    #[inline(never)]
    pub fn write(
        &mut self,
        writer: &mut FrameWriter<'_>,
        clock: &mut Clock,
        part: &Part<'_>,
    ) -> u32 {
        self.write_here(writer, clock, part)
    }

    /// Like [`Self::write`], inlined into the caller: a message of one record is assembled in
    /// registers. In memory, its bytes would be written one by one and read as words, and the
    /// processor would stall.
    #[expect(
        clippy::inline_always,
        reason = "a tenth of the exchanges of a busy link"
    )]
    #[inline(always)]
    pub fn write_here(
        &mut self,
        writer: &mut FrameWriter<'_>,
        clock: &mut Clock,
        part: &Part<'_>,
    ) -> u32 {
        clock.tick();
        let header = Header {
            kind: part.kind,
            yours: self.feedback.received(),
            epoch: self.epoch,
            record_sequence: self.feedback.next_sequence(),
            slot_sequence: part.slot_sequence,
            slot: part.slot,
            piggyback: part.piggyback,
            clock: clock.now() as u32,
            shape: part.shape,
        };
        message::write(&header, part.payload, writer);
        let records = usize::from(part.shape.records);
        for index in 0..records {
            self.feedback.sent(header.mine_at(index));
        }
        self.counters.tx_records += records as u64;
        // Keepalives do not count, or an idle link would send one only every other tick. Nor do
        // control messages: a keepalive goes with them, because only it carries its state.
        if part.kind != Kind::ControlMessage {
            self.sent_since_tick |= part.kind != Kind::Keepalive;
            self.keepalive_due = false;
        }
        self.feedback.next_sequence().wrapping_sub(1)
    }

    /// The next slot whose message 3 is due, or [`NO_PIGGYBACK`].
    #[inline]
    pub fn take_commit(&mut self) -> u8 {
        self.commits.pop_front().unwrap_or(NO_PIGGYBACK)
    }

    /// The answer of a slot of the peer that was executed is due, at once or when it is durable.
    #[inline]
    pub fn answer(&mut self, slot: u8, set: &LatchSet, durable: u64) {
        if set.latches[usize::from(slot)].is_withheld(durable) {
            self.withheld_answers.push_back(slot);
        } else {
            self.answers.push_back(slot);
        }
    }

    /// Drops everything that waits for transmission, and partially received or written messages.
    pub fn clear(&mut self) {
        self.commits.clear();
        self.reflections.clear();
        self.answers.clear();
        self.withheld_answers.clear();
        self.verdicts.clear();
        self.withheld_verdicts.clear();
        self.departing_verdict = None;
        self.arriving.clear();
        self.departing.clear();
        self.keepalive_due = false;
    }

    /// Whether messages blocked by the window would wait for a reflection that the peer does not
    /// owe: it received too little since it last sent.
    pub fn must_ping(&self) -> bool {
        !self.liveness.is_pinging() && self.feedback.awaits_reflection_unasked(REFLECT_PART)
    }

    /// Questions of the peer that are not answered.
    pub fn questions(&self) -> usize {
        self.verdicts.len() + self.withheld_verdicts.len()
    }

    /// Whether an exchange or a question of this side waits for the peer.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.state == LinkState::Up && (self.outbound.busy() > 0 || !self.queried.is_empty())
    }

    /// Whether a handshake is in progress whose loss is detected by round trips of other links.
    pub fn awaits_handshake(&self) -> bool {
        self.state == LinkState::Init && self.handshake.is_eager()
    }

    /// Whether the epoch in force made progress: an exchange ended, or some traffic passed.
    pub fn has_progressed(&self) -> bool {
        self.feedback.records_received() >= PROGRESS_RECORDS
            || self.counters.exchanges_ended() > self.ended_before_epoch
    }

    /// Whether exchanges wait for this side. A keepalive reports it, because the peer must then
    /// draw no conclusion from the keepalive.
    #[inline]
    pub fn owes(&self) -> bool {
        !(self.commits.is_empty()
            && self.reflections.is_empty()
            && self.answers.is_empty()
            && self.withheld_answers.is_empty()
            && self.verdicts.is_empty()
            && self.withheld_verdicts.is_empty())
            || self.departing.is_in_flight()
    }
}

/// A message, or a fragment of one, that goes into a frame.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part<'a> {
    pub kind: Kind,
    pub slot: u8,
    pub slot_sequence: u32,
    pub piggyback: u8,
    pub shape: Shape,
    pub payload: &'a [u8],
}

impl<'a> Part<'a> {
    /// A whole message without a piggybacked acknowledgment or commit. It must fit a frame.
    #[inline]
    pub const fn whole(kind: Kind, slot: u8, slot_sequence: u32, payload: &'a [u8]) -> Self {
        Self {
            kind,
            slot,
            slot_sequence,
            piggyback: NO_PIGGYBACK,
            shape: Shape::whole(payload.len()),
            payload,
        }
    }
}
