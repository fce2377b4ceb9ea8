//! A running view: one order for all, whatever the outcomes of the verbs, and bounds.

use covalent_protocol::group::{
    BadEnvelope, Contact, End, Incarnation, MULTICAST_BYTES_MAX, MulticastError, PENDING_BYTES_MAX,
    ROUNDS_OPEN, WINDOW,
    row::Frontier,
    wire::{Batch, Body, Envelope, Head},
};
use proptest::{collection::vec, prelude::*, sample::Index};

use crate::rack::{Rack, Report, contact, secret};

/// All applications received the same: the messages of each sender in its order and once, `sent[i]`
/// of the member `i`.
fn assert_one_order(rack: &Rack, sent: &[u64]) {
    let first = rack.delivered(0);
    for index in 1..rack.groups.len() {
        assert_eq!(rack.delivered(index), first, "member {index}");
    }
    for (index, &sent) in sent.iter().enumerate() {
        let incarnation = contact(index).incarnation;
        let own = first.iter().filter(|(sender, ..)| *sender == incarnation);
        let sequences: Vec<u64> = own.map(|(_, sequence, _)| *sequence).collect();
        assert_eq!(sequences, (1..=sent).collect::<Vec<_>>(), "sender {index}");
    }
}

fn bytes_of(index: usize, sequence: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![index as u8; len.max(9)];
    bytes[1..9].copy_from_slice(&sequence.to_le_bytes());
    bytes
}

/// The next step of a random run.
#[derive(Debug, Clone)]
enum Step {
    Multicast(usize, usize),
    /// Any envelope arrives, in any order.
    Arrive(Index),
    /// It arrives with an unclear outcome, so it is sent again.
    Twice(Index),
    /// It does not arrive.
    Lost(Index, bool),
    Events(usize),
    Tick(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..4usize, 1..600usize).prop_map(|(member, len)| Step::Multicast(member, len)),
        12 => any::<Index>().prop_map(Step::Arrive),
        1 => any::<Index>().prop_map(Step::Twice),
        1 => (any::<Index>(), any::<bool>()).prop_map(|(at, clear)| Step::Lost(at, clear)),
        3 => (0..4usize).prop_map(Step::Events),
        1 => (0..4usize).prop_map(Step::Tick),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn all_members_deliver_the_same_for_any_envelope_order(steps in vec(step(), 1..300)) {
        let mut rack = Rack::of(4);
        let mut sent = [0; 4];
        for step in steps {
            match step {
                Step::Multicast(member, len) => {
                    let data = bytes_of(member, sent[member] + 1, len);
                    if let Ok(sequence) = rack.groups[member].multicast(&data) {
                        sent[member] += 1;
                        assert_eq!(sequence, sent[member]);
                    }
                }
                Step::Arrive(_) | Step::Twice(_) | Step::Lost(..) => {
                    rack.collect_posted();
                    if rack.in_flight.is_empty() {
                        continue;
                    }
                    match step {
                        Step::Arrive(at) => rack.deliver(at.index(rack.in_flight.len())),
                        Step::Twice(at) => {
                            let posted = rack.in_flight.remove(at.index(rack.in_flight.len()));
                            rack.groups[posted.to].on_envelope(
                                contact(posted.from).guid,
                                &posted.bytes,
                            ).unwrap();
                            rack.groups[posted.from].on_end(posted.ticket, End::Unclear);
                        }
                        Step::Lost(at, clear) => {
                            let posted = rack.in_flight.remove(at.index(rack.in_flight.len()));
                            let end = if clear { End::NotExecuted } else { End::Unclear };
                            rack.groups[posted.from].on_end(posted.ticket, end);
                        }
                        _ => {}
                    }
                }
                Step::Events(member) => rack.take_events(member),
                Step::Tick(member) => rack.groups[member].on_tick(),
            }
        }
        // A refused envelope is sent again after a tick.
        for _ in 0..3 {
            rack.rest();
            rack.groups.iter_mut().for_each(covalent_protocol::group::Group::on_tick);
        }
        rack.rest();
        assert_one_order(&rack, &sent);
        for (incarnation, sequence, data) in rack.delivered(0) {
            let member = (incarnation.0 as u32 - contact(0).incarnation.0 as u32) as usize;
            prop_assert_eq!(&data, &bytes_of(member, sequence, data.len()));
        }
    }
}

