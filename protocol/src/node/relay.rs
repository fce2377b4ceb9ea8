//! Resolution through a neighbour: where no link leads to the responder, a neighbour passes the question on.
//!
//! ```text
//!   A ─── Relay ──► C ─── Relay ──► B      A asks each neighbour in turn, each once in a pace.
//!   A ◄─ Relayed ── C ◄─ Relayed ── B      C passes on what its neighbours ask themselves, and nothing else: one hop.
//! ```
//!
//! B latches its answer as if it had been asked over a link, so an exchange ends at most once whatever C makes of
//! questions and answers, and however often they pass. C is believed about an exchange that ended. That one was *not*
//! executed is asked again over the next link to B before it is applied afresh: nothing is executed twice on C's word.
//!
//! At most [`RELAYS_MAX`] questions are under way in each direction of a link, each in a *place*, which is the slot in
//! the header of both messages; the sequence there is a tag that tells questions of one place apart. A neighbour that
//! has no place free towards B refuses at once. Nothing is sent again: a link that fails ends what passes over it, and
//! that is answered with "no path".
//!
//! ```text
//!  Relay    ├ origin u64 ┼ its incarnation u64 ┼ target u64 ┼ its incarnation u64 ┼ port u16 ┼ slot u8 ┼ commit u8 ┼ epoch u32 ┼ sequence u32 ┤
//!  Relayed  as the answer to a question over a link
//! ```

use alloc::{collections::VecDeque, vec::Vec};
use core::hash::{Hash, Hasher};

use super::{
    Node,
    resolve::{ANSWER_BYTES, Ending, Question, Said},
    transmit::Blocked,
};
use crate::{
    Host,
    event::DownReason,
    latch::LatchSet,
    link::{Attachment, LinkState, Part, Verdict},
    payloads::Payloads,
    transaction::Index,
    wire::{frame::FrameWriter, record::Header, slice::Kind},
};

/// Questions under way in each direction of a link.
pub(super) const RELAYS_MAX: usize = 8;
/// Those of them that one neighbor may have passed on while another one finds no place.
const RELAYS_OF_ONE: usize = 6;
/// Paces for which that holds behind a question that found none.
const CONTENDED_PACES: u8 = 4;
/// Bytes of a question.
pub(super) const RELAY_BYTES: usize = 44;

/// A question and who asks whom.
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

    /// `None` when no node says it.
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

/// Who wants the answer to a question that goes out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Asker {
    /// This node, about an exchange that it started.
    Own(Index),
    /// The neighbour at the end of another link, from this place of that link.
    Neighbour { link: usize, place: usize },
    /// Nobody any more. The place is free when the answer came.
    Nobody,
}

/// A question that goes out on a link.
#[derive(Debug, Clone, Copy, Hash)]
struct Asked {
    asker: Asker,
    relay: Relay,
    tag: u32,
    /// The record that carried it, once it was sent.
    sent: Option<u32>,
}

/// Where the answer to a question that came in is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Source {
    /// At the other end of another link.
    Elsewhere,
    /// In the latch of the exchange.
    Latch,
    /// There too, and not to be told yet.
    Withheld,
    /// Here.
    Ending(Ending),
    /// It came, and lies in the buffer of the place: so many bytes.
    Passed(usize),
}

/// A question that came in on a link and is not answered.
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

/// What one link passes on.
#[derive(Clone)]
pub(super) struct Relays {
    asked: [Option<Asked>; RELAYS_MAX],
    taken: [Option<Taken>; RELAYS_MAX],
    /// Answers on their way, by place.
    passed: Payloads,
    due: VecDeque<Due>,
    /// Peers, by index, to whom the neighbour here has no path, so far as it said since the last tick.
    dead_ends: Vec<bool>,
    next_tag: u32,
    /// Paces for which no neighbor may have all places.
    contended_paces: u8,
}

impl Relays {
    /// Nothing passes. An answer may have up to `answer_bytes_max` bytes.
    pub fn new(answer_bytes_max: usize) -> Self {
        Self {
            asked: [None; RELAYS_MAX],
            taken: [None; RELAYS_MAX],
            passed: Payloads::new(RELAYS_MAX, answer_bytes_max),
            due: VecDeque::with_capacity(2 * RELAYS_MAX),
            dead_ends: Vec::new(),
            next_tag: 0,
            contended_paces: 0,
        }
    }

