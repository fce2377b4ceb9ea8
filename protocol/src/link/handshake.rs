//! The handshake that starts an epoch: stop-and-wait, said again on ticks, and some times when other links go on meanwhile.
//!
//! Each end proposes the highest epoch that it has seen plus one and takes over a higher proposal. An end is up when it
//! hears its own proposal and its own incarnation echoed together with the same proposal of the peer, so each end knows
//! that the other has seen it. A handshake says `asks` while its sender still lacks the echo; an end that is up already
//! answers those, which makes the loss of the last handshake harmless.

use super::feedback::WINDOW_RECORDS_MIN;
use crate::{
    Name,
    wire::{
        frame::FrameWriter,
        message::{self, Message},
        record::{Header, NO_RIDER, Shape},
        slice::Kind,
    },
};

const HEARD: u8 = 0b01;
const ASKS: u8 = 0b10;
/// Handshakes sent between two ticks at most. An epoch takes two or three of each end.
const SENT_PER_TICK_MAX: u8 = 8;
/// Round trips of other links after which a handshake that nobody answered is said again.
const REPEAT_AFTER: u8 = 4;
/// Times that this is done for each failure of an epoch that was good for something. Then the ticks do it.
const REPEATS_MAX: u8 = 4;

/// One handshake message, with the proposed epoch in its header.
///
/// ```text
///  0        8              16            24           28     30      31      32              34      35       40
///  ├ guid ──┼ incarnation ─┼ heard inc. ─┼ heard epoch┼ port ┼ slots ┼ flags ┼ window records┼ grant ┼ old, 0 ┼ name, 1 to 32 bytes ┤
/// ```
///
/// The four zeros before the name are for later releases. A reader passes them over, so a later one can say in them which other
/// versions of records it speaks, and two such nodes can agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hello {
    pub epoch: u32,
    pub guid: u64,
    pub incarnation: u64,
    /// The incarnation and the proposal last heard from the peer.
    pub heard: Option<(u64, u32)>,
    /// Whoever said what was heard was not heard again for some paces.
    pub echo_is_old: bool,
    pub port: u16,
    /// Slots that the sender has.
    pub slots: u8,
    /// Slots that the sender lets the peer use now, at most all of them.
    pub grant: u8,
    /// Records that the sender has room for.
    pub window_records: u16,
    /// The sender has not yet heard its own proposal echoed.
    pub asks: bool,
    pub name: Name,
}

impl Hello {
    /// Bytes before the name.
    const FIXED_BYTES: usize = 40;
    const BYTES_MAX: usize = Self::FIXED_BYTES + Name::BYTES_MAX;

    /// Writes the message.
    pub fn write(&self, writer: &mut FrameWriter<'_>) {
        let (heard_incarnation, heard_epoch) = self.heard.unwrap_or_default();
        let mut payload = [0; Self::BYTES_MAX];
        payload[0..8].copy_from_slice(&self.guid.to_le_bytes());
        payload[8..16].copy_from_slice(&self.incarnation.to_le_bytes());
        payload[16..24].copy_from_slice(&heard_incarnation.to_le_bytes());
        payload[24..28].copy_from_slice(&heard_epoch.to_le_bytes());
        payload[28..30].copy_from_slice(&self.port.to_le_bytes());
        payload[30] = self.slots;
        payload[31] =
            if self.heard.is_some() { HEARD } else { 0 } | if self.asks { ASKS } else { 0 };
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
            rider: NO_RIDER,
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
        let heard_epoch = u32::from_le_bytes(*fixed[24..].first_chunk()?);
        let hello = Self {
            epoch: message.header.epoch,
            guid: long(0)?,
            incarnation: long(8)?,
            heard: if flags & HEARD == 0 {
                None
            } else {
                Some((long(16)?, heard_epoch))
            },
            // Others than 0 and 1 are nobody's yet.
            echo_is_old: fixed[35] & 1 != 0,
            port: u16::from_le_bytes(*fixed[28..].first_chunk()?),
            slots: fixed[30],
            grant: fixed[34],
            window_records: u16::from_le_bytes(*fixed[32..].first_chunk()?),
            asks: flags & ASKS != 0,
            name: Name::from_bytes(name).ok()?,
        };
        let makes_sense = hello.guid != 0
            && flags & !(HEARD | ASKS) == 0
            && hello.grant <= hello.slots
            && hello.window_records >= WINDOW_RECORDS_MIN;
        makes_sense.then_some(hello)
    }
}

