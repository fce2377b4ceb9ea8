//! Control messages about channels, and the header before each forwarded frame.
//!
//! ```text
//!  Open     ├ 6 u8 ┼ hops left u8, not 0 ┼ channel u16 ┼ target u64 ┼ origin u64 ┤      20 bytes
//!  Opened   ├ 7 u8 ┼ 0 u8 ┼ channel u16 ┤                                             4 bytes
//!  Close    ├ 8 u8 ┼ why u8 ┼ channel u16 ┼ 1: the sender opened it, 0: the receiver ┤   5 bytes
//!  Wanted   ├ 14 u8 ┼ 0 u8 ┼ channel u16 ┤                                            4 bytes
//!
//!  before a frame   ├ channel u16 ┼ flags u8 ┼ 0 u8 ┤
//!  flags            1: the sender opened the channel, 2: broadcast
//! ```
//!
//! Numbers are little-endian. The sender of `Open` is the opener of the channel; the receiver of
//! `Opened` and `Wanted` is the opener. The four messages share one number space of kinds with [the
//! control messages of trees](crate::tree::note). Decoding is exact: it refuses bytes that no node
//! writes.

use super::CHANNELS_MAX;
use crate::tree::note::BadControlMessage;

const OPEN: u8 = 6;
const OPENED: u8 = 7;
const CLOSE: u8 = 8;
const WANTED: u8 = 14;

/// Most bytes of a note about channels.
pub const CHANNEL_MESSAGE_BYTES_MAX: usize = OPEN_BYTES;
const OPEN_BYTES: usize = 20;
const OPENED_BYTES: usize = 4;
const WANTED_BYTES: usize = 4;
const CLOSE_BYTES: usize = 5;

/// Bytes before a frame that passes.
pub const PASS_HEAD_BYTES: usize = 4;
const OPENER: u8 = 1;
const TO_ALL: u8 = 2;

/// Why a channel ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum CloseReason {
    /// No way to the target is known.
    NoRoute = 1,
    /// A node on the way, or the target, has none to spare.
    NoRoom = 2,
    /// More hops than a path may have.
    TooFar = 3,
    /// A link on the way failed.
    Broken = 4,
    /// Nothing was in flight for a while, or a cable leads to the same node.
    Idle = 5,
    /// One end declared the path failed.
    Failed = 6,
    /// Nothing passed for too long.
    Silent = 7,
    /// More was in flight than the transit can buffer, which no correct node sends.
    Overrun = 8,
}

impl CloseReason {
    /// Every reason.
    pub const ALL: [Self; 8] = [
        Self::NoRoute,
        Self::NoRoom,
        Self::TooFar,
        Self::Broken,
        Self::Idle,
        Self::Failed,
        Self::Silent,
        Self::Overrun,
    ];

    /// Stable snake_case name, for counters and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoRoute => "no_way",
            Self::NoRoom => "no_room",
            Self::TooFar => "too_far",
            Self::Broken => "broken",
            Self::Idle => "idle",
            Self::Failed => "failed",
            Self::Silent => "silent",
            Self::Overrun => "overrun",
        }
    }

    fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|why| *why as u8 == byte)
    }
}

/// A request for a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Open {
    /// Cables that the path may still take, this one included: 1 at least.
    pub hops_left: u8,
    /// The number that the speaker gave to the channel, below [`CHANNELS_MAX`].
    pub channel: u8,
    /// Address of the node at the far end. Not zero.
    pub target: u64,
    /// GUID of the node that requests the path. Not zero.
    pub origin: u64,
}

/// A note about a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChannelMessage {
    /// Requests a path.
    Open(Open),
    /// The path is established up to the target. Its channel on this link has this number, which
    /// the receiver assigned.
    Opened(u8),
    /// Closes the channel. Its number is free when both ends have sent this.
    Close {
        /// The number.
        channel: u8,
        /// Why.
        why: CloseReason,
        /// Whether the speaker opened it, and gave the number.
        opener: bool,
    },
    /// A node on this path refused another path for lack of resources: the origin of this path
    /// closes it if it is idle. Its channel on this link has this number, which the receiver
    /// assigned.
    Wanted(u8),
}

impl ChannelMessage {
    /// Whether a note is about a channel, by its first byte.
    #[must_use]
    pub const fn is_one(note: &[u8]) -> bool {
        matches!(note.first(), Some(&(OPEN | OPENED | CLOSE | WANTED)))
    }

