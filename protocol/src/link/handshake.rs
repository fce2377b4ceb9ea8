//! The handshake that starts an epoch: stop-and-wait, repeated on ticks, and a few times when round
//! trips of other links complete meanwhile.
//!
//! Each end proposes the highest epoch that it has seen plus one, and adopts a higher proposal. An
//! end is up when it receives the echo of its own proposal and its own incarnation together with
//! the same proposal of the peer. Each end then knows that the other has seen it. A handshake sets
//! `expects_reply` while its sender still lacks the echo. An end that is already up answers such a
//! handshake, which makes the loss of the last handshake harmless.

use super::feedback::WINDOW_RECORDS_MIN;
use crate::{
    Name,
    wire::{
        frame::FrameWriter,
        message::{self, Message},
        record::{Header, NO_PIGGYBACK, Shape},
        slice::Kind,
    },
};

const RECEIVED: u8 = 0b01;
const EXPECTS_REPLY: u8 = 0b10;
/// Handshakes sent between two ticks at most. An epoch takes two or three of each end.
const SENT_PER_TICK_MAX: u8 = 8;
/// Round trips of other links after which an unanswered handshake is repeated.
const REPEAT_AFTER: u8 = 4;
/// Such repeats for each failure of an epoch that made progress. After that, only ticks repeat it.
const REPEATS_MAX: u8 = 4;

/// One handshake message, with the proposed epoch in its header.
///
/// ```text
///  0        8              16            24           28     30      31      32               34
///  ├ guid ──┼ incarnation ─┼ peer inc.  ─┼ peer epoch ┼ port ┼ slots ┼ flags ┼ window records ┤
///
///  34      35       40
///  ├ grant ┼ old, 0 ┼ name, 1 to 32 bytes ┤
/// ```
///
/// The four zeros before the name are reserved for later releases. A reader ignores them, so a
/// later release can announce other record versions there, and two such nodes can agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hello {
    pub epoch: u32,
    pub guid: u64,
    pub incarnation: u64,
    /// The incarnation and the proposal last received from the peer.
    pub received: Option<(u64, u32)>,
    /// The sender of the echoed handshake has not been received for some ticks.
    pub echo_is_old: bool,
    pub port: u16,
    /// Slots that the sender has.
    pub slots: u8,
    /// Slots that the peer may use now, at most all of them.
    pub grant: u8,
    /// Receive buffers of the sender, in records.
    pub window_records: u16,
    /// The sender has not yet received the echo of its own proposal.
    pub expects_reply: bool,
    pub name: Name,
}

impl Hello {
    /// Bytes before the name.
    const FIXED_BYTES: usize = 40;
    const BYTES_MAX: usize = Self::FIXED_BYTES + Name::BYTES_MAX;

    /// Writes the message.
    pub fn write(&self, writer: &mut FrameWriter<'_>) {
        let (received_incarnation, received_epoch) = self.received.unwrap_or_default();
        let mut payload = [0; Self::BYTES_MAX];
        payload[0..8].copy_from_slice(&self.guid.to_le_bytes());
        payload[8..16].copy_from_slice(&self.incarnation.to_le_bytes());
        payload[16..24].copy_from_slice(&received_incarnation.to_le_bytes());
        payload[24..28].copy_from_slice(&received_epoch.to_le_bytes());
        payload[28..30].copy_from_slice(&self.port.to_le_bytes());
        payload[30] = self.slots;
        payload[31] = if self.received.is_some() { RECEIVED } else { 0 }
            | if self.expects_reply { EXPECTS_REPLY } else { 0 };
        payload[32..34].copy_from_slice(&self.window_records.to_le_bytes());
        payload[34] = self.grant;
        payload[35] = u8::from(self.echo_is_old);
        let name = self.name.as_bytes();
        let bytes = Self::FIXED_BYTES + name.len();
        payload[Self::FIXED_BYTES..bytes].copy_from_slice(name);
        let header = Header {
            kind: Kind::Init,
            yours: 0,
            epoch: self.epoch,
            record_sequence: 0,
            slot_sequence: 0,
            slot: 0,
            piggyback: NO_PIGGYBACK,
            clock: 0,
            shape: Shape::whole(bytes),
        };
        message::write(&header, &payload[..bytes], writer);
    }

