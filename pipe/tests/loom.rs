//! Every interleaving of a lane and an application that speak by reactive notifications and sleep whenever they can.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p covalent-pipe --test loom`.
//!
//! A lost wake-up leaves both threads asleep, which the checker reports as a deadlock. The mutations show that it would: each takes one
//! step of the protocol away, and the checker must find the interleaving in which that step was needed.
#![cfg(loom)]
#![allow(clippy::unwrap_used)]

use covalent_pipe::words::{
    mailbox::{Mailbox, Poster, SLOT_WORDS, Taker},
    reactive::{OUTSTANDING, Reactive},
    wake,
};
use loom::{
    sync::{
        Notify,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    thread,
};
// The checker's own counts references through its runtime, which is gone when a deadlock unwinds.
use std::sync::Arc;

/// Which step is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mutation {
    None,
    /// The application sleeps after its announcement without looking for notifications again.
    SleepWithoutLooking,
    /// The announcement is not parted from the look by a fence.
    AnnounceWithoutFence,
    /// The lane looks whether the application sleeps before it posts.
    WakeBeforePosting,
    /// The lane clears the status bit although more has arrived.
    ClearAlways,
    /// The application shows what it has seen and does not ring.
    FreeWithoutRinging,
}

/// One mailbox's memory.
struct Words {
    written: AtomicU64,
    taken: AtomicU64,
    pending: Vec<AtomicU32>,
    slots: Vec<AtomicU64>,
}

impl Words {
    fn new(slots: usize) -> Self {
        Self {
            written: AtomicU64::new(0),
            taken: AtomicU64::new(0),
            pending: (0..slots).map(|_| AtomicU32::new(0)).collect(),
            slots: (0..slots * SLOT_WORDS).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    fn mailbox(&self) -> Mailbox<'_> {
        let Self {
            written,
            taken,
            pending,
            slots,
        } = self;
        Mailbox {
            written,
            taken,
            pending,
            slots,
        }
    }
}

/// Everything that the two share. The head is left out where nothing is full: notifications go by what the application has seen.
struct Shared {
    tail: AtomicU64,
    seen: AtomicU64,
    notifications: Words,
    doorbells: Words,
    app_sleeps: AtomicU32,
    lane_sleeps: AtomicU32,
    app_event: Notify,
    lane_event: Notify,
}

const QUANTUM: u64 = 64;

struct Lane {
    shared: Arc<Shared>,
    mutation: Mutation,
    reactive: Reactive,
    tail: u64,
    notifications: Poster,
    doorbells: Taker,
}

impl Lane {
    fn notify(&mut self) {
        let Self {
            shared,
            notifications,
            ..
        } = self;
        let early = self.mutation == Mutation::WakeBeforePosting && wake::take(&shared.app_sleeps);
        notifications
            .post(shared.notifications.mailbox(), 0, self.tail)
            .unwrap();
        if early || self.mutation != Mutation::WakeBeforePosting && wake::take(&shared.app_sleeps) {
            shared.app_event.notify();
        }
    }

    fn arrive(&mut self) {
        self.tail += QUANTUM;
        let notify = self.reactive.on_arrival();
        self.shared
            .tail
            .store(self.reactive.word(self.tail), Ordering::Release);
        if notify {
            self.notify();
        }
    }

    /// Answers a doorbell if there is one. Returns the end of what the application has seen.
    fn answer(&mut self) -> Option<u64> {
        self.doorbells
            .take(self.shared.doorbells.mailbox())
            .unwrap()?;
        let seen = self.shared.seen.load(Ordering::Acquire);
        let notify = self
            .reactive
            .on_head(seen == self.tail || self.mutation == Mutation::ClearAlways);
        self.shared
            .tail
            .store(self.reactive.word(self.tail), Ordering::Release);
        if notify {
            self.notify();
        }
        Some(seen)
    }

