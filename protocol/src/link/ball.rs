//! The ball of an idle link.
//!
//! It says who its sender is and whether the sender owes something, so that the two ends find out when they disagree,
//! from whatever state they are in: a record that names another node ends the epoch, and so does one that owes nothing
//! while an exchange that it heard of is unanswered. It says again what a handshake said, so that nothing of one that nobody
//! sent outlives the next ball.
//!
//! ```text
//!  0       1       2      4      12            20    24               25      26            28
//!  ├ flags ┼ grant ┼ port ┼ guid ┼ incarnation ┼ era ┼ window records ┼ slots ┼ mark of name ┤
//! ```

use core::ops::RangeInclusive;

use super::feedback::{WINDOW_RECORDS_MAX, WINDOW_RECORDS_MIN};

const OWES: u8 = 0b01;
const ASKS: u8 = 0b10;
/// How many records a node may have room for.
const WINDOWS: RangeInclusive<u8> = WINDOW_RECORDS_MIN as u8..=WINDOW_RECORDS_MAX as u8;

const _: () = assert!(WINDOW_RECORDS_MAX <= u8::MAX as u16);

/// What a ball says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ball {
    /// Messages wait for transmission behind it.
    pub owes: bool,
    /// The sender wants a ball in return, at once.
    pub asks: bool,
    /// Slots that the sender lets the peer use from now on: its live grant.
    pub grant: u8,
    /// The sender's index of its port.
    pub port: u16,
    pub guid: u64,
    pub incarnation: u64,
    /// The upper half of the sender's clock, whose lower half is in the header of each message.
    pub era: u32,
    /// Records that the sender has room for.
    pub window_records: u8,
    /// Slots that the sender has.
    pub slots: u8,
    /// What tells the sender's name from others: [`crate::Name::mark`].
    pub name: u16,
}

impl Ball {
    const BYTES: usize = 28;

    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[0] = if self.owes { OWES } else { 0 } | if self.asks { ASKS } else { 0 };
        bytes[1] = self.grant;
        bytes[2..4].copy_from_slice(&self.port.to_le_bytes());
        bytes[4..12].copy_from_slice(&self.guid.to_le_bytes());
        bytes[12..20].copy_from_slice(&self.incarnation.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.era.to_le_bytes());
        bytes[24] = self.window_records;
        bytes[25] = self.slots;
        bytes[26..28].copy_from_slice(&self.name.to_le_bytes());
        bytes
    }

    /// Reads the payload of a message of kind [`crate::wire::slice::Kind::Ball`]; `None` when it is not a ball's.
    pub fn read(payload: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::BYTES] = payload.try_into().ok()?;
        let flags = bytes[0];
        let ball = Self {
            owes: flags & OWES != 0,
            asks: flags & ASKS != 0,
            grant: bytes[1],
            port: u16::from_le_bytes([bytes[2], bytes[3]]),
            guid: u64::from_le_bytes(*bytes[4..].first_chunk()?),
            incarnation: u64::from_le_bytes(*bytes[12..].first_chunk()?),
            era: u32::from_le_bytes(*bytes[20..].first_chunk()?),
            window_records: bytes[24],
            slots: bytes[25],
            name: u16::from_le_bytes([bytes[26], bytes[27]]),
        };
        let makes_sense = flags & !(OWES | ASKS) == 0
            && ball.grant <= ball.slots
            && WINDOWS.contains(&ball.window_records);
        makes_sense.then_some(ball)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::vec, prelude::*};

    fn balls() -> impl Strategy<Value = Ball> {
        (
            any::<(bool, bool, u8, u16, u64, u64, u32)>(),
            any::<(u8, u16)>(),
            WINDOWS,
        )
            .prop_map(
                |(
                    (owes, asks, grant, port, guid, incarnation, era),
                    (slots, name),
                    window_records,
                )| Ball {
                    owes,
                    asks,
                    grant: grant.min(slots),
                    port,
                    guid,
                    incarnation,
                    era,
                    window_records,
                    slots,
                    name,
                },
            )
    }

    proptest! {
        #[test]
        fn a_ball_reads_as_it_was_said(ball in balls()) {
            prop_assert_eq!(Ball::read(&ball.to_bytes()), Some(ball));
            if let Some(grant) = ball.slots.checked_add(1) {
                prop_assert_eq!(Ball::read(&Ball { grant, ..ball }.to_bytes()), None, "more than there is");
            }
            for window_records in [*WINDOWS.start() - 1, *WINDOWS.end() + 1] {
                prop_assert_eq!(Ball::read(&Ball { window_records, ..ball }.to_bytes()), None, "nobody has that room");
            }
        }

        #[test]
        fn a_ball_has_one_length(flags in 0..8u8, rest in vec(any::<u8>(), 0..=31)) {
            let payload = [&[flags][..], &rest].concat();
            let ball = Ball::read(&payload);
            let makes_sense = payload.len() == Ball::BYTES
                && flags < 4
                && payload[1] <= payload[25]
                && (32..=250).contains(&payload[24]);
            prop_assert_eq!(ball.is_some(), makes_sense);
            if let Some(ball) = ball {
                prop_assert_eq!(&ball.to_bytes()[..], &payload[..]);
                prop_assert_eq!(Ball::read(&ball.to_bytes()), Some(ball));
            }
        }
    }
}
