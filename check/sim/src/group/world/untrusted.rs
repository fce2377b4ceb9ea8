//! An untrusted user on a node. It knows everything except the tokens drawn for others, and sends
//! any envelope into the members' queues. It also has its own queue, for which it claims the
//! incarnations of others.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hasher},
};

use covalent_protocol::{
    group::{
        Contact, Group, Incarnation, Secret, Token,
        row::Frontier,
        wire::{Body, Envelope, Head, KnownContacts, Terms},
    },
    verb::SEND_BYTES_MAX,
};
use fastrand::Rng;

use super::{Event, Input, World};
use crate::{
    group::{book::MembershipId, fact::Fact, mutant::Mutant, sent::Kind},
    node_guid,
};

/// Envelopes that a stranger forges before it is gone.
const FORGERIES: std::ops::RangeInclusive<u8> = 8..=64;
/// Bytes of forgeries in a queue at a time: a queue that is full refuses more.
const QUEUED_BYTES_MAX: usize = 16 * 1024;
/// Offsets of the envelope fields that a forgery changes.
const KIND_AT: usize = 1;
const FLAGS_AT: usize = 3;
const NUMBER_AT: usize = 4;
const VIEW_AT: usize = 16;
const INCARNATION_AT: usize = 24;
const TOKEN_AT: usize = 40;
const RKEY_AT: usize = 56;
const ROUNDS_AT: usize = 64;
/// Offset of the second copy of the sender's incarnation in a `hello`.
const HELLO_INCARNATION_AT: usize = 88;
/// Key of an untrusted user's own queue on each node. No incarnation has it.
const OWN_RKEY: u32 = 1 << 20;

/// Last envelope between each pair of incarnations, which untrusted users know.
pub type Overheard = HashMap<(MembershipId, MembershipId), Vec<u8>>;

/// Secret from which the owner of this queue derives tokens.
pub fn secret(rkey: u32) -> Secret {
    Secret(u128::to_le_bytes(
        (u128::from(rkey) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835),
    ))
}

/// Token that `contact` presents to the owner of another queue.
pub fn token_for(contact: &Contact, to: &Contact) -> Token {
    secret(to.rkey).token_for(contact.guid, contact.rkey)
}

impl World {
    /// Starts an untrusted user on a random node.
    pub(super) fn inject_forgery(&mut self) {
        let node = self.rng.usize(..self.graph.nodes());
        let left = self.rng.u8(FORGERIES);
        self.queue.add(self.now(), Event::Forge { node, left });
    }

    /// A stranger forges an envelope, and the next one later.
    pub(super) fn forge(&mut self, node: usize, left: u8) {
        if self.silent {
            return;
        }
        if self.graph.runs(node) {
            self.forge_one(node);
        }
        if left > 1 {
            let at = self.now() + self.rng.u64(0..=self.round_trip_units() / 2);
            let left = left - 1;
            self.queue.add(at, Event::Forge { node, left });
        }
    }

    fn forge_one(&mut self, node: usize) {
        // Mostly impersonate the member on this node, else any application that ever ran.
        let of_node = self.at_node[node].filter(|_| self.rng.u8(..4) > 0);
        let any_member = |rng: &mut Rng, stays: usize| rng.usize(..stays.max(1));
        let claimed = match of_node {
            Some(membership) => membership,
            None => any_member(&mut self.rng, self.members.len()),
        };
        let to = any_member(&mut self.rng, self.members.len());
        let (Some(sender), Some(receiver)) = (self.members.get(claimed), self.members.get(to))
        else {
            return;
        };
        let (sender, receiver_node) = (sender.contact, receiver.node);
        let has_room = receiver.forged_bytes < QUEUED_BYTES_MAX;
        if claimed == to
            || receiver.group.is_none()
            || !has_room
            || self.graph.hops(node, receiver_node).is_none()
        {
            return;
        }
        let (mut bytes, token) = if self.rng.u8(..4) == 0 {
            self.draw_claim(node, sender.incarnation, to)
        } else {
            let bytes = self.draw_forgery((claimed, sender), to);
            (bytes, self.draw_token(&sender, to))
        };
        if let Some(field) = bytes.get_mut(TOKEN_AT..TOKEN_AT + 8) {
            field.copy_from_slice(&token.0.to_le_bytes());
        }
        self.give(to, Input::Forged { node, bytes });
    }

