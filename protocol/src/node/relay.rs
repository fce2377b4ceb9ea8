//! Resolution through a neighbor: where no link leads to the responder, a neighbor relays the
//! query.
//!
//! ```text
//!   A ─── Relay ──► C ─── Relay ──► B      A queries each neighbor in turn, each once per tick.
//!   A ◄─ Relayed ── C ◄─ Relayed ── B      C relays only queries of its neighbors: one hop.
//! ```
//!
//! B latches its reply as if the query had arrived over a link. An exchange therefore ends at most
//! once, whatever C does to queries and replies and however often they pass. A trusts C about an
//! exchange that ended. If C reports an exchange as *not* executed, A queries it again over the
//! next link to B before it resubmits it: nothing is executed twice because of C.
//!
//! At most [`RELAYS_MAX`] queries are in flight in each direction of a link. Each takes a *table
//! entry*, which is the slot in the header of both messages. The sequence in the header is a tag
//! that distinguishes queries of one entry. A neighbor without a free entry towards B refuses at
//! once. Nothing is retransmitted: a link that fails ends the queries relayed over it, and their
//! reply is "no path".
//!
//! ```text
//!  Relay    ├ origin u64 ┼ its incarnation u64 ┼ target u64 ┼ its incarnation u64 ┤
//!           ├ port u16 ┼ slot u8 ┼ commit u8 ┼ epoch u32 ┼ sequence u32 ┤
//!  Relayed  as the answer to a question over a link
//! ```

use alloc::{collections::VecDeque, vec::Vec};
use core::hash::{Hash, Hasher};

use super::{
    Node,
    resolve::{ANSWER_BYTES, Ending, Question, ReceivedAnswer},
    transmit::Blocked,
};
use crate::{
    Host,
    event::DownReason,
    latch::{LatchSet, Verdict},
    link::{Attachment, LinkState, Part},
    payloads::Payloads,
    transaction::Index,
    wire::{frame::FrameWriter, record::Header, slice::Kind},
};

/// Queries in flight in each direction of a link.
pub(super) const RELAYS_MAX: usize = 8;
/// Entries that one neighbor may take while another one finds none free.
const RELAYS_OF_ONE: usize = 6;
/// Ticks for which that quota holds after a query found no free entry.
const CONTENDED_TICKS: u8 = 4;
/// Bytes of a question.
pub(super) const RELAY_BYTES: usize = 44;

/// A query with its origin and its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Relay {
    origin: u64,
    origin_incarnation: u64,
    target: u64,
    target_incarnation: u64,
    question: Question,
}

