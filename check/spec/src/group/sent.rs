//! The contents of an envelope, as far as a mutant or an invariant depends on them.

use covalent_protocol::group::Incarnation;

/// Offsets in an envelope: kind, flags, number, group, view, incarnation, batch bytes and members.
/// `HEAD`: bytes of the head before a list with an entry for each member.
const KIND: usize = 1;
const FLAGS: usize = 3;
const NUMBER: usize = 4;
const GROUP: usize = 8;
const VIEW: usize = 16;
const INCARNATION: usize = 24;
const BATCH: usize = 36;
const MEMBERS: usize = 38;
const HEAD: usize = 80;

const DECIDED: u8 = 8;
const UNORDERED: u8 = 16;

/// Kinds of envelopes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A row outside of the order of its pair: a keepalive.
    Keepalive,
    /// A query.
    Hello,
    /// It is answered.
    Known,
    /// Anything else.
    Other,
}

/// The kind of an envelope.
#[must_use]
pub fn kind_of(bytes: &[u8]) -> Kind {
    match bytes[KIND] {
        1 if bytes[FLAGS] & UNORDERED != 0 => Kind::Keepalive,
        3 => Kind::Hello,
        4 => Kind::Known,
        _ => Kind::Other,
    }
}

/// Whether it is of the order of its pair.
#[must_use]
pub fn is_ordered(bytes: &[u8]) -> bool {
    bytes[FLAGS] & UNORDERED == 0
}

/// The group that it names.
#[must_use]
pub fn group_of(bytes: &[u8]) -> u64 {
    word(bytes, GROUP)
}

/// The number of the view that it is of.
#[must_use]
pub fn view_of(bytes: &[u8]) -> u64 {
    word(bytes, VIEW)
}

/// The incarnation that sent it.
#[must_use]
pub fn incarnation_of(bytes: &[u8]) -> Incarnation {
    Incarnation(word(bytes, INCARNATION))
}

/// Whether its sender speaks as a member of a view.
#[must_use]
pub fn is_from_member(bytes: &[u8]) -> bool {
    bytes[MEMBERS] > 0
}

/// Whether it reports the end of its view.
#[must_use]
pub fn is_end(bytes: &[u8]) -> bool {
    bytes[KIND] == 2 && bytes[FLAGS] & DECIDED != 0
}

/// Clears the group in a query or in its reply.
pub fn leave_group_out(bytes: &mut [u8]) {
    if matches!(kind_of(bytes), Kind::Hello | Kind::Known) {
        bytes[GROUP..VIEW].fill(0);
    }
}

/// Turns it into a keepalive: only the row and the acknowledgments remain.
pub fn make_keepalive(bytes: &mut Vec<u8>) {
    bytes[KIND] = 1;
    bytes[FLAGS] = bytes[FLAGS] & !DECIDED | UNORDERED;
    bytes[NUMBER..NUMBER + 4].fill(0);
    bytes[BATCH..BATCH + 2].fill(0);
    bytes.truncate(HEAD + 8 * usize::from(bytes[MEMBERS]));
}

fn word(bytes: &[u8], at: usize) -> u64 {
    let word = bytes[at..].first_chunk().copied();
    word.map_or(0, u64::from_le_bytes)
}
