//! What an envelope says, as far as a mutant or an invariant goes by it.

use covalent_protocol::group::Life;

/// Where an envelope has its kind, flags, number, group, view, life, batch bytes and members; bytes
/// of the head before a list for each member.
const KIND: usize = 1;
const FLAGS: usize = 3;
const NUMBER: usize = 4;
const GROUP: usize = 8;
const VIEW: usize = 16;
const LIFE: usize = 24;
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
    /// Somebody asks.
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

/// The stay that sent it.
#[must_use]
pub fn life_of(bytes: &[u8]) -> Life {
    Life(word(bytes, LIFE))
}

/// Whether its sender speaks as a member of a view.
#[must_use]
pub fn speaks_as_member(bytes: &[u8]) -> bool {
    bytes[MEMBERS] > 0
}

/// Whether it says how its view ended.
#[must_use]
pub fn is_end(bytes: &[u8]) -> bool {
    bytes[KIND] == 2 && bytes[FLAGS] & DECIDED != 0
}

/// Names no group in it, if somebody asks in it or is answered.
pub fn leave_group_out(bytes: &mut [u8]) {
    if matches!(kind_of(bytes), Kind::Hello | Kind::Known) {
        bytes[GROUP..VIEW].fill(0);
    }
}

/// Makes it a keepalive: of what it said only the row and what was taken are left.
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
