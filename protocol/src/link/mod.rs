//! One end of one cable.

pub(crate) mod arriving;
pub(crate) mod ball;
pub(crate) mod departing;
pub(crate) mod feedback;
pub(crate) mod handshake;
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
    latch::LatchSet,
    transaction::Index,
    wire::{
        frame::FrameWriter,
        message::{self, records_for},
        record::{Header, NO_RIDER, Shape},
        slice::Kind,
    },
};

/// A ball goes out although nothing else does when this part of what the peer's messages may take was accepted and not
/// yet reflected, so that an end that only listens never stalls one that only talks.
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
    /// What tells the name that the peer said here from others.
    pub name: u16,
    /// Slots that the peer has.
    pub slots: u8,
    /// Slots that the peer lets this side use now.
    pub granted: u8,
    /// Records that the peer has room for.
    pub window_records: u16,
}

/// An answer to a resolution that waits for transmission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Verdict {
    /// The port of the initiator whose exchange is asked about.
    pub port: u16,
    /// The epoch that it was open in.
    pub epoch: u32,
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
    /// Slots that this side lets the peer use now.
    pub grant: u8,
    /// Records that this side has room for.
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
    /// Slots of the peer whose other answers are due.
    pub answers: VecDeque<u8>,
    /// Slots of the peer whose other answers will be due once what they tell of is durable, in that order.
    pub withheld_answers: VecDeque<u8>,
    /// Answers to resolutions due. The peer may have as many questions under way as it has slots here.
    pub verdicts: VecDeque<Verdict>,
    /// Those that will be due once what they tell of is durable. They count as under way.
    pub withheld_verdicts: VecDeque<Verdict>,
    /// The one that is departing, if it is about an exchange over a path.
    pub telling: Option<Verdict>,
    /// Transactions being asked about on this link.
    pub asked: Vec<Index>,
    pub arriving: Arriving,
    pub departing: Departing,
    /// Ticks since something was heard.
    pub silent_paces: u32,
    /// Something other than the ball and notes was sent since the last tick.
    pub sent_since_tick: bool,
    pub ball_due: bool,
    /// The upper half of the peer's clock, as its last ball in this epoch said it.
    pub era_heard: u32,
    /// That of this side's clock, as the last ball in this epoch said it; 0 is known without one.
    pub era_said: u32,
    /// Whether its round trips count against other links, and theirs against it.
    pub is_measured: bool,
    /// Where trees know the neighbour, while the link is up and takes part in them.
    pub berth: Option<u8>,
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
            telling: None,
            asked: Vec::with_capacity(slots_len),
            arriving: Arriving::new(payload_bytes_max),
            departing: Departing::new(payload_bytes_max),
            silent_paces: 0,
            sent_since_tick: false,
            ball_due: false,
            era_heard: 0,
            era_said: 0,
            is_measured: true,
            berth: None,
            wiring: Wiring::new(),
            counters: LinkCounters::default(),
            ended_before_epoch: 0,
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
        let (granted, window_records) = self
            .attachment
            .map_or((0, WINDOW_RECORDS_MIN), |attachment| {
                (attachment.granted, attachment.window_records)
            });
        self.feedback = Feedback::new(first_sequence, window_records);
        self.liveness = Liveness::new(first_sequence);
        self.silent_paces = 0;
        self.sent_since_tick = false;
        self.ball_due = false;
        self.era_heard = 0;
        self.era_said = 0;
        self.counters.ups += 1;
        self.ended_before_epoch = self.counters.exchanges_ended();
        self.outbound.enter_epoch(granted);
    }

    /// Notes that the records of a message were accepted and what they reflect; tells whether that is something new.
    ///
    /// # Errors
    /// They reflect what was not said.
    #[inline]
    pub fn accept(&mut self, header: &Header, records: usize) -> Result<bool, ReflectionError> {
        self.silent_paces = 0;
        self.counters.rx_records += records as u64;
        self.feedback.accept(header, records);
        if self.feedback.unreflected() >= message_window(self.window_records) / REFLECT_PART {
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

    /// Writes one part; [`Self::may_send`] must have allowed it. Returns the sequence of its last record.
    #[inline(never)]
    pub fn write(
        &mut self,
        writer: &mut FrameWriter<'_>,
        clock: &mut Clock,
        part: &Part<'_>,
    ) -> u32 {
        self.write_here(writer, clock, part)
    }

    /// As [`Self::write`], as a part of the caller: a message of one record is put together in registers. Through memory,
    /// its bytes would be written one by one and read as words, and the processor would wait for that.
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
            yours: self.feedback.heard(),
            epoch: self.epoch,
            record_sequence: self.feedback.next_sequence(),
            slot_sequence: part.slot_sequence,
            slot: part.slot,
            rider: part.rider,
            clock: clock.now() as u32,
            shape: part.shape,
        };
        message::write(&header, part.payload, writer);
        let records = usize::from(part.shape.records);
        for index in 0..records {
            self.feedback.said(header.mine_at(index));
        }
        self.counters.tx_records += records as u64;
        // The ball itself does not count, or an idle link would bounce it at every other pace only. Nor does what is said of trees with
        // each pace: the ball goes beside it, for it says what nothing else does.
        if part.kind != Kind::Note {
            self.sent_since_tick |= part.kind != Kind::Ball;
            self.ball_due = false;
        }
        self.feedback.next_sequence().wrapping_sub(1)
    }

    /// The next slot whose message 3 is due, or [`NO_RIDER`].
    #[inline]
    pub fn take_commit(&mut self) -> u8 {
        self.commits.pop_front().unwrap_or(NO_RIDER)
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

    /// Drops what waits for transmission, and what is here or written of a message in part.
    pub fn clear(&mut self) {
        self.commits.clear();
        self.reflections.clear();
        self.answers.clear();
        self.withheld_answers.clear();
        self.verdicts.clear();
        self.withheld_verdicts.clear();
        self.telling = None;
        self.arriving.clear();
        self.departing.clear();
        self.ball_due = false;
    }

    /// Whether what is blocked by the window would wait for a reflection that the peer does not owe: it heard too little
    /// for that since it last spoke.
    pub fn must_ask(&self) -> bool {
        !self.liveness.asks() && self.feedback.awaits_reflection_unasked(REFLECT_PART)
    }

    /// Questions of the peer that are not answered.
    pub fn questions(&self) -> usize {
        self.verdicts.len() + self.withheld_verdicts.len()
    }

    /// Whether an exchange or a question of this side waits for the peer.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.state == LinkState::Up && (self.outbound.busy() > 0 || !self.asked.is_empty())
    }

    /// Whether a handshake is under way whose loss is to be found out by the round trips of other links.
    pub fn awaits_handshake(&self) -> bool {
        self.state == LinkState::Init && self.handshake.is_eager()
    }

    /// Whether the epoch in force was good for something: an exchange ended, or some traffic passed.
    pub fn has_progressed(&self) -> bool {
        self.feedback.records_heard() >= PROGRESS_RECORDS
            || self.counters.exchanges_ended() > self.ended_before_epoch
    }

    /// Whether exchanges wait for this side: a ball says so, because the peer may then not conclude anything from it.
    #[inline]
    pub fn owes(&self) -> bool {
        !(self.commits.is_empty()
            && self.reflections.is_empty()
            && self.answers.is_empty()
            && self.withheld_answers.is_empty()
            && self.verdicts.is_empty()
            && self.withheld_verdicts.is_empty())
            || self.departing.is_under_way()
    }
}

/// A message, or a fragment of one, that goes into a frame.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part<'a> {
    pub kind: Kind,
    pub slot: u8,
    pub slot_sequence: u32,
    pub rider: u8,
    pub shape: Shape,
    pub payload: &'a [u8],
}

impl<'a> Part<'a> {
    /// A whole message without a rider. It must fit a frame.
    #[inline]
    pub const fn whole(kind: Kind, slot: u8, slot_sequence: u32, payload: &'a [u8]) -> Self {
        Self {
            kind,
            slot,
            slot_sequence,
            rider: NO_RIDER,
            shape: Shape::whole(payload.len()),
            payload,
        }
    }
}