    /// Bytes that it takes.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        match self {
            Self::Open(_) => OPEN_BYTES,
            Self::Opened(_) => OPENED_BYTES,
            Self::Close { .. } => CLOSE_BYTES,
            Self::Wanted(_) => WANTED_BYTES,
        }
    }

    /// Writes it to the start of `space`, of at least [`CHANNEL_MESSAGE_BYTES_MAX`] bytes, and
    /// returns its length.
    pub fn write(&self, space: &mut [u8]) -> usize {
        let bytes = self.bytes();
        let space = &mut space[..bytes];
        match *self {
            Self::Open(open) => {
                space[..2].copy_from_slice(&[OPEN, open.hops_left]);
                space[2..4].copy_from_slice(&u16::from(open.channel).to_le_bytes());
                space[4..12].copy_from_slice(&open.target.to_le_bytes());
                space[12..].copy_from_slice(&open.origin.to_le_bytes());
            }
            Self::Opened(channel) | Self::Wanted(channel) => {
                let kind = if matches!(self, Self::Opened(_)) {
                    OPENED
                } else {
                    WANTED
                };
                space[..2].copy_from_slice(&[kind, 0]);
                space[2..].copy_from_slice(&u16::from(channel).to_le_bytes());
            }
            Self::Close {
                channel,
                why,
                opener,
            } => {
                space[..2].copy_from_slice(&[CLOSE, why as u8]);
                space[2..4].copy_from_slice(&u16::from(channel).to_le_bytes());
                space[4] = u8::from(opener);
            }
        }
        bytes
    }

    /// Reads a control message that fills `bytes`.
    ///
    /// # Errors
    /// [`BadControlMessage`]: no node writes it.
    pub fn read(bytes: &[u8]) -> Result<Self, BadControlMessage> {
        let (&kind, _) = bytes.split_first().ok_or(BadControlMessage::Kind)?;
        if !Self::is_one(bytes) {
            return Err(BadControlMessage::Kind);
        }
        let (&[_, second, low, high], rest) = bytes
            .split_first_chunk::<4>()
            .ok_or(BadControlMessage::Length)?;
        let expected = match kind {
            OPEN => OPEN_BYTES,
            OPENED => OPENED_BYTES,
            WANTED => WANTED_BYTES,
            _ => CLOSE_BYTES,
        };
        if bytes.len() != expected {
            return Err(BadControlMessage::Length);
        }
        let channel = number(low, high).ok_or(BadControlMessage::Reserved)?;
        match (kind, rest) {
            (OPEN, _) => {
                let (target, origin) = rest
                    .split_first_chunk::<8>()
                    .ok_or(BadControlMessage::Length)?;
                let origin = origin.first_chunk::<8>().ok_or(BadControlMessage::Length)?;
                let open = Open {
                    hops_left: second,
                    channel,
                    target: u64::from_le_bytes(*target),
                    origin: u64::from_le_bytes(*origin),
                };
                if open.target == 0 || open.origin == 0 {
                    return Err(BadControlMessage::ZeroGuid);
                }
                if second == 0 {
                    return Err(BadControlMessage::Reserved);
                }
                Ok(Self::Open(open))
            }
            (OPENED, _) if second == 0 => Ok(Self::Opened(channel)),
            (WANTED, _) if second == 0 => Ok(Self::Wanted(channel)),
            (CLOSE, &[opener @ (0 | 1)]) => Ok(Self::Close {
                channel,
                why: CloseReason::from_byte(second).ok_or(BadControlMessage::Reserved)?,
                opener: opener == 1,
            }),
            _ => Err(BadControlMessage::Reserved),
        }
    }
}

/// The header before a forwarded frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PassHead {
    /// The number of the channel.
    pub channel: u8,
    /// Whether the speaker opened it.
    pub opener: bool,
    /// Whether the frame is a broadcast on its cable, as handshakes are.
    pub to_all: bool,
}

impl PassHead {
    /// Encodes the header.
    #[must_use]
    pub fn to_bytes(self) -> [u8; PASS_HEAD_BYTES] {
        let flags = (u8::from(self.opener) * OPENER) | (u8::from(self.to_all) * TO_ALL);
        let [low, high] = u16::from(self.channel).to_le_bytes();
        [low, high, flags, 0]
    }

    /// Splits the header off `payload`; the rest is the records. Returns `None` if no node writes
    /// it.
    #[must_use]
    pub fn split(payload: &[u8]) -> Option<(Self, &[u8])> {
        let (&[low, high, flags, 0], rest) = payload.split_first_chunk::<PASS_HEAD_BYTES>()? else {
            return None;
        };
        let head = Self {
            channel: number(low, high)?,
            opener: flags & OPENER != 0,
            to_all: flags & TO_ALL != 0,
        };
        (flags & !(OPENER | TO_ALL) == 0).then_some((head, rest))
    }
}

