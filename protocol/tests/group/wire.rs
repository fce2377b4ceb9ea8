//! Envelopes decode to the encoded values, and bytes that cannot be sent do not decode.

use covalent_protocol::{
    group::{
        BadEnvelope, Contact, Contacts, Incarnation, MEMBERS_MAX, MULTICAST_BYTES_MAX, Members,
        STATE_BYTES_MAX, Token,
        row::{Ballot, Change, Frontier, Proposal},
        wire::{
            Batch, Body, Envelope, Head, JOINERS_MAX, KNOWN_MAX, KnownContacts, OUTCOMES_MAX,
            Outcomes, Terms,
        },
    },
    verb::SEND_BYTES_MAX,
};
use proptest::{collection::vec, prelude::*};

/// The parts of an envelope, owned.
#[derive(Debug, Clone)]
struct Parts {
    kind: u8,
    n: usize,
    from: usize,
    words: [u32; 6],
    longs: [u64; 6],
    columns: [u64; MEMBERS_MAX],
    flags: [bool; 6],
    contacts: Vec<(Contact, Terms)>,
    outcomes: Vec<(Incarnation, u64)>,
    bytes: Vec<u8>,
    messages: Vec<Vec<u8>>,
}

fn parts() -> impl Strategy<Value = Parts> {
    let contact = (
        any::<u64>(),
        any::<u32>(),
        any::<u32>(),
        any::<bool>(),
        0..=32u8,
    )
        .prop_map(|(guid, incarnation, rkey, stateless, members_max)| {
            let incarnation = Incarnation::of(guid, rkey, incarnation);
            let contact = Contact {
                guid,
                incarnation,
                rkey,
            };
            let terms = Terms {
                stateless,
                members_max,
            };
            (contact, terms)
        });
    let shape = (1..=7u8, 1..=MEMBERS_MAX, 0..MEMBERS_MAX);
    let numbers = (any::<[u32; 6]>(), any::<[u64; 6]>(), any::<[u64; 32]>());
    let lists = (
        vec(contact, MEMBERS_MAX..=KNOWN_MAX),
        vec((1..u64::MAX, any::<u64>()), 0..=OUTCOMES_MAX),
        vec(any::<u8>(), 1..200),
        vec(vec(any::<u8>(), 1..200), 0..12),
    );
    (shape, numbers, any::<[bool; 6]>(), lists).prop_map(
        |((kind, n, from), (words, longs, columns), flags, lists)| {
            let (contacts, outcomes, bytes, messages) = lists;
            Parts {
                kind,
                n,
                from: from % n,
                words,
                longs,
                columns,
                flags,
                contacts,
                outcomes: outcomes
                    .into_iter()
                    .map(|(incarnation, messages)| (Incarnation(incarnation), messages))
                    .collect(),
                bytes,
                messages,
            }
        },
    )
}

impl Parts {
    fn some(&self, word: usize, among: usize) -> Members {
        Members::from_bits(self.words[word]).and(Members::first(among))
    }

    fn columns(&self) -> [u64; MEMBERS_MAX] {
        let mut columns = self.columns;
        columns[self.n..].fill(0);
        columns
    }

    fn head(&self) -> Head {
        let non_member = matches!(self.kind, 3 | 4 | 7);
        let mut head = Head {
            from: None,
            number: None,
            group: self.longs[0],
            view: self.longs[1],
            incarnation: Incarnation(self.longs[2].max(1)),
            rkey: self.words[5],
            token: Token(self.longs[4]),
            grant: Token(self.longs[5].max(1)),
            taken: 0,
            members: 0,
            decided: false,
            frontier: Frontier::default(),
        };
        if !non_member {
            head.from = Some(u8::try_from(self.from).unwrap());
            head.number = Some(self.words[0]);
            head.taken = self.words[1];
            head.members = u8::try_from(self.n).unwrap();
            head.frontier = Frontier {
                rounds: self.longs[3].max(1),
                delivered: self.longs[4],
                received: self.columns(),
                leaving: self.flags[0],
                has_state: self.flags[1],
                wedged: self.flags[2],
            };
        }
        head
    }

