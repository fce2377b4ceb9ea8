//! Disks and limits that are full.

use std::{fs, panic::resume_unwind, thread};

use covalent_dataplane::journal::{
    AppendError, Commit, Journal, JournalOptions, OpenError, Redo, check, replay,
};
use nix::{
    mount::{MsFlags, mount},
    sched::{CloneFlags, unshare},
    sys::{
        resource::{Resource, getrlimit, setrlimit},
        signal::{SigHandler, Signal, signal},
    },
    unistd::geteuid,
};

use super::{
    child::{Writer, orders, report},
    disk::{BLOCK_BYTES, in_memory, on_disk, small},
};

/// The child: may write less than the journal needs from some moment on.
#[test]
#[ignore = "a child of the other tests"]
fn writes_until_a_limit() {
    let Some(directory) = orders() else { return };
    let options = small(&directory);
    let (mut journal, _) = Journal::open(&options).expect("a journal");
    let (region, _) = journal.append_region("counter", 8).expect("room");
    journal.flush();
    // SAFETY: No handler of ours runs. A write that this signal would kill returns an error
    // instead.
    unsafe { signal(Signal::SIGXFSZ, SigHandler::SigIgn) }.expect("a signal");
    let (_, hard) = getrlimit(Resource::RLIMIT_FSIZE).expect("a limit");
    // In the middle of a batch of two blocks, some rounds from now.
    setrlimit(Resource::RLIMIT_FSIZE, 15 * BLOCK_BYTES, hard).expect("a limit");
    let mut count: u64 = 0;
    let commit = |journal: &mut Journal, count: u64| {
        journal.append(&Commit {
            region,
            exchange: None,
            redo: &[Redo {
                offset: 0,
                bytes: &count.to_le_bytes(),
            }],
            reply: &[3; 4000],
        })
    };
    let failure = loop {
        let lsn = commit(&mut journal, count + 1).expect("room");
        let durable = journal.flush();
        if let Some(failure) = journal.failure() {
            assert!(durable < lsn);
            break failure.clone();
        }
        assert_eq!(durable, lsn);
        count += 1;
    };
    report(count);
    let message = failure.to_string();
    assert!(message.contains("journal.1"), "{message}");
    assert!(
        message.contains("only 4096 of 8192 bytes could be written"),
        "{message}"
    );
    // The journal stays failed, even if there is space again.
    setrlimit(Resource::RLIMIT_FSIZE, hard, hard).expect("a limit");
    let durable = journal.durable_lsn();
    assert_eq!(commit(&mut journal, 99), Err(AppendError::Failed));
    assert_eq!(journal.append_region("other", 8), Err(AppendError::Failed));
    assert!(!journal.has_room() && !journal.needs_snapshot() && !journal.begin_snapshot());
    journal.submit();
    assert_eq!(journal.flush(), durable);
    assert_eq!(journal.failure(), Some(&failure));
}

fn fail_at_a_limit(directory: &std::path::Path) {
    let reported = Writer::start("full::writes_until_a_limit", directory).end();
    let [count] = reported[..] else {
        panic!("{reported:?}");
    };
    assert!(count > 3, "{count} before the limit");
    let recovered = replay(&small(directory).directory).expect("a journal");
    let (_, region) = recovered.find("counter").expect("the region");
    assert_eq!(region.bytes, count.to_le_bytes());
}

#[test]
fn a_write_that_fails_ends_the_journal_in_memory() {
    fail_at_a_limit(in_memory().path());
}

#[test]
fn a_write_that_fails_ends_the_journal_on_disk() {
    fail_at_a_limit(on_disk().path());
}

/// Runs `test` with a file system of 512 KiB below `directory`, which no other process sees.
fn with_tiny_disk(directory: &std::path::Path, test: impl FnOnce() + Send) {
    if !geteuid().is_root() {
        eprintln!("skipped: a file system of its own needs root");
        return;
    }
    let none = None::<&str>;
    let run = || {
        unshare(CloneFlags::CLONE_NEWNS).expect("a mount namespace");
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).expect("private");
        mount(
            Some("tiny"),
            directory,
            Some("tmpfs"),
            MsFlags::empty(),
            Some("size=512k"),
        )
        .expect("a file system");
        test();
    };
    if let Err(panic) = thread::scope(|scope| scope.spawn(run).join()) {
        resume_unwind(panic);
    }
}

#[test]
fn a_full_disk_is_seen_at_the_start_and_changes_nothing() {
    let directory = in_memory();
    let path = directory.path();
    with_tiny_disk(path, || {
        let options = small(path);
        let (mut journal, _) = Journal::open(&options).expect("three files of 128 KiB");
        let (_, lsn) = journal.append_region("counter", 8).expect("room");
        assert_eq!(journal.flush(), lsn);
        drop(journal);
        let larger = JournalOptions {
            file_bytes: 1 << 20,
            ..options.clone()
        };
        let error = Journal::open(&larger).expect_err("a full disk");
        assert!(
            matches!(
                &error,
                OpenError::Io { source, .. } if source.raw_os_error() == Some(libc::ENOSPC),
            ),
            "{error}"
        );
        assert!(error.to_string().contains("allocate"), "{error}");
        assert!(!options.directory.join("journal.new").exists());
        let recovered = replay(&options.directory).expect("a journal");
        assert_eq!(recovered.last_lsn, lsn);
        assert!(fs::remove_file(options.directory.join("journal.0")).is_ok());
        Journal::open(&options).expect("there is room for this one");
    });
}

#[test]
fn lack_of_disk_space_is_detected_before_any_file_is_created() {
    let directory = in_memory();
    let path = directory.path();
    with_tiny_disk(path, || {
        let options = small(path);
        let large = JournalOptions {
            file_bytes: 1 << 20,
            ..options.clone()
        };
        let other = JournalOptions {
            directory: path.join("other"),
            ..options.clone()
        };
        // Of 512 KiB one journal takes 256, a second one all, and directories take something.
        check(std::slice::from_ref(&options)).expect("room for one");
        for (journals, needed_bytes) in [
            (vec![large], 2 << 20),
            (
                vec![options.clone(), other.clone(), other.clone()],
                768 << 10,
            ),
        ] {
            let error = check(&journals).expect_err("no room");
            let OpenError::NoRoom {
                needed_bytes: reported,
                free_bytes,
                ..
            } = &error
            else {
                panic!("{error}");
            };
            assert!(
                *reported == needed_bytes && *free_bytes <= 512 << 10,
                "{error}"
            );
            assert!(error.to_string().contains("file_mib"), "{error}");
        }
        assert!(!options.directory.exists());
        drop(Journal::open(&options).expect("a journal"));
        // With its files there, a start makes one more before one of them goes.
        check(std::slice::from_ref(&options)).expect("room for one more file");
        fs::write(path.join("filler"), vec![0; 192 << 10]).expect("room");
        let error = check(&[options]).expect_err("no room").to_string();
        assert!(error.contains("need 131072 bytes more"), "{error}");
        let none = None::<&str>;
        mount(
            none,
            path,
            none,
            MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY,
            none,
        )
        .expect("read-only");
        let error = check(&[other]).expect_err("read-only").to_string();
        assert!(error.contains("Read-only file system"), "{error}");
    });
}
