//! What became of an exchange of a failed link: queries over links to the peer, and through
//! neighbors where none leads there.
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

mod doubts;
mod names;
mod relays;

use alloc::vec::Vec;

pub(super) use self::{doubts::Doubts, relays::RELAY_BYTES};
use self::{
    doubts::question,
    relays::{Due, Full, OutgoingQuery, RELAYS_MAX, Relay, Relays, Requester, Source, Taken},
};
use super::{
    NodeConfig, Whole,
    exchanges::{
        Exchanges,
        question::{ANSWER_BYTES, Ending, ReceivedAnswer, answer, answer_header},
    },
    links::Links,
};
use crate::{
    Host,
    clock::Clock,
    event::DownReason,
    latch::LatchSet,
    link::{Attachment, Blocked, Link, LinkState, Part},
    wire::{frame::FrameWriter, slice::Kind},
};

/// Where a question could go.
enum Route {
    /// Out on this link, in this place.
    Open(usize, usize),
    /// The maximum number of queries is in flight.
    Busy,
    /// No neighbor that may have a path is left to query.
    None,
}

/// See the module.
#[derive(Clone, Hash)]
pub(super) struct Resolver {
    pub doubts: Doubts,
    /// The queries that each link forwards, by the link's index.
    relays: Vec<Relays>,
    /// The address and incarnation of this node.
    own: (u64, u64),
    /// Most slots of a port.
    slots: u8,
    /// Longest reply that this node takes, in bytes.
    reply_bytes_max: usize,
}

impl Resolver {
    /// Nothing is unresolved. Up to `names_max` exchanges are kept for their names.
    pub fn new(config: &NodeConfig, names_max: usize) -> Self {
        let message_bytes_max = usize::from(config.message_bytes_max);
        Self {
            doubts: Doubts::new(names_max, message_bytes_max),
            relays: Vec::new(),
            own: (config.guid, config.incarnation),
            slots: config.slots,
            reply_bytes_max: message_bytes_max,
        }
    }

    /// Grows by a link, to `peers` peers. Relayed answers on the link have up to `answer_bytes_max`
    /// bytes.
    pub fn grow(&mut self, peers: usize, answer_bytes_max: usize) {
        self.relays.push(Relays::new(answer_bytes_max));
        for relays in &mut self.relays {
            relays.grow(peers);
        }
        self.doubts.grow(peers);
    }

    /// Queries the neighbors about unresolved exchanges with a peer to which no link leads. Returns
    /// `false` if there is such an exchange and no neighbor to query.
    pub fn query_neighbors(
        &mut self,
        peer: usize,
        exchanges: &mut Exchanges,
        links: &Links,
    ) -> bool {
        while self.doubts.has_unresolved(peer) {
            let (at, place) = match self.route_around(peer, links) {
                Route::Open(at, place) => (at, place),
                Route::Busy => return true,
                Route::None => return false,
            };
            let Some(transaction) = self.doubts.pop(peer, &exchanges.initiator) else {
                return true;
            };
            let Some(question) = question(&exchanges.initiator, transaction) else {
                continue;
            };
            let (origin, origin_incarnation) = self.own;
            let relay = Relay {
                origin,
                origin_incarnation,
                target: exchanges.peers[peer].guid,
                target_incarnation: exchanges.peers[peer].incarnation,
                question,
            };
            self.relays[at].query(place, Requester::Own(transaction), relay);
        }
        true
    }

