//! `covalentd --check` reports the same about journals as a start would, and changes nothing.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
};

use covalent_ipc::seqpacket::Connection;
use covalent_protocol::{Mode, verb::Verb};

use super::{
    client::{App, Verbs},
    command,
    durable::with_journal,
    journal_loss::{is_at_rest, zero_last_block},
    node::{Node, eventually},
};

const ADD: Verb<'_> = Verb::FetchAdd { delta: 1 };
const LEFT_OUT: &str = "was not read: a daemon has it open";

/// Returns everything below a directory: the contents, the modification time and the inode of each
/// file.
fn snapshot(dir: &Path) -> BTreeMap<PathBuf, (u64, i64, i64, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut left = vec![dir.to_owned()];
    while let Some(path) = left.pop() {
        let metadata = fs::symlink_metadata(&path).expect("it is there");
        let mut bytes = Vec::new();
        if metadata.is_dir() {
            let entries = fs::read_dir(&path).expect("a directory");
            left.extend(entries.map(|entry| entry.expect("an entry").path()));
        } else if metadata.is_file() {
            bytes = fs::read(&path).expect("a file");
        }
        let stamp = (
            metadata.ino(),
            metadata.mtime_nsec(),
            metadata.ctime_nsec(),
            bytes,
        );
        found.insert(path, stamp);
    }
    found
}

/// Returns the journal problem in the program's words.
fn reason(text: &str) -> &str {
    let at = text
        .find("cannot open the journal")
        .or(text.find("the journals of lanes"));
    let from_reason = &text[at.unwrap_or_else(|| panic!("no reason: {text}"))..];
    from_reason.lines().next().expect("a line")
}

/// Runs a check and a start: both refuse with the same words, and everything below `journal` is
/// unchanged.
fn check_refused_alike(config: &str, journal: &Path, expected: &str) {
    let before = snapshot(journal);
    let (good, checked) = command::run(&["--config", config, "--check"]);
    assert!(!good && reason(&checked).contains(expected), "{checked}");
    assert!(snapshot(journal) == before, "the check changed something");
    let (good, started) = command::run(&["--config", config]);
    assert!(!good, "{started}");
    assert_eq!(reason(&checked), reason(&started));
}

fn listens(node: &Node) {
    let socket = node.config.socket_path();
    eventually("the daemon listens", || {
        Connection::connect(&socket).is_ok()
    });
}

/// Runs a daemon that makes a durable region of so many bytes, commits on it, and is killed.
fn leave_a_journal(config: &str, node: &Node, size_bytes: u64) {
    let daemon = command::start(&["--config", config]);
    listens(node);
    let socket = node.config.socket_path();
    let mut owner = App::attach(&socket);
    let (bank, _memory) = owner.register_durable("bank", size_bytes);
    let mut verbs = Verbs::new(App::attach(&socket));
    for before in 0..20 {
        let ended = verbs.run(0, Mode::OnePhase, bank, 0, ADD);
        assert_eq!(ended.word(), before);
    }
    let journal = node.config.journal.directory.clone().expect("a journal");
    eventually("the journal is at rest", || {
        is_at_rest(&journal.join("lane-0"))
    });
    daemon.kill();
}

#[test]
fn a_check_reads_a_journal_and_changes_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let node = with_journal(dir.path(), "b");
    let config = command::file(dir.path(), &node);
    let check = ["--config", config.as_str(), "--check"];
    let (good, text) = command::run(&check);
    assert!(good && text.contains("regions=0"), "{text}");
    assert!(!dir.path().join("b-journal").exists());

    leave_a_journal(&config, &node, 4096);
    let before = snapshot(dir.path());
    let (good, text) = command::run(&check);
    assert!(
        good && text.contains("this journal can be opened"),
        "{text}"
    );
    assert!(
        text.contains("regions=1") && !text.contains(LEFT_OUT),
        "{text}"
    );
    assert!(
        snapshot(dir.path()) == before,
        "the check changed something"
    );
}

#[test]
fn a_check_skips_and_does_not_harm_the_journal_of_a_running_daemon() {
    let dir = tempfile::tempdir().expect("a directory");
    let node = with_journal(dir.path(), "b");
    let config = command::file(dir.path(), &node);
    let _daemon = command::start(&["--config", &config]);
    listens(&node);
    let socket = node.config.socket_path();
    let mut owner = App::attach(&socket);
    let (bank, _memory) = owner.register_durable("bank", 4096);
    let mut verbs = Verbs::new(App::attach(&socket));
    for before in 0..10 {
        let ended = verbs.run(0, Mode::OnePhase, bank, 0, ADD);
        assert_eq!(ended.word(), before);
        let (good, text) = command::run(&["--config", &config, "--check"]);
        assert!(good && text.contains(LEFT_OUT), "{text}");
        assert!(!text.contains("can be opened"), "{text}");
    }
    let journal = owner.client.status().lanes[0].journal.clone();
    assert_eq!(journal.expect("a journal").failure, None);
}

#[test]
fn a_check_refuses_a_loss_as_the_start_does_and_names_the_option() {
    let dir = tempfile::tempdir().expect("a directory");
    let node = with_journal(dir.path(), "b");
    let config = command::file(dir.path(), &node);
    leave_a_journal(&config, &node, 4096);
    let journal = dir.path().join("b-journal");
    zero_last_block(&journal.join("lane-0"));
    check_refused_alike(&config, &journal, "1 records are lost");

    let before = snapshot(&journal);
    let accepting = ["--config", &config, "--accept-journal-loss", "--check"];
    let (good, text) = command::run(&accepting);
    assert!(good && text.contains("a loss would be accepted"), "{text}");
    assert!(text.contains("1 records are lost"), "{text}");
    assert!(snapshot(&journal) == before, "the check changed something");
}

#[test]
fn a_check_refuses_damage_as_the_start_does() {
    let dir = tempfile::tempdir().expect("a directory");
    let node = with_journal(dir.path(), "b");
    let config = command::file(dir.path(), &node);
    leave_a_journal(&config, &node, 4096);
    let journal = dir.path().join("b-journal");
    for name in ["journal.0", "journal.1"] {
        let path = journal.join("lane-0").join(name);
        let file = fs::OpenOptions::new().write(true).open(path);
        let file = file.expect("a journal file");
        file.write_all_at(&[0xa5; 64], 0)
            .expect("it can be written");
    }
    check_refused_alike(&config, &journal, "is damaged at byte 0");
}

#[test]
fn a_check_refuses_regions_that_the_files_are_too_small_for() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut node = with_journal(dir.path(), "b");
    node.config.journal.file_mib = 4;
    let config = command::file(dir.path(), &node);
    leave_a_journal(&config, &node, 400 << 10);
    node.config.journal.file_mib = 1;
    let config = command::file(dir.path(), &node);
    let journal = dir.path().join("b-journal");
    check_refused_alike(&config, &journal, "raise `journal.file_mib`");
}

#[test]
fn a_check_refuses_a_region_held_by_two_lanes() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut node = with_journal(dir.path(), "b");
    let config = command::file(dir.path(), &node);
    leave_a_journal(&config, &node, 4096);
    let journal = dir.path().join("b-journal");
    fs::create_dir(journal.join("lane-1")).expect("room on the disk");
    for name in ["journal.0", "journal.1"] {
        let [from, to] = ["lane-0", "lane-1"].map(|lane| journal.join(lane).join(name));
        fs::copy(from, to).expect("room on the disk");
    }
    node.config.lane.push(node.config.lane[0].clone());
    let config = command::file(dir.path(), &node);
    check_refused_alike(&config, &journal, "both hold a durable region `bank`");
}
