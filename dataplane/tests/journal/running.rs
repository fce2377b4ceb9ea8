//! Journals in operation: alternating files, repeated starts, refusals.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use covalent_dataplane::journal::{
    AppendError, Commit, Exchange, Journal, JournalOptions, Latched, Lsn, NAME_BYTES_MAX,
    OpenError, RECORD_BYTES_MAX, Redo, RegionKey, replay,
};

use super::{
    disk::{BATCH_BYTES, Copy, FILE_BYTES, file_of, in_memory, on_disk, small},
    lane::{Draw, Lane, State},
};

/// Bound of one test in rounds; a round without a batch to write takes less than a microsecond.
const ROUNDS_MAX: usize = 50_000_000;
const SNAPSHOTS: usize = 6;

/// Runs rounds of a lane with some commits each. Now and then the files are copied in the middle of
/// an operation.
fn work(directory: &Path) {
    let options = small(directory);
    let (mut journal, recovered) = Journal::open(&options).expect("a journal");
    let mut lane = Lane::new(recovered);
    let mut draw = Draw(3);
    let mut spare = lane.make(&mut journal, "spare", 512);
    lane.make(&mut journal, "accounts", 8000);
    lane.make(&mut journal, "counter", 8);
    let mut snapshots = 0;
    let mut batches = 0;
    let mut durable = journal.durable_lsn();
    for round in 0..ROUNDS_MAX {
        let before = std::mem::replace(&mut durable, journal.poll());
        assert!(journal.failure().is_none());
        if durable == before && journal.is_busy() {
            // A round with nothing new; the disk has the core.
            std::thread::yield_now();
            continue;
        }
        batches += 1;
        if batches % 5 == 0 {
            let copy = Copy::of(&options);
            let recovered = replay(&copy.options.directory).expect("a journal");
            // The copy of a file is not atomic, so it may show the beginning of concurrent writes.
            assert!(recovered.last_lsn >= durable);
            let lsn = recovered.last_lsn;
            assert!(State::of(recovered) == lane.after(lsn), "round {round}");
        }
        for _ in 0..draw.below(12) {
            match lane.commit_any(&mut journal, &mut draw) {
                Ok(_) | Err(AppendError::Full) => {}
                Err(error) => panic!("{error}"),
            }
        }
        if batches % 17 == 0 && journal.has_room() {
            lane.forget(&mut journal, spare);
            spare = lane.make(&mut journal, "spare", 512);
        }
        if journal.needs_snapshot() {
            if snapshots == SNAPSHOTS {
                break;
            }
            assert!(journal.begin_snapshot());
            assert!(!journal.begin_snapshot());
            snapshots += 1;
        }
        journal.snapshot_step(&lane, 700);
        journal.submit();
    }
    let last = journal.last_lsn();
    assert_eq!(journal.flush(), last);
    assert_eq!(snapshots, SNAPSHOTS);
    assert!(batches > 60, "{batches} batches");
    drop(journal);
    let recovered = replay(&options.directory).expect("a journal");
    assert_eq!(recovered.last_lsn, last);
    assert!(State::of(recovered) == lane.state);
    // And again after a start, when there is only its snapshot.
    let (journal, _) = Journal::open(&options).expect("a journal");
    assert!(journal.durable_lsn() > last);
    drop(journal);
    let recovered = replay(&options.directory).expect("a journal");
    assert!(State::of(recovered) == lane.state);
}

#[test]
fn every_moment_of_a_running_journal_replays_in_memory() {
    work(in_memory().path());
}

#[test]
fn every_moment_of_a_running_journal_replays_on_disk() {
    work(on_disk().path());
}

#[test]
fn an_appended_record_is_durable_only_after_a_submit() {
    let directory = on_disk();
    let options = small(directory.path());
    let (mut journal, recovered) = Journal::open(&options).expect("a journal");
    assert_eq!(recovered.last_lsn, Lsn(0));
    let before = journal.durable_lsn();
    let (_, lsn) = journal.append_region("counter", 8).expect("room");
    assert_eq!(journal.poll(), before);
    assert!(!journal.is_busy());
    journal.submit();
    assert!(journal.is_busy());
    while journal.poll() < lsn || journal.is_busy() {
        std::thread::yield_now();
    }
    let on_disk = Copy::of(&options);
    let recovered = replay(&on_disk.options.directory).expect("a journal");
    assert!(recovered.last_lsn == lsn && recovered.find("counter").is_some());
}

