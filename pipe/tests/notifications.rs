//! Reactive notifications (one status bit per pipe), the mailboxes, and sleeping without a lost
//! wake-up.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used)]

mod support;

use std::{thread, time::Duration};

use covalent_ipc::event::EventFd;
use covalent_pipe::{
    Violation,
    session::{NOTICE_WORDS, NOTICES, Notification},
};
use support::{Random, packet, rx, session, tx};

#[test]
fn an_arrival_notifies_once_until_the_head_moves() {
    let (mut nic, mut app) = rx(4096);
    nic.push(&[1; 64]).unwrap();
    assert_eq!(nic.publish(), Some(64));
    nic.push(&[1; 64]).unwrap();
    assert_eq!(nic.publish(), None);
    // The application frees the data that it saw while more arrives: the bit stays, and the latest
    // tail is notified.
    let batch = app.recv().unwrap();
    nic.push(&[1; 64]).unwrap();
    assert_eq!(nic.publish(), None);
    assert!(batch.free_all());
    assert_eq!(nic.on_doorbell(), Ok(Some(192)));
    // Everything consumed: the bit clears, and the next arrival notifies.
    assert!(app.recv().unwrap().free_all());
    assert_eq!(nic.on_doorbell(), Ok(None));
    nic.push(&[1; 64]).unwrap();
    assert_eq!(nic.publish(), Some(256));
}

#[test]
fn a_repeated_head_requests_the_latest_tail() {
    let (mut nic, _app) = rx(4096);
    nic.push(&[1; 64]).unwrap();
    nic.publish();
    nic.push(&[1; 64]).unwrap();
    nic.publish();
    assert_eq!(nic.on_doorbell(), Ok(Some(128)));
    assert_eq!(nic.on_doorbell(), Ok(Some(128)));
}

#[test]
fn a_full_pipe_drops_without_a_notification() {
    let (mut nic, _app) = rx(4096);
    nic.push(&[1; 4032]).unwrap();
    nic.publish();
    assert!(nic.push(&[1]).is_err());
    assert_eq!(nic.publish(), None);
    assert_eq!(nic.counters().full, 1);
}

#[test]
fn pushed_and_unpublished_packets_are_not_notified() {
    let (mut nic, mut app) = rx(4096);
    nic.push(&[1; 64]).unwrap();
    nic.publish();
    app.recv().unwrap().free_all();
    nic.push(&[1; 64]).unwrap();
    assert_eq!(
        nic.on_doorbell(),
        Ok(None),
        "the published tail is consumed"
    );
    assert!(app.recv().is_none());
    assert_eq!(nic.publish(), Some(128));
}

#[test]
fn a_mailbox_with_a_slot_for_each_pipe_never_fills() {
    let (mut nic, mut app) = session(4);
    for round in 0..100 {
        for _ in 0..3 {
            for pipe in 0..4 {
                nic.notify(pipe, round).unwrap();
                app.ring(pipe).unwrap();
            }
        }
        for pipe in 0..4 {
            assert_eq!(
                app.next_notification(),
                Ok(Some(Notification { pipe, tail: round }))
            );
            assert_eq!(nic.next_doorbell(), Ok(Some(pipe)));
        }
        assert_eq!(app.next_notification(), Ok(None));
        assert_eq!(nic.next_doorbell(), Ok(None));
    }
}

#[test]
fn a_pipe_number_beyond_the_slots_is_refused() {
    let (mut nic, mut app) = session(4);
    assert_eq!(
        nic.notify(4, 0),
        Err(Violation::PipeNumber { found: 4, limit: 4 })
    );
    assert_eq!(
        app.ring(u32::MAX),
        Err(Violation::PipeNumber {
            found: u64::from(u32::MAX),
            limit: 4
        })
    );
}

#[test]
fn a_sleeper_is_reported_once_and_only_for_news() {
    let (mut nic, mut app) = session(2);
    assert!(app.prepare_sleep());
    assert!(!nic.app_sleeping(), "nothing was notified");
    nic.notify(0, 64).unwrap();
    assert!(nic.app_sleeping());
    assert!(!nic.app_sleeping());
    nic.notify(1, 64).unwrap();
    assert!(!nic.app_sleeping(), "it was woken already");
    assert!(!app.prepare_sleep(), "notifications wait");

    assert!(!app.ring(0).unwrap());
    nic.set_lane_sleeping(true);
    assert!(nic.doorbell_waits());
    assert!(app.ring(1).unwrap());
    assert!(!app.ring(1).unwrap());
    nic.set_lane_sleeping(false);
    while nic.next_doorbell().unwrap().is_some() {}
    assert!(!nic.doorbell_waits());
}

/// Longest sleep of a test thread before it reports a lost wake-up.
const LOST: Option<Duration> = Some(Duration::from_secs(10));

