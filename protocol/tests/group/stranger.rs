//! A stranger: an application on a member's node that knows all that is published and sends any
//! envelope into the members' queues.

use std::hash::{DefaultHasher, Hash, Hasher};

use covalent_protocol::{
    Name,
    group::{
        BadEnvelope, Contact, Contacts, Group, GroupConfig, GroupStanding, Incarnation, Members,
        Notice, Token, View,
        row::{Ballot, Change, Frontier, Proposal},
        wire::{Batch, Body, Envelope, Head, KnownContacts, Outcomes, Terms},
    },
    verb::SEND_BYTES_MAX,
};

use crate::rack::{NEXT_RKEY, Rack, config, contact, secret};

fn digest(group: &Group) -> u64 {
    let mut hasher = DefaultHasher::new();
    group.hash(&mut hasher);
    hasher.finish()
}

/// An envelope of each kind in the name of the member 1 of three, for the member 0.
fn forgeries(sender: Contact, token: Token, number: u32, view: u64) -> Vec<Vec<u8>> {
    let members: Contacts = (0..3).map(contact).collect();
    let ordered = Head {
        from: Some(1),
        number: Some(number),
        group: 99,
        view,
        incarnation: sender.incarnation,
        rkey: sender.rkey,
        token,
        grant: Token(7),
        taken: 0,
        members: 3,
        decided: false,
        frontier: Frontier {
            rounds: 1,
            ..Frontier::default()
        },
    };
    let non_member = Head {
        from: None,
        number: None,
        members: 0,
        frontier: Frontier::default(),
        ..ordered
    };
    let decided = Change {
        attempt: 1,
        accepted: Ballot::new(1, 1),
        promised: Ballot::new(1, 1),
        proposal: Some(Proposal {
            survivors: Members::only(1),
            voters: Members::first(1),
            joiners: Contacts::default(),
            trim: [0; 32],
        }),
        ..Change::default()
    };
    let terms = Terms {
        stateless: false,
        members_max: 3,
    };
    let known = [(sender, terms)];
    let elsewhere = Head {
        group: 98,
        ..non_member
    };
    let keepalive = Head {
        number: None,
        ..ordered
    };
    let mut accuses = [Members::NONE; 32];
    accuses[1] = Members::only(0);
    let bodies = [
        (ordered, Body::Flow(Batch::new(&[3, 0, 1, 2, 3]).unwrap())),
        (keepalive, Body::Flow(Batch::default())),
        (
            Head {
                decided: true,
                ..ordered
            },
            Body::Change {
                change: decided,
                known: Members::only(1),
                claims: accuses,
            },
        ),
        (
            non_member,
            Body::Hello {
                contact: sender,
                terms,
                former: Incarnation(0),
                founders: 3,
            },
        ),
        (
            elsewhere,
            Body::Hello {
                contact: sender,
                terms,
                former: Incarnation(0),
                founders: 3,
            },
        ),
        (
            non_member,
            Body::Known {
                members: 1,
                excluded: true,
                contacts: KnownContacts::new(&known),
            },
        ),
        (
            elsewhere,
            Body::Known {
                members: 1,
                excluded: false,
                contacts: KnownContacts::new(&known),
            },
        ),
        (
            ordered,
            Body::Welcome {
                contacts: members,
                voters: Members::first(3),
                sequences: [0; 32],
                outcomes: Outcomes::new(&[]),
            },
        ),
        (
            ordered,
            Body::State {
                offset: 0,
                last: true,
                data: &[],
            },
        ),
    ];
    let encoded = bodies.into_iter().map(|(head, body)| encode(head, body));
    encoded.collect()
}

fn challenge(sender: Contact, token: Token, grant: Token) -> Vec<u8> {
    let head = Head {
        from: None,
        number: None,
        group: 0,
        view: 0,
        incarnation: sender.incarnation,
        rkey: sender.rkey,
        token,
        grant,
        taken: 0,
        members: 0,
        decided: false,
        frontier: Frontier::default(),
    };
    encode(head, Body::Challenge)
}

/// Everything that a stranger may show but the member's own token.
fn tokens_of_others(sender: Contact, to: Contact) -> Vec<Token> {
    let third = contact(2);
    vec![
        Token::NONE,
        Token(0x5eed),
        // The member's token for a third one, a token of a third one here, and the sender's token
        // for its own queue.
        secret(third).token_for(sender.guid, sender.rkey),
        secret(to).token_for(third.guid, third.rkey),
        secret(to).token_for(sender.guid, sender.rkey + 50),
        secret(sender).token_for(to.guid, to.rkey),
    ]
}

