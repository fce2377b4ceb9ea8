//! A frame's way in: validation, order, dispatch.

use super::{LinkState, Mode, Node};
use crate::{
    Host, LinkRefusal,
    event::DownReason,
    link::{
        arriving::{Arrived, Disorder},
        feedback::Arrival,
        handshake::Hello,
    },
    wire::{
        frame::{self, FrameError},
        message::Message,
        record::{Header, NO_PIGGYBACK, RecordError},
        slice::Kind,
    },
};

impl Node {
    /// Handles a whole Ethernet frame that arrived on `port`. Any bytes are allowed: the link
    /// counts and drops bytes that are not a frame of the peer.
    #[inline]
    pub fn on_frame(&mut self, port: u16, frame: &[u8], host: &mut impl Host) {
        let Some(link) = self.link_of(port) else {
            self.frames_without_link += 1;
            return;
        };
        self.on_frame_at(link, frame, host);
    }

    /// Likewise on a link.
    #[inline]
    pub(super) fn on_frame_at(&mut self, link: usize, frame: &[u8], host: &mut impl Host) {
        let counters = &mut self.links[link].counters;
        let mut records = match frame::parse(frame, self.config.ethertype) {
            Ok(records) => records,
            Err(error) => {
                let drops = &mut counters.drops;
                *match error {
                    FrameError::Short => &mut drops.short,
                    FrameError::EtherType => &mut drops.ethertype,
                    FrameError::Length => &mut drops.length,
                    FrameError::Crc => &mut drops.crc,
                } += 1;
                return;
            }
        };
        counters.rx_frames += 1;
        while !records.is_empty() {
            let (message, rest) = match Message::split(records) {
                Ok(split) => split,
                Err(error) => {
                    let drops = &mut self.links[link].counters.drops;
                    match error {
                        RecordError::Version(version) => {
                            drops.version += 1;
                            self.found(link, LinkRefusal::Version(version), host);
                        }
                        RecordError::Malformed => drops.malformed += 1,
                    }
                    return;
                }
            };
            records = rest;
            if message.header.kind == Kind::Init {
                match Hello::read(&message) {
                    Some(hello) => self.on_hello(link, &hello, frame::source(frame), host),
                    None => self.links[link].counters.drops.malformed += 1,
                }
            } else if let Err(reason) = self.on_message(link, &message, host) {
                self.fail(link, reason, host);
                return;
            }
        }
    }

    /// A message of an epoch arrived.
    ///
    /// # Errors
    /// The evidence by which the link must be declared failed.
    #[inline]
    fn on_message(
        &mut self,
        at: usize,
        message: &Message<'_>,
        host: &mut impl Host,
    ) -> Result<(), DownReason> {
        let header = &message.header;
        let link = &mut self.links[at];
        let drops = &mut link.counters.drops;
        let records = message.records();
        if link.epochs.state() != LinkState::Up {
            drops.not_up += records as u64;
            return Ok(());
        }
        if header.epoch != link.epochs.number() {
            drops.stale_epoch += records as u64;
            return Ok(());
        }
        match link.feedback.arrival(header.record_sequence) {
            Arrival::InOrder => {}
            Arrival::Duplicate => {
                drops.duplicate += records as u64;
                return Ok(());
            }
            Arrival::Gap => return Err(DownReason::SequenceGap),
        }
        let reflects = link
            .accept(header, records)
            .map_err(|_| DownReason::ReflectionMismatch)?;
        // All later events here are ordered after the peer's events before this message.
        if !self.clock.receive(link.epochs.received_era, header.clock) {
            return Err(DownReason::ClockLeap);
        }
        if reflects && link.liveness.reflected(&link.feedback) {
            self.on_round_trip(at, host);
        }
        if header.piggyback != NO_PIGGYBACK {
            self.on_piggyback(at, header, host)?;
        }
        let link = &mut self.links[at];
        if (!link.arriving.is_in_flight() || header.kind == Kind::Keepalive)
            && header.shape.is_whole()
            && let Some(payload) = message.payload_in_place()
        {
            return self.dispatch(at, header, payload, reflects, host);
        }
        match link.arriving.take(message) {
            Err(Disorder) => Err(DownReason::Violation),
            Ok(Arrived::Part) => Ok(()),
            Ok(Arrived::Whole(bytes)) => {
                let buffer = link.arriving.lend();
                let result = self.dispatch(at, header, &buffer[..bytes], reflects, host);
                self.links[at].arriving.give_back(buffer);
                result
            }
        }
    }

    /// Handles the commit or acknowledgment that a record piggybacks for another slot.
    #[inline]
    fn on_piggyback(
        &mut self,
        at: usize,
        header: &Header,
        host: &mut impl Host,
    ) -> Result<(), DownReason> {
        match header.kind {
            Kind::Request | Kind::Tentative | Kind::Commit | Kind::Resolve => {
                self.commit_slot(at, header.piggyback, None, host)
            }
            Kind::Reflecting | Kind::Committed | Kind::Refused | Kind::Resolved | Kind::Relayed => {
                self.kept(at, header.piggyback)
            }
            Kind::Keepalive | Kind::Init | Kind::Relay | Kind::ControlMessage | Kind::Pass => {
                Err(DownReason::Violation)
            }
        }
    }

    /// A message of an epoch is whole.
    #[inline]
    fn dispatch(
        &mut self,
        at: usize,
        header: &Header,
        payload: &[u8],
        reflects: bool,
        host: &mut impl Host,
    ) -> Result<(), DownReason> {
        match header.kind {
            Kind::Request => self.on_request(at, header, payload, Mode::OnePhase, host),
            Kind::Tentative => self.on_request(at, header, payload, Mode::TwoPhase, host),
            Kind::Commit => self.on_commit(at, header, payload, host),
            Kind::Reflecting => self.on_reflecting(at, header, payload, host),
            Kind::Committed => self.on_committed(at, header, payload, host),
            Kind::Refused => self.on_refused(at, header, payload, host),
            Kind::Resolve => self.on_resolve(at, header, payload, host),
            Kind::Resolved => self.on_resolved(at, header, payload, host),
            Kind::Relay => self.on_relay(at, header, payload, host),
            Kind::Relayed => self.on_relayed(at, header, payload, host),
            Kind::ControlMessage => self.on_control_message(at, payload, host),
            Kind::Pass => self.on_pass(at, payload, host),
            Kind::Keepalive => self.on_keepalive(at, payload, reflects),
            Kind::Init => Ok(()),
        }
    }
}