    /// Makes room for so many peers.
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
        self.asked.iter().all(Option::is_none) && self.taken.iter().all(Option::is_none)
    }

    /// Whether questions of the neighbour wait for this side.
    pub fn owes(&self) -> bool {
        self.taken.iter().any(Option::is_some)
    }

    /// Records that carried questions which are not answered.
    pub fn waits(&self) -> impl Iterator<Item = u32> {
        self.asked.iter().flatten().filter_map(|asked| asked.sent)
    }

    fn free_place(&self) -> Option<usize> {
        self.asked.iter().position(Option::is_none)
    }

    /// A place for a question of a neighbor, to whom `is_its` of other links lead.
    fn place_for(&mut self, is_its: impl Fn(usize) -> bool) -> Result<usize, Full> {
        let is_of_one =
            |asked: &&Asked| matches!(asked.asker, Asker::Neighbour { link, .. } if is_its(link));
        let has_all = self.asked.iter().flatten().filter(is_of_one).count() >= RELAYS_OF_ONE;
        match self.free_place() {
            Some(_) if has_all && self.contended_paces > 0 => Err(Full::OfOne),
            Some(place) => Ok(place),
            None => {
                if !has_all {
                    self.contended_paces = CONTENDED_PACES;
                }
                Err(Full::OfAll)
            }
        }
    }

    fn ask(&mut self, place: usize, asker: Asker, relay: Relay) {
        self.asked[place] = Some(Asked {
            asker,
            relay,
            tag: self.next_tag,
            sent: None,
        });
        self.next_tag = self.next_tag.wrapping_add(1);
        self.due.push_back(Due::Question(place));
    }

    /// Nobody wants the answer of a place any more.
    fn disown(&mut self, place: usize) {
        let Some(asked) = &mut self.asked[place] else {
            return;
        };
        asked.asker = Asker::Nobody;
        if asked.sent.is_none() {
            self.asked[place] = None;
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
        self.asked = [None; RELAYS_MAX];
        self.taken = [None; RELAYS_MAX];
        self.due.clear();
        self.dead_ends.fill(false);
    }
}

/// What is left of answers that were sent is of no account.
impl Hash for Relays {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self {
            asked,
            taken,
            passed,
            due,
            dead_ends,
            next_tag,
            contended_paces,
        } = self;
        (asked, taken, due, dead_ends, next_tag, contended_paces).hash(state);
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
    /// Whoever asks has its share of them.
    OfOne,
    /// All are taken.
    OfAll,
}

/// Where a question could go.
enum Way {
    /// Out on this link, in this place.
    Open(usize, usize),
    /// As many questions are under way as may be.
    Busy,
    /// No neighbour that may have a path is left to ask.
    None,
}

