//! Words that are written and read as a whole, while both happen, under the model checker: every
//! interleaving with at most three interruptions.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p covalent-ipc --test loom --release` runs it.
#![cfg(loom)]
#![allow(clippy::unwrap_used)]

use std::{array, sync::Arc};

use covalent_ipc::{mutation, published::Published};
use loom::{model::Builder, sync::atomic::AtomicU64, thread};

/// One thread publishes two words twice. A concurrent reader gets both words of one publication, or
/// nothing.
fn check_published(mutation: Option<&'static str>) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(3);
    let model = || {
        let words: Arc<[AtomicU64; 3]> = Arc::new(array::from_fn(|_| AtomicU64::new(0)));
        Published::new(&*words).publish(&[1, 1]);
        let writer = {
            let words = words.clone();
            thread::spawn(move || Published::new(&*words).publish(&[2, 2]))
        };
        let mut contents = [0; 2];
        if Published::new(&*words).read(&mut contents) {
            assert_eq!(contents[0], contents[1], "halves of two times were read");
        }
        writer.join().unwrap();
        assert!(Published::new(&*words).read(&mut contents));
        assert_eq!(contents, [2, 2]);
    };
    mutation::during(mutation, || builder.check(model));
}

#[test]
fn read_words_were_published_as_a_whole() {
    check_published(None);
}

#[test]
#[should_panic(expected = "halves of two times were read")]
fn the_checker_finds_a_publication_without_fence() {
    check_published(Some("PublishWithoutFence"));
}

#[test]
#[should_panic(expected = "halves of two times were read")]
fn the_checker_finds_a_read_without_fence() {
    check_published(Some("ReadWithoutFence"));
}
