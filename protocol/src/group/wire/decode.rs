//! Decoding of envelopes. Unused fields must be zero, and counted items must be present.

use super::{
    BadEnvelope, Batch, Body, CONTACT_BYTES, DECIDED, Envelope, HAS_STATE, Head, JOINERS_MAX,
    KNOWN_MAX, KnownContacts, LEAVING, Listed, NON_MEMBER, OUTCOMES_MAX, OutcomeList, Outcomes,
    STATE_BYTES_MAX, Terms, UNORDERED, VERSION, WEDGED,
};
use crate::{
    group::{
        contact::{Contact, Contacts, Incarnation, MEMBERS_MAX, Members},
        row::{Ballot, Change, Frontier, Proposal},
        token::Token,
    },
    verb::SEND_BYTES_MAX,
};

impl<'a> Envelope<'a> {
    /// Decodes an envelope. Unused fields must be zero.
    ///
    /// # Errors
    /// [`BadEnvelope::Length`], [`BadEnvelope::Version`], [`BadEnvelope::Kind`],
    /// [`BadEnvelope::Reserved`], [`BadEnvelope::Rank`] or [`BadEnvelope::Incarnation`].
    pub fn decode(bytes: &'a [u8]) -> Result<Self, BadEnvelope> {
        if bytes.len() > SEND_BYTES_MAX {
            return Err(BadEnvelope::Length);
        }
        let mut reader = Reader(bytes);
        let [version, kind, from, flags] = reader.array()?;
        if version != VERSION {
            return Err(BadEnvelope::Version(version));
        }
        let number = reader.u32()?;
        let (group, view) = (reader.u64()?, reader.u64()?);
        let incarnation = reader.incarnation()?;
        let taken = reader.u32()?;
        let batch_bytes = reader.u16()?;
        let [members, zero] = reader.array()?;
        let (token, grant) = (Token(reader.u64()?), Token(reader.u64()?));
        let rkey = reader.u32()?;
        reader.zeros::<4>()?;
        let unordered = flags & UNORDERED != 0;
        let known_flags = LEAVING | HAS_STATE | WEDGED | DECIDED | UNORDERED;
        if zero != 0 || grant.is_none() || flags & !known_flags != 0 || (unordered && number != 0) {
            return Err(BadEnvelope::Reserved);
        }
        let n = usize::from(members);
        let from = (from != NON_MEMBER).then_some(from);
        if n > MEMBERS_MAX || from.is_some_and(|from| usize::from(from) >= MEMBERS_MAX) {
            return Err(BadEnvelope::Rank);
        }
        let mut frontier = Frontier {
            rounds: reader.u64()?,
            delivered: reader.u64()?,
            received: [0; MEMBERS_MAX],
            leaving: flags & LEAVING != 0,
            has_state: flags & HAS_STATE != 0,
            wedged: flags & WEDGED != 0,
        };
        reader.u64s(&mut frontier.received[..n])?;
        let head = Head {
            from,
            number: (!unordered).then_some(number),
            group,
            view,
            incarnation,
            rkey,
            token,
            grant,
            taken,
            members,
            decided: flags & DECIDED != 0,
            frontier,
        };
        let body = reader.body(kind, &head)?;
        let batch = if let Body::Flow(batch) = &body {
            batch.0.len()
        } else {
            0
        };
        head.check(kind)?;
        if usize::from(batch_bytes) != batch {
            return Err(BadEnvelope::Length);
        }
        Ok(Self { head, body })
    }
}

impl Head {
    /// Whether the sender may send this kind in the role that it states.
    fn check(&self, kind: u8) -> Result<(), BadEnvelope> {
        let non_member = matches!(kind, 3 | 4 | 7);
        let ordered = !non_member && (kind != 1 || self.number.is_some());
        if non_member {
            let silent = Frontier::default();
            if self.members != 0 || self.from.is_some() || self.frontier != silent {
                return Err(BadEnvelope::Reserved);
            }
            if self.number.is_some() || self.taken != 0 || self.decided {
                return Err(BadEnvelope::Reserved);
            }
        } else if self.from.is_none_or(|from| from >= self.members) {
            return Err(BadEnvelope::Rank);
        }
        if ordered != self.number.is_some() {
            return Err(BadEnvelope::Reserved);
        }
        Ok(())
    }
}

