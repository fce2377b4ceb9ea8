//! The name of an exchange.

/// Names one exchange between two nodes for as long as both keep their memory.
///
/// An exchange that was reversed and applied afresh has another name then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ExchangeId {
    /// GUID of the node at the other end: of the initiator where it is served, of the responder where it was started.
    pub peer: u64,
    /// The initiator's index of the port that it started on.
    pub port: u16,
    /// The epoch of that link then.
    pub epoch: u32,
    /// Its slot.
    pub slot: u8,
    /// Its sequence in the slot. Goes on over epochs.
    pub sequence: u32,
}