#[test]
fn records_of_a_busy_moment_share_a_write() {
    let directory = in_memory();
    let options = small(directory.path());
    let (mut journal, _) = Journal::open(&options).expect("a journal");
    let (key, _) = journal.append_region("counter", 8).expect("room");
    let commit = Commit {
        region: key,
        exchange: None,
        redo: &[Redo {
            offset: 0,
            bytes: &[1; 8],
        }],
        reply: &[],
    };
    let before = super::disk::written_bytes(&file_of(&options, 1));
    for _ in 0..30 {
        journal.append(&commit).expect("room");
    }
    journal.flush();
    assert_eq!(
        super::disk::written_bytes(&file_of(&options, 1)) - before,
        super::disk::BLOCK_BYTES
    );
}

#[test]
fn a_full_file_refuses_until_a_snapshot_has_freed_it() {
    let directory = in_memory();
    let options = small(directory.path());
    let (mut journal, recovered) = Journal::open(&options).expect("a journal");
    let mut lane = Lane::new(recovered);
    let key = lane.make(&mut journal, "accounts", 4096);
    let put = |lane: &mut Lane, journal: &mut Journal| {
        lane.commit(journal, key, None, vec![(0, vec![7; 4000])], vec![])
    };
    while put(&mut lane, &mut journal).is_ok() {
        journal.flush();
    }
    assert!(!journal.has_room() && journal.needs_snapshot());
    assert_eq!(put(&mut lane, &mut journal), Err(AppendError::Full));
    assert!(journal.begin_snapshot());
    journal.submit();
    while journal.is_in_snapshot() {
        journal.snapshot_step(&lane, 1 << 20);
        journal.flush();
    }
    assert!(journal.has_room());
    // Twice, so that the first file is used again. It must be blank by then.
    for _ in 0..2 {
        while put(&mut lane, &mut journal).is_ok() {
            journal.flush();
        }
        while !journal.needs_snapshot() {
            journal.submit();
            journal.poll();
        }
        assert!(journal.begin_snapshot());
        journal.submit();
        while journal.is_in_snapshot() {
            journal.snapshot_step(&lane, 1 << 20);
            journal.flush();
        }
    }
    drop(journal);
    let recovered = replay(&options.directory).expect("a journal");
    assert!(State::of(recovered) == lane.state);
}

#[test]
fn promised_space_exists_while_a_snapshot_runs() {
    let directory = in_memory();
    let options = JournalOptions {
        file_bytes: 4 * FILE_BYTES,
        ..small(directory.path())
    };
    let (mut journal, recovered) = Journal::open(&options).expect("a journal");
    let mut lane = Lane::new(recovered);
    let key = lane.make(&mut journal, "accounts", 4096);
    let put = |lane: &mut Lane, journal: &mut Journal| {
        lane.commit(journal, key, None, vec![(0, vec![7; 4000])], vec![])
    };
    while !journal.needs_snapshot() {
        put(&mut lane, &mut journal).expect("room");
        journal.flush();
    }
    assert!(journal.begin_snapshot());
    journal.submit();
    // Half of the new file is for the snapshot alone, of which nothing is written yet.
    while put(&mut lane, &mut journal).is_ok() {
        journal.flush();
    }
    assert!(journal.is_in_snapshot() && !journal.has_room());
    assert!(!journal.has_room_for(4100, 4100 + 4096));
    let before = journal.last_lsn();
    let bytes = [9; 4000];
    let redo = [Redo {
        offset: 8,
        bytes: &bytes,
    }];
    let promised = Commit {
        region: key,
        exchange: None,
        redo: &redo,
        reply: &[],
    };
    assert_eq!(journal.append(&promised), Err(AppendError::Full));
    assert_eq!(journal.last_lsn(), before);
    let lsn = journal.append_promised(&promised).expect("it was promised");
    assert_eq!(journal.flush(), lsn);
    // A commit without a promise still has no space, and no commit may pass the end of the file.
    assert_eq!(journal.append(&promised), Err(AppendError::Full));
    let outside = Commit {
        redo: &[Redo {
            offset: 97,
            bytes: &bytes,
        }],
        ..promised
    };
    assert_eq!(
        journal.append_promised(&outside),
        Err(AppendError::OutOfBounds)
    );
    let mut more = 0;
    while journal.append_promised(&promised).is_ok() {
        journal.flush();
        more += 1;
    }
    assert!(
        (20..200).contains(&more),
        "{more} more to the end of the file"
    );
    let last = journal.last_lsn();
    assert!(journal.failure().is_none());
    drop(journal);
    let recovered = replay(&options.directory).expect("a journal");
    assert_eq!(recovered.last_lsn, last);
    let (_, region) = recovered.find("accounts").expect("a region");
    assert_eq!(region.bytes[..8], [7; 8]);
    assert_eq!(region.bytes[8..4008], bytes);
}

