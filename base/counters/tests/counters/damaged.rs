//! Files in which any word may be anything.

use std::fs;

use covalent_counters::{
    CountersFile, ReadError,
    ring::{Ring, RingFile},
};
use proptest::prelude::*;

use super::counters::{made, object};

/// Value of a word: arbitrary, or nearly valid.
fn word() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        0_u64..64,
        Just(u64::MAX),
        Just(1 << 63),
        (0_u32..64).prop_map(|shift| (1_u64 << shift) - 1),
    ]
}

proptest! {
    #[test]
    fn a_damaged_file_of_counters_is_read_or_refused(
        // Half of them in the head and the writers' records, where offsets and sizes are.
        damages in prop::collection::vec(
            (any::<prop::sample::Index>(), any::<bool>(), word()),
            1..8,
        ),
        cut in prop::option::weighted(0.2, any::<prop::sample::Index>()),
    ) {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("counters");
        let (board, mut lane, mut host) = made(&path);
        for (slot, writer) in [(0, &mut lane), (3, &mut host)] {
            writer.begin().put(0, slot, 1, &object("x", [1, 2]));
        }
        drop((board, lane, host));
        let mut bytes = fs::read(&path).expect("readable");
        for (at, early, word) in damages {
            let words = if early { 32 + 3 * 80 + 2 * 128 } else { bytes.len() / 8 };
            let at = at.index(words) * 8;
            bytes[at..at + 8].copy_from_slice(&word.to_ne_bytes());
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        fs::write(&path, &bytes).expect("writable");
        let file = CountersFile::open(&path).expect("it opens");
        if let Ok(snapshot) = file.read() {
            for sample in snapshot.samples().into_iter().flatten() {
                prop_assert!(covalent_counters::parse_labels(&sample.labels).is_some());
            }
        }
    }

    #[test]
    fn a_damaged_ring_is_read_or_refused(
        damages in prop::collection::vec(
            (any::<prop::sample::Index>(), any::<bool>(), word()),
            1..8,
        ),
    ) {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("ring");
        let mut ring = Ring::create(&path, 4096, None).expect("it is made");
        for number in 0..100 {
            ring.event(format!("{{\"number\":{number}}}").as_bytes());
        }
        drop(ring);
        let mut bytes = fs::read(&path).expect("readable");
        for (at, early, word) in damages {
            let words = if early { 20 } else { bytes.len() / 8 };
            let at = at.index(words) * 8;
            bytes[at..at + 8].copy_from_slice(&word.to_ne_bytes());
        }
        fs::write(&path, &bytes).expect("writable");
        if let Ok(mut ring) = RingFile::open(&path) {
            // As many as there can be at most, and some more.
            for _ in 0..1000 {
                if !matches!(ring.next_record(), Ok(Some(_))) {
                    break;
                }
            }
        }
    }
}

#[test]
fn a_file_of_another_kind_is_reported_as_such() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("counters");
    fs::write(&path, "short").expect("written");
    let error = |path: &std::path::Path| {
        CountersFile::open(path)
            .and_then(|file| file.read())
            .expect_err("refused")
    };
    assert!(matches!(error(&path), ReadError::Foreign));
    drop(made(&path));
    let mut bytes = fs::read(&path).expect("readable");
    bytes[8] = 9;
    fs::write(&path, &bytes).expect("written");
    assert!(matches!(error(&path), ReadError::Version { found: 9 }));
    assert!(matches!(
        error(dir.path()),
        ReadError::System(_) | ReadError::Foreign
    ));
    assert!(matches!(
        error(&dir.path().join("none")),
        ReadError::System(_)
    ));
}
