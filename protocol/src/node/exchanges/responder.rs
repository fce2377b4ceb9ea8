//! The exchanges that peers started here: one latch for each slot of each port of a peer.
//!
//! A latch decides whether a message 1 is new, so a request is executed at most once, whichever
//! links it, its commit and its queries arrive on. An outcome is latched at once and leaves only
//! when it is durable: the reply on its own link, the reply to a query over another link, and the
//! reply that a neighbor forwards. A link that fails meanwhile drops its withheld replies; its peer
//! then queries, and waits again.
//!
//! The latches of a port are in at most one set. An evicted set is not cabled, so nothing requested
//! in one of its epochs will be executed: a link about to come up in such an epoch restarts its
//! handshake ([`Links::void_agreements`]). [`Lost`] covers exchanges that were executed: they must
//! never be reported as never received.

use alloc::vec::Vec;
use core::{
    hash::{Hash, Hasher},
    ops::Range,
};

use super::{
    super::{links::Links, peer::Peer},
    question::{Question, answer},
};
use crate::{
    Host, Mode, Reply,
    clock::Clock,
    event::DownReason,
    exchange::PATH_PORTS,
    latch::{Latch, LatchSet, Lost, Standing, Use, Verdict},
    link::{Attachment, Blocked, Link, Part, feedback::Feedback},
    wire::{FRAME_PAYLOAD_BYTES_MAX, frame::FrameWriter, record::Header, slice::Kind},
};

/// Latch sets of each link: one for the current peer, one for the previous.
pub(in crate::node) const SETS_PER_LINK: usize = 2;
/// Latch sets of each path: one for the peer at its other end now, the others for peers of any
/// earlier path.
pub(in crate::node) const SETS_PER_PATH: usize = 4;

/// See the module.
#[derive(Clone)]
pub(in crate::node) struct Responder {
    /// Those of paths come first.
    pub sets: Vec<LatchSet>,
    /// Ends of paths, each with [`SETS_PER_PATH`] sets.
    path_ends: usize,
    /// Counts the times that a link took a latch set, to find the one not used for longest.
    takes: u64,
    /// Losses of peers that were evicted from the table.
    pub peers_lost: Lost,
    /// Up to here the host's journal is on disk.
    durable: u64,
    /// Where the host writes a reply.
    reply: Reply,
    /// Longest request that this node takes, in bytes.
    request_bytes_max: usize,
}

impl Responder {
    /// No latches. Requests and replies have up to `message_bytes_max` bytes.
    pub fn new(message_bytes_max: usize) -> Self {
        Self {
            sets: Vec::new(),
            path_ends: 0,
            takes: 0,
            peers_lost: Lost::default(),
            durable: 0,
            reply: Reply::with_room(message_bytes_max),
            request_bytes_max: message_bytes_max,
        }
    }

    /// Adds `sets` free sets for ports of `slots` slots.
    pub fn add_sets(&mut self, sets: usize, slots: u8) {
        for _ in 0..sets {
            let set = LatchSet::new(slots, self.request_bytes_max);
            self.sets.push(set);
        }
    }

    /// The sets so far are those of as many ends of paths.
    pub const fn set_path_ends(&mut self, ends: usize) {
        self.path_ends = ends;
    }

    /// The latches of a port of a peer.
    #[inline]
    pub fn set_of(&self, peer: usize, port: u16) -> Option<usize> {
        self.sets
            .iter()
            .position(|set| set.owner == Some((peer, port)))
    }