    fn route_around(&self, peer: usize, links: &Links) -> Route {
        let mut busy = false;
        for at in links.cables() {
            let link = &links[at];
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

    /// A tick passed, or a link came up: quotas of relayed queries are over sooner.
    pub fn relax(&mut self) {
        self.relays.iter_mut().for_each(Relays::relax);
    }

    /// Earlier "no path" replies of neighbors may be outdated.
    pub fn forget_dead_ends(&mut self) {
        for relays in &mut self.relays {
            relays.dead_ends.fill(false);
        }
    }

    /// Another peer takes the index of one that is gone.
    pub fn forget_peer(&mut self, peer: usize) {
        for relays in &mut self.relays {
            relays.forget_peer(peer);
        }
    }

    /// Whether a neighbor is being queried about an exchange with a peer.
    pub fn queries_neighbors(&self, peer: usize, exchanges: &Exchanges) -> bool {
        let pool = &exchanges.initiator.pool;
        let is_of = |outgoing: &OutgoingQuery| {
            matches!(
                outgoing.requester,
                Requester::Own(at) if pool[at].peer == peer,
            )
        };
        self.relays
            .iter()
            .any(|relays| relays.outgoing.iter().flatten().any(is_of))
    }

    /// A link to a peer came up, or the peer has a new incarnation. Queries held by neighbors, and
    /// their "undone" replies, are queried at the peer itself.
    pub fn recall(&mut self, peer: usize, exchanges: &mut Exchanges) {
        let initiator = &mut exchanges.initiator;
        for relays in &mut self.relays {
            relays.dead_ends[peer] = false;
            for place in 0..RELAYS_MAX {
                if let Some(OutgoingQuery {
                    requester: Requester::Own(transaction),
                    ..
                }) = relays.outgoing[place]
                    && initiator.pool[transaction].peer == peer
                {
                    relays.disown(place);
                    self.doubts.push(peer, initiator, transaction);
                }
            }
        }
        self.doubts.recall_undone(peer, initiator);
    }

    /// A link failed: queries relayed over it can no longer be answered.
    pub fn break_relays(&mut self, at: usize, exchanges: &mut Exchanges) {
        let initiator = &mut exchanges.initiator;
        for place in 0..RELAYS_MAX {
            match self.relays[at].outgoing[place].map(|outgoing| outgoing.requester) {
                Some(Requester::Own(transaction)) => {
                    let peer = initiator.pool[transaction].peer;
                    self.doubts.push(peer, initiator, transaction);
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

    /// Whether questions of the neighbor on a link wait for this side.
    pub fn owes(&self, at: usize) -> bool {
        self.relays[at].owes()
    }

    /// Whether the neighbor on a link received a query, and owes the answer.
    pub fn is_owed(&self, at: usize, link: &Link) -> bool {
        self.relays[at]
            .waits()
            .any(|record| link.feedback.is_reflected(record))
    }

    /// Whether nothing passes on a link.
    #[cfg(feature = "arbitrary-state")]
    pub fn is_idle(&self, at: usize) -> bool {
        self.relays[at].is_idle()
    }

    /// A neighbor relays a query about an exchange at this node, or queries an exchange of its own
    /// at another neighbor through this node.
    #[cold]
    pub fn on_relay(
        &mut self,
        at: usize,
        message: Whole<'_>,
        exchanges: &mut Exchanges,
        links: &mut Links,
        clock: &mut Clock,
        host: &mut impl Host,
    ) -> Result<(), DownReason> {
        let attachment = links[at].attachment().ok_or(DownReason::Violation)?;
        let place = usize::from(message.header.slot);
        let relay = Relay::read(message.payload)
            .filter(|_| !links.is_path(at))
            .ok_or(DownReason::Violation)?;
        // A place has one question at a time.
        if !matches!(self.relays[at].taken.get(place), Some(None)) {
            return Err(DownReason::Violation);
        }
        let sender = &exchanges.peers[attachment.peer];
        let sender_is_origin =
            (relay.origin, relay.origin_incarnation) == (sender.guid, sender.incarnation);
        let source = if relay.target == self.own.0 {
            self.serve(at, &relay, exchanges, links, clock, host)
        } else if sender_is_origin && self.pass_on(at, place, relay, exchanges, links) {
            links[at].counters.relays_passed += 1;
            Source::Elsewhere
        } else {
            Source::Ending(Ending::NoPath)
        };
        self.relays[at].taken[place] = Some(Taken {
            relay,
            tag: message.header.slot_sequence,
            source,
        });
        match source {
            Source::Elsewhere => {}
            Source::Latch if withholds(&relay, exchanges) => {
                if let Some(taken) = &mut self.relays[at].taken[place] {
                    taken.source = Source::Withheld;
                }
            }
            _ => self.relays[at].answer(place, source),
        }
        Ok(())
    }

    /// More data is durable: answers the queries on the link `at` that were withheld for it.
    pub fn release_relayed(&mut self, at: usize, exchanges: &Exchanges) {
        for place in 0..RELAYS_MAX {
            if let Some(Taken {
                relay,
                source: Source::Withheld,
                ..
            }) = self.relays[at].taken[place]
                && !withholds(&relay, exchanges)
            {
                self.relays[at].answer(place, Source::Latch);
            }
        }
    }

    /// Settles an exchange that another node started here and now queries.
    fn serve(
        &self,
        at: usize,
        relay: &Relay,
        exchanges: &mut Exchanges,
        links: &mut Links,
        clock: &mut Clock,
        host: &mut impl Host,
    ) -> Source {
        if relay.target_incarnation != self.own.1 {
            // The state of an earlier incarnation is lost.
            return Source::Ending(Ending::Forgotten);
        }
        let verdict = relay.question.verdict;
        match exchanges
            .find(relay.origin)
            .filter(|&peer| exchanges.peers[peer].met)
        {
            Some(peer) if exchanges.peers[peer].incarnation == relay.origin_incarnation => {
                if verdict.slot >= self.slots {
                    return Source::Ending(Ending::Forgotten);
                }
                exchanges.settle(at, peer, relay.question, links, clock, host);
                Source::Latch
            }
            None if exchanges
                .responder
                .peers_lost
                .covers(verdict.port, verdict.epoch) =>
            {
                Source::Ending(Ending::Forgotten)
            }
            // This incarnation of the origin was never met. If it is genuine, the two nodes will
            // meet.
            _ => Source::Ending(Ending::NoPath),
        }
    }

    /// Sends a question of the link `from` on to its target, if a link leads there and has a place.
    fn pass_on(
        &mut self,
        from: usize,
        place: usize,
        relay: Relay,
        exchanges: &Exchanges,
        links: &mut Links,
    ) -> bool {
        let Some(target) = exchanges.find(relay.target) else {
            return false;
        };
        let mut over_quota = false;
        let requester = links.peer_at(from);
        let route = links
            .cables()
            .filter(|&at| links[at].state() == LinkState::Up && links[at].leads_to(target))
            .find_map(|at| {
                let place = self.relays[at].place_for(|link| links.peer_at(link) == requester);
                over_quota |= place == Err(Full::OfOne);
                Some((at, place.ok()?))
            });
        let Some((at, free)) = route else {
            links[from].counters.drops.quota_relays += u64::from(over_quota);
            return false;
        };
        self.relays[at].query(free, Requester::Neighbor { link: from, place }, relay);
        true
    }

    /// A neighbor answers.
    #[cold]
    pub fn on_relayed(
        &mut self,
        at: usize,
        message: Whole<'_>,
        exchanges: &mut Exchanges,
        links: &mut Links,
        clock: &mut Clock,
        host: &mut impl Host,
    ) -> Result<(), DownReason> {
        let relays = &mut self.relays[at];
        let outgoing = relays
            .query_of(message.header)
            .ok_or(DownReason::Violation)?;
        let answer = ReceivedAnswer::read(message.payload, self.reply_bytes_max)
            .filter(|answer| answer.port == outgoing.relay.question.verdict.port)
            .ok_or(DownReason::Violation)?;
        relays.outgoing[usize::from(message.header.slot)] = None;
        match outgoing.requester {
            Requester::Abandoned => links[at].counters.drops.late += 1,
            Requester::Neighbor { link, place } => {
                self.relays[link].passed.set(place, message.payload);
                self.relays[link].answer(place, Source::Passed(message.payload.len()));
            }
            Requester::Own(transaction) => {
                let initiator = &mut exchanges.initiator;
                let entry = &initiator.pool[transaction];
                let (peer, is_wanted) = (entry.peer, entry.wanted);
                match answer.ending {
                    Ending::NoPath => {
                        self.relays[at].dead_ends[peer] = true;
                        self.doubts.push(peer, initiator, transaction);
                        return Ok(());
                    }
                    Ending::Undone | Ending::NeverSeen if is_wanted => {
                        self.doubts.hold_undone(peer, initiator, transaction);
                    }
                    _ => {
                        self.doubts
                            .resolve(transaction, &answer, initiator, links, clock, host);
                    }
                }
                links[at].counters.relayed += 1;
            }
        }
        Ok(())
    }

    /// Bytes of the first message that waits on a link, if one does.
    #[inline]
    pub fn relay_bytes(
        &self,
        at: usize,
        attachment: Attachment,
        exchanges: &Exchanges,
    ) -> Option<usize> {
        let due = self.relays[at].due.front()?;
        Some(self.due_bytes(at, attachment, *due, exchanges))
    }

    #[cold]
    fn due_bytes(
        &self,
        at: usize,
        attachment: Attachment,
        due: Due,
        exchanges: &Exchanges,
    ) -> usize {
        let relays = &self.relays[at];
        match due {
            Due::Question(_) => RELAY_BYTES,
            Due::Answer(place) => match &relays.taken[place] {
                Some(taken) => {
                    let (head, tail) = relayed(relays, place, taken, attachment, exchanges);
                    head.len() + tail.len()
                }
                None => ANSWER_BYTES,
            },
        }
    }

    /// Writes the messages that wait on a link.
    #[inline]
    pub fn write_relays(
        &mut self,
        at: usize,
        attachment: Attachment,
        link: &mut Link,
        exchanges: &mut Exchanges,
        clock: &mut Clock,
        writer: &mut FrameWriter<'_>,
    ) -> Result<(), Blocked> {
        while !self.relays[at].due.is_empty() {
            self.write_relay(at, attachment, link, exchanges, clock, writer)?;
        }
        Ok(())
    }

    #[cold]
    fn write_relay(
        &mut self,
        at: usize,
        attachment: Attachment,
        link: &mut Link,
        exchanges: &mut Exchanges,
        clock: &mut Clock,
        writer: &mut FrameWriter<'_>,
    ) -> Result<(), Blocked> {
        let relays = &mut self.relays[at];
        match relays.due.front() {
            None => Ok(()),
            Some(&Due::Question(place)) => {
                if !link.may_send(writer, RELAY_BYTES) {
                    return Err(Blocked);
                }
                relays.due.pop_front();
                if let Some(outgoing) = &mut relays.outgoing[place] {
                    let bytes = outgoing.relay.to_bytes();
                    let part = Part::whole(Kind::Relay, place as u8, outgoing.tag, &bytes);
                    outgoing.sent = Some(link.write(writer, clock, &part));
                }
                Ok(())
            }
            Some(&Due::Answer(place)) => {
                relays.due.pop_front();
                if let Some(mut taken) = relays.taken[place].take() {
                    if taken.source == Source::Latch && withholds(&taken.relay, exchanges) {
                        // The latch held another exchange when the query arrived.
                        taken.source = Source::Withheld;
                        relays.taken[place] = Some(taken);
                        return Ok(());
                    }
                    let (head, tail) = relayed(relays, place, &taken, attachment, exchanges);
                    link.departing
                        .load(Kind::Relayed, place as u8, taken.tag, &head, tail);
                }
                exchanges
                    .responder
                    .write_departing(at, attachment, link, clock, writer)
            }
        }
    }
}

/// Whether the outcome that another node queries must not be sent yet.
fn withholds(relay: &Relay, exchanges: &Exchanges) -> bool {
    exchanges.find(relay.origin).is_some_and(|peer| {
        exchanges
            .responder
            .is_withheld(peer, relay.question.verdict)
    })
}

/// The latches among which is the one that a question of another node is about.
fn latches<'a>(relay: &Relay, exchanges: &'a Exchanges) -> Option<&'a LatchSet> {
    let peer = exchanges
        .find(relay.origin)
        .filter(|&peer| exchanges.peers[peer].incarnation == relay.origin_incarnation)?;
    let set = exchanges
        .responder
        .set_of(peer, relay.question.verdict.port)?;
    Some(&exchanges.responder.sets[set])
}

/// The reply to a query: its header and the bytes behind it.
fn relayed<'a>(
    relays: &'a Relays,
    place: usize,
    taken: &Taken,
    attachment: Attachment,
    exchanges: &'a Exchanges,
) -> ([u8; ANSWER_BYTES], &'a [u8]) {
    let verdict = taken.relay.question.verdict;
    let ending = match taken.source {
        Source::Passed(bytes) => {
            let whole = relays.passed.get(place, bytes);
            let (head, tail) = whole.split_at(ANSWER_BYTES);
            let mut bytes = [0; ANSWER_BYTES];
            bytes.copy_from_slice(head);
            return (bytes, tail);
        }
        Source::Latch => {
            let answer = answer(latches(&taken.relay, exchanges), verdict);
            if answer.1.len() <= exchanges.message_bytes_max(attachment.peer) {
                return answer;
            }
            // Longer than the neighbor takes.
            Ending::NoPath
        }
        Source::Ending(ending) => ending,
        Source::Elsewhere | Source::Withheld => Ending::NoPath,
    };
    let head = answer_header(verdict.port, ending, 0, verdict.sequence);
    (head, &[])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::{
        Name, NodeConfig,
        latch::Verdict,
        node::{exchanges::question::Question, peer::Peer},
    };

    const GUID_OF_TARGET: u64 = 10;

    /// The tables of a node with a cable to the node that the others query. One neighbor has
    /// `greedy` cables, another one has one.
    fn tables_with(greedy: usize) -> (Resolver, Exchanges, Links) {
        let name = Name::new("middle").unwrap();
        let config = NodeConfig::new(1, 1, name);
        let mut exchanges = Exchanges::new(&config, 1);
        let mut resolver = Resolver::new(&config, 1);
        let mut links = Links::new();
        for peer in 0..3 {
            let lost = exchanges.responder.peers_lost;
            exchanges
                .peers
                .push(Peer::new(GUID_OF_TARGET + peer, 1, name, lost));
        }
        for at in 0..greedy + 2 {
            let mut link = Link::new(at as u16, [0; 6], 1, 64, 0);
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
            links.push(link);
            resolver.grow(3, 64);
        }
        (resolver, exchanges, links)
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
            let (mut resolver, exchanges, mut links) = tables_with(cables);
            let modest = cables + 1;
            let mut pass_on = |resolver: &mut Resolver, from, place| {
                let passes = resolver.pass_on(from, place, relay, &exchanges, &mut links);
                (passes, links[from].counters.drops.quota_relays)
            };
            for place in 0..RELAYS_MAX {
                let (passes, _) = pass_on(&mut resolver, 1 + place % cables, place);
                assert!(passes, "{cables}: no other requester");
            }
            assert!(!pass_on(&mut resolver, modest, 0).0, "{cables}");
            resolver.relays[0].outgoing[0] = None;
            for link in 1..=cables {
                let refused = pass_on(&mut resolver, link, 0);
                assert_eq!(refused, (false, 1), "{cables}: {link}");
            }
            assert!(pass_on(&mut resolver, modest, 0).0, "{cables}");
            resolver.relays[0].outgoing[0] = None;
            for _ in 0..8 {
                resolver.relax();
            }
            assert!(pass_on(&mut resolver, 1, 0).0, "{cables}");
        }
    }
}