    /// Draws what an untrusted user can present instead of the sender's token: none, its own, a
    /// third member's, or any.
    fn draw_token(&mut self, sender: &Contact, to: MembershipId) -> Token {
        let receiver = self.members[to].contact;
        let third = self.members[self.rng.usize(..self.members.len())].contact;
        match self.rng.u8(..5) {
            0 => Token::NONE,
            1 if third.rkey != receiver.rkey => token_for(sender, &third),
            2 if (third.guid, third.rkey) != (sender.guid, sender.rkey) => {
                token_for(&third, &receiver)
            }
            3 => secret(receiver.rkey).token_for(sender.guid, sender.rkey + OWN_RKEY),
            _ => Token(self.rng.u64(..)),
        }
    }

    /// The last envelope of a pair, changed or with the next number; or one that is in no order.
    fn draw_forgery(
        &mut self,
        (claimed, sender): (MembershipId, Contact),
        to: MembershipId,
    ) -> Vec<u8> {
        let (group, view) = self.groups_view(to);
        let terms = self.terms();
        let rng = &mut self.rng;
        let overheard = self.overheard.get(&(claimed, to));
        if let Some(sent) = overheard.filter(|_| rng.u8(..3) > 0) {
            let mut bytes = sent.clone();
            let ahead = rng.u32(0..=2);
            add(&mut bytes, NUMBER_AT, ahead.into(), 4);
            match rng.u8(..4) {
                0 => bytes[FLAGS_AT] ^= 1 << rng.u8(..4),
                1 => add(&mut bytes, VIEW_AT, 1, 8),
                2 => add(&mut bytes, ROUNDS_AT, 1, 8),
                _ => {}
            }
            return bytes;
        }
        let (is_there, is_later) = (rng.bool(), rng.bool());
        let group = if is_there { group } else { rng.u64(..) };
        let view = view + u64::from(is_later);
        let head = forged_head(&sender, (group, view), Token(rng.u64(1..)));
        let known = [(sender, terms)];
        let body = match rng.u8(..3) {
            0 => Body::Hello {
                contact: sender,
                terms,
                former: Incarnation(0),
                founders: rng.u8(0..=terms.members_max),
            },
            1 => Body::Known {
                members: rng.u8(0..=1),
                excluded: rng.bool(),
                contacts: KnownContacts::new(&known),
            },
            _ => Body::Challenge,
        };
        encode(head, body)
    }

    /// Draws a hello that an untrusted user sends with its own queue and token under another
    /// incarnation, to be admitted or to found in its place.
    fn draw_claim(
        &mut self,
        node: usize,
        incarnation: Incarnation,
        to: MembershipId,
    ) -> (Vec<u8>, Token) {
        let sender = Contact {
            guid: node_guid(node),
            incarnation,
            rkey: OWN_RKEY,
        };
        let terms = self.terms();
        let founders = if self.rng.bool() {
            self.plan.founders
        } else {
            0
        };
        let body = Body::Hello {
            contact: sender,
            terms,
            former: Incarnation(0),
            founders,
        };
        let grant = Token(self.rng.u64(1..));
        let head = forged_head(&sender, (0, 0), grant);
        (
            encode(head, body),
            token_for(&sender, &self.members[to].contact),
        )
    }

    /// Terms on which the members of this world agree.
    fn terms(&self) -> Terms {
        Terms {
            stateless: false,
            members_max: self.graph.nodes().max(2) as u8,
        }
    }

