//! What neighbours say to each other about channels, and what stands before each frame that passes.
//!
//! ```text
//!  Open     ├ 6 u8 ┼ hops left u8, not 0 ┼ channel u16 ┼ target u64 ┼ origin u64 ┤           20 bytes
//!  Opened   ├ 7 u8 ┼ 0 u8 ┼ channel u16 ┤                                                 4 bytes
//!  Close    ├ 8 u8 ┼ why u8 ┼ channel u16 ┼ 1: the speaker opened it, 0: the listener ┤      5 bytes
//!  Wanted   ├ 14 u8 ┼ 0 u8 ┼ channel u16 ┤                                                4 bytes
//!
//!  before a frame   ├ channel u16 ┼ flags u8 ┼ 0 u8 ┤    flags: 1 the speaker opened the channel, 2 to everybody
//! ```
//!
//! Numbers are little-endian. `Open` needs no word for who opened the channel: the speaker. Nor do `Opened` and `Wanted`: the listener. The first four share
//! their kinds with [the notes about trees](crate::tree::note). Decoding is exact: what no node writes is refused.

use super::CHANNELS_MAX;
use crate::tree::note::BadNote;

const OPEN: u8 = 6;
const OPENED: u8 = 7;
const CLOSE: u8 = 8;
const WANTED: u8 = 14;

/// Most bytes of a note about channels.
pub const CHANNEL_NOTE_BYTES_MAX: usize = OPEN_BYTES;
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
    NoWay = 1,
    /// A node on the way, or the target, has none to spare.
    NoRoom = 2,
    /// More hops than a path may have.
    TooFar = 3,
    /// A link on the way failed.
    Broken = 4,
    /// Nothing was under way for a while, or a cable leads to the same node.
    Idle = 5,
    /// One end declared the path failed.
    Failed = 6,
    /// Nothing passed for too long.
    Silent = 7,
    /// More was under way than has room, which no honest node sends.
    Overrun = 8,
}

impl CloseReason {
    /// Every reason.
    pub const ALL: [Self; 8] = [
        Self::NoWay,
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
            Self::NoWay => "no_way",
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

/// A path is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Open {
    /// Cables that the path may still take, this one included: 1 at least.
    pub hops_left: u8,
    /// The number that the speaker gave to the channel, below [`CHANNELS_MAX`].
    pub channel: u8,
    /// Address of the node at the far end. Not zero.
    pub target: u64,
    /// GUID of the node that wants the path. Not zero.
    pub origin: u64,
}

/// A note about a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChannelNote {
    /// Asks for a path.
    Open(Open),
    /// The path is there, as far as the target. Its channel here has this number, which the listener gave.
    Opened(u8),
    /// The channel ends. Its number is free when both ends have said so.
    Close {
        /// The number.
        channel: u8,
        /// Why.
        why: CloseReason,
        /// Whether the speaker opened it, and gave the number.
        opener: bool,
    },
    /// Somebody on the way of this path had to refuse another one for want of room: whoever asked for this one gives it back if nobody uses it.
    /// Its channel here has this number, which the listener gave.
    Wanted(u8),
}

impl ChannelNote {
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

    /// Writes it to the start of `space`, of [`CHANNEL_NOTE_BYTES_MAX`] bytes at least, and returns its length.
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

    /// Reads a note that fills `bytes`.
    ///
    /// # Errors
    /// [`BadNote`]: no node says it.
    pub fn read(bytes: &[u8]) -> Result<Self, BadNote> {
        let (&kind, _) = bytes.split_first().ok_or(BadNote::Kind)?;
        if !Self::is_one(bytes) {
            return Err(BadNote::Kind);
        }
        let (&[_, second, low, high], rest) =
            bytes.split_first_chunk::<4>().ok_or(BadNote::Length)?;
        let expected = match kind {
            OPEN => OPEN_BYTES,
            OPENED => OPENED_BYTES,
            WANTED => WANTED_BYTES,
            _ => CLOSE_BYTES,
        };
        if bytes.len() != expected {
            return Err(BadNote::Length);
        }
        let channel = number(low, high).ok_or(BadNote::Reserved)?;
        match (kind, rest) {
            (OPEN, _) => {
                let (target, origin) = rest.split_first_chunk::<8>().ok_or(BadNote::Length)?;
                let origin = origin.first_chunk::<8>().ok_or(BadNote::Length)?;
                let open = Open {
                    hops_left: second,
                    channel,
                    target: u64::from_le_bytes(*target),
                    origin: u64::from_le_bytes(*origin),
                };
                if open.target == 0 || open.origin == 0 {
                    return Err(BadNote::Nobody);
                }
                if second == 0 {
                    return Err(BadNote::Reserved);
                }
                Ok(Self::Open(open))
            }
            (OPENED, _) if second == 0 => Ok(Self::Opened(channel)),
            (WANTED, _) if second == 0 => Ok(Self::Wanted(channel)),
            (CLOSE, &[opener @ (0 | 1)]) => Ok(Self::Close {
                channel,
                why: CloseReason::from_byte(second).ok_or(BadNote::Reserved)?,
                opener: opener == 1,
            }),
            _ => Err(BadNote::Reserved),
        }
    }
}