#[test]
fn nothing_that_a_non_member_sends_as_a_member_has_an_effect() {
    let mut rack = Rack::of(3);
    for index in 0..3 {
        rack.multicast(index);
    }
    // At rest, with envelopes in flight, and while the view ends.
    for stage in 0..3 {
        match stage {
            0 => {
                rack.rest();
            }
            1 => {
                rack.multicast(1);
                rack.collect_posted();
            }
            _ => {
                rack.kill(2);
                let gone = rack.incarnation(2);
                rack.groups[0].suspect(gone);
            }
        }
        let before = digest(&rack.groups[0]);
        let mut count = 0;
        for token in tokens_of_others(contact(1), contact(0)) {
            for number in 1..12 {
                for bytes in forgeries(contact(1), token, number, 1) {
                    let result = rack.groups[0].on_envelope(contact(1).guid, &bytes);
                    assert_eq!(result, Err(BadEnvelope::Unproven), "stage {stage}");
                    count += 1;
                }
            }
        }
        assert_eq!(digest(&rack.groups[0]), before, "stage {stage}");
        let counted = rack.groups[0].counters().bad_envelopes[BadEnvelope::Unproven.index()];
        assert_eq!(counted, (stage + 1) * count);
        let name = Name::new("rack").unwrap();
        let notice = Notice::of(&rack.groups[0], name, contact(0).incarnation);
        assert_eq!(notice.unproven, counted, "the node counts them separately");
    }
    rack.settle();
    rack.assert_sound();
    rack.assert_converged();
}

#[test]
fn a_non_member_takes_no_searching_member_into_a_group() {
    let mut rack = Rack::founding(3, 0);
    rack.introduce();
    rack.settle();
    let before = digest(&rack.groups[0]);
    for token in tokens_of_others(contact(1), contact(0)) {
        for bytes in forgeries(contact(1), token, 1, 5) {
            let result = rack.groups[0].on_envelope(contact(1).guid, &bytes);
            assert_eq!(result, Err(BadEnvelope::Unproven));
        }
    }
    assert_eq!(digest(&rack.groups[0]), before);
    assert_eq!(rack.groups[0].standing(), GroupStanding::Searching);
}

/// The envelopes that a member sends right after a challenge.
fn answers(group: &mut Group) -> Vec<(Contact, Vec<u8>)> {
    let mut buffer = [0; SEND_BYTES_MAX];
    let mut answers = Vec::new();
    while let Some(parcel) = group.poll_send(&mut buffer) {
        answers.push((parcel.to, buffer[..parcel.len].to_vec()));
    }
    answers
}

#[test]
fn a_challenge_is_answered_to_the_queue_that_it_names() {
    let mut rack = Rack::founding(2, 2);
    let forged = challenge(contact(1), Token::NONE, Token(5));
    rack.groups[0]
        .on_envelope(contact(1).guid, &forged)
        .unwrap();
    let answers = answers(&mut rack.groups[0]);
    assert_eq!(answers.len(), 1);
    let (to, bytes) = &answers[0];
    assert_eq!(*to, contact(1), "the non-member does not read it");
    let answer = Envelope::decode(bytes).unwrap();
    assert_eq!(answer.head.token, Token(5));
    let granted = secret(contact(0)).token_for(contact(1).guid, contact(1).rkey);
    assert_eq!(answer.head.grant, granted);
    // And the member takes nothing of it, for it never granted that.
    rack.groups[1].on_envelope(contact(0).guid, bytes).unwrap();
    rack.introduce();
    rack.settle();
    rack.multicast(0);
    rack.multicast(1);
    rack.rest();
    assert_eq!(rack.delivered(0).len(), 2);
    rack.assert_sound();
}

#[test]
fn challenges_of_non_members_are_answered_some_at_a_time() {
    let mut rack = Rack::of(2);
    rack.rest();
    let group = &mut rack.groups[0];
    let mut count = 0;
    let mut challenge_of = |guid: u64, rkey: u32| {
        let non_member = Contact {
            guid,
            incarnation: Incarnation::of(guid, rkey, 3),
            rkey,
        };
        let bytes = challenge(non_member, Token::NONE, Token(5));
        group.on_envelope(guid, &bytes).unwrap();
    };
    (1000..2000).for_each(|rkey| challenge_of(contact(1).guid, rkey));
    (0..1000).for_each(|guid| challenge_of(0x999 + guid, 1));
    let to_non_members = answers(group);
    let of_node = to_non_members
        .iter()
        .filter(|(to, _)| to.guid == contact(1).guid)
        .count();
    assert_eq!((of_node, to_non_members.len()), (3, 64));
    // None of them has ended. One slot is reserved for the member of the node, and no untrusted
    // sender takes it.
    for forged in 6..100 {
        let bytes = challenge(contact(1), Token::NONE, Token(forged));
        group.on_envelope(contact(1).guid, &bytes).unwrap();
    }
    assert!(!group.has_news(), "the member grants another token");
    let grant = secret(contact(1)).token_for(contact(0).guid, contact(0).rkey);
    let bytes = challenge(contact(1), Token::NONE, grant);
    for _ in 0..2 {
        group.on_envelope(contact(1).guid, &bytes).unwrap();
        let to_member = answers(group);
        assert!(to_member.len() <= 1);
        for (to, bytes) in to_member {
            assert_eq!(to, contact(1));
            assert_eq!(Envelope::decode(&bytes).unwrap().head.token, grant);
            count += 1;
        }
    }
    assert_eq!(count, 1, "once until it ends");
}