    fn run(mut self, arrivals: u64) {
        for _ in 0..arrivals {
            self.arrive();
            self.answer();
        }
        while self.shared.seen.load(Ordering::Acquire) != self.tail {
            if self.answer().is_none() {
                wake::announce(&self.shared.lane_sleeps);
                if self
                    .doorbells
                    .is_empty(self.shared.doorbells.written.load(Ordering::Acquire))
                {
                    self.shared.lane_event.wait();
                }
                wake::retract(&self.shared.lane_sleeps);
            }
        }
    }
}

fn application(shared: &Shared, mutation: Mutation, arrivals: u64) {
    let mut notifications = Taker::default();
    let mut doorbells = Poster::default();
    let mut seen = 0;
    while seen != arrivals * QUANTUM {
        if notifications
            .take(shared.notifications.mailbox())
            .unwrap()
            .is_some()
        {
            let word = shared.tail.load(Ordering::Acquire);
            seen = word & !OUTSTANDING;
            shared.seen.store(seen, Ordering::Release);
            if mutation != Mutation::FreeWithoutRinging {
                doorbells.post(shared.doorbells.mailbox(), 0, 0).unwrap();
                if wake::take(&shared.lane_sleeps) {
                    shared.lane_event.notify();
                }
            }
            continue;
        }
        if mutation == Mutation::AnnounceWithoutFence {
            shared.app_sleeps.store(1, Ordering::Relaxed);
        } else {
            wake::announce(&shared.app_sleeps);
        }
        let written = shared.notifications.written.load(Ordering::Acquire);
        if mutation == Mutation::SleepWithoutLooking || notifications.is_empty(written) {
            shared.app_event.wait();
        }
        wake::retract(&shared.app_sleeps);
    }
}

fn check(mutation: Mutation, arrivals: u64, preemptions: usize) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(move || {
        let shared = Arc::new(Shared {
            tail: AtomicU64::new(0),
            seen: AtomicU64::new(0),
            notifications: Words::new(1),
            doorbells: Words::new(1),
            app_sleeps: AtomicU32::new(0),
            lane_sleeps: AtomicU32::new(0),
            app_event: Notify::new(),
            lane_event: Notify::new(),
        });
        let lane = Lane {
            shared: shared.clone(),
            mutation,
            reactive: Reactive::default(),
            tail: 0,
            notifications: Poster::default(),
            doorbells: Taker::default(),
        };
        let lane = thread::spawn(move || lane.run(arrivals));
        application(&shared, mutation, arrivals);
        lane.join().unwrap();
    });
}

#[test]
fn no_wake_up_is_lost() {
    check(Mutation::None, 3, 2);
}

#[test]
#[should_panic(expected = "deadlock")]
fn the_checker_finds_a_sleep_without_looking() {
    check(Mutation::SleepWithoutLooking, 1, 2);
}

#[test]
#[should_panic(expected = "deadlock")]
fn the_checker_finds_a_missing_fence() {
    check(Mutation::AnnounceWithoutFence, 1, 2);
}

#[test]
#[should_panic(expected = "deadlock")]
fn the_checker_finds_a_wake_before_the_post() {
    check(Mutation::WakeBeforePosting, 1, 2);
}

#[test]
#[should_panic(expected = "deadlock")]
fn the_checker_finds_a_bit_cleared_too_soon() {
    check(Mutation::ClearAlways, 2, 2);
}

#[test]
#[should_panic(expected = "deadlock")]
fn the_checker_finds_a_free_without_a_ring() {
    check(Mutation::FreeWithoutRinging, 2, 2);
}

/// A sender whose pipe holds one packet: it asks for space, looks, and sleeps; the lane frees, looks whether it was asked, and notifies.
fn check_space(ask_before_looking: bool) {
    const PACKETS: u64 = 2;
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(move || {
        let shared = Arc::new((
            Shared {
                tail: AtomicU64::new(0),
                seen: AtomicU64::new(0),
                notifications: Words::new(1),
                doorbells: Words::new(1),
                app_sleeps: AtomicU32::new(0),
                lane_sleeps: AtomicU32::new(0),
                app_event: Notify::new(),
                lane_event: Notify::new(),
            },
            AtomicU32::new(0),
        ));
        let lane = {
            let shared = shared.clone();
            thread::spawn(move || {
                let (shared, space_wanted) = &*shared;
                let mut notifications = Poster::default();
                for sent in 1..=PACKETS {
                    while shared.tail.load(Ordering::Acquire) < sent {
                        thread::yield_now();
                    }
                    shared.seen.store(sent, Ordering::Release);
                    if wake::take(space_wanted) {
                        notifications
                            .post(shared.notifications.mailbox(), 0, sent)
                            .unwrap();
                        if wake::take(&shared.app_sleeps) {
                            shared.app_event.notify();
                        }
                    }
                }
            })
        };
        let (shared, space_wanted) = &*shared;
        let mut notifications = Taker::default();
        let full = |tail| shared.seen.load(Ordering::Acquire) < tail;
        for tail in 0..=PACKETS {
            loop {
                if ask_before_looking {
                    wake::announce(space_wanted);
                }
                if !full(tail) {
                    wake::retract(space_wanted);
                    break;
                }
                if !ask_before_looking {
                    wake::announce(space_wanted);
                }
                wake::announce(&shared.app_sleeps);
                if notifications.is_empty(shared.notifications.written.load(Ordering::Acquire)) {
                    shared.app_event.wait();
                }
                wake::retract(&shared.app_sleeps);
                while notifications
                    .take(shared.notifications.mailbox())
                    .unwrap()
                    .is_some()
                {}
            }
            if tail < PACKETS {
                shared.tail.store(tail + 1, Ordering::Release);
            }
        }
        lane.join().unwrap();
    });
}

