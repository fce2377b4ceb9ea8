//! Regions: bounds, words, bytes across words, several threads and two mappings.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used)]

mod support;

use std::{sync::Arc, thread};

use covalent_pipe::region::{REGION_BYTES_MAX, RegionMemory};
use proptest::prelude::*;
use support::Random;

fn pair(size_bytes: u64) -> (RegionMemory, RegionMemory) {
    let (ours, fd) = RegionMemory::create(size_bytes).unwrap();
    let theirs = RegionMemory::open(fd, size_bytes).unwrap();
    (ours, theirs)
}

#[test]
fn both_mappings_are_one_memory() {
    let (ours, theirs) = pair(64);
    assert_eq!(ours.load(0), Some(0), "zero at first");
    ours.store(8, 7).unwrap();
    assert_eq!(theirs.load(8), Some(7));
    assert_eq!(theirs.swap(8, 9), Some(7));
    assert_eq!(ours.compare_exchange(8, 7, 1), Some(Err(9)));
    assert_eq!(ours.compare_exchange(8, 9, 1), Some(Ok(9)));
    assert_eq!(theirs.fetch_add(8, u64::MAX), Some(1), "adding wraps");
    assert_eq!(ours.fetch_or(8, 0b1100), Some(0));
    assert_eq!(ours.fetch_and(8, 0b0100), Some(0b1100));
    assert_eq!(ours.fetch_xor(8, 0b0111), Some(0b0100));
    assert_eq!(theirs.load(8), Some(0b0011));
}

#[test]
fn an_access_outside_the_region_is_refused_and_changes_nothing() {
    let (ours, _) = pair(16);
    for offset in [1, 4, 7, 9, 16, 24, u64::MAX, u64::MAX - 7] {
        assert_eq!(ours.load(offset), None, "{offset}");
        assert_eq!(ours.store(offset, 1), None);
        assert_eq!(ours.fetch_add(offset, 1), None);
        assert_eq!(ours.compare_exchange(offset, 0, 1), None);
    }
    let mut buffer = [0; 17];
    assert_eq!(ours.read(0, &mut buffer), None);
    assert_eq!(ours.read(16, &mut buffer[..1]), None);
    assert_eq!(ours.write(15, &[1, 1]), None);
    assert_eq!(ours.write(u64::MAX, &[1, 1]), None);
    assert_eq!(ours.read(16, &mut []), Some(()), "no bytes lie anywhere");
    assert_eq!(ours.read(0, &mut buffer[..16]), Some(()));
    assert_eq!(buffer, [0; 17]);
}

#[test]
fn sizes_are_multiples_of_a_word_up_to_a_gibibyte() {
    for size in [0, 1, 12, REGION_BYTES_MAX + 8, u64::MAX] {
        assert!(RegionMemory::create(size).is_err(), "{size}");
    }
    let (_region, memfd) = RegionMemory::create(8).unwrap();
    let fd = || memfd.try_clone().unwrap();
    assert!(RegionMemory::open(fd(), 8192).is_err());
    assert!(RegionMemory::open(tempfile::tempfile().unwrap().into(), 8).is_err());
    assert_eq!(RegionMemory::open(fd(), 8).unwrap().size_bytes(), 8);
}

/// Each application may register many regions, and a process may have few descriptors.
#[test]
fn a_region_that_was_handed_over_holds_no_descriptor() {
    let (ours, fd) = RegionMemory::create(8).unwrap();
    let inode = rustix::fs::fstat(&fd).unwrap().st_ino;
    let holders = || {
        std::fs::read_dir("/proc/self/fd")
            .unwrap()
            .filter_map(|entry| std::fs::metadata(entry.unwrap().path()).ok())
            .filter(|file| std::os::unix::fs::MetadataExt::ino(file) == inode)
            .filter(|file| file.len() == 4096)
            .count()
    };
    assert_eq!(holders(), 1);
    let theirs = RegionMemory::open(fd, 8).unwrap();
    assert_eq!(holders(), 0);
    ours.store(0, 7).unwrap();
    assert_eq!(theirs.load(0), Some(7));
}

#[test]
fn a_word_is_little_endian() {
    let (ours, _) = pair(8);
    ours.write(0, &[1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
    assert_eq!(ours.load(0), Some(0x0807_0605_0403_0201));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn bytes_are_read_as_they_were_written(
        writes in prop::collection::vec(
            (0..70_u64, prop::collection::vec(any::<u8>(), 0..40)),
            1..30,
        ),
    ) {
        let (ours, theirs) = pair(64);
        let mut model = [0_u8; 64];
        for (offset, bytes) in writes {
            let fits = offset as usize + bytes.len() <= 64;
            prop_assert_eq!(ours.write(offset, &bytes).is_some(), fits);
            if fits {
                model[offset as usize..][..bytes.len()].copy_from_slice(&bytes);
                let mut back = vec![0; bytes.len()];
                theirs.read(offset, &mut back).unwrap();
                prop_assert_eq!(back, bytes);
            }
            let mut all = [0; 64];
            theirs.read(0, &mut all).unwrap();
            prop_assert_eq!(all, model);
        }
    }
}

#[test]
fn no_addition_is_lost_between_threads() {
    let (ours, theirs) = pair(64);
    let regions = [Arc::new(ours), Arc::new(theirs)];
    thread::scope(|scope| {
        for index in 0..4 {
            let region = regions[index % 2].clone();
            scope.spawn(move || {
                for _ in 0..50_000 {
                    region.fetch_add(16, 1).unwrap();
                }
            });
        }
    });
    assert_eq!(regions[0].load(16), Some(200_000));
}

/// Whole words are written atomically. A partial write preserves its neighbors while another thread
/// changes them.
#[test]
fn words_do_not_tear_and_neighbors_are_kept() {
    let (ours, theirs) = pair(16);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = Random(1);
            for _ in 0..200_000 {
                ours.write(0, &[random.next() as u8; 8]).unwrap();
                ours.write(8, &[random.next() as u8; 4]).unwrap();
            }
        });
        let mut seen = [0; 8];
        for round in 0..200_000_u64 {
            theirs.read(0, &mut seen).unwrap();
            assert!(seen.iter().all(|byte| *byte == seen[0]), "torn: {seen:?}");
            // The upper half of the second word is ours alone.
            let mine = (round as u32).to_le_bytes();
            theirs.write(12, &mine).unwrap();
            theirs.read(12, &mut seen[..4]).unwrap();
            assert_eq!(seen[..4], mine);
        }
    });
}