#[test]
fn non_members_on_its_node_keep_no_founder_from_being_answered() {
    let mut group = Rack::founding(2, 2).groups.remove(0);
    for rkey in 1000..2000 {
        let non_member = Contact {
            incarnation: Incarnation::of(contact(1).guid, rkey, 3),
            rkey,
            ..contact(1)
        };
        let bytes = challenge(non_member, Token::NONE, Token(5));
        group.on_envelope(non_member.guid, &bytes).unwrap();
    }
    assert_eq!(answers(&mut group).len(), 3);
    group.on_contact(Contact {
        incarnation: Incarnation(0),
        ..contact(1)
    });
    let bytes = challenge(contact(1), Token::NONE, Token(6));
    group.on_envelope(contact(1).guid, &bytes).unwrap();
    let shown = |(to, bytes): &(Contact, Vec<u8>)| {
        assert_eq!((to.guid, to.rkey), (contact(1).guid, contact(1).rkey));
        Envelope::decode(bytes).unwrap().head.token
    };
    let shown: Vec<Token> = answers(&mut group).iter().map(shown).collect();
    assert!(shown.contains(&Token(6)), "{shown:?}");
}

#[test]
fn a_non_member_on_its_node_does_not_keep_a_joiner_out() {
    let mut rack = Rack::founding(3, 2);
    rack.introduce_some(&[0, 1]);
    rack.settle();
    rack.meet(2, 0);
    rack.meet(2, 1);
    for turn in 0..40 {
        // Before and after each envelope of the joiner: a forgery of what it might send.
        for to in 0..2 {
            for bytes in forgeries(contact(2), Token(turn + 1), 1, 1) {
                let result = rack.groups[to].on_envelope(contact(2).guid, &bytes);
                assert_eq!(result, Err(BadEnvelope::Unproven));
            }
            let forged = challenge(contact(2), Token::NONE, Token(turn + 9));
            rack.groups[to]
                .on_envelope(contact(2).guid, &forged)
                .unwrap();
        }
        rack.collect_posted();
        rack.deliver_all();
        for index in 0..3 {
            rack.take_events(index);
            rack.groups[index].on_tick();
        }
    }
    rack.settle();
    rack.assert_sound();
    assert_eq!(rack.views(2).last().unwrap().members.len(), 3);
}

#[test]
fn an_incarnation_belongs_to_one_member_despite_other_claims() {
    let mut rack = Rack::founding(4, 2);
    rack.introduce_some(&[0, 1]);
    rack.settle();
    // On node 3 an untrusted sender copies the incarnation published by the newcomer on node 2, and
    // requests first.
    let incarnation = Incarnation::of(contact(2).guid, contact(2).rkey + NEXT_RKEY, 0x77);
    for node in [3, 2] {
        rack.restart_as(node, incarnation, |config| config);
        rack.meet(node, 0);
        rack.meet(node, 1);
        rack.settle();
    }
    rack.assert_sound();
    let newcomer = rack.contact(2);
    for member in [0, 1, 2] {
        assert_eq!(rack.groups[member].view().unwrap().members[2..], [newcomer]);
    }
    assert_eq!(rack.groups[3].standing(), GroupStanding::Searching);
    let refused = rack.groups[0].counters().bad_envelopes[BadEnvelope::Incarnation.index()];
    assert!(refused > 0);
    // The stranger's end is none of the newcomer's.
    rack.kill(3);
    rack.settle();
    assert_eq!(rack.groups[2].standing(), GroupStanding::Member);
}

#[test]
fn no_contact_has_the_incarnation_of_another_queue() {
    let copied = Contact {
        incarnation: contact(1).incarnation,
        ..contact(2)
    };
    let mut group = Rack::founding(2, 2).groups.remove(0);
    group.on_contact(copied);
    assert!(!group.has_news());
    group.on_contact(contact(2));
    assert!(group.has_news());
    let with = |other: Contact| {
        let view = View {
            group: 99,
            number: 1,
            members: [contact(0), other].into_iter().collect(),
            voters: Members::first(2),
        };
        Group::with_view(config(0, 2), view)
    };
    assert!(with(copied).is_none());
    assert!(with(contact(2)).is_some());
}