    /// Reads a message of kind [`Kind::Init`]; `None` when it is not a handshake of this version.
    pub fn read(message: &Message<'_>) -> Option<Self> {
        let mut space = [0; Self::BYTES_MAX];
        let payload = message.copy_payload(&mut space)?;
        let (fixed, name) = payload.split_first_chunk::<{ Self::FIXED_BYTES }>()?;
        let long = |at: usize| {
            fixed[at..]
                .first_chunk()
                .map(|bytes| u64::from_le_bytes(*bytes))
        };
        let flags = fixed[31];
        let received_epoch = u32::from_le_bytes(*fixed[24..].first_chunk()?);
        let hello = Self {
            epoch: message.header.epoch,
            guid: long(0)?,
            incarnation: long(8)?,
            received: if flags & RECEIVED == 0 {
                None
            } else {
                Some((long(16)?, received_epoch))
            },
            // Values other than 0 and 1 are reserved.
            echo_is_old: fixed[35] & 1 != 0,
            port: u16::from_le_bytes(*fixed[28..].first_chunk()?),
            slots: fixed[30],
            grant: fixed[34],
            window_records: u16::from_le_bytes(*fixed[32..].first_chunk()?),
            expects_reply: flags & EXPECTS_REPLY != 0,
            name: Name::from_bytes(name).ok()?,
        };
        let makes_sense = hello.guid != 0
            && flags & !(RECEIVED | EXPECTS_REPLY) == 0
            && hello.grant <= hello.slots
            && hello.window_records >= WINDOW_RECORDS_MIN;
        makes_sense.then_some(hello)
    }
}

/// State of one end of the handshake.
#[derive(Debug, Clone, Hash)]
pub(crate) struct Handshake {
    /// The peer's incarnation and proposal, as last received.
    pub received: Option<(u64, u32)>,
    /// The peer's port, as last received. Undefined if nothing was received.
    port: u16,
    /// Sender of the last handshake; 0 for none. Outlives the epochs.
    pub guid: u64,
    /// A handshake waits for transmission.
    pub due: bool,
    /// Failures of the link since the last tick, or since the last epoch that made progress. The
    /// first one starts the next handshake at once; later ones wait for the tick. A peer that
    /// repeatedly fails the link is thus answered at the rate of ticks, not of the wire.
    failures_since_tick: u8,
    /// Remaining repeats of a handshake because of round trips of other links.
    repeats_left: u8,
    /// Round trips of other links since this link last sent or received.
    other_round_trips: u8,
    /// Handshakes sent since the last tick.
    sent_since_tick: u8,
    /// Sender of the last handshake that echoed this incarnation of the node; 0 for none. Outlives
    /// the epochs.
    echoer: u64,
    /// A different node than before sent such a handshake since the last tick.
    changed_since_tick: bool,
    /// Proposal and echo of the last handshake sent.
    last_sent: Option<(u32, Option<(u64, u32)>)>,
    /// The link is up here, and the handshake by which the peer learns it was not sent yet.
    owed: bool,
}

impl Handshake {
    pub const fn new() -> Self {
        Self {
            received: None,
            port: 0,
            guid: 0,
            due: false,
            failures_since_tick: 0,
            repeats_left: 0,
            other_round_trips: 0,
            sent_since_tick: 0,
            echoer: 0,
            changed_since_tick: false,
            last_sent: None,
            owed: false,
        }
    }

    #[cfg(feature = "arbitrary-state")]
    pub(crate) fn scramble(&mut self, draw: &mut crate::draw::Draw) {
        self.received = draw.flag().then(|| (draw.long(), draw.sequence()));
        self.port = draw.below(1 << 16) as u16;
        if draw.below(4) == 0 {
            self.guid = draw.long();
            self.echoer = self.guid;
        }
        self.due = draw.flag();
        self.failures_since_tick = draw.below(4) as u8;
        self.repeats_left = draw.below(256) as u8;
        self.other_round_trips = draw.below(256) as u8;
        self.sent_since_tick = draw.below(12) as u8;
        self.changed_since_tick = draw.flag();
        self.last_sent = draw.flag().then(|| (draw.sequence(), self.received));
        self.owed = draw.flag();
    }

    #[cfg(test)]
    pub(crate) const fn pretend_received(&mut self, guid: u64) {
        self.guid = guid;
        self.received = Some((1, 1));
    }

    /// Starts over with a new proposal.
    pub const fn restart(&mut self) {
        self.received = None;
        self.port = 0;
        self.last_sent = None;
        self.due = false;
        self.owed = false;
        self.answer();
    }

