//! RX pipes: the application receives the packets that the daemon pushes.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used)]

mod support;

use covalent_pipe::{app::RxPipe, nic::PushRefusal};
use support::{packet, rx};

#[test]
fn a_packet_of_every_footprint_arrives_from_every_start() {
    let (mut nic, mut app) = rx(4096);
    let mut at = 0_usize;
    for start in 0..64 {
        for footprint in 1..=63 {
            while at % 64 != start {
                nic.push(&[1]).unwrap();
                nic.publish();
                app.recv().unwrap().free_all();
                at += 1;
            }
            // The last byte of the last quantum, the first, or one between.
            let packet = packet(at as u64, footprint * 64 - [0, 63, 31][footprint % 3]);
            nic.push(&packet).unwrap();
            nic.publish();
            let batch = app.recv().unwrap();
            assert_eq!(batch.iter().collect::<Vec<_>>(), [&packet[..]]);
            assert_eq!(batch.bytes().len(), footprint * 64);
            assert_eq!(&batch.bytes()[..packet.len()], &packet[..]);
            batch.free_all();
            at += footprint;
        }
    }
    assert_eq!(nic.counters().full, 0);
}

#[test]
fn nothing_is_seen_before_it_is_published() {
    let (mut nic, mut app) = rx(4096);
    nic.push(b"hello").unwrap();
    assert!(app.recv().is_none());
    assert!(nic.publish().is_some());
    assert_eq!(app.recv().unwrap().iter().count(), 1);
    assert!(nic.publish().is_none(), "nothing new to publish");
}

#[test]
fn usable_capacity_is_one_quantum_less_than_the_ring() {
    let (mut nic, mut app) = rx(4096);
    assert_eq!(nic.free_bytes(), 4096 - 64);
    assert_eq!(nic.packet_bytes_max(), 4096 - 64);
    assert_eq!(nic.used_bytes(), 0);
    for _ in 0..63 {
        nic.push(&[7; 64]).unwrap();
    }
    assert_eq!(nic.used_bytes(), 4096 - 64);
    assert_eq!(nic.push(&[7]), Err(PushRefusal::Full));
    assert_eq!(nic.counters().full, 1);
    nic.publish();
    assert_eq!(app.recv().unwrap().iter().count(), 63);
    assert_eq!(nic.used_bytes(), 0);
    assert_eq!(nic.free_bytes(), 4096 - 64);
    nic.push(&[7]).unwrap();
}

#[test]
fn one_packet_may_be_as_large_as_the_ring_allows() {
    let (mut nic, mut app) = rx(4096);
    for number in 0..130 {
        let packet = packet(number, 4096 - 64);
        nic.push(&packet).unwrap();
        assert_eq!(nic.free_bytes(), 0);
        nic.publish();
        assert_eq!(app.recv().unwrap().iter().next().unwrap(), &packet[..]);
        // Shifts the next packet by a quantum, so that packets cross the end at every offset.
        nic.push(&[1]).unwrap();
        nic.publish();
        app.recv().unwrap().free_all();
    }
}

#[test]
fn empty_and_oversized_packets_are_refused_and_change_nothing() {
    let (mut nic, mut app) = rx(4096);
    assert_eq!(nic.push(&[]), Err(PushRefusal::Empty));
    assert_eq!(
        nic.push(&[0; 4033]),
        Err(PushRefusal::TooLong {
            len: 4033,
            max: 4032
        })
    );
    assert_eq!(
        nic.push_with(usize::MAX, |_| panic!("not called")),
        Err(PushRefusal::TooLong {
            len: usize::MAX,
            max: 4032
        })
    );
    assert!(nic.publish().is_none());
    assert!(app.recv().is_none());
    assert_eq!(nic.counters().rx_packets, 0);
}

#[test]
fn push_with_writes_in_place() {
    let (mut nic, mut app) = rx(4096);
    nic.push_with(100, |mut room| {
        room.copy_from(&[9; 100][..]);
        assert!(room.write_at(97, &[1, 2, 3]));
        assert!(!room.write_at(98, &[1, 2, 3]));
    })
    .unwrap();
    nic.publish();
    let batch = app.recv().unwrap();
    let packet = batch.iter().next().unwrap();
    assert_eq!(packet[..97], [9; 97]);
    assert_eq!(packet[97..], [1, 2, 3]);
}