    fn groups_view(&self, membership: MembershipId) -> (u64, u64) {
        let view = self.members[membership]
            .group
            .as_ref()
            .and_then(|group| group.view());
        view.map_or((0, 0), |view| (view.group, view.number))
    }

    /// A member receives a forged envelope, which must not change it.
    pub(super) fn take_forged(
        &mut self,
        membership: MembershipId,
        node: usize,
        mut bytes: Vec<u8>,
    ) {
        let member = &mut self.members[membership];
        member.forged_bytes -= bytes.len();
        let Some(group) = &mut member.group else {
            return;
        };
        if self.options.mutant == Some(Mutant::TrustsStrangers)
            && let Some(rkey) = bytes.get(RKEY_AT..RKEY_AT + 4)
        {
            let rkey = u32::from_le_bytes(rkey.try_into().unwrap_or_default());
            let believed = secret(member.contact.rkey).token_for(node_guid(node), rkey);
            bytes[TOKEN_AT..TOKEN_AT + 8].copy_from_slice(&believed.0.to_le_bytes());
        }
        if self.options.mutant == Some(Mutant::TakesCopiedLives) {
            pass_as_own(&mut bytes, node_guid(node));
        }
        let before = digest(group);
        let result = group.on_envelope(node_guid(node), &bytes);
        let fact = Fact::Forged {
            by: membership,
            node,
            kind: bytes.get(KIND_AT).copied().unwrap_or(0),
            result,
            moved: digest(group) != before,
        };
        self.witness.see(&fact, &self.graph);
    }

    /// Records an envelope as known to untrusted users.
    pub(super) fn overhear(
        &mut self,
        from: MembershipId,
        to: MembershipId,
        kind: Kind,
        bytes: &[u8],
    ) {
        if self.challenged && !matches!(kind, Kind::Hello | Kind::Known | Kind::Challenge) {
            self.overheard.insert((from, to), bytes.to_vec());
        }
    }
}

/// Header of an untrusted user's envelope outside of any order.
fn forged_head(sender: &Contact, (group, view): (u64, u64), grant: Token) -> Head {
    Head {
        from: None,
        number: None,
        group,
        view,
        incarnation: sender.incarnation,
        rkey: sender.rkey,
        token: Token::NONE,
        grant,
        taken: 0,
        members: 0,
        decided: false,
        frontier: Frontier::default(),
    }
}

fn encode(head: Head, body: Body<'_>) -> Vec<u8> {
    let mut buffer = [0; SEND_BYTES_MAX];
    let len = Envelope { head, body }.encode(&mut buffer);
    buffer[..len].to_vec()
}

/// Rewrites a hello under a copied incarnation to one of its own queue, as if no member compared
/// them.
fn pass_as_own(bytes: &mut [u8], guid: u64) {
    let is_claim = bytes.get(RKEY_AT..RKEY_AT + 4) == Some(&OWN_RKEY.to_le_bytes());
    if is_claim && bytes.len() >= HELLO_INCARNATION_AT + 8 {
        let own = Incarnation::of(guid, OWN_RKEY, 1).0.to_le_bytes();
        bytes[INCARNATION_AT..INCARNATION_AT + 8].copy_from_slice(&own);
        bytes[HELLO_INCARNATION_AT..HELLO_INCARNATION_AT + 8].copy_from_slice(&own);
    }
}

fn digest(group: &Group) -> u64 {
    let mut hasher = DefaultHasher::new();
    group.hash_but_answers(&mut hasher);
    hasher.finish()
}

/// Adds to a field of so many bytes.
fn add(bytes: &mut [u8], at: usize, more: u64, len: usize) {
    let mut field = [0; 8];
    field[..len].copy_from_slice(&bytes[at..at + len]);
    let sum = u64::from_le_bytes(field).wrapping_add(more).to_le_bytes();
    bytes[at..at + len].copy_from_slice(&sum[..len]);
}
