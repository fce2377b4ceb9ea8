//! One end of one cable.
//!
//! The link owns its parts, and moves a message between them: a record is written in the epoch in
//! force, behind the last one, with the reflection of the last one received.

pub(crate) mod arriving;
pub(crate) mod departing;
pub(crate) mod epochs;
pub(crate) mod feedback;
pub(crate) mod handshake;
pub(crate) mod inbound;
pub(crate) mod keepalive;
pub(crate) mod liveness;
pub(crate) mod outbound;
pub(crate) mod wiring;

pub use self::epochs::LinkState;
pub(crate) use self::epochs::{Attachment, Epochs};
use self::{
    arriving::Arriving,
    departing::Departing,
    feedback::{Arrival, Feedback, ReflectionError, WINDOW_RECORDS_MAX, WINDOW_RECORDS_MIN},
    handshake::Hello,
    inbound::{Inbound, REFLECT_PART},
    liveness::Liveness,
    outbound::Outbound,
};
use crate::{
    clock::Clock,
    counters::LinkCounters,
    event::DownReason,
    wire::{
        frame::FrameWriter,
        message::{self, Message, records_for},
        record::{Header, NO_PIGGYBACK, Shape},
        slice::Kind,
    },
};

/// Records accepted in an epoch that show it to be good for something although no exchange ended.
const PROGRESS_RECORDS: u32 = 64;

/// A message of the epoch in force that was received in order.
pub(crate) struct Received {
    /// It reflects a record that was not reflected before.
    pub reflects: bool,
    /// That record was sent after the last round trip ended.
    pub ends_round_trip: bool,
}

/// The next message does not fit into this frame or into the window.
pub(crate) struct Blocked;

