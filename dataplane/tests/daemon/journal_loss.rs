//! A journal that has lost writes that a killed daemon acknowledged.

use std::{
    fs,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use covalent_protocol::{Mode, verb::Verb};

use super::{
    client::{App, Verbs},
    command,
    durable::with_journal,
    node::{Node, eventually},
};

const BLOCK_BYTES: usize = 4096;
const ADDITIONS: u64 = 20;

fn listens(node: &Node) {
    let socket = node.config.socket_path();
    eventually("the daemon listens", || {
        covalent_ipc::seqpacket::Connection::connect(&socket).is_ok()
    });
}

/// Adds one to the first word, and waits until that is acknowledged.
fn add(verbs: &mut Verbs, rkey: u32) -> u64 {
    let add = Verb::FetchAdd { delta: 1 };
    assert!(verbs.post(0, Mode::OnePhase, 7, rkey, 0, add), "room");
    loop {
        if let Some((_, how)) = verbs.wait().into_iter().next() {
            return how.word();
        }
    }
}

/// Whether the last two marks of each file are the same.
pub fn is_at_rest(journal: &Path) -> bool {
    ["journal.0", "journal.1"].iter().all(|name| {
        let bytes = fs::read(journal.join(name)).expect("a journal file");
        let last = |place: usize| {
            let at = place * BLOCK_BYTES + 24;
            let mut number = [0; 8];
            number.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(number)
        };
        let mut lasts = [last(1), last(2), last(3)];
        lasts.sort_unstable();
        lasts[1] == lasts[2]
    })
}

/// Writes zeros over the last block of the file that holds records. Returns the file and the start
/// of the block.
pub fn zero_last_block(journal: &Path) -> (PathBuf, u64) {
    let mut ends = ["journal.0", "journal.1"].map(|name| {
        let path = journal.join(name);
        let bytes = fs::read(&path).expect("a journal file");
        let last = bytes.iter().rposition(|&byte| byte != 0).unwrap_or(0);
        ((last / BLOCK_BYTES * BLOCK_BYTES) as u64, path)
    });
    ends.sort();
    let [_, (block, path)] = ends;
    let file = fs::OpenOptions::new()
        .write(true)
        .open(&path)
        .expect("a journal file");
    file.write_all_at(&[0; BLOCK_BYTES], block)
        .expect("it can be written");
    (path, block)
}

#[test]
fn the_loss_of_an_acknowledged_commit_is_refused_until_it_is_accepted() {
    let dir = tempfile::tempdir().expect("a directory");
    let node = with_journal(dir.path(), "b");
    let config = command::file(dir.path(), &node);
    let daemon = command::start(&["--config", &config]);
    listens(&node);
    let socket = node.config.socket_path();
    let mut owner = App::attach(&socket);
    let (bank, memory) = owner.register_durable("bank", 4096);
    let mut verbs = Verbs::new(App::attach(&socket));
    for before in 0..ADDITIONS {
        assert_eq!(add(&mut verbs, bank), before);
    }
    let journal = dir.path().join("b-journal/lane-0");
    eventually("the journal is at rest", || is_at_rest(&journal));
    daemon.kill();
    drop((owner, verbs, memory));
    let (path, block) = zero_last_block(&journal);
    let evidence = fs::read(&path).expect("a journal file");

    for _ in 0..2 {
        let (good, text) = command::run(&["--config", &config]);
        assert!(!good, "{text}");
        for part in [
            path.to_str().expect("text"),
            &format!("ends at byte {block} with record"),
            &format!("everything up to byte {}", block + BLOCK_BYTES as u64),
            "was acknowledged: 1 records are lost",
            "--accept-journal-loss",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(fs::read(&path).expect("it is there") == evidence);
    }

    let log = dir.path().join("log");
    let accepting = ["--config", &config, "--accept-journal-loss"];
    let daemon = command::start_logging(&accepting, &log);
    let mut log_text = String::new();
    eventually("the daemon is ready", || {
        log_text = fs::read_to_string(&log).expect("a log");
        log_text.contains("ready")
    });
    assert!(
        log_text.contains("a loss was accepted: journal file")
            && log_text.contains("1 records are lost"),
        "{log_text}"
    );
    let name = path
        .file_name()
        .and_then(|name| name.to_str())
        .expect("text");
    let kept = |entry: fs::DirEntry| {
        let found = entry.file_name().into_string().expect("text");
        found
            .starts_with(&format!("{name}.lost-"))
            .then(|| entry.path())
    };
    let mut entries = fs::read_dir(&journal).expect("a directory");
    let kept = entries.find_map(|entry| kept(entry.expect("an entry")));
    assert!(fs::read(kept.expect("it was set aside")).expect("it is there") == evidence);
    // The complete records are there: all but the last addition.
    let mut owner = App::attach(&socket);
    let (bank, _memory) = owner.register_durable("bank", 4096);
    let mut verbs = Verbs::new(App::attach(&socket));
    assert_eq!(add(&mut verbs, bank), ADDITIONS - 1);
    daemon.kill();
    // And it was accepted once: the next start needs nothing.
    let daemon = command::start(&["--config", &config]);
    listens(&node);
    let mut owner = App::attach(&socket);
    let (bank, _memory) = owner.register_durable("bank", 4096);
    let mut verbs = Verbs::new(App::attach(&socket));
    assert_eq!(add(&mut verbs, bank), ADDITIONS);
    daemon.kill();
}
