//! Arbitrary frames in flight: their CRCs are valid, and their contents are close to the state of
//! the two ends.

use covalent_protocol::{
    DEFAULT_ETHERTYPE, FRAME_BYTES_MAX,
    wire::{
        frame::FrameWriter,
        message,
        record::{Header, NO_PIGGYBACK, Shape},
        slice::Kind,
    },
};
use fastrand::Rng;

/// Values that a drawn frame may carry.
#[derive(Debug)]
pub struct Near<'a> {
    /// Serial numbers are near to this one.
    pub common: u32,
    /// Slots are at most one more than these.
    pub slots: u8,
    /// GUID that handshakes name as their sender.
    pub guid: u64,
    /// Incarnations that handshakes name.
    pub incarnations: &'a [u64],
    /// Payloads that most requests carry.
    pub requests: &'a [&'a [u8]],
}

impl Near<'_> {
    /// A frame of a few messages, or of one handshake.
    pub fn frame(&self, rng: &mut Rng) -> Vec<u8> {
        let mut buffer = [0; FRAME_BYTES_MAX];
        let Some(mut writer) = FrameWriter::new(&mut buffer) else {
            return Vec::new();
        };
        if rng.u8(..3) == 0 {
            self.write_handshake(rng, &mut writer);
        } else {
            for _ in 0..rng.usize(1..4) {
                self.write_message(rng, &mut writer);
            }
        }
        let len = writer.finish([0xff; 6], [2; 6], DEFAULT_ETHERTYPE);
        buffer[..len].to_vec()
    }

    /// Like [`Near::frame`], but from a sender that knows no incarnations.
    pub fn forged(&self, rng: &mut Rng) -> Vec<u8> {
        let mut buffer = [0; FRAME_BYTES_MAX];
        let Some(mut writer) = FrameWriter::new(&mut buffer) else {
            return Vec::new();
        };
        if rng.bool() {
            self.write_handshake(rng, &mut writer);
        } else {
            self.write_message(rng, &mut writer);
        }
        let len = writer.finish([0xff; 6], [2; 6], DEFAULT_ETHERTYPE);
        buffer[..len].to_vec()
    }

    fn number(&self, rng: &mut Rng) -> u32 {
        self.common.wrapping_add(rng.u32(..5)).wrapping_sub(2)
    }

    fn incarnation(&self, rng: &mut Rng) -> u64 {
        let other = self.incarnations.len();
        self.incarnations
            .get(rng.usize(..=other))
            .copied()
            .unwrap_or_else(|| rng.u64(..) & !1)
    }

    fn slot(&self, rng: &mut Rng) -> u8 {
        rng.u8(..=self.slots.min(NO_PIGGYBACK - 1))
    }

    fn write_message(&self, rng: &mut Rng, writer: &mut FrameWriter<'_>) {
        let kind = Kind::ALL[rng.usize(..Kind::ALL.len())];
        let is_request = matches!(kind, Kind::Request | Kind::Tentative);
        let payload = if is_request && !self.requests.is_empty() && rng.u8(..4) > 0 {
            self.requests[rng.usize(..self.requests.len())].to_vec()
        } else {
            (0..rng.usize(..=28)).map(|_| rng.u8(..)).collect()
        };
        if message::records_for(payload.len()) > writer.room() {
            return;
        }
        let header = Header {
            kind,
            yours: if rng.bool() { 0 } else { rng.u32(..) },
            epoch: self.number(rng),
            record_sequence: self.number(rng),
            slot_sequence: self.number(rng),
            slot: self.slot(rng),
            piggyback: if rng.bool() {
                NO_PIGGYBACK
            } else {
                self.slot(rng)
            },
            clock: rng.u32(..),
            shape: Shape::whole(payload.len()),
        };
        message::write(&header, &payload, writer);
    }

    /// Writes a handshake with any incarnation of its sender, any epoch and any echo.
    fn write_handshake(&self, rng: &mut Rng, writer: &mut FrameWriter<'_>) {
        let mut payload = Vec::new();
        payload.extend(self.guid.to_le_bytes());
        payload.extend(self.incarnation(rng).to_le_bytes());
        payload.extend(self.incarnation(rng).to_le_bytes());
        payload.extend(self.number(rng).to_le_bytes());
        payload.extend(rng.u16(..4).to_le_bytes());
        payload.extend([self.slots, rng.u8(..4)]);
        payload.extend(250u16.to_le_bytes());
        payload.extend([rng.u8(..=self.slots), 0, 0, 0, 0, 0]);
        payload.extend(b"unprivileged");
        let header = Header {
            kind: Kind::Init,
            yours: 0,
            epoch: self.number(rng),
            record_sequence: 0,
            slot_sequence: 0,
            slot: 0,
            piggyback: NO_PIGGYBACK,
            clock: 0,
            shape: Shape::whole(payload.len()),
        };
        message::write(&header, &payload, writer);
    }
}
