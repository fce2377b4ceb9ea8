//! The names of an exchange: among two nodes, and in the table of its initiator.

/// Number of the first port that is the end of a path. No port on a cable has it, or a higher one.
pub const PATH_PORTS: u16 = 0x8000;

/// Identifies one exchange between two nodes for as long as both keep their memory.
///
/// An exchange that was reversed and applied again has a new identifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ExchangeId {
    /// GUID of the peer: of the initiator at the responder, of the responder at the initiator.
    pub peer: u64,
    /// The initiator's index of the port that it started on.
    pub port: u16,
    /// The epoch of that link then.
    pub epoch: u32,
    /// Its slot.
    pub slot: u8,
    /// Its sequence in the slot. It continues across epochs.
    pub sequence: u32,
}

/// Index of an exchange in the table of the node that started it.
pub(crate) type Index = u32;
