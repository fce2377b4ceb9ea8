//! Slice 1, the link's context: four bytes of mine and four of yours.
//!
//! The sender owns *mine*. *yours* reflects the mine of the last record that it accepted. The peer
//! compares the reflection with what it sent: perfect information feedback.

use super::VERSION;

/// The kind of a record; low nibble of the state byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Handshake of a new epoch.
    Init = 0,
    /// The keepalive of an idle link: "I am here, and this is what I received".
    Keepalive = 1,
    /// 1PC message 1: execute this.
    Request = 2,
    /// 2PC message 1: keep this.
    Tentative = 3,
    /// Message 2. In 2PC "I keep it", in 1PC "done" with the reply.
    Reflecting = 4,
    /// 2PC message 3: execute it.
    Commit = 5,
    /// 2PC message 4: "done", with the reply.
    Committed = 6,
    /// Message 2, JAM: "I will not", with the reason. Ownership is back with the sender.
    Refused = 7,
    /// Queries the outcome of an exchange of a failed link, or requests the peer to commit it.
    Resolve = 8,
    /// Answers [`Kind::Resolve`].
    Resolved = 9,
    /// Requests a neighbor to query one of its own neighbors about the outcome of an exchange of a
    /// failed link.
    Relay = 10,
    /// Answers [`Kind::Relay`].
    Relayed = 11,
    /// A control message of trees or channels: the sender's state, or a request.
    ControlMessage = 12,
    /// Carries a frame of a path between two other nodes, or of a path that ends at either end of
    /// the link.
    Pass = 13,
}

impl Kind {
    /// Every kind, by its number.
    pub const ALL: [Self; 14] = [
        Self::Init,
        Self::Keepalive,
        Self::Request,
        Self::Tentative,
        Self::Reflecting,
        Self::Commit,
        Self::Committed,
        Self::Refused,
        Self::Resolve,
        Self::Resolved,
        Self::Relay,
        Self::Relayed,
        Self::ControlMessage,
        Self::Pass,
    ];

    #[inline]
    const fn from_nibble(nibble: u8) -> Option<Self> {
        if (nibble as usize) < Self::ALL.len() {
            Some(Self::ALL[nibble as usize])
        } else {
            None
        }
    }

    /// The opcode of records of this kind.
    #[must_use]
    pub const fn opcode(self) -> Opcode {
        let protocol = match self {
            Self::Init => Protocol::Init,
            Self::Keepalive => Protocol::Liveness,
            _ => Protocol::StateMachine,
        };
        // A flow unit starts at the full depth of eight slices; a reply has counted it down to
        // "complete".
        let depth = match self {
            Self::Reflecting | Self::Committed | Self::Refused | Self::Resolved | Self::Relayed => {
                Depth::Complete
            }
            _ => Depth::Eight,
        };
        Opcode {
            jam: matches!(self, Self::Refused),
            protocol,
            depth,
        }
    }
}

/// The machine that a record belongs to; three bits of the opcode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Protocol {
    /// Handshake.
    Init = 0,
    /// The keepalive.
    Liveness = 1,
    /// Exchanges.
    StateMachine = 2,
}

/// How many slices are still to be acknowledged; two bits of the opcode. Records are whole here, so
/// only both ends of the scale occur.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Depth {
    /// Nothing: the whole record was understood.
    Complete = 0,
    /// All eight slices.
    Eight = 3,
}

/// The opcode byte, from its most significant bit: JAM 1, PROTOCOL 3, BEATS 2, SLICE 2. BEATS is
/// always 0: each record is a flow unit of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opcode {
    /// The receiver refuses.
    pub jam: bool,
    /// The machine.
    pub protocol: Protocol,
    /// The acknowledgement depth that is left.
    pub depth: Depth,
}

impl Opcode {
    /// The byte on the wire.
    #[must_use]
    pub const fn to_byte(self) -> u8 {
        (self.jam as u8) << 7 | (self.protocol as u8) << 4 | self.depth as u8
    }
}

/// The mine half of slice 1, as one little-endian number: opcode, liveness, state, transition.
///
/// Never zero, because the state byte carries the version. Zero in the yours half means "nothing
/// received yet".
#[inline]
#[must_use]
pub const fn mine(kind: Kind, record_sequence: u32, slot_sequence: u32) -> u32 {
    HALVES[kind as usize] | (record_sequence & 0xff) << 8 | (slot_sequence & 0xff) << 24
}

/// The kind in a mine half, if this version can send that half in a record with these sequences.
#[inline]
#[must_use]
pub const fn kind_of(half: u32, record_sequence: u32, slot_sequence: u32) -> Option<Kind> {
    match Kind::from_nibble(half.to_le_bytes()[2] & 0x0f) {
        Some(kind) if mine(kind, record_sequence, slot_sequence) == half => Some(kind),
        _ => None,
    }
}

/// The version of the record with this mine half. Its place is the same in every version.
#[must_use]
pub const fn version_of(half: u32) -> u8 {
    half.to_le_bytes()[2] >> 4
}

/// The mine half of each kind, with zero sequences.
const HALVES: [u32; Kind::ALL.len()] = {
    let mut halves = [0; Kind::ALL.len()];
    let mut at = 0;
    while at < halves.len() {
        let kind = Kind::ALL[at];
        halves[kind as usize] =
            u32::from_le_bytes([kind.opcode().to_byte(), 0, VERSION << 4 | kind as u8, 0]);
        at += 1;
    }
    halves
};

/// The low eight bits of the record sequence in a mine half.
#[inline]
#[must_use]
pub const fn liveness_of(half: u32) -> u8 {
    half.to_le_bytes()[1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::unusual_byte_groupings, reason = "the groups are the fields")]
    fn the_opcode_bits_lie_where_the_reference_puts_them() {
        assert_eq!(Kind::Init.opcode().to_byte(), 0b0_000_00_11);
        assert_eq!(Kind::Keepalive.opcode().to_byte(), 0b0_001_00_11);
        assert_eq!(Kind::Tentative.opcode().to_byte(), 0b0_010_00_11);
        assert_eq!(Kind::Committed.opcode().to_byte(), 0b0_010_00_00);
        assert_eq!(Kind::Refused.opcode().to_byte(), 0b1_010_00_00);
    }

    #[test]
    fn a_mine_half_encodes_its_kind_and_is_never_zero() {
        for nibble in 0..16 {
            let Some(kind) = Kind::from_nibble(nibble) else {
                continue;
            };
            assert_eq!(kind as u8, nibble);
            let half = mine(kind, 0x1234_5600, 0xffff_ff00);
            assert_ne!(half, 0);
            assert_eq!(kind_of(half, 0x1234_5600, 0xffff_ff00), Some(kind));
            assert_eq!(
                kind_of(half, 0x1234_5601, 0xffff_ff00),
                None,
                "the liveness byte must fit"
            );
            assert_eq!(
                kind_of(half, 0x1234_5600, 0xffff_ff01),
                None,
                "the transition byte must fit"
            );
        }
    }
}
