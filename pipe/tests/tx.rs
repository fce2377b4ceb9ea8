//! TX pipes: the daemon takes the packets that the application sends.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used)]

mod support;

use covalent_pipe::{
    app::SendRefusal,
    nic::{NicPipe, PushRefusal},
};
use support::{packet, tx};

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
fn a_packet_of_every_footprint_crosses_from_every_start() {
    let (mut nic, mut app) = tx(4096);
    let mut at = 0;
    for start in 0..64 {
        for footprint in 1..=63 {
            while at % 64 != start {
                app.send(&[1]).unwrap();
                app.publish();
                take_all(&mut nic);
                nic.complete_tx();
                at += 1;
            }
            let packet = packet(at as u64, footprint * 64 - [0, 63, 31][footprint % 3]);
            app.send(&packet).unwrap();
            assert!(app.publish());
            assert_eq!(nic.peek_tx().unwrap().unwrap().to_vec(), packet);
            assert_eq!(
                nic.peek_tx().unwrap().unwrap().to_vec(),
                packet,
                "peeking passes nothing"
            );
            nic.advance_tx();
            assert!(nic.peek_tx().unwrap().is_none());
            nic.complete_tx();
            at += footprint;
        }
    }
}

#[test]
fn space_is_free_only_when_the_daemon_completes() {
    let (mut nic, mut app) = tx(4096);
    for number in 0..63 {
        app.send(&packet(number, 64)).unwrap();
    }
    assert_eq!(app.send(&[1]), Err(SendRefusal::Full));
    assert_eq!(app.in_flight_bytes(), 4032);
    assert!(app.publish());
    assert!(!app.publish(), "nothing new");
    assert_eq!(nic.used_bytes(), 4032);
    assert_eq!(take_all(&mut nic).len(), 63);
    assert_eq!(app.send(&[1]), Err(SendRefusal::Full));
    assert_eq!(nic.complete_tx(), None, "nothing waits for space");
    assert_eq!((app.in_flight_bytes(), nic.used_bytes()), (0, 0));
    assert_eq!(app.free_bytes(), 4032);
    app.send(&[1]).unwrap();
}

#[test]
fn only_passed_packets_are_freed() {
    let (mut nic, mut app) = tx(4096);
    for number in 0..3 {
        app.send(&packet(number, 64)).unwrap();
    }
    app.publish();
    nic.peek_tx().unwrap();
    nic.advance_tx();
    nic.peek_tx().unwrap();
    nic.complete_tx();
    assert_eq!(app.in_flight_bytes(), 128);
    assert_eq!(take_all(&mut nic), [packet(1, 64), packet(2, 64)]);
}

#[test]
fn the_whole_ring_but_one_quantum_in_one_packet() {
    let (mut nic, mut app) = tx(4096);
    let long = packet(1, 4032);
    app.send(&long).unwrap();
    assert_eq!(app.send(&[1]), Err(SendRefusal::Full));
    app.publish();
    assert_eq!(take_all(&mut nic), [long]);
    assert_eq!(
        app.send(&[0; 4033]),
        Err(SendRefusal::TooLong {
            len: 4033,
            max: 4032
        })
    );
}

#[test]
fn empty_and_too_long_packets_are_refused() {
    let (mut nic, mut app) = tx(4096);
    assert_eq!(app.send(&[]), Err(SendRefusal::Empty));
    app.set_frame_bytes_max(1514);
    assert_eq!(
        app.send(&[0; 1515]),
        Err(SendRefusal::TooLong {
            len: 1515,
            max: 1514
        })
    );
    assert_eq!(
        app.reserve(1515).err(),
        Some(SendRefusal::TooLong {
            len: 1515,
            max: 1514
        })
    );
    app.send(&[0; 1514]).unwrap();
    app.set_frame_bytes_max(0);
    assert_eq!(app.frame_bytes_max(), 4032);
    app.set_frame_bytes_max(1 << 20);
    assert_eq!(app.frame_bytes_max(), 4032);
    app.publish();
    assert_eq!(take_all(&mut nic).len(), 1);
}

#[test]
fn a_reservation_is_sent_only_when_committed() {
    let (mut nic, mut app) = tx(4096);
    app.reserve(10).unwrap().fill(1);
    let mut reservation = app.reserve(20).unwrap();
    reservation.fill(2);
    assert_eq!(&*reservation, &[2; 20]);
    reservation.commit();
    app.publish();
    assert_eq!(take_all(&mut nic), [vec![2; 20]]);
}

#[test]
fn a_waiter_for_space_is_notified_once() {
    let (mut nic, mut app) = tx(4096);
    assert!(!app.want_space(4032), "all is free");
    app.send(&[1; 4032]).unwrap();
    app.publish();
    assert!(app.want_space(64));
    take_all(&mut nic);
    assert_eq!(nic.complete_tx(), Some(4032));
    assert!(!app.want_space(64));
    app.send(&[1; 64]).unwrap();
    app.publish();
    take_all(&mut nic);
    assert_eq!(nic.complete_tx(), None);
}

#[test]
fn packets_not_taken_are_shown_again() {
    let (mut nic, mut app) = tx(4096);
    for number in 0..5 {
        app.send(&packet(number, 100)).unwrap();
    }
    app.publish();
    let mut offered = Vec::new();
    let looked = nic.take_tx(usize::MAX, |bytes| {
        offered.push(bytes.to_vec());
        offered.len() < 3
    });
    assert_eq!((looked, nic.tx_waits()), (Ok(2), true));
    assert_eq!(offered, [packet(0, 100), packet(1, 100), packet(2, 100)]);
    let counters = nic.counters();
    assert_eq!((counters.tx_packets, counters.tx_bytes), (2, 200));
    // No more packets than requested, and the refused one first.
    let mut offered = Vec::new();
    let looked = nic.take_tx(2, |bytes| {
        offered.push(bytes.to_vec());
        true
    });
    assert_eq!((looked, nic.tx_waits()), (Ok(2), true));
    assert_eq!(offered, [packet(2, 100), packet(3, 100)]);
    // Peeked at and not passed: offered too.
    assert_eq!(nic.peek_tx().unwrap().unwrap().to_vec(), packet(4, 100));
    assert_eq!(take_all(&mut nic), [packet(4, 100)]);
    nic.advance_tx();
    assert_eq!(nic.counters().tx_packets, 5, "each was counted once");
    assert!(!nic.tx_waits());
    nic.complete_tx();
    assert_eq!(take_all(&mut nic), Vec::<Vec<u8>>::new());
}

#[test]
fn packets_that_arrive_during_a_take_are_not_missed() {
    let (mut nic, mut app) = tx(4096);
    app.send(&packet(1, 100)).unwrap();
    app.publish();
    let looked = nic.take_tx(usize::MAX, |_| {
        app.send(&packet(2, 100)).unwrap();
        app.publish();
        true
    });
    assert_eq!((looked, nic.tx_waits()), (Ok(1), true));
    assert_eq!(take_all(&mut nic), [packet(2, 100)]);
}

#[test]
fn a_tx_pipe_delivers_nothing_to_the_application() {
    let (mut nic, _app) = tx(4096);
    assert_eq!(nic.push(&[1]), Err(PushRefusal::WrongDirection));
    assert_eq!(nic.publish(), None);
    assert_eq!(nic.on_doorbell(), Ok(None));
    assert_eq!(nic.free_bytes(), 0);
}
