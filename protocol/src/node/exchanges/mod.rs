//! The exchanges of a node with its peers: one explicit table for each end.
//!
//! | file | content |
//! |---|---|
//! | `initiator` | the exchanges that this node started, by slot and sequence |
//! | `responder` | those that peers started here, by latch |
//! | `question` | a query for the outcome of an exchange, and its reply |
//!
//! A peer keeps its index while anything refers to it: an exchange, a latch or a link. The table of
//! peers has room for the owners of all latches of cables, and for as many that only wait.

pub(super) mod initiator;
pub(super) mod question;
pub(super) mod responder;

use alloc::vec::Vec;

use self::{
    initiator::Initiator,
    question::Question,
    responder::{Responder, SETS_PER_LINK},
};
use super::{NodeConfig, links::Links, peer::Peer};
use crate::{Host, clock::Clock, latch::is_later, link::Attachment, link::handshake::Hello};

/// Peers for each link: the owners of its sets, and one with exchanges waiting for its return.
pub(super) const PEERS_PER_LINK: usize = SETS_PER_LINK + 1;

/// See the module.
#[derive(Clone, Hash)]
pub(super) struct Exchanges {
    pub peers: Vec<Peer>,
    pub initiator: Initiator,
    pub responder: Responder,
    /// Longest request and reply that this node takes, in bytes.
    message_bytes_max: usize,
}

impl Exchanges {
    /// No peers; `names_max` entries more than callers may use.
    pub fn new(config: &NodeConfig, names_max: usize) -> Self {
        let message_bytes_max = usize::from(config.message_bytes_max);
        Self {
            peers: Vec::new(),
            initiator: Initiator::new(config.transactions_max + names_max, message_bytes_max),
            responder: Responder::new(message_bytes_max),
            message_bytes_max,
        }
    }

    /// Grows by a link with so many `sets` of latches, to `peers` peers.
    pub fn grow(&mut self, peers: usize, sets: usize, slots: u8) {
        self.responder.add_sets(sets, slots);
        self.peers.reserve_exact(peers - self.peers.len());
        self.initiator.grow(peers);
    }

    /// The peer with this GUID.
    #[inline]
    pub fn find(&self, guid: u64) -> Option<usize> {
        self.peers.iter().position(|peer| peer.guid == guid)
    }

    /// Maximum length of a request to a peer and of its reply, in bytes: the smaller limit of both
    /// ends.
    #[inline]
    pub fn message_bytes_max(&self, peer: usize) -> usize {
        self.peers[peer].bytes_max(self.message_bytes_max)
    }

    /// Settles for good the exchange of `peer` that a query on the link `at` names. It is committed
    /// if the query requests that, or else will never be executed. The slot must exist.
    pub fn settle(
        &mut self,
        at: usize,
        peer: usize,
        question: Question,
        links: &mut Links,
        clock: &mut Clock,
        host: &mut impl Host,
    ) {
        let Self {
            peers, responder, ..
        } = self;
        if let Some(set) = responder.remembered(at, peer, question.verdict, peers, links) {
            let executed = responder.settle(set, &peers[peer], question, clock, host);
            links[at].counters.executed += u64::from(executed);
        }
    }

    /// Binds the link to the peer's port that sent `hello`, together with the latches of that port,
    /// which are at no other link.
    ///
    /// The port has left any other link on which it was about to come up in an earlier epoch. From
    /// now on it may receive the report that its messages there never arrived. Such a message must
    /// therefore not find a link up: it could be a request that was reported as never seen, whose
    /// latch was reused since.
    pub fn attach(
        &mut self,
        link: usize,
        peer: usize,
        hello: &Hello,
        mac: [u8; 6],
        links: &mut Links,
    ) {
        let Self {
            peers, responder, ..
        } = self;
        links.void_agreements(link, |received, epoch| {
            received == Some((hello.guid, hello.port)) && !is_later(epoch, hello.epoch)
        });
        let set = responder
            .set_of(peer, hello.port)
            .unwrap_or_else(|| responder.make_room(link, peer, hello.port, peers, links));
        responder.bind(set, link, peers, links);
        let window_records = links.window_to(link, hello.window_records);
        links[link].epochs.attach(Attachment {
            peer,
            set,
            port: hello.port,
            mac,
            name: hello.name.mark(),
            slots: hello.slots,
            granted: hello.grant,
            window_records,
        });
    }
}
