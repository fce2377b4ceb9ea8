//! RX/TX pipes: packets change where they lie and go on from there.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used)]

mod support;

use covalent_pipe::nic::{NicPipe, PushRefusal};
use support::{packet, rx_tx};

fn take_all(nic: &mut NicPipe) -> Vec<Vec<u8>> {
    let mut taken = Vec::new();
    nic.take_tx(usize::MAX, |bytes| {
        taken.push(bytes.to_vec());
        true
    })
    .unwrap();
    taken
}

#[test]
fn packets_are_changed_in_place_and_sent_in_order() {
    let (mut nic, mut app) = rx_tx(4096);
    for round in 0..200 {
        let packets = [
            packet(round, 1 + round as usize),
            packet(round + 1, 700),
            packet(round + 2, 64),
        ];
        for packet in &packets {
            nic.push(packet).unwrap();
        }
        nic.publish();
        let mut batch = app.recv_mut().unwrap();
        while let Some(mut packet) = batch.next_packet() {
            packet[0] ^= 0xff;
        }
        assert!(batch.send_all());
        let expected = packets.map(|mut packet| {
            packet[0] ^= 0xff;
            packet
        });
        assert_eq!(take_all(&mut nic), expected);
        nic.complete_tx();
    }
}

#[test]
fn received_bytes_are_freed_only_when_they_are_sent() {
    let (mut nic, mut app) = rx_tx(4096);
    nic.push(&[1; 4032]).unwrap();
    nic.publish();
    app.recv_mut().unwrap().send_all();
    assert_eq!(nic.push(&[1]), Err(PushRefusal::Full));
    take_all(&mut nic);
    assert_eq!(nic.push(&[1]), Err(PushRefusal::Full));
    assert_eq!(nic.complete_tx(), None);
    nic.push(&[1]).unwrap();
}

#[test]
fn only_returned_packets_are_sent() {
    let (mut nic, mut app) = rx_tx(4096);
    nic.push(&packet(1, 64)).unwrap();
    nic.push(&packet(2, 64)).unwrap();
    nic.publish();
    assert!(nic.peek_tx().unwrap().is_none());
    app.recv_mut().unwrap();
    assert!(nic.peek_tx().unwrap().is_none());
    assert!(app.recv_mut().unwrap().send(1));
    assert_eq!(take_all(&mut nic), [packet(1, 64)]);
    let mut batch = app.recv_mut().unwrap();
    assert_eq!(&*batch.next_packet().unwrap(), &packet(2, 64)[..]);
    assert!(batch.next_packet().is_none());
    assert!(!batch.send(0));
}

#[test]
fn discarded_packets_free_their_bytes_and_are_not_sent() {
    let (mut nic, mut app) = rx_tx(4096);
    for number in 0..5 {
        nic.push(&packet(number, 500)).unwrap();
    }
    nic.publish();
    let mut batch = app.recv_mut().unwrap();
    batch.next_packet().unwrap();
    batch.next_packet().unwrap().discard();
    batch.send_all();
    assert_eq!(
        take_all(&mut nic),
        [
            packet(0, 500),
            packet(2, 500),
            packet(3, 500),
            packet(4, 500)
        ]
    );
    assert_eq!(nic.counters().tx_discarded, 1);
    nic.complete_tx();
    assert_eq!(nic.free_bytes(), 4032);

    nic.push(&packet(5, 500)).unwrap();
    nic.push(&packet(6, 500)).unwrap();
    nic.publish();
    assert!(app.recv_mut().unwrap().discard(1));
    assert!(app.recv_mut().unwrap().send_all());
    assert_eq!(take_all(&mut nic), [packet(6, 500)]);
    nic.complete_tx();
    assert_eq!(nic.free_bytes(), 4032);
}

#[test]
fn discarded_packets_count_as_examined() {
    let (mut nic, mut app) = rx_tx(4096);
    for number in 0..5 {
        nic.push(&packet(number, 64)).unwrap();
    }
    nic.publish();
    app.recv_mut().unwrap().discard(3);
    app.recv_mut().unwrap().send_all();
    let take = |nic: &mut NicPipe| {
        let mut taken = Vec::new();
        let looked = nic
            .take_tx(2, |bytes| {
                taken.push(bytes.to_vec());
                true
            })
            .unwrap();
        (looked, taken)
    };
    assert_eq!(take(&mut nic), (2, Vec::new()));
    assert_eq!(take(&mut nic), (2, vec![packet(3, 64)]));
    assert_eq!(take(&mut nic), (1, vec![packet(4, 64)]));
    let counters = nic.counters();
    assert_eq!((counters.tx_packets, counters.tx_discarded), (2, 3));
}

#[test]
fn a_discard_of_everything_frees_everything() {
    let (mut nic, mut app) = rx_tx(4096);
    for round in 0..100 {
        nic.push(&packet(round, 1000)).unwrap();
        nic.publish();
        app.recv_mut().unwrap().discard(usize::MAX);
        assert!(nic.peek_tx().unwrap().is_none());
        nic.complete_tx();
    }
    assert_eq!(nic.counters().tx_discarded, 100);
}