#[test]
fn no_wake_up_for_space_is_lost() {
    check_space(true);
}

#[test]
#[should_panic(expected = "deadlock")]
fn the_checker_finds_a_look_before_the_asking() {
    check_space(false);
}

/// A mailbox of two slots and two pipes, posted to again and again: it never fills, and every post is followed by a look that sees
/// what was written before it.
fn check_mailbox(look_after_taking: bool) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let shared = Arc::new((Words::new(2), [AtomicU64::new(0), AtomicU64::new(0)]));
        let poster = {
            let shared = shared.clone();
            thread::spawn(move || {
                let (words, written) = &*shared;
                let mut poster = Poster::default();
                for (pipe, value) in [(0, 1), (1, 1), (0, 2), (1, 2), (0, 3)] {
                    written[pipe].store(value, Ordering::Relaxed);
                    poster
                        .post(words.mailbox(), pipe as u32, value)
                        .expect("the mailbox filled");
                }
            })
        };
        let (words, written) = &*shared;
        let mut taker = Taker::default();
        let mut seen = [0, 0];
        let mut look = |seen: &mut [u64; 2]| {
            let early = [0, 1].map(|pipe: usize| written[pipe].load(Ordering::Relaxed));
            let Some((pipe, _)) = taker.take(words.mailbox()).unwrap() else {
                return false;
            };
            let pipe = pipe as usize;
            seen[pipe] = if look_after_taking {
                written[pipe].load(Ordering::Relaxed)
            } else {
                early[pipe]
            };
            true
        };
        for _ in 0..2 {
            look(&mut seen);
        }
        poster.join().unwrap();
        while look(&mut seen) {}
        assert_eq!(seen, [3, 2], "a post was forgotten");
    });
}

#[test]
fn a_mailbox_never_fills_and_never_forgets() {
    check_mailbox(true);
}

#[test]
#[should_panic(expected = "a post was forgotten")]
fn the_checker_finds_a_look_before_the_take() {
    check_mailbox(false);
}

/// An application frees in two steps, and waits for more between; the lane judges what it finds. An honest application is never called a liar.
fn check_seen(seen_before_head: bool) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let shared = Arc::new((AtomicU64::new(0), AtomicU64::new(0)));
        let application = {
            let shared = shared.clone();
            thread::spawn(move || {
                let (seen, head) = &*shared;
                let free_to = |cursor: u64| {
                    if seen_before_head {
                        seen.store(cursor, Ordering::Release);
                        head.store(cursor, Ordering::Release);
                    } else {
                        head.store(cursor, Ordering::Release);
                        seen.store(cursor, Ordering::Release);
                    }
                };
                free_to(QUANTUM);
                // Everything was looked at, and some of it is freed later: what was seen goes back.
                seen.store(3 * QUANTUM, Ordering::Release);
                free_to(2 * QUANTUM);
            })
        };
        let (seen, head) = &*shared;
        for _ in 0..2 {
            let head = head.load(Ordering::Acquire);
            let seen = seen.load(Ordering::Acquire);
            assert!((head..=3 * QUANTUM).contains(&seen), "called a liar");
        }
        application.join().unwrap();
    });
}

#[test]
fn an_honest_application_is_never_called_a_liar() {
    check_seen(true);
}

#[test]
#[should_panic(expected = "called a liar")]
fn the_checker_finds_a_head_shown_before_what_was_seen() {
    check_seen(false);
}