    /// The link failed: starts over. If its epoch was good for something, at once.
    pub const fn fail(&mut self, progressed: bool) {
        if progressed {
            self.failures_since_tick = 0;
            self.sent_since_tick = 0;
            self.repeats_left = REPEATS_MAX;
        } else {
            self.failures_since_tick = self.failures_since_tick.saturating_add(1);
        }
        self.other_round_trips = 0;
        self.restart();
    }

    /// Whether a handshake may be repeated before the tick.
    pub const fn is_eager(&self) -> bool {
        self.repeats_left > 0
    }

    /// A round trip of another link ended. After several without a reception here, the last
    /// handshake is assumed lost and repeated: handshakes are stop-and-wait.
    pub const fn count_other_round_trip(&mut self) {
        self.other_round_trips = self.other_round_trips.saturating_add(1);
        if self.other_round_trips >= REPEAT_AFTER && self.is_eager() {
            self.other_round_trips = 0;
            self.repeats_left -= 1;
            self.answer();
        }
    }

    /// A tick passed.
    pub const fn tick(&mut self) {
        self.failures_since_tick = 0;
        self.sent_since_tick = 0;
        self.changed_since_tick = false;
        self.due |= self.owed;
    }

    /// Makes a handshake due, unless the peer had its share since the last tick.
    pub const fn answer(&mut self) {
        if self.failures_since_tick <= 1 && self.sent_since_tick < SENT_PER_TICK_MAX {
            self.due = true;
        }
    }

    /// Whether to accept a handshake of the node `guid`, which echoes this node: it was the last to
    /// do so, or no other node replaced it since the last tick. Each replacement costs memory of a
    /// peer, so a neighbor that uses many GUIDs gets one for each tick. A node that does not echo
    /// this one costs nothing, and does not use up the turn of one that does.
    pub const fn may_come_from(&self, guid: u64) -> bool {
        self.echoer == 0 || self.echoer == guid || !self.changed_since_tick
    }

    /// Sender of the last handshake that echoed this incarnation of the node.
    pub fn echoer(&self) -> Option<u64> {
        (self.echoer != 0).then_some(self.echoer)
    }

    /// Whether the current handshake is with another node than `guid`.
    pub const fn is_with_another(&self, guid: u64) -> bool {
        self.received.is_some() && self.guid != guid
    }

    /// Sender of the received handshake: the node and its port.
    pub fn received_from(&self) -> Option<(u64, u16)> {
        self.received.map(|_| (self.guid, self.port))
    }

    /// Records the sender of the handshakes, and whether it receives this node's.
    pub const fn identify(&mut self, guid: u64, is_echoed: bool) {
        self.guid = guid;
        if is_echoed {
            self.changed_since_tick |= self.echoer != 0 && self.echoer != guid;
            self.echoer = guid;
        }
    }

    /// Records a received handshake: the next handshake echoes it.
    pub const fn remember(&mut self, hello: &Hello) {
        self.other_round_trips = 0;
        self.received = Some((hello.incarnation, hello.epoch));
        self.port = hello.port;
    }

    /// Records a received handshake, and makes a handshake due if it would contain new information.
    pub fn on_received(&mut self, hello: &Hello, epoch: u32) {
        self.remember(hello);
        if self.last_sent != Some((epoch, self.received)) {
            self.answer();
        }
    }

    /// Whether this side proposed `epoch` since the handshake started.
    pub fn proposed(&self, epoch: u32) -> bool {
        self.last_sent
            .is_some_and(|(last_sent, _)| last_sent == epoch)
    }

    /// Enters the epoch. If the echo was not sent to the peer yet, it must be sent first, even if
    /// only at the next tick: records sent to an end that is not up are lost.
    pub fn enter_epoch(&mut self, epoch: u32) {
        self.owed = self.last_sent != Some((epoch, self.received));
    }

    /// Whether only a handshake may be sent, although the link is up.
    #[inline]
    pub const fn is_owed(&self) -> bool {
        self.owed
    }

