//! One mailbox alone, with more posts than a protocol makes of it.

use std::sync::Arc;

use covalent_pipe::{
    session::MailboxWords,
    words::mailbox::{Poster, Taker},
};
use loom::{
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

use super::model::explore;

/// A mailbox of two slots and two pipes with repeated posts. It never fills, and after every post a
/// check sees all data written before it.
fn check_mailbox(mutation: Option<&'static str>, check_after_taking: bool) {
    explore(mutation, 3, move || {
        let shared = Arc::new((MailboxWords::new(2), [AtomicU64::new(0), AtomicU64::new(0)]));
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
        let mut check = |seen: &mut [u64; 2]| {
            let early = [0, 1].map(|pipe: usize| written[pipe].load(Ordering::Relaxed));
            let Some((pipe, _)) = taker.take(words.mailbox()).unwrap() else {
                return false;
            };
            let pipe = pipe as usize;
            seen[pipe] = if check_after_taking {
                written[pipe].load(Ordering::Relaxed)
            } else {
                early[pipe]
            };
            true
        };
        for _ in 0..2 {
            check(&mut seen);
        }
        poster.join().unwrap();
        while check(&mut seen) {}
        assert_eq!(seen, [3, 2], "a post was forgotten");
    });
}

#[test]
fn a_mailbox_never_fills_and_never_forgets() {
    check_mailbox(None, true);
}

#[test]
#[should_panic(expected = "a post was forgotten")]
fn the_checker_finds_a_check_before_the_take() {
    check_mailbox(None, false);
}

#[test]
#[should_panic(expected = "a post was forgotten")]
fn the_checker_finds_a_claim_without_fence() {
    check_mailbox(Some("ClaimWithoutFence"), true);
}

#[test]
#[should_panic(expected = "a post was forgotten")]
fn the_checker_finds_a_post_without_fence() {
    check_mailbox(Some("PostWithoutFence"), true);
}

#[test]
#[should_panic(expected = "the mailbox filled")]
fn the_checker_finds_pending_words_cleared_before_slots_are_free() {
    check_mailbox(Some("ClearBeforeFree"), true);
}
