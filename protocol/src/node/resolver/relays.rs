//! The queries that one link relays, in both directions.
//!
//! At most [`RELAYS_MAX`] are in flight in each. Each takes an entry of the table, which is the
//! slot in the header of both messages, and has a tag that distinguishes queries of one entry. A
//! message that is due waits in `due` once. An entry whose requester is gone stays taken until the
//! reply arrives or the link fails.

use alloc::{collections::VecDeque, vec::Vec};
use core::hash::{Hash, Hasher};

use super::super::exchanges::question::{Ending, Question};
use crate::{exchange::Index, latch::Verdict, payloads::Payloads, wire::record::Header};

/// Queries in flight in each direction of a link.
pub(super) const RELAYS_MAX: usize = 8;
/// Entries that one neighbor may take while another one finds none free.
const RELAYS_OF_ONE: usize = 6;
/// Ticks for which that quota holds after a query found no free entry.
const CONTENDED_TICKS: u8 = 4;
/// Bytes of a question.
pub(in crate::node) const RELAY_BYTES: usize = 44;

/// A query with its origin and its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Relay {
    pub origin: u64,
    pub origin_incarnation: u64,
    pub target: u64,
    pub target_incarnation: u64,
    pub question: Question,
}

impl Relay {
    pub fn to_bytes(self) -> [u8; RELAY_BYTES] {
        let Question { verdict, commit } = self.question;
        let mut bytes = [0; RELAY_BYTES];
        bytes[0..8].copy_from_slice(&self.origin.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.origin_incarnation.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.target.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.target_incarnation.to_le_bytes());
        bytes[32..34].copy_from_slice(&verdict.port.to_le_bytes());
        bytes[34] = verdict.slot;
        bytes[35] = u8::from(commit);
        bytes[36..40].copy_from_slice(&verdict.epoch.to_le_bytes());
        bytes[40..44].copy_from_slice(&verdict.sequence.to_le_bytes());
        bytes
    }

    /// `None` for bytes that no node sends.
    pub fn read(payload: &[u8]) -> Option<Self> {
        let bytes: &[u8; RELAY_BYTES] = payload.try_into().ok()?;
        let number = |at: usize| Some(u64::from_le_bytes(*bytes[at..].first_chunk()?));
        Some(Self {
            origin: number(0)?,
            origin_incarnation: number(8)?,
            target: number(16)?,
            target_incarnation: number(24)?,
            question: Question {
                verdict: Verdict {
                    port: u16::from_le_bytes(*bytes[32..].first_chunk()?),
                    slot: bytes[34],
                    epoch: u32::from_le_bytes(*bytes[36..].first_chunk()?),
                    sequence: u32::from_le_bytes(*bytes[40..].first_chunk()?),
                },
                commit: bytes[35] != 0,
            },
        })
    }
}

/// The requester of a query that goes out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Requester {
    /// This node, about an exchange that it started.
    Own(Index),
    /// The neighbor at the end of another link, from this place of that link.
    Neighbor { link: usize, place: usize },
    /// No requester any more. The entry becomes free when the reply arrives.
    Abandoned,
}

/// A question that goes out on a link.
#[derive(Debug, Clone, Copy, Hash)]
pub(super) struct OutgoingQuery {
    pub requester: Requester,
    pub relay: Relay,
    pub tag: u32,
    /// The record that carried it, once it was sent.
    pub sent: Option<u32>,
}

/// Where the reply to a received query is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Source {
    /// At the other end of another link.
    Elsewhere,
    /// In the latch of the exchange.
    Latch,
    /// In the latch of the exchange too, but it must not be sent yet.
    Withheld,
    /// Here.
    Ending(Ending),
    /// It arrived and is in the buffer of the entry, with this many bytes.
    Passed(usize),
}

/// A received query that is not answered yet.
#[derive(Debug, Clone, Copy, Hash)]
pub(super) struct Taken {
    pub relay: Relay,
    pub tag: u32,
    pub source: Source,
}

/// A message that waits for transmission, by its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Due {
    Question(usize),
    Answer(usize),
}

/// The queries that one link relays.
#[derive(Clone)]
pub(super) struct Relays {
    pub outgoing: [Option<OutgoingQuery>; RELAYS_MAX],
    pub taken: [Option<Taken>; RELAYS_MAX],
    /// Answers on their way, by place.
    pub passed: Payloads,
    pub due: VecDeque<Due>,
    /// Peers, by index, to which the neighbor on this link has reported no path since the last
    /// tick.
    pub dead_ends: Vec<bool>,
    next_tag: u32,
    /// Ticks for which no neighbor may take all entries.
    contended_ticks: u8,
}