    /// Message 1: executes the request (1PC) or keeps it (2PC).
    #[inline]
    pub fn on_request(
        &mut self,
        link: &mut Link,
        peers: &[Peer],
        clock: &mut Clock,
        header: &Header,
        payload: &[u8],
        host: &mut impl Host,
    ) -> Result<(), DownReason> {
        let attachment = link.attachment().ok_or(DownReason::Violation)?;
        let peer = &peers[attachment.peer];
        let sequence = header.slot_sequence;
        let number = header.slot;
        let set = &mut self.sets[attachment.set];
        // A slot beyond the grant does not exist.
        let latch = set
            .latches
            .get_mut(usize::from(number))
            .ok_or(DownReason::Violation)?;
        if !(1..=self.request_bytes_max).contains(&payload.len()) || latch.answer_due {
            return Err(DownReason::Violation);
        }
        if sequence == latch.sequence
            && latch.epoch == link.epoch()
            && matches!(latch.standing, Standing::Undone | Standing::NeverSeen)
        {
            // The initiator saw the link fail before this side saw it fail or come up. It queried
            // over another link and got "undone". Its earlier request arrives now.
            link.counters.drops.late += 1;
            return Ok(());
        }
        // The first message of an epoch is new, whatever its sequence, so disagreeing slots
        // converge. A slot serves one exchange at a time, and a tentative one is settled before
        // reuse.
        if latch.standing == Standing::Tentative
            || latch.used != Use::Unused && sequence != latch.sequence.wrapping_add(1)
        {
            return Err(DownReason::Violation);
        }
        latch.sequence = sequence;
        latch.epoch = link.epoch();
        latch.used = Use::Used;
        latch.answer_due = true;
        let id = latch.id(peer.guid, attachment.port, number);
        let mode = if header.kind == Kind::Tentative {
            Mode::TwoPhase
        } else {
            Mode::OnePhase
        };
        match host.admit(&id, mode, payload) {
            Err(refusal) => {
                latch.standing = Standing::Refused(refusal);
                link.inbound.refuse(number);
            }
            Ok(()) if mode == Mode::TwoPhase => {
                set.keep(number, payload);
                link.inbound.reflect(number);
            }
            Ok(()) => {
                let reply = &mut self.reply;
                reply.begin(peer.bytes_max(self.request_bytes_max), clock.execute());
                let execution = host.execute(&id, payload, reply);
                set.commit(number, reply, false, execution);
                link.counters.executed += 1;
                link.inbound.answer(number, set, self.durable);
            }
        }
        Ok(())
    }

    /// Message 3 for a slot: executes the kept request. A piggybacked commit has no sequence: it
    /// applies to the current one of the slot.
    #[inline]
    pub fn commit_slot(
        &mut self,
        link: &mut Link,
        peers: &[Peer],
        clock: &mut Clock,
        number: u8,
        sequence: Option<u32>,
        host: &mut impl Host,
    ) -> Result<(), DownReason> {
        let attachment = link.attachment().ok_or(DownReason::Violation)?;
        let peer = &peers[attachment.peer];
        let set = &mut self.sets[attachment.set];
        let latch = set
            .latches
            .get_mut(usize::from(number))
            .ok_or(DownReason::Violation)?;
        // A commit before message 2 left confirms a message that was never sent.
        if sequence.is_some_and(|sequence| latch.sequence != sequence) || latch.answer_due {
            return Err(DownReason::Violation);
        }
        match latch.standing {
            Standing::Tentative => {
                latch.answer_due = true;
                let id = latch.id(peer.guid, attachment.port, number);
                let reply = &mut self.reply;
                reply.begin(peer.bytes_max(self.request_bytes_max), clock.execute());
                let execution = host.execute(&id, set.bytes(number), reply);
                set.commit(number, reply, true, execution);
                link.counters.executed += 1;
                link.inbound.answer(number, set, self.durable);
                Ok(())
            }
            // The initiator saw the link fail first and committed the exchange over another link.
            Standing::Committed { two_phase: true } => {
                link.counters.drops.late += 1;
                Ok(())
            }
            _ => Err(DownReason::Violation),
        }
    }

    /// Settles for good the exchange of `peer` in this set that a query names. It is committed if
    /// the query requests that, or else will never be executed. Returns whether it was executed.
    pub fn settle(
        &mut self,
        set: usize,
        peer: &Peer,
        question: Question,
        clock: &mut Clock,
        host: &mut impl Host,
    ) -> bool {
        let Question { verdict, commit } = question;
        let set = &mut self.sets[set];
        let Some(latch) = set.latches.get_mut(usize::from(verdict.slot)) else {
            return false;
        };
        let id = latch.id(peer.guid, verdict.port, verdict.slot);
        let mut executed = false;
        if !commit && latch.never_saw(&verdict) {
            if latch.standing == Standing::Tentative {
                // The initiator no longer knows the earlier exchange, or it would not have reused
                // the slot.
                host.reverse(&id, set.bytes(verdict.slot));
            }
            let latch = &mut set.latches[usize::from(verdict.slot)];
            latch.sequence = verdict.sequence;
            latch.epoch = verdict.epoch;
            latch.standing = Standing::NeverSeen;
            set.record_query(verdict.slot);
        } else if latch.is_of(&verdict) {
            if latch.standing == Standing::Tentative {
                if commit {
                    let reply = &mut self.reply;
                    reply.begin(peer.bytes_max(self.request_bytes_max), clock.execute());
                    let execution = host.execute(&id, set.bytes(verdict.slot), reply);
                    set.commit(verdict.slot, reply, true, execution);
                    executed = true;
                } else {
                    latch.standing = Standing::Undone;
                    host.reverse(&id, set.bytes(verdict.slot));
                }
            }
            set.record_query(verdict.slot);
        }
        executed
    }