/// The lane's and the application's loops. Both sides sleep whenever they can, at random moments.
#[test]
fn no_wake_up_is_lost_between_two_sleepers() {
    const PACKETS: u64 = 30_000;
    let (mut nic_session, mut app_session) = session(2);
    let (mut nic, mut app) = rx(8192);
    let (lane_event, app_end_of_lane_event) = EventFd::pair().unwrap();
    let (app_event, lane_end_of_app_event) = EventFd::pair().unwrap();

    let lane = thread::spawn(move || {
        let mut random = Random(1);
        let mut sent = 0;
        let mut consumed = false;
        while !consumed {
            let burst = random.below(4);
            for _ in 0..burst {
                if sent < PACKETS && nic.push(&packet(sent, 64 + (sent % 64) as usize)).is_ok() {
                    sent += 1;
                }
            }
            if let Some(tail) = nic.publish() {
                nic_session.notify(0, tail).unwrap();
            }
            while let Some(pipe) = nic_session.next_doorbell().unwrap() {
                assert_eq!(pipe, 0);
                if let Some(tail) = nic.on_doorbell().unwrap() {
                    nic_session.notify(0, tail).unwrap();
                }
            }
            if nic_session.app_sleeping() {
                lane_end_of_app_event.notify().unwrap();
            }
            consumed = sent == PACKETS && nic.free_bytes() == 8192 - 64;
            // With everything sent or the pipe full, only a doorbell helps.
            if !consumed && (sent == PACKETS || nic.free_bytes() < 128) {
                nic_session.set_lane_sleeping(true);
                if !nic_session.doorbell_waits() {
                    assert!(
                        lane_event.wait(LOST).unwrap(),
                        "the lane's wake-up was lost"
                    );
                }
                nic_session.set_lane_sleeping(false);
                lane_event.drain().unwrap();
            } else if random.below(8) == 0 {
                thread::yield_now();
            }
        }
        // Keep the events open: the application may be about to check them once more.
        (nic.counters(), lane_event, lane_end_of_app_event)
    });

    let mut random = Random(2);
    let mut received = 0;
    while received < PACKETS {
        while app_session.next_notification().unwrap().is_some() {
            if let Some(batch) = app.recv() {
                let mut seen = 0;
                for bytes in batch.iter().take(1 + random.below(40) as usize) {
                    assert_eq!(bytes, packet(received, 64 + (received % 64) as usize));
                    received += 1;
                    seen += 1;
                }
                if batch.free(seen) && app_session.ring(0).unwrap() {
                    app_end_of_lane_event.notify().unwrap();
                }
            }
        }
        if received < PACKETS && app_session.prepare_sleep() {
            assert!(
                app_event.wait(LOST).unwrap(),
                "the application's wake-up was lost after {received} packets"
            );
        }
        app_session.cancel_sleep();
        app_event.drain().unwrap();
    }
    let (counters, ..) = lane.join().unwrap();
    assert_eq!(counters.rx_packets, PACKETS);
    assert!(counters.notifications_sent <= counters.head_updates + PACKETS);
}

/// As above for space: a sender that fills its pipe and sleeps until the daemon frees some.
#[test]
fn no_wake_up_for_space_is_lost() {
    const PACKETS: u64 = 20_000;
    let (mut nic_session, mut app_session) = session(2);
    let (mut nic, mut app) = tx(4096);
    let (app_event, lane_end_of_app_event) = EventFd::pair().unwrap();

    let lane = thread::spawn(move || {
        let mut random = Random(3);
        let mut taken = 0;
        while taken < PACKETS {
            for _ in 0..1 + random.below(60) {
                let Some(bytes) = nic.peek_tx().unwrap() else {
                    break;
                };
                assert_eq!(bytes.to_vec(), packet(taken, 200));
                nic.advance_tx();
                taken += 1;
            }
            if let Some(head) = nic.complete_tx() {
                nic_session.notify(1, head).unwrap();
            }
            if nic_session.app_sleeping() {
                lane_end_of_app_event.notify().unwrap();
            }
            thread::yield_now();
        }
    });

    let mut sent = 0;
    while sent < PACKETS {
        if app.send(&packet(sent, 200)).is_ok() {
            sent += 1;
            continue;
        }
        app.publish();
        if app.want_space(256) && app_session.prepare_sleep() {
            assert!(
                app_event.wait(LOST).unwrap(),
                "the wake-up for space was lost after {sent} packets"
            );
        }
        app_session.cancel_sleep();
        app_event.drain().unwrap();
        while app_session.next_notification().unwrap().is_some() {}
    }
    app.publish();
    lane.join().unwrap();
}

/// Reactive notifications avoid this: one notification per packet fills the ring, and later ones
/// are lost.
#[test]
fn a_notification_for_each_packet_fills_the_ring() {
    let (mut lane, mut application) = session(4);
    for tail in 1..=4 {
        assert_eq!(lane.notify_each(2, tail * 64), Ok(true));
    }
    assert_eq!(lane.notify_each(2, 5 * 64), Ok(false));
    for tail in 1..=4 {
        let notice_read = application.next_of_each().unwrap().unwrap();
        assert_eq!((notice_read.pipe, notice_read.tail), (2, tail * 64));
    }
    assert_eq!(application.next_of_each(), Ok(None));
    assert_eq!(lane.notify_each(2, 6 * 64), Ok(true));
    // A reactive notification is written once, regardless of how often it is requested.
    let (mut lane, mut application) = session(4);
    for tail in 1..=100 {
        lane.notify(2, tail * 64).unwrap();
    }
    assert!(application.next_notification().unwrap().is_some());
    assert!(application.next_notification().unwrap().is_none());
}

#[test]
fn each_word_of_each_notice_is_read_as_published() {
    let (nic, mut app) = session(8);
    let notice = |slot: usize| std::array::from_fn(|word| (slot << 8 | word) as u64 + 1);
    for slot in 0..NOTICES {
        assert_eq!(nic.notice(slot), None, "nothing was reported yet");
    }
    for slot in 0..NOTICES {
        app.set_notice(slot, &notice(slot));
    }
    for slot in 0..NOTICES {
        assert_eq!(nic.notice(slot), Some(notice(slot)), "notice {slot}");
    }
    app.set_notice(3, &[0; NOTICE_WORDS]);
    assert_eq!(nic.notice(3), Some([0; NOTICE_WORDS]));
    assert_eq!(nic.notice(4), Some(notice(4)));
    assert_eq!(nic.notice(NOTICES), None);
}