    fn batch(&self) -> Vec<u8> {
        let mut batch = Vec::new();
        for message in &self.messages {
            batch.extend(u16::try_from(message.len()).unwrap().to_le_bytes());
            batch.extend(message);
        }
        batch
    }

    fn proposal(&self) -> Proposal {
        let survivors = self.some(2, self.n);
        let joiners: Contacts<JOINERS_MAX> = self
            .contacts
            .iter()
            .map(|(contact, _)| *contact)
            .take((MEMBERS_MAX - survivors.len()).min(usize::from(self.bytes[0]) % 9))
            .collect();
        Proposal {
            survivors,
            voters: self.some(3, survivors.len() + joiners.len()),
            joiners,
            trim: self.columns(),
        }
    }

    /// Encodes an envelope of these parts and checks that it decodes to them.
    fn check(&self) -> Vec<u8> {
        let mut head = self.head();
        let batch = self.batch();
        let body = match self.kind {
            1 => {
                if self.flags[3] {
                    head.number = None;
                }
                Body::Flow(Batch::new(if self.flags[3] { &[] } else { &batch }).unwrap())
            }
            2 => {
                let known = self.some(4, self.n);
                let mut claims = [Members::NONE; MEMBERS_MAX];
                for rank in known.iter() {
                    claims[rank] = Members::from_bits(self.words[5].rotate_left(rank as u32))
                        .and(Members::first(self.n));
                }
                let ballot = |set: bool, long: usize| {
                    if set {
                        let rank = (self.longs[long] % self.n as u64) as usize;
                        Ballot::new((self.longs[long] >> 32) as u32 | 1, rank)
                    } else {
                        Ballot::NONE
                    }
                };
                head.decided = self.flags[4] && self.flags[5];
                let accepted = ballot(self.flags[4], 4);
                let change = Change {
                    attempt: self.words[3],
                    claims: claims[self.from],
                    promised: ballot(self.flags[3], 5),
                    accepted,
                    proposal: self.flags[4].then(|| self.proposal()),
                };
                Body::Change {
                    change,
                    known,
                    claims,
                }
            }
            3 => {
                let (contact, terms) = self.contacts[0];
                (head.incarnation, head.rkey) = (contact.incarnation, contact.rkey);
                Body::Hello {
                    contact,
                    terms,
                    former: Incarnation(self.longs[3]),
                    founders: (self.words[3] % 33) as u8,
                }
            }
            4 => Body::Known {
                members: self.n as u8,
                excluded: self.flags[3],
                contacts: KnownContacts::new(&self.contacts),
            },
            5 => Body::Welcome {
                contacts: self.contacts[..self.n].iter().map(|(c, _)| *c).collect(),
                voters: self.some(2, self.n),
                sequences: self.columns(),
                outcomes: Outcomes::new(&self.outcomes),
            },
            7 => Body::Challenge,
            _ => Body::State {
                offset: self.longs[5],
                last: self.flags[3],
                data: &self.bytes,
            },
        };
        let envelope = Envelope { head, body };
        let mut buffer = [0xa5; SEND_BYTES_MAX];
        let len = envelope.encode(&mut buffer);
        assert_eq!(Envelope::decode(&buffer[..len]), Ok(envelope));
        buffer[..len].to_vec()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn an_envelope_reads_as_it_was_written(parts in parts()) {
        let bytes = parts.check();
        // And nothing of it is left out, or added.
        let longer = [&bytes[..], &[0]].concat();
        prop_assert!(Envelope::decode(&longer).is_err() || parts.kind == 6);
        prop_assert!(Envelope::decode(&bytes[..bytes.len() - 1]).is_err() || parts.kind == 6);
    }

    /// One encoding for each meaning: a decoded envelope encodes to the same bytes.
    #[test]
    fn damaged_bytes_are_refused_and_every_envelope_has_one_encoding(
        parts in parts(),
        at in any::<prop::sample::Index>(),
        bit in 0..8u32,
    ) {
        let mut bytes = parts.check();
        let at = at.index(bytes.len().min(700));
        bytes[at] ^= 1 << bit;
        if let Ok(envelope) = Envelope::decode(&bytes) {
            let mut encoded = [0; SEND_BYTES_MAX];
            let len = envelope.encode(&mut encoded);
            prop_assert_eq!(&encoded[..len], &bytes[..]);
        }
    }

    #[test]
    fn any_bytes_end(bytes in vec(any::<u8>(), 0..400), kind in 0..9u8, n in 0..4u8) {
        let _ = Envelope::decode(&bytes);
        let mut likely = bytes;
        if let Some(head) = likely.first_chunk_mut::<80>() {
            [head[0], head[1], head[2], head[3], head[38], head[39]] = [3, kind, 0, 0, n, 0];
            head[60..64].fill(0);
        }
        let _ = Envelope::decode(&likely);
    }
}

/// A short envelope of each kind with all fields neutral.
fn plain(kind: u8) -> Vec<u8> {
    Parts {
        kind,
        n: 2,
        from: 1,
        words: [0; 6],
        longs: [0; 6],
        columns: [0; MEMBERS_MAX],
        flags: [false, false, false, false, true, false],
        contacts: vec![
            (
                Contact {
                    incarnation: Incarnation::of(0, 0, 7),
                    ..Contact::default()
                },
                Terms::default()
            );
            32
        ],
        outcomes: vec![(Incarnation(9), 3)],
        bytes: vec![1],
        messages: vec![vec![5; 3]],
    }
    .check()
}

#[test]
fn every_reserved_byte_is_refused() {
    // Offsets by kind. The head of a member's kinds has 96 bytes with two members, a non-member's
    // head 80.
    let places: [(u8, &[usize]); 7] = [
        (1, &[39, 60, 63]),
        (2, &[39, 96 + 41, 96 + 47]),
        (3, &[39, 80 + 22, 80 + 33, 80 + 39]),
        (4, &[39, 80 + 3, 80 + 7, 80 + 8 + 22]),
        (5, &[39, 96 + 5, 96 + 7, 96 + 8 + 20, 96 + 8 + 24 + 21]),
        (6, &[39, 96 + 9, 96 + 15]),
        (7, &[39, 60, 63]),
    ];
    for (kind, places) in places {
        for &at in places {
            let mut bytes = plain(kind);
            assert_eq!(bytes[at], 0, "kind {kind}, byte {at}");
            bytes[at] = 1 << 7;
            let refused = Envelope::decode(&bytes).unwrap_err();
            assert_eq!(refused, BadEnvelope::Reserved, "kind {kind}, byte {at}");
        }
    }
}

#[test]
fn envelopes_with_invalid_fields_are_refused() {
    let with = |kind, at: usize, value: u8| {
        let mut bytes = plain(kind);
        bytes[at] = value;
        Envelope::decode(&bytes).map(|_| ())
    };
    assert_eq!(with(1, 0, 2), Err(BadEnvelope::Version(2)));
    assert_eq!(with(1, 1, 8), Err(BadEnvelope::Kind(8)));
    assert_eq!(with(1, 2, 2), Err(BadEnvelope::Rank), "from beyond n");
    assert_eq!(with(1, 3, 32), Err(BadEnvelope::Reserved), "a flag");
    assert_eq!(with(1, 38, 33), Err(BadEnvelope::Rank), "n");
    assert_eq!(with(2, 96 + 20, 4), Err(BadEnvelope::Rank), "known");
    assert_eq!(
        with(2, 96 + 24, 1),
        Err(BadEnvelope::Reserved),
        "claims of one unknown"
    );
    assert_eq!(with(2, 96 + 8, 2), Err(BadEnvelope::Rank), "leader");
    assert_eq!(with(2, 96 + 32, 4), Err(BadEnvelope::Rank), "stay");
    assert_eq!(with(2, 96 + 36, 2), Err(BadEnvelope::Rank), "voter");
    assert_eq!(with(2, 96 + 40, 9), Err(BadEnvelope::Length), "joiners");
    assert_eq!(with(5, 96, 4), Err(BadEnvelope::Rank), "voters");
    assert_eq!(with(4, 80 + 1, 33), Err(BadEnvelope::Length), "members");
    assert_eq!(with(1, 24, 0), Err(BadEnvelope::Reserved), "no life");
    assert_eq!(with(7, 48, 0), Err(BadEnvelope::Reserved), "no grant");
    assert_eq!(
        with(3, 56, 1),
        Err(BadEnvelope::Reserved),
        "another one's queue"
    );
}

#[test]
fn no_member_is_named_by_the_incarnation_of_another_queue() {
    // Offsets of a contact in each kind that has one: its node, the upper half of its incarnation,
    // its key.
    for (kind, contact) in [(3, 80), (4, 80 + 8), (5, 96 + 8), (5, 96 + 8 + 24)] {
        for at in [contact, contact + 12, contact + 16] {
            let mut bytes = plain(kind);
            bytes[at] ^= 1;
            assert_eq!(
                Envelope::decode(&bytes),
                Err(BadEnvelope::Incarnation),
                "kind {kind}, byte {at}"
            );
        }
    }
}

#[test]
fn a_batch_is_messages_and_nothing_else() {
    assert!(Batch::new(&[]).is_ok());
    assert_eq!(
        Batch::new(&[0, 0]),
        Err(BadEnvelope::Length),
        "an empty one"
    );
    assert_eq!(Batch::new(&[2, 0, 1]), Err(BadEnvelope::Length));
    assert_eq!(Batch::new(&[1]), Err(BadEnvelope::Length));
    let mut longest = vec![0; 2 + MULTICAST_BYTES_MAX];
    longest[..2].copy_from_slice(&u16::try_from(MULTICAST_BYTES_MAX).unwrap().to_le_bytes());
    assert!(Batch::new(&longest).is_ok());
    longest.push(0);
    longest[..2].copy_from_slice(
        &u16::try_from(MULTICAST_BYTES_MAX + 1)
            .unwrap()
            .to_le_bytes(),
    );
    assert_eq!(Batch::new(&longest), Err(BadEnvelope::Length));
}

#[test]
fn the_longest_of_each_kind_fits_one_envelope() {
    let full = |kind| Parts {
        kind,
        n: MEMBERS_MAX,
        from: 31,
        words: [u32::MAX; 6],
        longs: [u64::MAX - 1; 6],
        columns: [u64::MAX; MEMBERS_MAX],
        flags: [true, true, true, false, true, true],
        contacts: vec![
            (
                Contact {
                    guid: 1,
                    incarnation: Incarnation::of(1, 3, 7),
                    rkey: 3
                },
                Terms {
                    stateless: true,
                    members_max: 32
                }
            );
            KNOWN_MAX
        ],
        outcomes: vec![(Incarnation(9), 3); OUTCOMES_MAX],
        bytes: vec![8; STATE_BYTES_MAX],
        messages: vec![vec![5; MULTICAST_BYTES_MAX]],
    };
    assert_eq!(full(1).check().len(), SEND_BYTES_MAX);
    assert_eq!(full(6).check().len(), SEND_BYTES_MAX);
    assert_eq!(full(2).check().len(), 80 + 256 + 24 + 128 + 16 + 256);
    let mut joined = full(2);
    joined.words[2] = 0xff_ffff;
    assert_eq!(
        joined.check().len(),
        80 + 256 + 24 + 128 + 16 + 8 * 24 + 256
    );
    full(4).check();
    full(5).check();
}