/// What one end knows of the handshake under way.
#[derive(Debug, Clone, Hash)]
pub(crate) struct Handshake {
    /// The peer's incarnation and proposal, as last heard.
    pub heard: Option<(u64, u32)>,
    /// The peer's port, as last heard. Means nothing where nothing was.
    port: u16,
    /// Who said the last handshake; 0 for nobody. Outlives the epochs.
    pub guid: u64,
    /// A handshake waits for transmission.
    pub due: bool,
    /// Failures of the link since the last tick, or since the last epoch that was good for something. The first starts the
    /// next handshake at once, later ones wait for the tick: a peer that fails the link over and over is answered at the
    /// pace of the ticks, not of the wire.
    failures_since_tick: u8,
    /// Times that a handshake will still be said again because of what other links do.
    repeats_left: u8,
    /// Round trips of other links since anything was said or heard here.
    outpaced: u8,
    /// Handshakes sent since the last tick.
    sent_since_tick: u8,
    /// Who said the last handshake of those that echo this life of the node; 0 for nobody. Outlives
    /// the epochs.
    echoer: u64,
    /// Another node than before said such a one since the last tick.
    changed_since_tick: bool,
    /// What the last handshake sent said: proposal and echo.
    said: Option<(u32, Option<(u64, u32)>)>,
    /// The link is up here, and the handshake by which the peer learns it was not sent yet.
    owed: bool,
}

impl Handshake {
    pub const fn new() -> Self {
        Self {
            heard: None,
            port: 0,
            guid: 0,
            due: false,
            failures_since_tick: 0,
            repeats_left: 0,
            outpaced: 0,
            sent_since_tick: 0,
            echoer: 0,
            changed_since_tick: false,
            said: None,
            owed: false,
        }
    }

    #[cfg(feature = "arbitrary-state")]
    pub(crate) fn scramble(&mut self, draw: &mut crate::node::arbitrary::Draw) {
        self.heard = draw.flag().then(|| (draw.long(), draw.sequence()));
        self.port = draw.below(1 << 16) as u16;
        if draw.below(4) == 0 {
            self.guid = draw.long();
            self.echoer = self.guid;
        }
        self.due = draw.flag();
        self.failures_since_tick = draw.below(4) as u8;
        self.repeats_left = draw.below(256) as u8;
        self.outpaced = draw.below(256) as u8;
        self.sent_since_tick = draw.below(12) as u8;
        self.changed_since_tick = draw.flag();
        self.said = draw.flag().then(|| (draw.sequence(), self.heard));
        self.owed = draw.flag();
    }

    /// Starts over with a new proposal.
    pub const fn restart(&mut self) {
        self.heard = None;
        self.port = 0;
        self.said = None;
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
        self.outpaced = 0;
        self.restart();
    }

    /// Whether a handshake may be said again before the tick.
    pub const fn is_eager(&self) -> bool {
        self.repeats_left > 0
    }