    /// Records that a handshake was sent.
    pub const fn sent(&mut self, epoch: u32) {
        self.due = false;
        self.owed = false;
        self.other_round_trips = 0;
        self.sent_since_tick = self.sent_since_tick.saturating_add(1);
        self.last_sent = Some((epoch, self.received));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{DEFAULT_ETHERTYPE, FRAME_BYTES_MAX, frame};
    use proptest::{collection::vec, prelude::*, sample::Index};

    fn hellos() -> impl Strategy<Value = Hello> {
        (
            any::<(u32, u64, u64, u16, u8, bool)>(),
            any::<(u8, u16, bool)>(),
            any::<Option<(u64, u32)>>(),
            "[a-zA-Z0-9._-]{1,32}",
        )
            .prop_map(
                |(
                    (epoch, guid, incarnation, port, slots, expects_reply),
                    (grant, window_records, echo_is_old),
                    received,
                    name,
                )| Hello {
                    epoch,
                    guid: guid.max(1),
                    incarnation,
                    received,
                    echo_is_old,
                    port,
                    slots,
                    grant: grant.min(slots),
                    window_records: window_records.max(WINDOW_RECORDS_MIN),
                    expects_reply,
                    name: Name::new(&name).expect("the pattern has names only"),
                },
            )
    }

    fn frame_of(hello: &Hello) -> ([u8; FRAME_BYTES_MAX], usize) {
        let mut buffer = [0xee; FRAME_BYTES_MAX];
        let mut writer = FrameWriter::new(&mut buffer).expect("long enough");
        hello.write(&mut writer);
        let len = writer.finish([0xff; 6], [2; 6], DEFAULT_ETHERTYPE);
        (buffer, len)
    }

    fn read(frame: &[u8]) -> Option<Hello> {
        let records = frame::parse(frame, DEFAULT_ETHERTYPE).ok()?;
        let (message, _) = Message::split(records).ok()?;
        Hello::read(&message)
    }

    /// The bytes of the name in a frame: from byte 40 of the payload, in the second record.
    fn hello_name(frame: &[u8]) -> &[u8] {
        let bytes = usize::from(frame[14 + 21]) - (Hello::FIXED_BYTES - 28);
        &frame[14 + 64 + 20..][..bytes]
    }

    proptest! {
        #[test]
        fn a_handshake_reads_as_it_was_written(hello in hellos()) {
            let (frame, len) = frame_of(&hello);
            prop_assert_eq!(read(&frame[..len]), Some(hello));
            let (frame, len) = frame_of(&Hello { guid: 0, ..hello });
            prop_assert_eq!(read(&frame[..len]), None, "0 is no node");
            if let Some(grant) = hello.slots.checked_add(1) {
                let (frame, len) = frame_of(&Hello { grant, ..hello });
                prop_assert_eq!(read(&frame[..len]), None, "more than there is");
            }
            let window_records = WINDOW_RECORDS_MIN - 1;
            let (frame, len) = frame_of(&Hello { window_records, ..hello });
            prop_assert_eq!(read(&frame[..len]), None, "too few for a message");
        }

        // A later release can announce there the record versions that it supports.
        #[test]
        fn fields_of_a_later_release_before_the_name_are_ignored(
            hello in hellos(),
            later in any::<[u8; 4]>(),
        ) {
            const AT: usize = 14 + 64 + 8 + (36 - 28);
            let (mut frame, len) = frame_of(&hello);
            let frame = &mut frame[..len];
            prop_assert_eq!(&frame[AT..AT + 4], &[0; 4]);
            frame[AT..AT + 4].copy_from_slice(&later);
            frame::seal(frame);
            prop_assert_eq!(read(frame), Some(hello));
        }

        // Replaces up to three bytes and fixes the CRC: flags, lengths and names that no node
        // sends.
        #[test]
        fn every_handshake_that_decodes_can_be_encoded(
            hello in hellos(),
            lies in vec((any::<Index>(), any::<u8>()), 1..4),
        ) {
            let (mut frame, len) = frame_of(&hello);
            let frame = &mut frame[..len];
            for (at, byte) in lies {
                frame[14 + at.index(len - 14)] = byte;
            }
            frame::seal(frame);
            if let Some(read_first) = read(frame) {
                let (rewritten, len) = frame_of(&read_first);
                prop_assert_eq!(read(&rewritten[..len]), Some(read_first));
                // The record behind the first starts with the last 4 bytes before the name.
                let flags = frame[14 + 64 + 8 + 3];
                prop_assert_eq!(rewritten[14 + 64 + 8 + 3], flags, "no flag is passed over");
                prop_assert_eq!(read_first.received.is_some(), flags & RECEIVED != 0);
                // The name, to its last byte; the bytes after it are ignored.
                prop_assert_eq!(read_first.name.as_bytes(), hello_name(frame));
            }
        }
    }
}