    /// Reverses the exchanges that the peer of a failed link started and did not commit. No
    /// reservation of an incomplete exchange remains, whether or not the peer returns. A peer that
    /// received message 2 learns from the resolution that it must apply the exchange again.
    pub fn reverse_tentative(&mut self, attachment: Attachment, guid: u64, host: &mut impl Host) {
        let set = &mut self.sets[attachment.set];
        for slot in 0..set.latches.len() as u8 {
            let latch = &mut set.latches[usize::from(slot)];
            if latch.standing == Standing::Tentative {
                latch.standing = Standing::Undone;
                let id = latch.id(guid, attachment.port, slot);
                host.reverse(&id, set.bytes(slot));
            }
        }
    }

    /// Whether the peer of a link started an exchange that is neither committed nor reversed.
    pub fn has_tentative(&self, attachment: Attachment) -> bool {
        self.sets[attachment.set]
            .latches
            .iter()
            .any(|latch| latch.standing == Standing::Tentative)
    }

    /// Whether a request is kept whose initiator received message 2: it owes message 3, or has sent
    /// it.
    pub fn is_owed(&self, attachment: Attachment, link: &Link) -> bool {
        let is_kept = |(slot, latch): (usize, &Latch)| {
            latch.standing == Standing::Tentative && !link.inbound.is_reflection_due(slot as u8)
        };
        let latches = &self.sets[attachment.set].latches;
        latches.iter().enumerate().any(is_kept)
    }

    /// The host's journal is on disk up to `lsn`. Returns `false` if it was before.
    pub const fn on_durable(&mut self, lsn: u64) -> bool {
        let advances = lsn > self.durable;
        if advances {
            self.durable = lsn;
        }
        advances
    }

    /// More is durable: replies on a link that were withheld are due.
    pub fn release(&self, link: &mut Link) {
        let Some(attachment) = link.attachment() else {
            return;
        };
        let set = &self.sets[attachment.set];
        link.inbound.release_answers(set, self.durable);
        link.inbound
            .release_verdicts(|verdict| self.is_withheld(attachment.peer, verdict));
    }

    /// Whether the queried exchange of `peer` was executed and must not be reported yet.
    pub fn is_withheld(&self, peer: usize, queried: Verdict) -> bool {
        self.set_of(peer, queried.port)
            .and_then(|set| self.sets[set].latches.get(usize::from(queried.slot)))
            .is_some_and(|latch| latch.is_of(&queried) && latch.is_withheld(self.durable))
    }

    /// Bytes of the reply of a slot that is due.
    #[inline]
    pub fn answer_bytes(&self, attachment: Attachment, number: u8) -> usize {
        self.sets[attachment.set].latches[usize::from(number)].answer_bytes()
    }

    /// Bytes of the reply to a query of a peer.
    pub fn verdict_bytes(&self, peer: usize, verdict: Verdict) -> usize {
        let set = self.set_of(peer, verdict.port);
        let (head, reply) = answer(set.map(|set| &self.sets[set]), verdict);
        head.len() + reply.len()
    }