    /// A round trip of another link ended. When some did and nothing was heard here, what was said last is taken for lost
    /// and said again: handshakes are stop-and-wait.
    pub const fn outpace(&mut self) {
        self.outpaced = self.outpaced.saturating_add(1);
        if self.outpaced >= REPEAT_AFTER && self.is_eager() {
            self.outpaced = 0;
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

    /// Whether the node `guid`, which hears this one, may be heard now: it was before, or nobody
    /// else took its place since the last tick. Each change of place costs memory of somebody, so a
    /// neighbour that takes many names gets one for each tick. Who does not hear this node costs
    /// nothing, and takes no turn from who does.
    pub const fn may_come_from(&self, guid: u64) -> bool {
        self.echoer == 0 || self.echoer == guid || !self.changed_since_tick
    }

    /// Whether the handshake under way is with another node than `guid`.
    pub const fn is_with_another(&self, guid: u64) -> bool {
        self.heard.is_some() && self.guid != guid
    }

    /// Whose handshake was heard: the node and its port.
    pub fn heard_from(&self) -> Option<(u64, u16)> {
        self.heard.map(|_| (self.guid, self.port))
    }

    /// Notes who says the handshakes, and whether it hears this node.
    pub const fn identify(&mut self, guid: u64, is_heard: bool) {
        self.guid = guid;
        if is_heard {
            self.changed_since_tick |= self.echoer != 0 && self.echoer != guid;
            self.echoer = guid;
        }
    }

    /// Notes what was heard: the next handshake echoes it.
    pub const fn note(&mut self, hello: &Hello) {
        self.outpaced = 0;
        self.heard = Some((hello.incarnation, hello.epoch));
        self.port = hello.port;
    }

    /// Notes what was heard and makes a handshake due if it would say something new.
    pub fn hear(&mut self, hello: &Hello, epoch: u32) {
        self.note(hello);
        if self.said != Some((epoch, self.heard)) {
            self.answer();
        }
    }

    /// Whether this side proposed `epoch` since the handshake started.
    pub fn proposed(&self, epoch: u32) -> bool {
        self.said.is_some_and(|(said, _)| said == epoch)
    }

    /// The epoch is entered. If the peer was not told yet that it was heard, that comes before anything else, and be it
    /// at the next tick: what is said to an end that is not up is lost.
    pub fn enter_epoch(&mut self, epoch: u32) {
        self.owed = self.said != Some((epoch, self.heard));
    }

    /// Whether nothing but a handshake may be said, though the link is up.
    #[inline]
    pub const fn is_owed(&self) -> bool {
        self.owed
    }

    /// Notes what was sent.
    pub const fn sent(&mut self, epoch: u32) {
        self.due = false;
        self.owed = false;
        self.outpaced = 0;
        self.sent_since_tick = self.sent_since_tick.saturating_add(1);
        self.said = Some((epoch, self.heard));
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
                    (epoch, guid, incarnation, port, slots, asks),
                    (grant, window_records, echo_is_old),
                    heard,
                    name,
                )| Hello {
                    epoch,
                    guid: guid.max(1),
                    incarnation,
                    heard,
                    echo_is_old,
                    port,
                    slots,
                    grant: grant.min(slots),
                    window_records: window_records.max(WINDOW_RECORDS_MIN),
                    asks,
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

    /// The bytes of the name in a frame: from the fortieth byte of the payload on, in the second record.
    fn hello_name(frame: &[u8]) -> &[u8] {
        let bytes = usize::from(frame[14 + 21]) - (Hello::FIXED_BYTES - 28);
        &frame[14 + 64 + 20..][..bytes]
    }

    proptest! {
        #[test]
        fn a_handshake_reads_as_it_was_said(hello in hellos()) {
            let (frame, len) = frame_of(&hello);
            prop_assert_eq!(read(&frame[..len]), Some(hello));
            let (frame, len) = frame_of(&Hello { guid: 0, ..hello });
            prop_assert_eq!(read(&frame[..len]), None, "0 is nobody");
            if let Some(grant) = hello.slots.checked_add(1) {
                let (frame, len) = frame_of(&Hello { grant, ..hello });
                prop_assert_eq!(read(&frame[..len]), None, "more than there is");
            }
            let window_records = WINDOW_RECORDS_MIN - 1;
            let (frame, len) = frame_of(&Hello { window_records, ..hello });
            prop_assert_eq!(read(&frame[..len]), None, "too few for a message");
        }

        // There a later release can say which versions of records it speaks.
        #[test]
        fn what_a_later_release_says_before_the_name_is_passed_over(hello in hellos(), later in any::<[u8; 4]>()) {
            const AT: usize = 14 + 64 + 8 + (36 - 28);
            let (mut frame, len) = frame_of(&hello);
            let frame = &mut frame[..len];
            prop_assert_eq!(&frame[AT..AT + 4], &[0; 4]);
            frame[AT..AT + 4].copy_from_slice(&later);
            frame::seal(frame);
            prop_assert_eq!(read(frame), Some(hello));
        }

        // Up to three bytes are replaced and the CRC fits again: flags, lengths and names that nobody says.
        #[test]
        fn what_reads_as_a_handshake_can_be_said(hello in hellos(), lies in vec((any::<Index>(), any::<u8>()), 1..4)) {
            let (mut frame, len) = frame_of(&hello);
            let frame = &mut frame[..len];
            for (at, byte) in lies {
                frame[14 + at.index(len - 14)] = byte;
            }
            frame::seal(frame);
            if let Some(read_first) = read(frame) {
                let (again, len) = frame_of(&read_first);
                prop_assert_eq!(read(&again[..len]), Some(read_first));
                // The record behind the first starts with the last 4 bytes before the name.
                let flags = frame[14 + 64 + 8 + 3];
                prop_assert_eq!(again[14 + 64 + 8 + 3], flags, "no flag is passed over");
                prop_assert_eq!(read_first.heard.is_some(), flags & HEARD != 0);
                // The name, to the last byte that counts; what lies behind it is nobody's.
                prop_assert_eq!(read_first.name.as_bytes(), hello_name(frame));
            }
        }
    }
}