impl Relay {
    fn to_bytes(self) -> [u8; RELAY_BYTES] {
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
    fn read(payload: &[u8]) -> Option<Self> {
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
enum Requester {
    /// This node, about an exchange that it started.
    Own(Index),
    /// The neighbor at the end of another link, from this place of that link.
    Neighbor { link: usize, place: usize },
    /// No requester any more. The entry becomes free when the reply arrives.
    Abandoned,
}

/// A question that goes out on a link.
#[derive(Debug, Clone, Copy, Hash)]
struct OutgoingQuery {
    requester: Requester,
    relay: Relay,
    tag: u32,
    /// The record that carried it, once it was sent.
    sent: Option<u32>,
}

/// Where the reply to a received query is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Source {
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
struct Taken {
    relay: Relay,
    tag: u32,
    source: Source,
}

/// A message that waits for transmission, by its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Due {
    Question(usize),
    Answer(usize),
}

/// The queries that one link relays.
#[derive(Clone)]
pub(super) struct Relays {
    outgoing: [Option<OutgoingQuery>; RELAYS_MAX],
    taken: [Option<Taken>; RELAYS_MAX],
    /// Answers on their way, by place.
    passed: Payloads,
    due: VecDeque<Due>,
    /// Peers, by index, to which the neighbor on this link has reported no path since the last
    /// tick.
    dead_ends: Vec<bool>,
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

    fn free_place(&self) -> Option<usize> {
        self.outgoing.iter().position(Option::is_none)
    }

    /// Finds an entry for a query of a neighbor. `is_its` selects the links to that neighbor.
    fn place_for(&mut self, is_its: impl Fn(usize) -> bool) -> Result<usize, Full> {
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

    fn query(&mut self, place: usize, requester: Requester, relay: Relay) {
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
    fn disown(&mut self, place: usize) {
        let Some(outgoing) = &mut self.outgoing[place] else {
            return;
        };
        outgoing.requester = Requester::Abandoned;
        if outgoing.sent.is_none() {
            self.outgoing[place] = None;
            self.due.retain(|due| *due != Due::Question(place));
        }
    }

    /// The question of a place can be answered. Does nothing when it is not there.
    fn answer(&mut self, place: usize, source: Source) {
        if let Some(taken) = &mut self.taken[place] {
            taken.source = source;
            self.due.push_back(Due::Answer(place));
        }
    }

    /// The link failed.
    fn clear(&mut self) {
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
enum Full {
    /// The requesting neighbor has used its quota.
    OfOne,
    /// All are taken.
    OfAll,
}

/// Where a question could go.
enum Route {
    /// Out on this link, in this place.
    Open(usize, usize),
    /// The maximum number of queries is in flight.
    Busy,
    /// No neighbor that may have a path is left to query.
    None,
}

impl Node {
    /// Queries the neighbors about unresolved exchanges with peers to which no link leads. Reports
    /// exchanges as in doubt if there is no neighbor to query.
    #[cold]
    pub(super) fn search_paths(&mut self, host: &mut impl Host) {
        for peer in 0..self.peers.len() {
            self.want_path(peer);
            while self.peers[peer].links_up == 0
                && let Some(transaction) = self.peers[peer].unresolved.first()
            {
                let (at, place) = match self.route_around(peer) {
                    Route::Open(at, place) => (at, place),
                    Route::Busy => break,
                    Route::None => {
                        if !self.hopes_for_path(peer) {
                            self.report_doubt(peer, host);
                        }
                        break;
                    }
                };
                self.peers[peer].unresolved.pop_front(&self.transactions);
                let Some(question) = self.question(transaction) else {
                    continue;
                };
                let relay = Relay {
                    origin: self.config.guid,
                    origin_incarnation: self.config.incarnation,
                    target: self.peers[peer].guid,
                    target_incarnation: self.peers[peer].incarnation,
                    question,
                };
                self.relays[at].query(place, Requester::Own(transaction), relay);
            }
        }
    }

    fn route_around(&self, peer: usize) -> Route {
        let mut busy = false;
        for (at, link) in self.links.iter().enumerate().skip(self.path_links) {
            let leads_to_another = link
                .attachment()
                .is_some_and(|attachment| attachment.peer != peer);
            let relays = &self.relays[at];
            if link.state() != LinkState::Up || !leads_to_another || relays.dead_ends[peer] {
                continue;
            }
            match relays.free_place() {
                Some(place) => return Route::Open(at, place),
                None => busy = true,
            }
        }
        if busy { Route::Busy } else { Route::None }
    }

    /// Earlier "no path" replies of neighbors may be outdated: queries them again.
    pub(super) fn forget_dead_ends(&mut self, host: &mut impl Host) {
        for relays in &mut self.relays {
            relays.contended_ticks = relays.contended_ticks.saturating_sub(1);
        }
        let waits = |peer: &crate::peer::Peer| peer.links_up == 0 && !peer.unresolved.is_empty();
        if self.peers.iter().any(waits) {
            for relays in &mut self.relays {
                relays.dead_ends.fill(false);
            }
            self.search_paths(host);
        }
    }

    /// Whether a neighbor is being queried about an exchange with a peer.
    pub(super) fn is_queried_at_neighbors(&self, peer: usize) -> bool {
        let is_of = |outgoing: &OutgoingQuery| {
            matches!(
                outgoing.requester,
                Requester::Own(at) if self.transactions[at].peer == peer,
            )
        };
        self.relays
            .iter()
            .any(|relays| relays.outgoing.iter().flatten().any(is_of))
    }

    /// A link to a peer came up, or the peer has a new incarnation. Queries held by neighbors, and
    /// their "undone" replies, are queried at the peer itself.
    pub(super) fn recall(&mut self, peer: usize) {
        let Self {
            relays,
            peers,
            transactions,
            ..
        } = self;
        let Some(peer_entry) = peers.get_mut(peer) else {
            return;
        };
        for relays in relays {
            relays.dead_ends[peer] = false;
            for place in 0..RELAYS_MAX {
                if let Some(OutgoingQuery {
                    requester: Requester::Own(transaction),
                    ..
                }) = relays.outgoing[place]
                    && transactions[transaction].peer == peer
                {
                    relays.disown(place);
                    peer_entry.unresolved.push_back(transactions, transaction);
                }
            }
        }
        while let Some(transaction) = peer_entry.undone.pop_front(transactions) {
            peer_entry.unresolved.push_back(transactions, transaction);
        }
    }

    /// A link failed: queries relayed over it can no longer be answered.
    pub(super) fn break_relays(&mut self, at: usize) {
        for place in 0..RELAYS_MAX {
            match self.relays[at].outgoing[place].map(|outgoing| outgoing.requester) {
                Some(Requester::Own(transaction)) => {
                    let peer = self.transactions[transaction].peer;
                    self.peers[peer]
                        .unresolved
                        .push_back(&mut self.transactions, transaction);
                }
                Some(Requester::Neighbor { link, place }) => {
                    self.relays[link].answer(place, Source::Ending(Ending::NoPath));
                }
                Some(Requester::Abandoned) | None => {}
            }
        }
        for relays in &mut self.relays {
            for place in 0..RELAYS_MAX {
                if let Some(OutgoingQuery {
                    requester: Requester::Neighbor { link, .. },
                    ..
                }) = relays.outgoing[place]
                    && link == at
                {
                    relays.disown(place);
                }
            }
        }
        self.relays[at].clear();
    }

    /// A neighbor relays a query about an exchange at this node, or queries an exchange of its own
    /// at another neighbor through this node.
    #[cold]
    pub(super) fn on_relay(
        &mut self,
        at: usize,
        header: &Header,
        payload: &[u8],
        host: &mut impl Host,
    ) -> Result<(), DownReason> {
        let attachment = self.links[at].attachment().ok_or(DownReason::Violation)?;
        let place = usize::from(header.slot);
        let relay = Relay::read(payload)
            .filter(|_| !self.is_path(at))
            .ok_or(DownReason::Violation)?;
        // A place has one question at a time.
        if !matches!(self.relays[at].taken.get(place), Some(None)) {
            return Err(DownReason::Violation);
        }
        let sender = &self.peers[attachment.peer];
        let sender_is_origin =
            (relay.origin, relay.origin_incarnation) == (sender.guid, sender.incarnation);
        let source = if relay.target == self.config.guid {
            self.serve_relay(at, &relay, host)
        } else if sender_is_origin && self.pass_on(at, place, relay) {
            self.links[at].counters.relays_passed += 1;
            Source::Elsewhere
        } else {
            Source::Ending(Ending::NoPath)
        };
        self.relays[at].taken[place] = Some(Taken {
            relay,
            tag: header.slot_sequence,
            source,
        });
        match source {
            Source::Elsewhere => {}
            Source::Latch if self.withholds(&relay) => {
                if let Some(taken) = &mut self.relays[at].taken[place] {
                    taken.source = Source::Withheld;
                }
            }
            _ => self.relays[at].answer(place, source),
        }
        Ok(())
    }

    /// Whether the outcome that another node queries must not be sent yet.
    fn withholds(&self, relay: &Relay) -> bool {
        self.peer_of(relay.origin)
            .is_some_and(|peer| self.is_withheld(peer, relay.question.verdict))
    }

    /// More data is durable: answers the queries on the link `at` that were withheld for it.
    pub(super) fn release_relayed(&mut self, at: usize) {
        for place in 0..RELAYS_MAX {
            if let Some(Taken {
                relay,
                source: Source::Withheld,
                ..
            }) = self.relays[at].taken[place]
                && !self.withholds(&relay)
            {
                self.relays[at].answer(place, Source::Latch);
            }
        }
    }

    /// Settles an exchange that another node started here and now queries.
    fn serve_relay(&mut self, at: usize, relay: &Relay, host: &mut impl Host) -> Source {
        if relay.target_incarnation != self.config.incarnation {
            // The state of an earlier incarnation is lost.
            return Source::Ending(Ending::Forgotten);
        }
        match self
            .peer_of(relay.origin)
            .filter(|&peer| self.peers[peer].met)
        {
            Some(peer) if self.peers[peer].incarnation == relay.origin_incarnation => {
                if relay.question.verdict.slot >= self.config.slots {
                    return Source::Ending(Ending::Forgotten);
                }
                self.settle(at, peer, relay.question, host);
                Source::Latch
            }
            None if self
                .peers_lost
                .covers(relay.question.verdict.port, relay.question.verdict.epoch) =>
            {
                Source::Ending(Ending::Forgotten)
            }
            // This incarnation of the origin was never met. If it is genuine, the two nodes will
            // meet.
            _ => Source::Ending(Ending::NoPath),
        }
    }

    /// Sends a question of the link `from` on to its target, if a link leads there and has a place.
    fn pass_on(&mut self, from: usize, place: usize, relay: Relay) -> bool {
        let Some(target) = self.peer_of(relay.target) else {
            return false;
        };
        let Self { links, relays, .. } = self;
        let peer_at = |at: usize| links[at].attachment().map(|attachment| attachment.peer);
        let leads_there = |at: &usize| {
            let link = &links[*at];
            link.state() == LinkState::Up && link.leads_to(target)
        };
        let mut over_quota = false;
        let requester = peer_at(from);
        let route = (self.path_links..links.len())
            .filter(leads_there)
            .find_map(|at| {
                let place = relays[at].place_for(|link| peer_at(link) == requester);
                over_quota |= place == Err(Full::OfOne);
                Some((at, place.ok()?))
            });
        let Some((at, free)) = route else {
            self.links[from].counters.drops.quota_relays += u64::from(over_quota);
            return false;
        };
        self.relays[at].query(free, Requester::Neighbor { link: from, place }, relay);
        true
    }

    /// A neighbor answers.
    #[cold]
    pub(super) fn on_relayed(
        &mut self,
        at: usize,
        header: &Header,
        payload: &[u8],
        host: &mut impl Host,
    ) -> Result<(), DownReason> {
        let place = usize::from(header.slot);
        let outgoing = match self.relays[at].outgoing.get(place) {
            Some(Some(outgoing))
                if outgoing.sent.is_some() && outgoing.tag == header.slot_sequence =>
            {
                *outgoing
            }
            _ => return Err(DownReason::Violation),
        };
        let received_answer = self
            .read_answer(payload)
            .filter(|received_answer| received_answer.port == outgoing.relay.question.verdict.port)
            .ok_or(DownReason::Violation)?;
        self.relays[at].outgoing[place] = None;
        match outgoing.requester {
            Requester::Abandoned => self.links[at].counters.drops.late += 1,
            Requester::Neighbor { link, place } => {
                self.relays[link].passed.set(place, payload);
                self.relays[link].answer(place, Source::Passed(payload.len()));
            }
            Requester::Own(transaction) => self.learn(at, transaction, &received_answer, host),
        }
        self.search_paths(host);
        Ok(())
    }

    /// The neighbor on the link `at` reports the outcome of an exchange of this node.
    fn learn(
        &mut self,
        at: usize,
        transaction: Index,
        received_answer: &ReceivedAnswer<'_>,
        host: &mut impl Host,
    ) {
        let peer = self.transactions[transaction].peer;
        match received_answer.ending {
            Ending::NoPath => {
                self.relays[at].dead_ends[peer] = true;
                self.peers[peer]
                    .unresolved
                    .push_back(&mut self.transactions, transaction);
                return;
            }
            Ending::Undone | Ending::NeverSeen if self.transactions[transaction].wanted => {
                // The doubt is over. A resubmission needs a link to the peer and a reply of the
                // peer itself.
                self.clear_doubt(transaction);
                self.peers[peer]
                    .undone
                    .push_back(&mut self.transactions, transaction);
            }
            Ending::Undone | Ending::NeverSeen => {
                self.give_up(transaction, received_answer.ending, host)
            }
            Ending::Committed | Ending::Refused | Ending::Forgotten => {
                self.resolve(transaction, received_answer, host);
            }
        }
        self.links[at].counters.relayed += 1;
    }

    /// Bytes of the first message that waits on a link, if one does.
    #[inline]
    pub(super) fn relay_bytes(&self, at: usize) -> Option<usize> {
        self.relays[at]
            .due
            .front()
            .map(|due| self.due_bytes(at, *due))
    }

    #[cold]
    fn due_bytes(&self, at: usize, due: Due) -> usize {
        let relays = &self.relays[at];
        match due {
            Due::Question(_) => RELAY_BYTES,
            Due::Answer(place) => match &relays.taken[place] {
                Some(taken) => {
                    let (head, tail) = self.relayed(at, place, taken);
                    head.len() + tail.len()
                }
                None => ANSWER_BYTES,
            },
        }
    }

    /// The latches among which is the one that a question of another node is about.
    fn relay_latches(&self, relay: &Relay) -> Option<&LatchSet> {
        let peer = self
            .peer_of(relay.origin)
            .filter(|&peer| self.peers[peer].incarnation == relay.origin_incarnation)?;
        let set = self.set_of(peer, relay.question.verdict.port)?;
        Some(&self.latches[set])
    }

    /// Writes the messages that wait on a link.
    #[inline]
    pub(super) fn write_relays(
        &mut self,
        at: usize,
        attachment: Attachment,
        writer: &mut FrameWriter<'_>,
    ) -> Result<(), Blocked> {
        while let Some(&due) = self.relays[at].due.front() {
            self.write_relay(at, attachment, due, writer)?;
        }
        Ok(())
    }

    #[cold]
    fn write_relay(
        &mut self,
        at: usize,
        attachment: Attachment,
        due: Due,
        writer: &mut FrameWriter<'_>,
    ) -> Result<(), Blocked> {
        match due {
            Due::Question(place) => {
                if !self.links[at].may_send(writer, RELAY_BYTES) {
                    return Err(Blocked);
                }
                self.relays[at].due.pop_front();
                if let Some(outgoing) = &mut self.relays[at].outgoing[place] {
                    let bytes = outgoing.relay.to_bytes();
                    let part = Part::whole(Kind::Relay, place as u8, outgoing.tag, &bytes);
                    outgoing.sent = Some(self.links[at].write(writer, &mut self.clock, &part));
                }
                Ok(())
            }
            Due::Answer(place) => {
                self.relays[at].due.pop_front();
                if let Some(mut taken) = self.relays[at].taken[place].take() {
                    if taken.source == Source::Latch && self.withholds(&taken.relay) {
                        // The latch held another exchange when the query arrived.
                        taken.source = Source::Withheld;
                        self.relays[at].taken[place] = Some(taken);
                        return Ok(());
                    }
                    // Taken out of the link, because loading the message borrows the rest of the
                    // node.
                    let mut departing = core::mem::take(&mut self.links[at].departing);
                    let (head, tail) = self.relayed(at, place, &taken);
                    departing.load(Kind::Relayed, place as u8, taken.tag, &head, tail);
                    self.links[at].departing = departing;
                }
                self.write_departing(at, attachment, writer)
            }
        }
    }

    /// The reply to a query: its header and the bytes behind it.
    fn relayed(&self, at: usize, place: usize, taken: &Taken) -> ([u8; ANSWER_BYTES], &[u8]) {
        let verdict = taken.relay.question.verdict;
        let ending = match taken.source {
            Source::Passed(bytes) => {
                let whole = self.relays[at].passed.get(place, bytes);
                let (head, tail) = whole.split_at(ANSWER_BYTES);
                let mut bytes = [0; ANSWER_BYTES];
                bytes.copy_from_slice(head);
                return (bytes, tail);
            }
            Source::Latch => {
                let answer = Self::answer(self.relay_latches(&taken.relay), verdict);
                let attached = self.links[at].attachment();
                let bytes_max = attached.map(|attachment| self.message_bytes_max(attachment.peer));
                if bytes_max.is_some_and(|max| answer.1.len() <= max) {
                    return answer;
                }
                // Longer than the neighbor takes.
                Ending::NoPath
            }
            Source::Ending(ending) => ending,
            Source::Elsewhere | Source::Withheld => Ending::NoPath,
        };
        let head = Self::answer_header(verdict.port, ending, 0, verdict.sequence);
        (head, &[])
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::{Name, NodeConfig, peer::Peer};

    const GUID_OF_TARGET: u64 = 10;

    /// A node with a cable to the node that the others query. One neighbor has `greedy` cables,
    /// another one has one.
    fn node_with(greedy: usize) -> Node {
        let name = Name::new("middle").unwrap();
        let mut node = Node::new(NodeConfig::new(1, 1, name));
        for peer in 0..3 {
            let guid = GUID_OF_TARGET + peer;
            node.peers.push(Peer::new(guid, 1, name, node.peers_lost));
        }
        for at in 0..greedy + 2 {
            node.add_link(at as u16, [0; 6]).unwrap();
            let link = &mut node.links[at];
            link.epochs.up_with(Attachment {
                peer: [0, 1, 2][usize::from(at > 0) + usize::from(at > greedy)],
                set: 0,
                port: at as u16,
                mac: [0; 6],
                name: 0,
                slots: 1,
                granted: 1,
                window_records: 1,
            });
        }
        node
    }

    #[test]
    fn a_neighbor_that_queries_constantly_leaves_places_to_another() {
        let relay = Relay {
            origin: 1,
            origin_incarnation: 1,
            target: GUID_OF_TARGET,
            target_incarnation: 1,
            question: Question {
                verdict: Verdict {
                    port: 0,
                    slot: 0,
                    epoch: 0,
                    sequence: 0,
                },
                commit: false,
            },
        };
        for cables in [1, 2, 4] {
            let (mut node, modest) = (node_with(cables), cables + 1);
            for place in 0..RELAYS_MAX {
                let passes = node.pass_on(1 + place % cables, place, relay);
                assert!(passes, "{cables}: no other requester");
            }
            assert!(!node.pass_on(modest, 0, relay), "{cables}");
            node.relays[0].outgoing[0] = None;
            for link in 1..=cables {
                assert!(!node.pass_on(link, 0, relay), "{cables}: {link}");
                assert_eq!(node.links[link].counters.drops.quota_relays, 1);
            }
            assert!(node.pass_on(modest, 0, relay), "{cables}");
            node.relays[0].outgoing[0] = None;
            node.relays[0].contended_ticks = 0;
            assert!(node.pass_on(1, 0, relay), "{cables}");
        }
    }
}
