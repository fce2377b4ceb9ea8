//! The keepalive of an idle link.
//!
//! It identifies its sender and states whether the sender owes a message, so the two ends detect a
//! disagreement from any state. A record that names another node ends the epoch. So does a
//! keepalive that owes nothing while an exchange that its sender received is unanswered. It repeats
//! the fields of the handshake, so state from a handshake that was never sent does not outlive the
//! next keepalive.
//!
//! ```text
//!  0       1       2      4      12            20    24               25      26            28
//!  ├ flags ┼ grant ┼ port ┼ guid ┼ incarnation ┼ era ┼ window records ┼ slots ┼ mark of name ┤
//! ```

use core::ops::RangeInclusive;

use super::feedback::{WINDOW_RECORDS_MAX, WINDOW_RECORDS_MIN};

const OWES: u8 = 0b01;
const EXPECTS_REPLY: u8 = 0b10;
/// Valid numbers of receive buffers of a node, in records.
const WINDOWS: RangeInclusive<u8> = WINDOW_RECORDS_MIN as u8..=WINDOW_RECORDS_MAX as u8;

const _: () = assert!(WINDOW_RECORDS_MAX <= u8::MAX as u16);

/// Content of a keepalive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Keepalive {
    /// Messages wait for transmission behind it.
    pub owes: bool,
    /// The sender requests a keepalive in return, at once.
    pub expects_reply: bool,
    /// Slots that the peer may use from now on: the sender's live grant.
    pub grant: u8,
    /// The sender's index of its port.
    pub port: u16,
    pub guid: u64,
    pub incarnation: u64,
    /// The upper half of the sender's clock. The lower half is in the header of each message.
    pub era: u32,
    /// Receive buffers of the sender, in records.
    pub window_records: u8,
    /// Slots that the sender has.
    pub slots: u8,
    /// Short hash that distinguishes the sender's name: [`Name::mark`](crate::Name::mark).
    pub name: u16,
}

impl Keepalive {
    const BYTES: usize = 28;

    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[0] =
            if self.owes { OWES } else { 0 } | if self.expects_reply { EXPECTS_REPLY } else { 0 };
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

    /// Reads the payload of a message of kind
    /// [`Kind::Keepalive`](crate::wire::slice::Kind::Keepalive). Returns `None` if it is no valid
    /// keepalive.
    pub fn read(payload: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::BYTES] = payload.try_into().ok()?;
        let flags = bytes[0];
        let keepalive = Self {
            owes: flags & OWES != 0,
            expects_reply: flags & EXPECTS_REPLY != 0,
            grant: bytes[1],
            port: u16::from_le_bytes([bytes[2], bytes[3]]),
            guid: u64::from_le_bytes(*bytes[4..].first_chunk()?),
            incarnation: u64::from_le_bytes(*bytes[12..].first_chunk()?),
            era: u32::from_le_bytes(*bytes[20..].first_chunk()?),
            window_records: bytes[24],
            slots: bytes[25],
            name: u16::from_le_bytes([bytes[26], bytes[27]]),
        };
        let makes_sense = flags & !(OWES | EXPECTS_REPLY) == 0
            && keepalive.grant <= keepalive.slots
            && WINDOWS.contains(&keepalive.window_records);
        makes_sense.then_some(keepalive)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::vec, prelude::*};

    fn keepalives() -> impl Strategy<Value = Keepalive> {
        (
            any::<(bool, bool, u8, u16, u64, u64, u32)>(),
            any::<(u8, u16)>(),
            WINDOWS,
        )
            .prop_map(
                |(
                    (owes, expects_reply, grant, port, guid, incarnation, era),
                    (slots, name),
                    window_records,
                )| Keepalive {
                    owes,
                    expects_reply,
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
        fn a_keepalive_reads_as_it_was_written(keepalive in keepalives()) {
            prop_assert_eq!(Keepalive::read(&keepalive.to_bytes()), Some(keepalive));
            if let Some(grant) = keepalive.slots.checked_add(1) {
                prop_assert_eq!(
                    Keepalive::read(&Keepalive { grant, ..keepalive }.to_bytes()),
                    None,
                    "more than there is",
                );
            }
            for window_records in [*WINDOWS.start() - 1, *WINDOWS.end() + 1] {
                let bytes = Keepalive { window_records, ..keepalive }.to_bytes();
                prop_assert_eq!(Keepalive::read(&bytes), None, "no end has that window");
            }
        }

        #[test]
        fn a_keepalive_has_one_length(flags in 0..8u8, rest in vec(any::<u8>(), 0..=31)) {
            let payload = [&[flags][..], &rest].concat();
            let keepalive = Keepalive::read(&payload);
            let makes_sense = payload.len() == Keepalive::BYTES
                && flags < 4
                && payload[1] <= payload[25]
                && (32..=250).contains(&payload[24]);
            prop_assert_eq!(keepalive.is_some(), makes_sense);
            if let Some(keepalive) = keepalive {
                prop_assert_eq!(&keepalive.to_bytes()[..], &payload[..]);
                prop_assert_eq!(Keepalive::read(&keepalive.to_bytes()), Some(keepalive));
            }
        }
    }
}
