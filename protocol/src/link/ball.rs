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

use crate::wire::{message::Message, record};

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

    /// Reads a message of kind [`crate::wire::slice::Kind::Ball`]; `None` when it is not a ball.
    pub fn read(message: &Message<'_>) -> Option<Self> {
        let [only] = message.record_bytes() else {
            return None;
        };
        let bytes: &[u8; Self::BYTES] = record::payload(only)
            .get(..message.payload_bytes())?
            .try_into()
            .ok()?;
        Some(Self {
            owes: bytes[0] != 0,
            slots: bytes[1],
            port: u16::from_le_bytes([bytes[2], bytes[3]]),
            guid: u64::from_le_bytes(*bytes[4..].first_chunk()?),
            incarnation: u64::from_le_bytes(*bytes[12..].first_chunk()?),
        })
    }
}