#[test]
fn freeing_a_part_keeps_the_other_packets() {
    let (mut nic, mut app) = rx(4096);
    for number in 0..5 {
        nic.push(&packet(number, 65)).unwrap();
    }
    nic.publish();
    app.recv().unwrap().keep();
    app.recv().unwrap().free(2);
    let batch = app.recv().unwrap();
    assert_eq!(
        batch.iter().collect::<Vec<_>>(),
        [packet(2, 65), packet(3, 65), packet(4, 65)]
    );
    assert_eq!(batch.bytes().len(), 3 * 128);
    batch.free(usize::MAX);
    assert!(app.recv().is_none());
    assert_eq!(nic.free_bytes(), 4096 - 64);
}

#[test]
fn dropping_a_batch_frees_it() {
    let (mut nic, mut app) = rx(4096);
    nic.push(&[1; 64]).unwrap();
    nic.publish();
    drop(app.recv().unwrap());
    assert!(app.recv().is_none());
    assert_eq!(nic.free_bytes(), 4096 - 64);
}

#[test]
fn an_application_that_never_frees_only_fills_its_own_pipe() {
    let (mut nic, mut app) = rx(4096);
    for _ in 0..1000 {
        let _ = nic.push(&[3; 64]);
        nic.publish();
        if let Some(batch) = app.recv() {
            batch.keep();
        }
    }
    let counters = nic.counters();
    assert_eq!((counters.rx_packets, counters.full), (63, 937));
    assert_eq!(nic.violation(), None);
}

#[test]
fn counters_count_what_happened() {
    let (mut nic, mut app) = rx(4096);
    for len in [1, 64, 65] {
        nic.push(&vec![0; len]).unwrap();
    }
    nic.publish();
    app.recv().unwrap().free_all();
    nic.on_doorbell().unwrap();
    let counters = nic.counters();
    assert_eq!((counters.rx_packets, counters.rx_bytes), (3, 130));
    assert_eq!(
        (
            counters.notifications_sent,
            counters.notifications_suppressed
        ),
        (1, 2)
    );
    assert_eq!(counters.head_updates, 1);
}

#[test]
fn peeked_packets_stay_and_confirmed_ones_are_held() {
    let (mut nic, mut app) = rx(4096);
    let free = nic.free_bytes();
    for number in 0..4 {
        nic.push(&packet(number, 100)).unwrap();
    }
    nic.publish();
    assert_eq!(app.peek().unwrap().iter().count(), 4);
    app.peek().unwrap().confirm(3);
    let held = |app: &RxPipe| app.held().map(<[u8]>::to_vec).collect::<Vec<_>>();
    assert_eq!(held(&app), [packet(0, 100), packet(1, 100), packet(2, 100)]);
    assert_eq!(
        app.peek().unwrap().iter().collect::<Vec<_>>(),
        [packet(3, 100)]
    );
    assert_eq!(nic.free_bytes(), free - 4 * 128);
    app.free_held(1);
    assert_eq!(held(&app), [packet(1, 100), packet(2, 100)]);
    assert_eq!(nic.free_bytes(), free - 3 * 128);
    // Later packets are received, and the held packets stay held.
    nic.push(&packet(4, 100)).unwrap();
    nic.publish();
    app.recv().unwrap().free(0);
    assert_eq!(held(&app), [packet(1, 100), packet(2, 100)]);
    assert_eq!(app.recv().unwrap().iter().count(), 2);
    // Dropping that batch freed everything older too.
    assert_eq!(held(&app), Vec::<Vec<u8>>::new());
    assert_eq!(nic.free_bytes(), free);
    assert!(app.recv().is_none());
}

#[test]
fn iterated_packets_are_freed_and_others_are_not() {
    let (mut nic, mut app) = rx(4096);
    for number in 0..5 {
        nic.push(&packet(number, 100)).unwrap();
    }
    nic.publish();
    let batch = app.recv().unwrap();
    let mut walk = batch.iter();
    assert_eq!(walk.by_ref().take(2).count(), 2);
    let position = walk.position();
    batch.free_to(position);
    let batch = app.recv().unwrap();
    assert_eq!(
        batch.iter().collect::<Vec<_>>(),
        [packet(2, 100), packet(3, 100), packet(4, 100)]
    );
    // A place that is behind already frees nothing.
    batch.free_to(position);
    assert_eq!(app.recv().unwrap().iter().count(), 3);
}