    /// Writes the replies of exchanges that are due on the link `at`, with a reflection on each.
    #[inline]
    pub fn write_answers(
        &mut self,
        at: usize,
        attachment: Attachment,
        link: &mut Link,
        clock: &mut Clock,
        writer: &mut FrameWriter<'_>,
    ) -> Result<(), Blocked> {
        while let Some(number) = link.inbound.next_answer() {
            let set = &mut self.sets[attachment.set];
            let latch = &mut set.latches[usize::from(number)];
            let bytes = latch.answer_bytes();
            if bytes <= FRAME_PAYLOAD_BYTES_MAX && !link.may_send(writer, bytes) {
                return Err(Blocked);
            }
            link.inbound.answer_taken();
            let sequence = latch.sequence;
            let refusal;
            let (kind, payload) = match latch.standing {
                Standing::Committed { two_phase } => {
                    let kind = if two_phase {
                        Kind::Committed
                    } else {
                        Kind::Reflecting
                    };
                    (kind, None)
                }
                Standing::Refused(reason) => {
                    refusal = [reason.to_byte()];
                    (Kind::Refused, Some(&refusal[..]))
                }
                // The initiator no longer expects it on this link.
                Standing::Tentative
                | Standing::Undone
                | Standing::NeverSeen
                | Standing::Empty
                | Standing::Forgotten
                | Standing::ForgottenUntil => {
                    latch.answer_due = false;
                    continue;
                }
            };
            if bytes > FRAME_PAYLOAD_BYTES_MAX {
                link.departing
                    .load(kind, number, sequence, &[], set.bytes(number));
                self.write_departing(at, attachment, link, clock, writer)?;
                continue;
            }
            latch.answer_due = false;
            // The peer receives all records of the message or none.
            latch.answer_record = link.feedback.next_sequence();
            let piggyback = link.inbound.take_reflection(set);
            let payload = payload.unwrap_or_else(|| set.bytes(number));
            let part = Part {
                piggyback,
                ..Part::whole(kind, number, sequence, payload)
            };
            link.write_here(writer, clock, &part);
        }
        Ok(())
    }

    /// Writes the replies to queries that are due on the link `at`.
    #[inline]
    pub fn write_verdicts(
        &mut self,
        at: usize,
        attachment: Attachment,
        link: &mut Link,
        clock: &mut Clock,
        writer: &mut FrameWriter<'_>,
    ) -> Result<(), Blocked> {
        while let Some(verdict) = link.inbound.take_verdict() {
            if self.is_withheld(attachment.peer, verdict) {
                // The latch held another exchange when the query arrived.
                link.inbound.report(verdict, true);
                continue;
            }
            let set = self.set_of(attachment.peer, verdict.port);
            let (head, reply) = answer(set.map(|set| &self.sets[set]), verdict);
            link.inbound.departing_verdict = (verdict.port >= PATH_PORTS).then_some(verdict);
            link.departing
                .load(Kind::Resolved, verdict.slot, verdict.sequence, &head, reply);
            self.write_departing(at, attachment, link, clock, writer)?;
        }
        Ok(())
    }

    /// Writes message 2 of the slots whose reflections were not piggybacked, two in each record.
    #[inline]
    pub fn write_reflections(
        &mut self,
        attachment: Attachment,
        link: &mut Link,
        clock: &mut Clock,
        writer: &mut FrameWriter<'_>,
    ) -> Result<(), Blocked> {
        let set = &mut self.sets[attachment.set];
        while link.inbound.has_reflections() {
            if !link.may_send(writer, 0) {
                return Err(Blocked);
            }
            let number = link.inbound.take_reflection(set);
            let Some(latch) = set.latches.get(usize::from(number)) else {
                return Ok(());
            };
            let sequence = latch.sequence;
            let piggyback = link.inbound.take_reflection(set);
            let part = Part {
                piggyback,
                ..Part::whole(Kind::Reflecting, number, sequence, &[])
            };
            link.write(writer, clock, &part);
        }
        Ok(())
    }