#[test]
fn a_lone_message_is_delivered_everywhere_after_one_exchange() {
    for n in 2..=5 {
        for sender in 0..n {
            let mut rack = Rack::of(n);
            rack.rest();
            rack.groups[sender].multicast(b"alone").unwrap();
            rack.collect_posted();
            assert_eq!(rack.in_flight.len(), n - 1);
            rack.deliver_all();
            rack.collect_posted();
            rack.deliver_all();
            for index in 0..n {
                rack.take_events(index);
                assert_eq!(
                    rack.delivered(index).len(),
                    1,
                    "{index} of {n}, sender {sender}"
                );
            }
            rack.rest();
            for reports in &rack.reports {
                let stable = Report::Stable(1, n as u64);
                assert_eq!(reports.last(), Some(&stable), "all applications have it");
            }
        }
    }
}

#[test]
fn an_idle_member_sends_keepalives_and_nothing_else() {
    let mut rack = Rack::of(4);
    rack.groups[2].multicast(b"before").unwrap();
    rack.rest();
    rack.groups
        .iter_mut()
        .for_each(covalent_protocol::group::Group::on_tick);
    rack.rest();
    for _ in 0..20 {
        rack.groups
            .iter_mut()
            .for_each(covalent_protocol::group::Group::on_tick);
        assert_eq!(rack.rest(), 4, "one for each member, and no answer");
    }
    for round in 0..4 {
        // A member that sends anything else sends no keepalive.
        rack.groups[round].multicast(b"again").unwrap();
        rack.rest();
    }
    assert_one_order(&rack, &[1, 1, 2, 1]);
}

#[test]
fn a_member_that_sends_nothing_delays_no_delivery() {
    let mut rack = Rack::of(3);
    let mut sent = 0;
    for _ in 0..200 {
        while rack.groups[1].multicast(&[1; 900]).is_ok() {
            sent += 1;
        }
        rack.rest();
    }
    assert!(sent > 1000);
    assert_one_order(&rack, &[0, sent, 0]);
    assert!(rack.groups[0].counters().nulls > 100);
    assert_eq!(rack.groups[0].counters().batches, 0);
}

#[test]
fn a_member_that_takes_nothing_fills_no_memory_and_holds_the_others_up() {
    let n = 4;
    let mut rack = Rack::of(n);
    let mut sent = [0; 4];
    let mut full = 0;
    for _ in 0..400 {
        for (member, sent) in sent.iter_mut().enumerate() {
            loop {
                match rack.groups[member].multicast(&[member as u8; 1000]) {
                    Ok(_) => *sent += 1,
                    Err(error) => break assert_eq!(error, MulticastError::Full),
                }
                full += 1;
            }
        }
        rack.collect_posted();
        rack.deliver_all();
        for member in 0..n - 1 {
            rack.take_events(member);
        }
        let bound = n * (ROUNDS_OPEN as usize) * 4096 + PENDING_BYTES_MAX + n * WINDOW * 4084;
        for group in &rack.groups {
            assert!(group.held_bytes() <= bound, "{}", group.held_bytes());
        }
    }
    assert!(full > 0);
    for group in &rack.groups {
        assert_eq!(group.laggard(), Some(contact(n - 1)));
    }
    rack.collect_posted();
    assert!(rack.in_flight.is_empty(), "nothing more is sent");
    rack.rest();
    assert_one_order(&rack, &sent);
    assert_eq!(rack.groups[0].laggard(), None);
}

#[test]
fn an_invalid_multicast_is_refused() {
    let mut rack = Rack::of(2);
    let group = &mut rack.groups[0];
    assert_eq!(group.multicast(&[]), Err(MulticastError::Empty));
    let longest = [5; MULTICAST_BYTES_MAX + 1];
    assert_eq!(group.multicast(&longest), Err(MulticastError::TooLong));
    assert_eq!(group.multicast(&longest[1..]), Ok(1));
    rack.rest();
    assert_eq!(rack.delivered(1)[0].2, longest[1..]);
}