/// What stands before a frame that passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PassHead {
    /// The number of the channel.
    pub channel: u8,
    /// Whether the speaker opened it.
    pub opener: bool,
    /// Whether the frame is addressed to everybody on its cable, as handshakes are.
    pub to_all: bool,
}

impl PassHead {
    /// As it is said.
    #[must_use]
    pub fn to_bytes(self) -> [u8; PASS_HEAD_BYTES] {
        let flags = (u8::from(self.opener) * OPENER) | (u8::from(self.to_all) * TO_ALL);
        let [low, high] = u16::from(self.channel).to_le_bytes();
        [low, high, flags, 0]
    }

    /// Takes the head off what is said; the rest is the records. `None` when no node says it.
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

    fn notes() -> impl Strategy<Value = ChannelNote> {
        let open = any::<(u8, u8, u64, u64)>().prop_map(|(hops, channel, target, origin)| {
            ChannelNote::Open(Open {
                hops_left: hops.max(1),
                channel: channel % CHANNELS_MAX as u8,
                target: target.max(1),
                origin: origin.max(1),
            })
        });
        let opened = (0..CHANNELS_MAX as u8).prop_map(ChannelNote::Opened);
        let wanted = (0..CHANNELS_MAX as u8).prop_map(ChannelNote::Wanted);
        let reasons = proptest::sample::select(&CloseReason::ALL[..]);
        let close =
            (0..CHANNELS_MAX as u8, reasons, any::<bool>()).prop_map(|(channel, why, opener)| {
                ChannelNote::Close {
                    channel,
                    why,
                    opener,
                }
            });
        prop_oneof![open, opened, close, wanted]
    }

    proptest! {
        #[test]
        fn a_note_of_channels_reads_as_it_was_said(note in notes()) {
            let mut space = [0xee; CHANNEL_NOTE_BYTES_MAX];
            let len = note.write(&mut space);
            prop_assert!(ChannelNote::is_one(&space));
            prop_assert_eq!(len, note.bytes());
            prop_assert_eq!(ChannelNote::read(&space[..len]), Ok(note));
            prop_assert_eq!(ChannelNote::read(&space[..len - 1]), Err(BadNote::Length));
        }

        // Whatever is taken for a note of channels is what a node would say, byte for byte.
        #[test]
        fn any_bytes_are_a_note_of_channels_or_none(kind in 0..16u8, rest in vec(prop_oneof![0..9u8, any::<u8>()], 0..24)) {
            let bytes = [&[kind][..], &rest].concat();
            if let Ok(note) = ChannelNote::read(&bytes) {
                let mut space = [0xee; CHANNEL_NOTE_BYTES_MAX];
                let len = note.write(&mut space);
                prop_assert_eq!(&space[..len], &bytes[..]);
            }
        }

        #[test]
        fn what_stands_before_a_frame_reads_as_it_was_said(channel in 0..CHANNELS_MAX as u8, opener: bool, to_all: bool, bytes in vec(any::<u8>(), 0..8)) {
            let head = PassHead { channel, opener, to_all };
            let said = [&head.to_bytes()[..], &bytes].concat();
            prop_assert_eq!(PassHead::split(&said), Some((head, &bytes[..])));
            if let Some((read, rest)) = PassHead::split(&bytes) {
                prop_assert_eq!([&read.to_bytes()[..], rest].concat(), bytes);
            }
        }
    }

    #[test]
    fn what_no_node_says_of_channels_is_refused() {
        let read = |bytes: &[u8]| ChannelNote::read(bytes).err();
        assert_eq!(read(&[]), Some(BadNote::Kind));
        assert_eq!(read(&[5; 20]), Some(BadNote::Kind));
        let mut open = [0; OPEN_BYTES];
        (open[0], open[1], open[4], open[12]) = (OPEN, 3, 1, 1);
        assert_eq!(read(&open), None);
        for (at, value, error) in [
            (1, 0, BadNote::Reserved),
            (2, CHANNELS_MAX as u8, BadNote::Reserved),
            (3, 1, BadNote::Reserved),
            (4, 0, BadNote::Nobody),
            (12, 0, BadNote::Nobody),
        ] {
            let mut bad = open;
            bad[at] = value;
            assert_eq!(read(&bad), Some(error), "byte {at}");
        }
        assert_eq!(read(&[OPENED, 1, 0, 0]), Some(BadNote::Reserved));
        assert_eq!(read(&[WANTED, 1, 0, 0]), Some(BadNote::Reserved));
        assert_eq!(read(&[WANTED, 0, 0, 0, 0]), Some(BadNote::Length));
        assert_eq!(read(&[CLOSE, 0, 0, 0, 0]), Some(BadNote::Reserved));
        assert_eq!(read(&[CLOSE, 9, 0, 0, 0]), Some(BadNote::Reserved));
        assert_eq!(read(&[CLOSE, 1, 0, 0, 2]), Some(BadNote::Reserved));
        assert_eq!(PassHead::split(&[0, 0, 4, 0]), None);
        assert_eq!(PassHead::split(&[0, 0, 0, 1]), None);
        assert_eq!(PassHead::split(&[CHANNELS_MAX as u8, 0, 0, 0]), None);
    }
}
