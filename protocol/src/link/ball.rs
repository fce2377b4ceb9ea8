//! The ball of an idle link.
//!
//! It says who its sender is and whether the sender owes something, so that the two ends find out when they disagree,
//! from whatever state they are in: a record that names another node ends the epoch, and so does one that owes nothing
//! while an exchange that it heard of is unanswered.
//!
//! ```text
//!  0      1       2      4      12            20
//!  ├ owes ┼ slots ┼ port ┼ guid ┼ incarnation ┤
//! ```

/// What a ball says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ball {
    /// Messages wait for transmission behind it.
    pub owes: bool,
    /// Slots that the sender lets the peer use.
    pub slots: u8,
    /// The sender's index of its port.
    pub port: u16,
    pub guid: u64,
    pub incarnation: u64,
}

impl Ball {
    const BYTES: usize = 20;

    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[0] = u8::from(self.owes);
        bytes[1] = self.slots;
        bytes[2..4].copy_from_slice(&self.port.to_le_bytes());
        bytes[4..12].copy_from_slice(&self.guid.to_le_bytes());
        bytes[12..20].copy_from_slice(&self.incarnation.to_le_bytes());
        bytes
    }

    /// Reads the payload of a message of kind [`crate::wire::slice::Kind::Ball`]; `None` when it is not a ball's.
    pub fn read(payload: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::BYTES] = payload.try_into().ok()?;
        Some(Self {
            owes: bytes[0] != 0,
            slots: bytes[1],
            port: u16::from_le_bytes([bytes[2], bytes[3]]),
            guid: u64::from_le_bytes(*bytes[4..].first_chunk()?),
            incarnation: u64::from_le_bytes(*bytes[12..].first_chunk()?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::vec, prelude::*};

    proptest! {
        #[test]
        fn a_ball_reads_as_it_was_said((owes, slots, port, guid, incarnation) in any::<(bool, u8, u16, u64, u64)>()) {
            let ball = Ball { owes, slots, port, guid, incarnation };
            prop_assert_eq!(Ball::read(&ball.to_bytes()), Some(ball));
        }

        #[test]
        fn a_ball_has_one_length(payload in vec(any::<u8>(), 0..=32)) {
            let ball = Ball::read(&payload);
            prop_assert_eq!(ball.is_some(), payload.len() == Ball::BYTES);
            if let Some(ball) = ball {
                prop_assert_eq!(&ball.to_bytes()[1..], &payload[1..]);
                prop_assert_eq!(Ball::read(&ball.to_bytes()), Some(ball));
            }
        }
    }
}
