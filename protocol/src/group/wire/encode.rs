//! Writing envelopes.

use super::{
    Body, DECIDED, Envelope, HAS_STATE, LEAVING, NON_MEMBER, Terms, UNORDERED, VERSION, WEDGED,
};
use crate::{
    group::{
        contact::{Contact, MEMBERS_MAX},
        row::{Frontier, Proposal},
    },
    verb::SEND_BYTES_MAX,
};

impl Envelope<'_> {
    /// Writes the envelope and returns its length.
    pub fn encode(&self, out: &mut [u8; SEND_BYTES_MAX]) -> usize {
        let Self { head, body } = self;
        let n = usize::from(head.members).min(MEMBERS_MAX);
        let Frontier {
            rounds,
            delivered,
            received,
            leaving,
            has_state,
            wedged,
        } = &head.frontier;
        let (kind, batch) = match body {
            Body::Flow(batch) => (1, batch.0.len()),
            Body::Change { .. } => (2, 0),
            Body::Hello { .. } => (3, 0),
            Body::Known { .. } => (4, 0),
            Body::Welcome { .. } => (5, 0),
            Body::State { .. } => (6, 0),
            Body::Challenge => (7, 0),
        };
        let flag = |set: bool, flag: u8| if set { flag } else { 0 };
        let flags = flag(*leaving, LEAVING)
            | flag(*has_state, HAS_STATE)
            | flag(*wedged, WEDGED)
            | flag(head.decided, DECIDED)
            | flag(head.number.is_none(), UNORDERED);
        let mut writer = Writer { out, at: 0 };
        writer.bytes(&[VERSION, kind, head.from.unwrap_or(NON_MEMBER), flags]);
        writer.u32(head.number.unwrap_or(0));
        writer.u64(head.group);
        writer.u64(head.view);
        writer.u64(head.incarnation.0);
        writer.u32(head.taken);
        writer.bytes(&u16::try_from(batch).unwrap_or(u16::MAX).to_le_bytes());
        writer.bytes(&[head.members, 0]);
        writer.u64(head.token.0);
        writer.u64(head.grant.0);
        writer.u32(head.rkey);
        writer.u32(0);
        writer.u64(*rounds);
        writer.u64(*delivered);
        writer.u64s(&received[..n]);
        writer.body(body, n);
        writer.at
    }
}

/// Writer of an envelope. Everything within the bounds of this module fits.
struct Writer<'a> {
    out: &'a mut [u8; SEND_BYTES_MAX],
    at: usize,
}

impl Writer<'_> {
    fn bytes(&mut self, bytes: &[u8]) {
        if let Some(place) = self.out.get_mut(self.at..self.at + bytes.len()) {
            place.copy_from_slice(bytes);
            self.at += bytes.len();
        }
    }

    fn u32(&mut self, word: u32) {
        self.bytes(&word.to_le_bytes());
    }

    fn u64(&mut self, word: u64) {
        self.bytes(&word.to_le_bytes());
    }

    fn u64s(&mut self, words: &[u64]) {
        for &word in words {
            self.u64(word);
        }
    }

    fn contact(&mut self, contact: &Contact, terms: Terms) {
        self.u64(contact.guid);
        self.u64(contact.incarnation.0);
        self.u32(contact.rkey);
        self.u32(terms.word());
    }

    fn body(&mut self, body: &Body<'_>, n: usize) {
        match body {
            Body::Flow(batch) => self.bytes(batch.0),
            Body::Change {
                change,
                known,
                claims,
            } => {
                self.u64(change.promised.0);
                self.u64(change.accepted.0);
                self.u32(change.attempt);
                self.u32(known.bits());
                for claims in &claims[..n] {
                    self.u32(claims.bits());
                }
                if let Some(proposal) = &change.proposal {
                    self.proposal(proposal, n);
                }
            }
            Body::Hello {
                contact,
                terms,
                former,
                founders,
            } => {
                self.contact(contact, *terms);
                self.u64(former.0);
                self.bytes(&[*founders, 0, 0, 0, 0, 0, 0, 0]);
            }
            Body::Known {
                members,
                excluded,
                contacts,
            } => {
                let count = u8::try_from(contacts.len()).unwrap_or(u8::MAX);
                self.bytes(&[count, *members, u8::from(*excluded), 0, 0, 0, 0, 0]);
                for (contact, terms) in contacts.iter() {
                    self.contact(&contact, terms);
                }
            }
            Body::Welcome {
                contacts,
                voters,
                sequences,
                outcomes,
            } => {
                self.u32(voters.bits());
                let count = u8::try_from(outcomes.len()).unwrap_or(u8::MAX);
                self.bytes(&[count, 0, 0, 0]);
                for contact in contacts.iter() {
                    self.contact(contact, Terms::default());
                }
                self.u64s(&sequences[..n]);
                for (incarnation, messages) in outcomes.iter() {
                    self.u64(incarnation.0);
                    self.u64(messages);
                }
            }
            Body::State { offset, last, data } => {
                self.u64(*offset);
                self.bytes(&[u8::from(*last), 0, 0, 0, 0, 0, 0, 0]);
                self.bytes(data);
            }
            Body::Challenge => {}
        }
    }

    fn proposal(&mut self, proposal: &Proposal, n: usize) {
        self.u32(proposal.survivors.bits());
        self.u32(proposal.voters.bits());
        let count = u8::try_from(proposal.joiners.len()).unwrap_or(u8::MAX);
        self.bytes(&[count, 0, 0, 0, 0, 0, 0, 0]);
        for contact in proposal.joiners.iter() {
            self.contact(contact, Terms::default());
        }
        self.u64s(&proposal.trim[..n]);
    }
}