#[test]
fn an_impossible_append_is_refused_and_changes_nothing() {
    let directory = in_memory();
    let options = small(directory.path());
    let (mut journal, _) = Journal::open(&options).expect("a journal");
    let (key, lsn) = journal.append_region("counter", 16).expect("room");
    let long = vec![0; RECORD_BYTES_MAX];
    let try_commit = |journal: &mut Journal, region, offset, bytes: &[u8], reply: &[u8]| {
        journal.append(&Commit {
            region,
            exchange: None,
            redo: &[Redo { offset, bytes }],
            reply,
        })
    };
    assert_eq!(
        try_commit(&mut journal, RegionKey(9), 0, &[1], &[]),
        Err(AppendError::UnknownRegion)
    );
    for (offset, bytes) in [(16, 1), (9, 8), (u64::MAX, 1)] {
        assert_eq!(
            try_commit(&mut journal, key, offset, &long[..bytes], &[]),
            Err(AppendError::OutOfBounds)
        );
    }
    assert_eq!(
        try_commit(&mut journal, key, 0, &[1], &long[..4097]),
        Err(AppendError::TooLong)
    );
    assert_eq!(
        journal.append_region("counter", 8),
        Err(AppendError::NameTaken)
    );
    for size_bytes in [0, 12, (1 << 30) + 8] {
        assert_eq!(
            journal.append_region("other", size_bytes),
            Err(AppendError::BadSize)
        );
    }
    assert_eq!(
        journal.append_region("other", FILE_BYTES / 4),
        Err(AppendError::TooLarge {
            most_bytes: FILE_BYTES / 4
        })
    );
    assert_eq!(
        journal.append_forget(RegionKey(9)),
        Err(AppendError::UnknownRegion)
    );
    assert_eq!(journal.last_lsn(), lsn);
    // A key is not given again, not even after a start.
    journal.append_forget(key).expect("room");
    journal.flush();
    drop(journal);
    let (journal, _) = Journal::open(&options).expect("a journal");
    drop(journal);
    let (mut journal, _) = Journal::open(&options).expect("a journal");
    let (reappended, _) = journal.append_region("counter", 16).expect("room");
    assert!(reappended > key);
}

#[test]
fn a_journal_is_its_owners_alone() {
    let directory = in_memory();
    let options = small(directory.path());
    let (journal, _) = Journal::open(&options).expect("a journal");
    assert!(matches!(
        Journal::open(&options),
        Err(OpenError::InUse(path)) if path == options.directory
    ));
    let mode = |path: &Path| {
        fs::metadata(path)
            .expect("it is there")
            .permissions()
            .mode()
            & 0o777
    };
    assert_eq!(mode(&options.directory), 0o700);
    let mut names: Vec<_> = fs::read_dir(&options.directory)
        .expect("a directory")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    names.sort();
    for path in &names {
        assert_eq!(mode(path), 0o600, "{path:?}");
    }
    assert_eq!(
        names,
        ["journal.0", "journal.1", "lock"].map(|name| options.directory.join(name))
    );
    drop(journal);
    Journal::open(&options).expect("it is free again");
}

#[test]
fn impossible_bounds_are_refused_before_any_file_is_created() {
    let directory = in_memory();
    let refused = |file_bytes, batch_bytes, name| {
        let options = JournalOptions {
            file_bytes,
            batch_bytes,
            ..small(directory.path())
        };
        let error = Journal::open(&options).expect_err("bounds").to_string();
        assert!(error.contains(name), "{error}");
        assert!(!options.directory.exists());
    };
    refused(FILE_BYTES, 4096, "batch_bytes");
    refused(FILE_BYTES, BATCH_BYTES + 512, "batch_bytes");
    refused(1 << 30, 32 << 20, "batch_bytes");
    refused(FILE_BYTES - 4096, BATCH_BYTES, "file_bytes");
    refused(FILE_BYTES + 512, BATCH_BYTES, "file_bytes");
    refused(65 << 30, BATCH_BYTES, "file_bytes");
}