#[test]
fn one_member_alone_delivers_to_itself() {
    let mut rack = Rack::of(1);
    for sequence in 1..=500 {
        assert_eq!(rack.groups[0].multicast(&[1; 700]), Ok(sequence));
        rack.take_events(0);
    }
    assert_eq!(rack.rest(), 0);
    assert_one_order(&rack, &[500]);
}

/// An envelope of the member 1 of two, forged.
fn forged(number: u32, rounds: u64, batch: &[u8]) -> Vec<u8> {
    let head = Head {
        from: Some(1),
        number: Some(number),
        group: 99,
        view: 1,
        incarnation: contact(1).incarnation,
        rkey: contact(1).rkey,
        token: secret(contact(0)).token_for(contact(1).guid, contact(1).rkey),
        grant: secret(contact(1)).token_for(contact(0).guid, contact(0).rkey),
        taken: 0,
        members: 2,
        decided: false,
        frontier: Frontier {
            rounds,
            ..Frontier::default()
        },
    };
    let mut buffer = [0; 4084];
    let body = Body::Flow(Batch::new(batch).unwrap());
    let len = Envelope { head, body }.encode(&mut buffer);
    buffer[..len].to_vec()
}

#[test]
fn an_envelope_that_breaks_a_bound_is_dropped() {
    let message = [3, 0, 1, 2, 3];
    let receive =
        |rack: &mut Rack, bytes: &[u8]| rack.groups[0].on_envelope(contact(1).guid, bytes);
    let mut rack = Rack::of(2);
    let beyond = forged(1, ROUNDS_OPEN + 1, &message);
    assert_eq!(
        receive(&mut rack, &beyond),
        Err(BadEnvelope::Violation),
        "credit"
    );
    let mut rack = Rack::of(2);
    assert_eq!(
        receive(&mut rack, &forged(1, ROUNDS_OPEN, &message)),
        Ok(())
    );
    assert_eq!(receive(&mut rack, &forged(1, 1, &message)), Ok(()), "twice");
    assert_eq!(rack.groups[0].counters().duplicates, 1);
    let window = WINDOW as u32;
    assert_eq!(receive(&mut rack, &forged(window + 1, 1, &message)), Ok(()));
    let late = forged(window + 2, 1, &message);
    assert_eq!(
        receive(&mut rack, &late),
        Err(BadEnvelope::Violation),
        "window"
    );
    let mut rack = Rack::of(2);
    let own = forged(1, 1, &message);
    let refused = rack.groups[0].on_envelope(contact(0).guid, &own);
    assert_eq!(refused, Err(BadEnvelope::Unproven));
    let mut taken = own.clone();
    taken[32] = 1;
    assert_eq!(
        receive(&mut rack, &taken),
        Err(BadEnvelope::Violation),
        "never sent"
    );
    let mut other = own.clone();
    other[8] = 98;
    let mut rack = Rack::of(2);
    assert_eq!(receive(&mut rack, &other), Err(BadEnvelope::OtherGroup));
    let mut unknown = own;
    let incarnation = Incarnation::of(contact(1).guid, contact(1).rkey, 5);
    unknown[24..32].copy_from_slice(&incarnation.0.to_le_bytes());
    unknown[16] = 2;
    assert_eq!(
        receive(&mut rack, &unknown),
        Ok(()),
        "kept: its queue may be that of a joining member"
    );
    let mut result = Ok(());
    for guid in 1..64_u32 {
        let joiner = Contact {
            guid: u64::from(guid),
            incarnation: Incarnation::of(guid.into(), 1, 5 + guid),
            rkey: 1,
        };
        let token = secret(contact(0)).token_for(joiner.guid, joiner.rkey);
        unknown[24..32].copy_from_slice(&joiner.incarnation.0.to_le_bytes());
        unknown[40..48].copy_from_slice(&token.0.to_le_bytes());
        unknown[56..60].copy_from_slice(&joiner.rkey.to_le_bytes());
        result = rack.groups[0].on_envelope(joiner.guid, &unknown);
        assert!(
            guid > 1 || result.is_ok(),
            "kept: it may be a joining member"
        );
    }
    assert_eq!(
        result,
        Err(BadEnvelope::NoRoom),
        "for so many there is no room"
    );
    let bad = rack.groups[0].counters().bad_envelopes;
    assert_eq!(bad[BadEnvelope::OtherGroup.index()], 1);
}