#[test]
fn the_transmit_tail_decides_rule_two() {
    let (mut nic, mut app) = rx_tx(4096);
    nic.push(&[1; 64]).unwrap();
    assert_eq!(nic.publish(), Some(64));
    nic.push(&[1; 64]).unwrap();
    assert_eq!(nic.publish(), None, "one is outstanding");
    app.recv_mut().unwrap().send(1);
    assert_eq!(
        nic.on_doorbell(),
        Ok(Some(128)),
        "more than the application has seen"
    );
    app.recv_mut().unwrap().send_all();
    assert!(app.wait_for_more());
    assert_eq!(nic.on_doorbell(), Ok(None));
    assert!(!app.wait_for_more());
    nic.push(&[1; 64]).unwrap();
    assert_eq!(nic.publish(), Some(192));
}

#[test]
fn a_peek_passes_a_bounded_number_of_discarded_packets() {
    const PACKETS: u64 = 1000;
    let (mut nic, mut app) = rx_tx(1 << 17);
    for number in 0..PACKETS {
        nic.push(&packet(number, 64)).unwrap();
    }
    nic.publish();
    let mut batch = app.recv_mut().unwrap();
    for _ in 1..PACKETS {
        batch.next_packet().unwrap().discard();
    }
    batch.send_all();
    assert!(nic.peek_tx().unwrap().is_none());
    assert!(nic.tx_waits());
    let one_peek = nic.counters().tx_discarded;
    assert!((1..=64).contains(&one_peek), "{one_peek} in one look");
    let mut peeks = 1;
    while nic.peek_tx().unwrap().is_none() {
        assert!(nic.tx_waits());
        peeks += 1;
    }
    assert_eq!(peeks, (PACKETS - 1) / one_peek);
    assert_eq!(take_all(&mut nic), [packet(PACKETS - 1, 64)]);
    assert!(!nic.tx_waits());
}

#[test]
fn taken_packets_are_sent_and_others_are_not() {
    let (mut nic, mut app) = rx_tx(4096);
    for number in 0..3 {
        nic.push(&packet(number, 100)).unwrap();
    }
    nic.publish();
    let mut batch = app.recv_mut().unwrap();
    batch.next_packet().unwrap()[0] = 9;
    batch.next_packet().unwrap().discard();
    assert!(batch.send_taken());
    assert_eq!(nic.peek_tx().unwrap().unwrap().byte(0), Some(9));
    nic.advance_tx();
    assert!(nic.peek_tx().unwrap().is_none());
    assert_eq!(
        &*app.recv_mut().unwrap().next_packet().unwrap(),
        packet(2, 100)
    );
    assert!(!app.recv_mut().unwrap().send_taken(), "nothing was taken");
}

#[test]
fn packets_iterated_in_an_earlier_batch_are_sent_once() {
    let (mut nic, mut app) = rx_tx(4096);
    for number in 0..4 {
        nic.push(&packet(number, 100)).unwrap();
    }
    nic.publish();
    let mut batch = app.recv_mut().unwrap();
    for _ in 0..3 {
        batch.next_packet().unwrap();
    }
    let position = batch.position();
    app.recv_mut().unwrap().discard(1);
    assert!(app.recv_mut().unwrap().send_before(position));
    assert_eq!(take_all(&mut nic), [packet(1, 100), packet(2, 100)]);
    // A place that went back already sends nothing.
    assert!(!app.recv_mut().unwrap().send_before(position));
    assert_eq!(
        &*app.recv_mut().unwrap().next_packet().unwrap(),
        packet(3, 100)
    );
}

#[test]
fn a_flush_is_notified_once_and_only_when_all_is_taken() {
    let (mut nic, mut app) = rx_tx(4096);
    assert!(app.all_taken() && !app.want_taken(), "nothing was sent");
    for number in 0..4 {
        nic.push(&packet(number, 64)).unwrap();
    }
    nic.publish();
    assert!(app.recv_mut().unwrap().send(3));
    assert!(!app.all_taken() && app.want_taken());
    assert!(!app.want_taken(), "one doorbell asks for one notification");
    // The fourth packet is notified again, as after each doorbell.
    assert!(nic.on_doorbell().unwrap().is_some());
    nic.take_tx(1, |_| true).unwrap();
    assert_eq!(nic.complete_tx(), None, "two are left");
    assert!(!app.all_taken());
    nic.take_tx(9, |_| true).unwrap();
    assert!(nic.complete_tx().is_some());
    assert!(app.all_taken());

    // All is taken before the lane sees the request: the doorbell is answered, once.
    app.recv_mut().unwrap().discard(1);
    assert!(app.want_taken());
    nic.take_tx(9, |_| true).unwrap();
    assert_eq!(nic.complete_tx(), None);
    assert!(nic.on_doorbell().unwrap().is_some());
    assert_eq!(nic.on_doorbell().unwrap(), None);
    assert!(app.all_taken());
}