/// The number of a channel, if one has it.
fn number(low: u8, high: u8) -> Option<u8> {
    (high == 0 && usize::from(low) < CHANNELS_MAX).then_some(low)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::vec, prelude::*};

    fn messages() -> impl Strategy<Value = ChannelMessage> {
        let open = any::<(u8, u8, u64, u64)>().prop_map(|(hops, channel, target, origin)| {
            ChannelMessage::Open(Open {
                hops_left: hops.max(1),
                channel: channel % CHANNELS_MAX as u8,
                target: target.max(1),
                origin: origin.max(1),
            })
        });
        let opened = (0..CHANNELS_MAX as u8).prop_map(ChannelMessage::Opened);
        let wanted = (0..CHANNELS_MAX as u8).prop_map(ChannelMessage::Wanted);
        let reasons = proptest::sample::select(&CloseReason::ALL[..]);
        let close =
            (0..CHANNELS_MAX as u8, reasons, any::<bool>()).prop_map(|(channel, why, opener)| {
                ChannelMessage::Close {
                    channel,
                    why,
                    opener,
                }
            });
        prop_oneof![open, opened, close, wanted]
    }

    proptest! {
        #[test]
        fn a_channel_message_reads_as_it_was_written(note in messages()) {
            let mut space = [0xee; CHANNEL_MESSAGE_BYTES_MAX];
            let len = note.write(&mut space);
            prop_assert!(ChannelMessage::is_one(&space));
            prop_assert_eq!(len, note.bytes());
            prop_assert_eq!(ChannelMessage::read(&space[..len]), Ok(note));
            prop_assert_eq!(
                ChannelMessage::read(&space[..len - 1]),
                Err(BadControlMessage::Length),
            );
        }

        // Any bytes that decode as a channel control message encode to the same bytes.
        #[test]
        fn any_bytes_decode_to_an_encodable_channel_message_or_an_error(
            kind in 0..16u8,
            rest in vec(prop_oneof![0..9u8, any::<u8>()], 0..24),
        ) {
            let bytes = [&[kind][..], &rest].concat();
            if let Ok(note) = ChannelMessage::read(&bytes) {
                let mut space = [0xee; CHANNEL_MESSAGE_BYTES_MAX];
                let len = note.write(&mut space);
                prop_assert_eq!(&space[..len], &bytes[..]);
            }
        }

        #[test]
        fn the_head_of_a_passed_frame_reads_as_it_was_written(
            channel in 0..CHANNELS_MAX as u8,
            opener: bool,
            to_all: bool,
            bytes in vec(any::<u8>(), 0..8),
        ) {
            let head = PassHead { channel, opener, to_all };
            let encoded = [&head.to_bytes()[..], &bytes].concat();
            prop_assert_eq!(PassHead::split(&encoded), Some((head, &bytes[..])));
            if let Some((read, rest)) = PassHead::split(&bytes) {
                prop_assert_eq!([&read.to_bytes()[..], rest].concat(), bytes);
            }
        }
    }

    #[test]
    fn channel_messages_that_no_node_sends_are_refused() {
        let read = |bytes: &[u8]| ChannelMessage::read(bytes).err();
        assert_eq!(read(&[]), Some(BadControlMessage::Kind));
        assert_eq!(read(&[5; 20]), Some(BadControlMessage::Kind));
        let mut open = [0; OPEN_BYTES];
        (open[0], open[1], open[4], open[12]) = (OPEN, 3, 1, 1);
        assert_eq!(read(&open), None);
        for (at, value, error) in [
            (1, 0, BadControlMessage::Reserved),
            (2, CHANNELS_MAX as u8, BadControlMessage::Reserved),
            (3, 1, BadControlMessage::Reserved),
            (4, 0, BadControlMessage::ZeroGuid),
            (12, 0, BadControlMessage::ZeroGuid),
        ] {
            let mut bad = open;
            bad[at] = value;
            assert_eq!(read(&bad), Some(error), "byte {at}");
        }
        assert_eq!(read(&[OPENED, 1, 0, 0]), Some(BadControlMessage::Reserved));
        assert_eq!(read(&[WANTED, 1, 0, 0]), Some(BadControlMessage::Reserved));
        assert_eq!(read(&[WANTED, 0, 0, 0, 0]), Some(BadControlMessage::Length));
        assert_eq!(
            read(&[CLOSE, 0, 0, 0, 0]),
            Some(BadControlMessage::Reserved)
        );
        assert_eq!(
            read(&[CLOSE, 9, 0, 0, 0]),
            Some(BadControlMessage::Reserved)
        );
        assert_eq!(
            read(&[CLOSE, 1, 0, 0, 2]),
            Some(BadControlMessage::Reserved)
        );
        assert_eq!(PassHead::split(&[0, 0, 4, 0]), None);
        assert_eq!(PassHead::split(&[0, 0, 0, 1]), None);
        assert_eq!(PassHead::split(&[CHANNELS_MAX as u8, 0, 0, 0]), None);
    }
}