impl Relays {
    /// Nothing passes. An answer may have up to `answer_bytes_max` bytes.
    pub fn new(answer_bytes_max: usize) -> Self {
        Self {
            outgoing: [None; RELAYS_MAX],
            taken: [None; RELAYS_MAX],
            passed: Payloads::new(RELAYS_MAX, answer_bytes_max),
            due: VecDeque::with_capacity(2 * RELAYS_MAX),
            dead_ends: Vec::new(),
            next_tag: 0,
            contended_ticks: 0,
        }
    }

    /// Grows to `peers` peers.
    pub fn grow(&mut self, peers: usize) {
        self.dead_ends.resize(peers, false);
    }

    /// A tick passed, or a link came up.
    pub fn relax(&mut self) {
        self.contended_ticks = self.contended_ticks.saturating_sub(1);
    }

    /// Another peer takes the index of one that is gone.
    pub fn forget_peer(&mut self, peer: usize) {
        self.dead_ends[peer] = false;
    }

    /// Whether nothing passes.
    #[cfg(feature = "arbitrary-state")]
    pub fn is_idle(&self) -> bool {
        self.outgoing.iter().all(Option::is_none) && self.taken.iter().all(Option::is_none)
    }

    /// Whether questions of the neighbor wait for this side.
    pub fn owes(&self) -> bool {
        self.taken.iter().any(Option::is_some)
    }

    /// Records that carried questions which are not answered.
    pub fn waits(&self) -> impl Iterator<Item = u32> {
        self.outgoing
            .iter()
            .flatten()
            .filter_map(|outgoing| outgoing.sent)
    }

    pub fn free_place(&self) -> Option<usize> {
        self.outgoing.iter().position(Option::is_none)
    }

    /// Finds an entry for a query of a neighbor. `is_its` selects the links to that neighbor.
    pub fn place_for(&mut self, is_its: impl Fn(usize) -> bool) -> Result<usize, Full> {
        let is_of_one = |outgoing: &&OutgoingQuery| {
            matches!(
                outgoing.requester,
                Requester::Neighbor { link, .. } if is_its(link),
            )
        };
        let has_all = self.outgoing.iter().flatten().filter(is_of_one).count() >= RELAYS_OF_ONE;
        match self.free_place() {
            Some(_) if has_all && self.contended_ticks > 0 => Err(Full::OfOne),
            Some(place) => Ok(place),
            None => {
                if !has_all {
                    self.contended_ticks = CONTENDED_TICKS;
                }
                Err(Full::OfAll)
            }
        }
    }

    pub fn query(&mut self, place: usize, requester: Requester, relay: Relay) {
        self.outgoing[place] = Some(OutgoingQuery {
            requester,
            relay,
            tag: self.next_tag,
            sent: None,
        });
        self.next_tag = self.next_tag.wrapping_add(1);
        self.due.push_back(Due::Question(place));
    }

    /// The reply of an entry has no requester any more.
    pub fn disown(&mut self, place: usize) {
        let Some(outgoing) = &mut self.outgoing[place] else {
            return;
        };
        outgoing.requester = Requester::Abandoned;
        if outgoing.sent.is_none() {
            self.outgoing[place] = None;
            self.due.retain(|due| *due != Due::Question(place));
        }
    }

    /// The query that an answer with this header is about.
    pub fn query_of(&self, header: &Header) -> Option<OutgoingQuery> {
        let outgoing = *self.outgoing.get(usize::from(header.slot))?;
        outgoing.filter(|query| query.sent.is_some() && query.tag == header.slot_sequence)
    }

    /// The question of a place can be answered. Does nothing when it is not there.
    pub fn answer(&mut self, place: usize, source: Source) {
        if let Some(taken) = &mut self.taken[place] {
            taken.source = source;
            self.due.push_back(Due::Answer(place));
        }
    }

    /// The link failed.
    pub fn clear(&mut self) {
        self.outgoing = [None; RELAYS_MAX];
        self.taken = [None; RELAYS_MAX];
        self.due.clear();
        self.dead_ends.fill(false);
    }
}

/// Leftover bytes of replies that were sent do not count.
impl Hash for Relays {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self {
            outgoing,
            taken,
            passed,
            due,
            dead_ends,
            next_tag,
            contended_ticks,
        } = self;
        (outgoing, taken, due, dead_ends, next_tag, contended_ticks).hash(state);
        for (place, taken) in taken.iter().enumerate() {
            if let Some(Taken {
                source: Source::Passed(bytes),
                ..
            }) = taken
            {
                passed.get(place, *bytes).hash(state);
            }
        }
    }
}

/// Why there is no place for a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Full {
    /// The requesting neighbor has used its quota.
    OfOne,
    /// All are taken.
    OfAll,
}