#[test]
fn a_non_member_that_copies_incarnations_keeps_no_founder_out() {
    let mut rack = Rack::founding(4, 3);
    let (non_members, founders) = (0, 1..4);
    for copied in founders.clone() {
        let incarnation = rack.incarnation(copied);
        rack.restart_as(non_members, incarnation, |config| GroupConfig {
            founders: 3,
            ..config
        });
        rack.introduce_some(&[non_members, copied]);
        rack.settle();
    }
    rack.introduce();
    rack.settle();
    rack.assert_sound();
    let expected: Vec<Contact> = founders.map(contact).collect();
    for member in 1..4 {
        assert_eq!(rack.groups[member].view().unwrap().members[..], expected);
    }
}

#[test]
fn founders_choose_the_lowest_guids_that_they_know() {
    let me = 40;
    let mut group = Rack::founding(1 + me, 3).groups.remove(me);
    let mut receive = |sender: Contact, body: Body<'_>| {
        let bytes = envelope_from(sender, contact(me), body);
        group.on_envelope(sender.guid, &bytes).unwrap();
    };
    let hello_of = |index| hello_of(contact(index), (32, 3));
    // While it receives news of a member, it does not found.
    receive(contact(41), hello_of(41));
    let member = [(contact(80), Terms::default())];
    let known = Body::Known {
        members: 1,
        excluded: false,
        contacts: KnownContacts::new(&member),
    };
    receive(contact(41), known);
    // As many as a group can have are above this one, and come before those below it.
    (42..72)
        .chain([1, 0])
        .for_each(|index| receive(contact(index), hello_of(index)));
    receive(contact(80), hello_of(80));
    assert_eq!(group.counters().views, 1);
    let mut answered: Vec<Contact> = answers(&mut group)
        .into_iter()
        .filter(|(_, bytes)| matches!(Envelope::decode(bytes).unwrap().body, Body::Welcome { .. }))
        .map(|(to, _)| to)
        .collect();
    answered.sort_unstable();
    assert_eq!(answered, [contact(0), contact(1)]);
}

#[test]
fn a_hello_of_another_application_on_its_node_ends_no_founder() {
    let mut rack = Rack::founding(2, 2);
    rack.introduce();
    let non_member = Contact {
        incarnation: Incarnation::of(contact(1).guid, 99, 0x99),
        rkey: 99,
        ..contact(1)
    };
    let mut sent = 0;
    for _ in 0..20 {
        let group = &mut rack.groups[0];
        // It founds, and nothing is decided.
        if group.counters().views == 1 && group.view().is_none() {
            let hello = hello(non_member, contact(0));
            group.on_envelope(non_member.guid, &hello).unwrap();
            sent += 1;
        }
        rack.collect_posted();
        rack.deliver_all();
        (0..2).for_each(|index| rack.take_events(index));
    }
    assert!(sent > 0);
    rack.settle();
    rack.assert_sound();
    assert_eq!(rack.groups[0].standing(), GroupStanding::Member);
    assert_eq!(rack.views(0).last().unwrap().members[1], contact(1));
}

/// The hello of an incarnation that owns its queue.
fn hello(sender: Contact, to: Contact) -> Vec<u8> {
    envelope_from(sender, to, hello_of(sender, (2, 0)))
}

/// A hello with the most members and the founders of its sender.
fn hello_of(sender: Contact, (members_max, founders): (u8, u8)) -> Body<'static> {
    Body::Hello {
        contact: sender,
        terms: Terms {
            stateless: false,
            members_max,
        },
        former: Incarnation(0),
        founders,
    }
}

/// An envelope of an incarnation that owns its queue and is in no view.
fn envelope_from(sender: Contact, to: Contact, body: Body<'_>) -> Vec<u8> {
    let head = Head {
        from: None,
        number: None,
        group: 0,
        view: 0,
        incarnation: sender.incarnation,
        rkey: sender.rkey,
        token: secret(to).token_for(sender.guid, sender.rkey),
        grant: Token(3),
        taken: 0,
        members: 0,
        decided: false,
        frontier: Frontier::default(),
    };
    encode(head, body)
}

fn encode(head: Head, body: Body<'_>) -> Vec<u8> {
    let mut buffer = [0; SEND_BYTES_MAX];
    let len = Envelope { head, body }.encode(&mut buffer);
    buffer[..len].to_vec()
}