/// The unread bytes.
pub(super) struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], BadEnvelope> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(BadEnvelope::Length)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], BadEnvelope> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(BadEnvelope::Length)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn zeros<const N: usize>(&mut self) -> Result<(), BadEnvelope> {
        if self.array::<N>()? == [0; N] {
            Ok(())
        } else {
            Err(BadEnvelope::Reserved)
        }
    }

    fn flag(&mut self) -> Result<bool, BadEnvelope> {
        match self.array()? {
            [0] => Ok(false),
            [1] => Ok(true),
            [_] => Err(BadEnvelope::Reserved),
        }
    }

    fn u16(&mut self) -> Result<u16, BadEnvelope> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32, BadEnvelope> {
        self.array().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Result<u64, BadEnvelope> {
        self.array().map(u64::from_le_bytes)
    }

    fn u64s(&mut self, out: &mut [u64]) -> Result<(), BadEnvelope> {
        out.iter_mut().try_for_each(|word| {
            *word = self.u64()?;
            Ok(())
        })
    }

    fn incarnation(&mut self) -> Result<Incarnation, BadEnvelope> {
        match self.u64()? {
            0 => Err(BadEnvelope::Reserved),
            incarnation => Ok(Incarnation(incarnation)),
        }
    }

    fn members(&mut self, n: usize) -> Result<Members, BadEnvelope> {
        let members = Members::from_bits(self.u32()?);
        if members.without(Members::first(n)).is_empty() {
            Ok(members)
        } else {
            Err(BadEnvelope::Rank)
        }
    }

    pub fn contact(&mut self) -> Result<(Contact, Terms), BadEnvelope> {
        let contact = Contact {
            guid: self.u64()?,
            incarnation: self.incarnation()?,
            rkey: self.u32()?,
        };
        let word = self.u32()?;
        let terms = Terms {
            stateless: word & 1 != 0,
            members_max: word.to_le_bytes()[1],
        };
        if terms.word() != word || usize::from(terms.members_max) > MEMBERS_MAX {
            return Err(BadEnvelope::Reserved);
        }
        if !contact.owns_incarnation() {
            return Err(BadEnvelope::Incarnation);
        }
        Ok((contact, terms))
    }

    /// A contact without terms.
    fn member(&mut self) -> Result<Contact, BadEnvelope> {
        match self.contact()? {
            (contact, terms) if terms == Terms::default() => Ok(contact),
            _ => Err(BadEnvelope::Reserved),
        }
    }

    fn ended(&self) -> Result<(), BadEnvelope> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(BadEnvelope::Length)
        }
    }

    fn body(&mut self, kind: u8, head: &Head) -> Result<Body<'a>, BadEnvelope> {
        let n = usize::from(head.members);
        let body = match kind {
            1 => {
                let batch = Batch::new(self.take(self.0.len())?)?;
                let has_round = head.number.is_some() && head.frontier.rounds > 0;
                if !batch.0.is_empty() && !has_round {
                    return Err(BadEnvelope::Reserved);
                }
                Body::Flow(batch)
            }
            2 => self.change(head)?,
            3 => {
                let (contact, terms) = self.contact()?;
                let former = Incarnation(self.u64()?);
                let [founders] = self.array()?;
                self.zeros::<7>()?;
                if usize::from(founders) > MEMBERS_MAX {
                    return Err(BadEnvelope::Rank);
                }
                if (contact.incarnation, contact.rkey) != (head.incarnation, head.rkey) {
                    return Err(BadEnvelope::Reserved);
                }
                Body::Hello {
                    contact,
                    terms,
                    former,
                    founders,
                }
            }
            4 => self.known()?,
            5 => {
                let voters = self.members(n)?;
                let [outcomes] = self.array()?;
                self.zeros::<3>()?;
                let mut contacts = Contacts::default();
                for _ in 0..n {
                    contacts.push(self.member()?);
                }
                let mut sequences = [0; MEMBERS_MAX];
                self.u64s(&mut sequences[..n])?;
                if usize::from(outcomes) > OUTCOMES_MAX {
                    return Err(BadEnvelope::Length);
                }
                Body::Welcome {
                    contacts,
                    voters,
                    sequences,
                    outcomes: Outcomes(OutcomeList::Encoded(
                        self.take(16 * usize::from(outcomes))?,
                    )),
                }
            }
            6 => {
                let offset = self.u64()?;
                let last = self.flag()?;
                self.zeros::<7>()?;
                if self.0.len() > STATE_BYTES_MAX || (self.0.is_empty() && !last) {
                    return Err(BadEnvelope::Length);
                }
                Body::State {
                    offset,
                    last,
                    data: self.take(self.0.len())?,
                }
            }
            7 => Body::Challenge,
            kind => return Err(BadEnvelope::Kind(kind)),
        };
        self.ended()?;
        Ok(body)
    }

    fn change(&mut self, head: &Head) -> Result<Body<'a>, BadEnvelope> {
        let n = usize::from(head.members);
        let (promised, accepted) = (self.ballot(n)?, self.ballot(n)?);
        let attempt = self.u32()?;
        let known = self.members(n)?;
        let mut claims = [Members::NONE; MEMBERS_MAX];
        for (rank, claims) in claims[..n].iter_mut().enumerate() {
            *claims = self.members(n)?;
            if !known.contains(rank) && !claims.is_empty() {
                return Err(BadEnvelope::Reserved);
            }
        }
        let proposal = if accepted == Ballot::NONE {
            None
        } else {
            Some(self.proposal(n)?)
        };
        if head.decided && proposal.is_none() {
            return Err(BadEnvelope::Reserved);
        }
        let own = head.from.map_or(Members::NONE, |from| {
            claims.get(usize::from(from)).copied().unwrap_or_default()
        });
        let change = Change {
            attempt,
            claims: own,
            promised,
            accepted,
            proposal,
        };
        Ok(Body::Change {
            change,
            known,
            claims,
        })
    }

    fn ballot(&mut self, n: usize) -> Result<Ballot, BadEnvelope> {
        let ballot = Ballot(self.u64()?);
        if ballot == Ballot::NONE {
            return Ok(ballot);
        }
        if ballot.number() == 0 || ballot.leader() >= n {
            return Err(BadEnvelope::Rank);
        }
        if Ballot::new(ballot.number(), ballot.leader()) != ballot {
            return Err(BadEnvelope::Reserved);
        }
        Ok(ballot)
    }

    fn proposal(&mut self, n: usize) -> Result<Proposal, BadEnvelope> {
        let survivors = self.members(n)?;
        let voters = Members::from_bits(self.u32()?);
        let [count] = self.array()?;
        self.zeros::<7>()?;
        let next = survivors.len() + usize::from(count);
        if usize::from(count) > JOINERS_MAX || next > MEMBERS_MAX {
            return Err(BadEnvelope::Length);
        }
        if !voters.without(Members::first(next)).is_empty() {
            return Err(BadEnvelope::Rank);
        }
        let mut joiners = Contacts::default();
        for _ in 0..count {
            joiners.push(self.member()?);
        }
        let mut trim = [0; MEMBERS_MAX];
        self.u64s(&mut trim[..n])?;
        Ok(Proposal {
            survivors,
            voters,
            joiners,
            trim,
        })
    }

    fn known(&mut self) -> Result<Body<'a>, BadEnvelope> {
        let [count, members] = self.array()?;
        let excluded = self.flag()?;
        self.zeros::<5>()?;
        if usize::from(count) > KNOWN_MAX || usize::from(members) > MEMBERS_MAX {
            return Err(BadEnvelope::Length);
        }
        if members > count {
            return Err(BadEnvelope::Rank);
        }
        let bytes = self.take(CONTACT_BYTES * usize::from(count))?;
        let mut contacts = Reader(bytes);
        for _ in 0..count {
            contacts.contact()?;
        }
        Ok(Body::Known {
            members,
            excluded,
            contacts: KnownContacts(Listed::Encoded(bytes)),
        })
    }
}