/// One end of one cable.
#[derive(Clone, Hash)]
pub(crate) struct Link {
    /// The caller's index of the port.
    pub port: u16,
    pub mac: [u8; 6],
    pub epochs: Epochs,
    pub feedback: Feedback,
    pub liveness: Liveness,
    pub outbound: Outbound,
    pub inbound: Inbound,
    pub arriving: Arriving,
    pub departing: Departing,
    /// Where trees know the neighbor, while the link is up and takes part in them.
    pub neighbor: Option<u8>,
    pub counters: LinkCounters,
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
        Self {
            port,
            mac,
            epochs: Epochs::new(first_sequence),
            feedback: Feedback::new(first_sequence, WINDOW_RECORDS_MAX),
            liveness: Liveness::new(first_sequence),
            outbound: Outbound::new(slots, first_sequence),
            inbound: Inbound::new(slots),
            arriving: Arriving::new(payload_bytes_max),
            departing: Departing::new(payload_bytes_max),
            neighbor: None,
            counters: LinkCounters::default(),
        }
    }

    /// Most slots that this side lets the peer use.
    #[inline]
    pub fn slots(&self) -> u8 {
        self.outbound.slots()
    }

    #[inline]
    pub const fn state(&self) -> LinkState {
        self.epochs.state()
    }

    /// The epoch in force, or proposed while in handshake.
    #[inline]
    pub const fn epoch(&self) -> u32 {
        self.epochs.number()
    }

    /// The peer, exactly while the link is up.
    #[inline]
    pub const fn attachment(&self) -> Option<Attachment> {
        self.epochs.attachment()
    }

    /// Whether the link is up and leads to a peer.
    #[inline]
    pub fn leads_to(&self, peer: usize) -> bool {
        self.attachment()
            .is_some_and(|attachment| attachment.peer == peer)
    }

    /// Enters an epoch in which nothing was sent or received. Its records count from
    /// `first_sequence`.
    pub fn enter_epoch(&mut self, first_sequence: u32) {
        let (granted, window_records) = self
            .attachment()
            .map_or((0, WINDOW_RECORDS_MIN), |attachment| {
                (attachment.granted, attachment.window_records)
            });
        self.feedback = Feedback::new(first_sequence, window_records);
        self.liveness.enter_epoch(first_sequence);
        self.counters.ups += 1;
        self.epochs.enter(self.counters.exchanges_ended());
        self.outbound.enter_epoch(granted);
    }

    /// The epoch ended, and a handshake for another one begins.
    pub fn fail(&mut self) {
        self.clear();
        self.epochs.fail(self.has_progressed());
    }

    /// Receives a message. Drops and counts it if it is not of the epoch in force, or a duplicate:
    /// `None`.
    ///
    /// # Errors
    /// The evidence by which the link must be declared failed.
    #[inline]
    pub fn receive(
        &mut self,
        message: &Message<'_>,
        clock: &mut Clock,
    ) -> Result<Option<Received>, DownReason> {
        let header = &message.header;
        let records = message.records();
        let drops = &mut self.counters.drops;
        if self.epochs.state() != LinkState::Up {
            drops.not_up += records as u64;
            return Ok(None);
        }
        if header.epoch != self.epochs.number() {
            drops.stale_epoch += records as u64;
            return Ok(None);
        }
        match self.feedback.arrival(header.record_sequence) {
            Arrival::InOrder => {}
            Arrival::Duplicate => {
                drops.duplicate += records as u64;
                return Ok(None);
            }
            Arrival::Gap => return Err(DownReason::SequenceGap),
        }
        let reflects = self
            .accept(header, records)
            .map_err(|_| DownReason::ReflectionMismatch)?;
        // All later events here are ordered after the peer's events before this message.
        if !clock.receive(self.epochs.received_era, header.clock) {
            return Err(DownReason::ClockLeap);
        }
        Ok(Some(Received {
            reflects,
            ends_round_trip: reflects && self.liveness.reflected(&self.feedback),
        }))
    }

    /// Accepts the records of a message and what they reflect. Returns whether they reflect a new
    /// record.
    ///
    /// # Errors
    /// They reflect a record that was not sent.
    #[inline]
    fn accept(&mut self, header: &Header, records: usize) -> Result<bool, ReflectionError> {
        self.counters.rx_records += records as u64;
        self.feedback.accept(header, records);
        let unreflected = self.feedback.unreflected();
        self.liveness
            .received(self.inbound.must_reflect(unreflected));
        self.feedback.check(header.yours)
    }

    /// A handshake of the peer arrived while the link is up, and is no reason to leave the epoch.
    /// The peer missed the last handshake of this epoch, unless it already sent in the epoch.
    pub fn on_repeated_hello(&mut self, hello: &Hello) {
        if hello.expects_reply && hello.epoch == self.epoch() && !self.feedback.received_anything()
        {
            self.epochs.handshake.answer();
        } else {
            self.counters.drops.stale_init += 1;
        }
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
            epoch: self.epoch(),
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
        self.liveness.sent(part.kind);
        self.feedback.next_sequence().wrapping_sub(1)
    }

    /// Writes the rest of the departing message, if there is one, with a slot of `piggyback` on
    /// each fragment. Returns the kind and slot of the message if its last fragment was written.
    ///
    /// # Errors
    /// The next fragment does not fit.
    #[cold]
    pub fn write_departing(
        &mut self,
        writer: &mut FrameWriter<'_>,
        clock: &mut Clock,
        mut piggyback: impl FnMut(&mut Self) -> u8,
    ) -> Result<Option<(Kind, u8)>, Blocked> {
        while self.departing.is_in_flight() {
            if !self.may_send(writer, self.departing.next_bytes()) {
                return Err(Blocked);
            }
            // Lent, because the link writes it.
            let mut departing = core::mem::take(&mut self.departing);
            if let Some(mut part) = departing.next() {
                part.piggyback = piggyback(self);
                let record_sequence = self.write(writer, clock, &part);
                if matches!(part.kind, Kind::Request | Kind::Tentative) {
                    self.outbound.committing(part.piggyback, record_sequence);
                    self.outbound.sent(part.slot, record_sequence);
                }
            }
            let was = departing.advance();
            self.departing = departing;
            if was.is_some() {
                return Ok(was);
            }
        }
        Ok(None)
    }

    /// Drops everything that waits for transmission, and partially received or written messages.
    pub fn clear(&mut self) {
        self.outbound.clear();
        self.inbound.clear();
        self.arriving.clear();
        self.departing.clear();
        self.liveness.clear();
    }

    /// Whether messages blocked by the window would wait for a reflection that the peer does not
    /// owe: it received too little since it last sent.
    pub fn must_ping(&self) -> bool {
        !self.liveness.is_pinging() && self.feedback.awaits_reflection_unasked(REFLECT_PART)
    }

    /// Whether an exchange or a question of this side waits for the peer.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.state() == LinkState::Up && self.outbound.is_open()
    }

    /// Whether a handshake is in progress whose loss is detected by round trips of other links.
    pub fn awaits_handshake(&self) -> bool {
        self.state() == LinkState::Init && self.epochs.handshake.is_eager()
    }

    /// Whether the epoch in force made progress: an exchange ended, or some traffic passed.
    pub fn has_progressed(&self) -> bool {
        self.feedback.records_received() >= PROGRESS_RECORDS
            || self.epochs.ended_any(self.counters.exchanges_ended())
    }

    /// Whether exchanges wait for this side. A keepalive reports it, because the peer must then
    /// draw no conclusion from the keepalive.
    #[inline]
    pub fn owes(&self) -> bool {
        self.outbound.has_commits() || self.inbound.owes() || self.departing.is_in_flight()
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