#[test]
fn a_snapshot_that_does_not_fit_ends_the_journal() {
    let directory = in_memory();
    let options = JournalOptions {
        file_bytes: 2 * FILE_BYTES,
        ..small(directory.path())
    };
    let (mut journal, recovered) = Journal::open(&options).expect("a journal");
    let mut lane = Lane::new(recovered);
    let region = lane.make(&mut journal, "counter", 8);
    let durable = journal.flush();
    for slot in 0..50 {
        let exchange = Exchange {
            initiator: 1,
            incarnation: 1,
            epoch: 1,
            sequence: 1,
            port: 0,
            slot,
            two_phase: false,
        };
        lane.commit(&mut journal, region, Some(exchange), vec![], vec![7; 4096])
            .expect("room");
        // Several replies in a batch: blocks are not left half empty.
        if slot % 10 == 9 {
            journal.flush();
        }
    }
    assert!(durable < journal.durable_lsn());
    // At the start.
    drop(journal);
    let error = Journal::open(&small(directory.path()))
        .expect_err("a file of half the size")
        .to_string();
    assert!(
        error.contains("50 latched replies") && error.contains("raise `journal.file_mib`"),
        "{error}"
    );
    assert!(State::of(replay(&options.directory).expect("as it was")) == lane.state);
    // And in operation: snapshots of a lane that has more state than the journal recorded.
    let (mut journal, _) = Journal::open(&JournalOptions {
        file_bytes: 4 * FILE_BYTES,
        ..options.clone()
    })
    .expect("room");
    let before = lane;
    let mut lane = Lane::default();
    for initiator in 0..200 {
        let exchange = Exchange {
            initiator,
            incarnation: 1,
            epoch: 1,
            sequence: 1,
            port: 0,
            slot: 0,
            two_phase: false,
        };
        let reply = vec![7; 4096];
        lane.state
            .latches
            .insert(exchange.latch(), Latched { exchange, reply });
    }
    assert!(journal.begin_snapshot());
    journal.submit();
    for _ in 0..1000 {
        journal.snapshot_step(&lane, 1 << 20);
        journal.flush();
    }
    let failure = journal.failure().expect("it does not fit").to_string();
    assert!(
        failure.contains("make the journal's files larger"),
        "{failure}"
    );
    drop(journal);
    let recovered = replay(&options.directory).expect("the snapshot before");
    assert_eq!(recovered.regions, before.state.regions);
    for (key, latched) in &before.state.latches {
        assert_eq!(recovered.latches.get(key), Some(latched));
    }
}

#[test]
fn a_start_takes_all_small_regions_that_were_admitted() {
    let directory = in_memory();
    let options = small(directory.path());
    let (mut journal, _) = Journal::open(&options).expect("a journal");
    let mut count = 0;
    let refused = loop {
        let name = format!("{count:0>width$}", width = NAME_BYTES_MAX);
        match journal.append_region(&name, 8) {
            Ok((key, _)) => {
                let redo = [Redo {
                    offset: 0,
                    bytes: &[1; 8],
                }];
                let commit = Commit {
                    region: key,
                    exchange: None,
                    redo: &redo,
                    reply: &[],
                };
                journal.append(&commit).expect("room");
                count += 1;
            }
            Err(error) => break error,
        }
        if !journal.has_room() {
            journal.flush();
            assert!(journal.has_room(), "{count} regions fill the file");
        }
    };
    assert!(
        matches!(refused, AppendError::TooLarge { .. }),
        "{count} regions: {refused}"
    );
    assert!(count > 100, "{count}");
    // A forgotten region frees space for one of the same size, and for no more.
    let key = journal.region_key(&"0".repeat(NAME_BYTES_MAX));
    journal.append_forget(key.expect("a region")).expect("room");
    journal.append_region("again", 8).expect("room");
    assert_eq!(journal.append_region("more", 8), Err(refused));
    journal.flush();
    drop(journal);
    for _ in 0..2 {
        let (mut journal, recovered) = Journal::open(&options).expect("it fits");
        assert_eq!(recovered.regions.len(), count);
        assert_eq!(journal.append_region("more", 8), Err(refused));
    }
}

#[test]
fn regions_that_do_not_fit_any_more_are_refused_and_kept() {
    let directory = in_memory();
    let options = JournalOptions {
        file_bytes: 2 * FILE_BYTES,
        ..small(directory.path())
    };
    let (mut journal, _) = Journal::open(&options).expect("a journal");
    journal
        .append_region("accounts", FILE_BYTES / 2 - FILE_BYTES / 16)
        .expect("room");
    journal.flush();
    drop(journal);
    let smaller = small(directory.path());
    let error = Journal::open(&smaller).expect_err("too small").to_string();
    assert!(error.contains("raise `journal.file_mib`"), "{error}");
    let (_, recovered) = Journal::open(&options).expect("it is still there");
    assert!(recovered.find("accounts").is_some());
}