    /// Writes the rest of a reply of several fragments, with a reflection on each.
    #[cold]
    pub fn write_departing(
        &mut self,
        at: usize,
        attachment: Attachment,
        link: &mut Link,
        clock: &mut Clock,
        writer: &mut FrameWriter<'_>,
    ) -> Result<(), Blocked> {
        let set = &mut self.sets[attachment.set];
        let was = link.write_departing(writer, clock, |link| link.inbound.take_reflection(set))?;
        let record = link.feedback.next_sequence().wrapping_sub(1);
        match was {
            Some((Kind::Reflecting | Kind::Committed, number)) => {
                if let Some(latch) = set.latches.get_mut(usize::from(number)) {
                    latch.answer_due = false;
                    latch.answer_record = record;
                }
            }
            Some((Kind::Resolved, _)) => {
                if let Some(verdict) = link.inbound.departing_verdict.take()
                    && let Some(set) = self.set_of(attachment.peer, verdict.port)
                {
                    self.sets[set].record_answer(&verdict, at, record);
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// Which latches are remembered.
impl Responder {
    /// Sets of all paths.
    pub const fn path_sets(&self) -> usize {
        self.path_ends * SETS_PER_PATH
    }

    /// Sets that are a link's first. All paths share theirs.
    pub fn own_sets(&self, link: usize) -> Range<usize> {
        match link.checked_sub(self.path_ends) {
            Some(cable) => {
                let first = self.path_sets() + cable * SETS_PER_LINK;
                first..first + SETS_PER_LINK
            }
            None => 0..self.path_sets(),
        }
    }

    /// Whether any latch of a peer is remembered.
    pub fn remembers(&self, peer: usize) -> bool {
        self.sets
            .iter()
            .any(|set| set.owner.is_some_and(|(owner, _)| owner == peer))
    }

    /// The order in which peers are forgotten for others: whether one is remembered in other sets
    /// than `own`, and when it was last attached. Peers of which nothing is remembered come first.
    pub fn recency(&self, peer: usize, own: &Range<usize>) -> (bool, u64) {
        let mut of_others = false;
        let mut taken_at = 0;
        for (number, set) in self.sets.iter().enumerate() {
            if set.owner.is_some_and(|(owner, _)| owner == peer) {
                of_others |= !own.contains(&number);
                taken_at = taken_at.max(set.taken_at);
            }
        }
        (of_others, taken_at)
    }

    /// A peer restarted, and forgot the exchanges that it started.
    pub fn clear_peer(&mut self, peer: usize) {
        self.sets
            .iter_mut()
            .filter(|set| set.owner.is_some_and(|(owner, _)| owner == peer))
            .for_each(LatchSet::clear);
    }

    /// Forgets a peer that leaves the table, for the peer met on `link`.
    pub fn forget_peer(&mut self, at: usize, peer: &Peer, link: usize, links: &mut Links) {
        // Any peer met from now on may be this one.
        let mut lost = peer.lost;
        if peer.has_lived_before() {
            lost = lost.and(links.everything_lost());
        }
        for set in 0..self.sets.len() {
            if self.sets[set].owner.is_some_and(|(owner, _)| owner == at) {
                lost = lost.and(self.lost_with(set, links));
                self.sets[set].clear();
            }
        }
        self.peers_lost = self.peers_lost.and(lost);
        links.void_agreements_with(peer.guid, link);
    }

    /// The part of a set that may still be queried and is lost with it.
    fn lost_with(&self, set: usize, links: &Links) -> Lost {
        let set = &self.sets[set];
        if set.is_far() {
            // No reply is sent on a link whose epoch has ended: see `detach`.
            let is_reflected = |link: usize, record| links[link].feedback.is_reflected(record);
            Lost {
                cables: false,
                paths: set.unlearned_until(is_reflected),
            }
        } else {
            let is_used = |latch: &Latch| latch.standing != Standing::Empty;
            Lost {
                cables: set.latches.iter().any(is_used),
                paths: None,
            }
        }
    }

    /// Binds a set to the link that its port is cabled to now.
    pub fn bind(&mut self, set: usize, link: usize, peers: &mut [Peer], links: &Links) {
        self.takes += 1;
        let latest = links.latest_path_epoch();
        let set = &mut self.sets[set];
        set.taken_at = self.takes;
        set.link = Some(link);
        set.distrust(links[link].epoch());
        if let Some((peer, _)) = set.owner {
            peers[peer].lost.bound(latest);
        }
        self.peers_lost.bound(latest);
    }

    /// Undoes [`Self::bind`] for a link whose epoch ended. The latches stay.
    pub fn detach(&mut self, link: usize, attachment: Attachment, feedback: &Feedback) {
        let path_sets = self.path_sets();
        let set = &mut self.sets[attachment.set];
        set.record_learned(|record| feedback.is_reflected(record));
        set.link = None;
        set.latches.iter_mut().for_each(Latch::leave_epoch);
        for set in &mut self.sets[..path_sets] {
            set.end_words(link, |record| feedback.is_reflected(record));
        }
    }

    /// The latches of a port of a peer that queries on `link`; the port need not be cabled. Returns
    /// `None` if they were evicted, or if no set is available now: then nothing is known of the
    /// port.
    pub fn remembered(
        &mut self,
        link: usize,
        peer: usize,
        queried: Verdict,
        peers: &mut [Peer],
        links: &mut Links,
    ) -> Option<usize> {
        if let Some(set) = self.set_of(peer, queried.port) {
            return Some(set);
        }
        if peers[peer].lost.covers(queried.port, queried.epoch) {
            return None;
        }
        // A query takes no latches from others.
        let is_free = |&set: &usize| self.sets[set].owner.is_none();
        let set = if queried.port >= PATH_PORTS {
            self.roomiest(link, true, links)
                .filter(|&set| is_free(&set) || self.lost_with(set, links) == Lost::default())
        } else {
            (self.path_sets()..self.sets.len()).find(is_free)
        }?;
        self.evict(set, link, peers, links);
        self.take(set, (peer, queried.port), peers[peer].lost);
        Some(set)
    }

    /// Gives a free set of latches to a port of a peer.
    fn take(&mut self, set: usize, owner: (usize, u16), lost: Lost) {
        self.takes += 1;
        let latches = &mut self.sets[set];
        latches.clear();
        latches.owner = Some(owner);
        latches.taken_at = self.takes;
        latches.lose_memory(lost);
    }

    /// A set of latches for a port of a peer that is cabled to `link` now: see [`Self::roomiest`].
    pub fn make_room(
        &mut self,
        link: usize,
        peer: usize,
        port: u16,
        peers: &mut [Peer],
        links: &mut Links,
    ) -> usize {
        // There are more sets than links, of cables and of paths, so one is unused.
        let set = self
            .roomiest(link, links.is_path(link), links)
            .unwrap_or_else(|| self.own_sets(link).start);
        self.evict(set, link, peers, links);
        self.take(set, (peer, port), peers[peer].lost);
        set
    }

    /// The set to evict for the peer met on `link`: a free one, one that loses nothing, or else the
    /// least recently used one. Own sets of the link come first: an unauthenticated neighbor with
    /// many names on one cable takes no memory from peers of other cables. If all own sets were
    /// moved to other cables, any set is taken.
    fn roomiest(&self, link: usize, is_far: bool, links: &Links) -> Option<usize> {
        let own = self.own_sets(link);
        let path_sets = self.path_sets();
        let sets = if is_far {
            0..path_sets
        } else {
            path_sets..self.sets.len()
        };
        sets.filter(|&at| self.sets[at].link.is_none())
            .min_by_key(|&at| {
                let set = &self.sets[at];
                let is_lost = is_far && self.lost_with(at, links) != Lost::default();
                (
                    set.owner.is_some(),
                    !own.contains(&at),
                    is_lost,
                    set.taken_at,
                )
            })
    }

    /// Evicts a set for the peer met on `link`.
    fn evict(&mut self, set: usize, link: usize, peers: &mut [Peer], links: &mut Links) {
        let Some((loser, _)) = self.sets[set].owner else {
            return;
        };
        let lost = if self.sets[set].is_far() {
            self.lost_with(set, links)
        } else {
            Lost {
                cables: true,
                paths: None,
            }
        };
        peers[loser].lost = peers[loser].lost.and(lost);
        links.void_agreements_with(peers[loser].guid, link);
    }
}

impl Hash for Responder {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // No `..`: a new field must be included or excluded here explicitly.
        let Self {
            sets,
            path_ends: _,
            takes: _,
            peers_lost,
            durable,
            reply: _,
            request_bytes_max: _,
        } = self;
        (peers_lost, durable).hash(state);
        for set in sets {
            // Their order in time, which selects the set to evict, and not the counts themselves.
            let earlier = sets.iter().filter(|other| other.taken_at < set.taken_at);
            (set, earlier.count()).hash(state);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Name,
        node::counting_host::CountingHost,
        wire::record::{NO_PIGGYBACK, Shape},
    };

    const PORT: u16 = 3;

    /// The latches of a peer that is cabled to the only link.
    struct Side {
        responder: Responder,
        peers: [Peer; 1],
        links: Links,
        set: usize,
        clock: Clock,
        host: CountingHost,
    }

    impl Side {
        fn new() -> Self {
            let name = Name::new("peer").expect("it is a name");
            let mut peers = [Peer::new(7, 1, name, Lost::default())];
            let mut links = Links::new();
            links.push(Link::new(0, [0; 6], 1, 64, 0));
            let mut responder = Responder::new(64);
            responder.add_sets(SETS_PER_LINK, 1);
            let set = responder.make_room(0, 0, PORT, &mut peers, &mut links);
            responder.bind(set, 0, &mut peers, &links);
            links[0].epochs.up_with(Attachment {
                peer: 0,
                set,
                port: PORT,
                mac: [0; 6],
                name: 0,
                slots: 1,
                granted: 1,
                window_records: 32,
            });
            Self {
                responder,
                peers,
                links,
                set,
                clock: Clock::default(),
                host: CountingHost::default(),
            }
        }

        /// Message 1 of the slot with this sequence.
        fn request(&mut self, kind: Kind, slot_sequence: u32) -> Result<(), DownReason> {
            let header = Header {
                kind,
                yours: 0,
                epoch: self.links[0].epoch(),
                record_sequence: 0,
                slot_sequence,
                slot: 0,
                piggyback: NO_PIGGYBACK,
                clock: 0,
                shape: Shape::whole(1),
            };
            let link = &mut self.links[0];
            let host = &mut self.host;
            self.responder
                .on_request(link, &self.peers, &mut self.clock, &header, &[1], host)
        }

        /// A query over another link.
        fn query(&mut self, sequence: u32, commit: bool) -> bool {
            let verdict = Verdict {
                port: PORT,
                epoch: self.links[0].epoch(),
                slot: 0,
                sequence,
            };
            let question = Question { verdict, commit };
            let host = &mut self.host;
            self.responder
                .settle(self.set, &self.peers[0], question, &mut self.clock, host)
        }

        fn late(&self) -> u64 {
            self.links[0].counters.drops.late
        }
    }

    #[test]
    fn a_kept_request_is_executed_once_by_its_commit_or_a_query() {
        let mut side = Side::new();
        assert_eq!(side.request(Kind::Tentative, 1), Ok(()));
        let set = &mut side.responder.sets[side.set];
        assert_eq!(side.links[0].inbound.take_reflection(set), 0);
        assert!(side.query(1, true));
        assert!(!side.query(1, true), "it was executed before");
        let (link, host) = (&mut side.links[0], &mut side.host);
        let late = side
            .responder
            .commit_slot(link, &side.peers, &mut side.clock, 0, Some(1), host);
        assert_eq!(late, Ok(()));
        assert_eq!((side.host.executed, side.late()), (1, 1));
    }

    #[test]
    fn a_request_reported_as_never_seen_is_not_executed_when_it_arrives() {
        let mut side = Side::new();
        assert!(!side.query(1, false));
        assert_eq!(side.request(Kind::Request, 1), Ok(()));
        assert_eq!((side.host.executed, side.late()), (0, 1));
        assert_eq!(side.request(Kind::Request, 2), Ok(()));
        assert_eq!(side.host.executed, 1);
        let again = side.request(Kind::Request, 2);
        assert_eq!(again, Err(DownReason::Violation), "its reply is due");
    }

    #[test]
    fn a_failed_link_leaves_nothing_kept() {
        let mut side = Side::new();
        assert_eq!(side.request(Kind::Tentative, 1), Ok(()));
        let attachment = side.links[0].epochs.detach().expect("it is up");
        side.responder
            .detach(0, attachment, &side.links[0].feedback);
        side.responder
            .reverse_tentative(attachment, 7, &mut side.host);
        assert!(!side.responder.has_tentative(attachment));
        assert_eq!((side.host.executed, side.host.reversed), (0, 1));
        assert!(!side.query(1, true), "a commit comes too late");
        assert_eq!(side.host.executed, 0);
    }
}