impl Node {
    /// Asks the neighbours about what is unresolved with peers to whom no link leads, and tells those in doubt for whom
    /// there is no neighbour to ask.
    #[cold]
    pub(super) fn seek_paths(&mut self, host: &mut impl Host) {
        for peer in 0..self.peers.len() {
            self.want_path(peer);
            while self.peers[peer].links_up == 0
                && let Some(transaction) = self.peers[peer].unresolved.first()
            {
                let (at, place) = match self.way_around(peer) {
                    Way::Open(at, place) => (at, place),
                    Way::Busy => break,
                    Way::None => {
                        if !self.hopes_for_path(peer) {
                            self.tell_doubt(peer, host);
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
                self.relays[at].ask(place, Asker::Own(transaction), relay);
            }
        }
    }

    fn way_around(&self, peer: usize) -> Way {
        let mut busy = false;
        for (at, link) in self.links.iter().enumerate().skip(self.path_links) {
            let leads_to_another = link
                .attachment
                .is_some_and(|attachment| attachment.peer != peer);
            let relays = &self.relays[at];
            if link.state != LinkState::Up || !leads_to_another || relays.dead_ends[peer] {
                continue;
            }
            match relays.free_place() {
                Some(place) => return Way::Open(at, place),
                None => busy = true,
            }
        }
        if busy { Way::Busy } else { Way::None }
    }

    /// What the neighbours said of paths may be so no longer: they are asked again.
    pub(super) fn forget_dead_ends(&mut self, host: &mut impl Host) {
        for relays in &mut self.relays {
            relays.contended_paces = relays.contended_paces.saturating_sub(1);
        }
        let waits = |peer: &crate::peer::Peer| peer.links_up == 0 && !peer.unresolved.is_empty();
        if self.peers.iter().any(waits) {
            for relays in &mut self.relays {
                relays.dead_ends.fill(false);
            }
            self.seek_paths(host);
        }
    }

    /// Whether a neighbour is asked about an exchange with a peer.
    pub(super) fn is_asked_of_neighbours(&self, peer: usize) -> bool {
        let is_of = |asked: &Asked| matches!(asked.asker, Asker::Own(at) if self.transactions[at].peer == peer);
        self.relays
            .iter()
            .any(|relays| relays.asked.iter().flatten().any(is_of))
    }

    /// A link to a peer came up, or the peer lives anew: what neighbours are asked about it, or said of it, is asked of
    /// itself.
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
                if let Some(Asked {
                    asker: Asker::Own(transaction),
                    ..
                }) = relays.asked[place]
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

    /// A link failed: what passes over it cannot be answered any more.
    pub(super) fn break_relays(&mut self, at: usize) {
        for place in 0..RELAYS_MAX {
            match self.relays[at].asked[place].map(|asked| asked.asker) {
                Some(Asker::Own(transaction)) => {
                    let peer = self.transactions[transaction].peer;
                    self.peers[peer]
                        .unresolved
                        .push_back(&mut self.transactions, transaction);
                }
                Some(Asker::Neighbour { link, place }) => {
                    self.relays[link].answer(place, Source::Ending(Ending::NoPath));
                }
                Some(Asker::Nobody) | None => {}
            }
        }
        for relays in &mut self.relays {
            for place in 0..RELAYS_MAX {
                if let Some(Asked {
                    asker: Asker::Neighbour { link, .. },
                    ..
                }) = relays.asked[place]
                    && link == at
                {
                    relays.disown(place);
                }
            }
        }
        self.relays[at].clear();
    }

    /// A neighbour asks: about an exchange that it started here or, through the sender, at another neighbour.
    #[cold]
    pub(super) fn on_relay(
        &mut self,
        at: usize,
        header: &Header,
        payload: &[u8],
        host: &mut impl Host,
    ) -> Result<(), DownReason> {
        let attachment = self.links[at].attachment.ok_or(DownReason::Violation)?;
        let place = usize::from(header.slot);
        let relay = Relay::read(payload)
            .filter(|_| !self.is_path(at))
            .ok_or(DownReason::Violation)?;
        // A place has one question at a time.
        if !matches!(self.relays[at].taken.get(place), Some(None)) {
            return Err(DownReason::Violation);
        }
        let sender = &self.peers[attachment.peer];
        let asks_itself =
            (relay.origin, relay.origin_incarnation) == (sender.guid, sender.incarnation);
        let source = if relay.target == self.config.guid {
            self.serve_relay(at, &relay, host)
        } else if asks_itself && self.pass_on(at, place, relay) {
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

    /// Whether what a question of another node is about may not be told yet.
    fn withholds(&self, relay: &Relay) -> bool {
        self.peer_of(relay.origin)
            .is_some_and(|peer| self.is_withheld(peer, relay.question.verdict))
    }

    /// More is durable: answers what was withheld for that on the link `at`.
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

    /// Settles what another node asks about an exchange that it started here.
    fn serve_relay(&mut self, at: usize, relay: &Relay, host: &mut impl Host) -> Source {
        if relay.target_incarnation != self.config.incarnation {
            // Whatever an earlier life knew is lost.
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
            // This life of it was never met. If it is no invention, the two will meet.
            _ => Source::Ending(Ending::NoPath),
        }
    }

    /// Sends a question of the link `from` on to its target, if a link leads there and has a place.
    fn pass_on(&mut self, from: usize, place: usize, relay: Relay) -> bool {
        let Some(target) = self.peer_of(relay.target) else {
            return false;
        };
        let Self { links, relays, .. } = self;
        let peer_at = |at: usize| links[at].attachment.map(|attachment| attachment.peer);
        let leads_there = |at: &usize| {
            let link = &links[*at];
            link.state == LinkState::Up
                && link
                    .attachment
                    .is_some_and(|attachment| attachment.peer == target)
        };
        let mut over_quota = false;
        let asker = peer_at(from);
        let way = (self.path_links..links.len())
            .filter(leads_there)
            .find_map(|at| {
                let place = relays[at].place_for(|link| peer_at(link) == asker);
                over_quota |= place == Err(Full::OfOne);
                Some((at, place.ok()?))
            });
        let Some((at, free)) = way else {
            self.links[from].counters.drops.quota_relays += u64::from(over_quota);
            return false;
        };
        self.relays[at].ask(free, Asker::Neighbour { link: from, place }, relay);
        true
    }

    /// A neighbour answers.
    #[cold]
    pub(super) fn on_relayed(
        &mut self,
        at: usize,
        header: &Header,
        payload: &[u8],
        host: &mut impl Host,
    ) -> Result<(), DownReason> {
        let place = usize::from(header.slot);
        let asked = match self.relays[at].asked.get(place) {
            Some(Some(asked)) if asked.sent.is_some() && asked.tag == header.slot_sequence => {
                *asked
            }
            _ => return Err(DownReason::Violation),
        };
        let said = self
            .read_answer(payload)
            .filter(|said| said.port == asked.relay.question.verdict.port)
            .ok_or(DownReason::Violation)?;
        self.relays[at].asked[place] = None;
        match asked.asker {
            Asker::Nobody => self.links[at].counters.drops.late += 1,
            Asker::Neighbour { link, place } => {
                self.relays[link].passed.set(place, payload);
                self.relays[link].answer(place, Source::Passed(payload.len()));
            }
            Asker::Own(transaction) => self.learn(at, transaction, &said, host),
        }
        self.seek_paths(host);
        Ok(())
    }

    /// The neighbour at the end of the link `at` says how an exchange of this node ended.
    fn learn(&mut self, at: usize, transaction: Index, said: &Said<'_>, host: &mut impl Host) {
        let peer = self.transactions[transaction].peer;
        match said.ending {
            Ending::NoPath => {
                self.relays[at].dead_ends[peer] = true;
                self.peers[peer]
                    .unresolved
                    .push_back(&mut self.transactions, transaction);
                return;
            }
            Ending::Undone | Ending::NeverSeen if self.transactions[transaction].wanted => {
                // Nobody is in doubt any more. Applying it afresh needs a link to the peer, and the peer's own word.
                self.clear_doubt(transaction);
                self.peers[peer]
                    .undone
                    .push_back(&mut self.transactions, transaction);
            }
            Ending::Undone | Ending::NeverSeen => self.give_up(transaction, said.ending, host),
            Ending::Committed | Ending::Refused | Ending::Forgotten => {
                self.resolve(transaction, said, host);
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
                if let Some(asked) = &mut self.relays[at].asked[place] {
                    let bytes = asked.relay.to_bytes();
                    let part = Part::whole(Kind::Relay, place as u8, asked.tag, &bytes);
                    asked.sent = Some(self.links[at].write(writer, &mut self.clock, &part));
                }
                Ok(())
            }
            Due::Answer(place) => {
                self.relays[at].due.pop_front();
                if let Some(mut taken) = self.relays[at].taken[place].take() {
                    if taken.source == Source::Latch && self.withholds(&taken.relay) {
                        // It was another exchange when it was asked about.
                        taken.source = Source::Withheld;
                        self.relays[at].taken[place] = Some(taken);
                        return Ok(());
                    }
                    // Out of the link for as long as it takes the message from what else there is.
                    let mut departing = core::mem::take(&mut self.links[at].departing);
                    let (head, tail) = self.relayed(at, place, &taken);
                    departing.load(Kind::Relayed, place as u8, taken.tag, &head, tail);
                    self.links[at].departing = departing;
                }
                self.write_departing(at, attachment, writer)
            }
        }
    }

    /// The answer to a question: its head, and what follows.
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
                let attached = self.links[at].attachment;
                let bytes_max = attached.map(|attachment| self.message_bytes_max(attachment.peer));
                if bytes_max.is_some_and(|max| answer.1.len() <= max) {
                    return answer;
                }
                // Longer than the neighbour takes.
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

    /// A node with a cable to whom the others ask for: `greedy` cables of one neighbor, and one of
    /// another.
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
            link.state = LinkState::Up;
            link.attachment = Some(Attachment {
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
    fn a_neighbor_that_asks_all_the_time_leaves_places_to_another() {
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
                assert!(passes, "{cables}: nobody else asks");
            }
            assert!(!node.pass_on(modest, 0, relay), "{cables}");
            node.relays[0].asked[0] = None;
            for link in 1..=cables {
                assert!(!node.pass_on(link, 0, relay), "{cables}: {link}");
                assert_eq!(node.links[link].counters.drops.quota_relays, 1);
            }
            assert!(node.pass_on(modest, 0, relay), "{cables}");
            node.relays[0].asked[0] = None;
            node.relays[0].contended_paces = 0;
            assert!(node.pass_on(1, 0, relay), "{cables}");
        }
    }
}
