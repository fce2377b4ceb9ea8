//! Journals that fail while a node runs.

use std::{
    fs,
    path::Path,
    process::Child,
    thread,
    time::{Duration, Instant},
};

use covalent_api::{
    event::EventKind,
    request::{Reply, Request, Rights},
};
use covalent_dataplane::Daemon;
use covalent_protocol::{Mode, verb::Verb};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::{
    client::{App, Client, Ended, Verbs},
    command,
    durable::with_journal,
    node::{Node, PATIENCE, eventually},
};

const ADD: Verb<'_> = Verb::FetchAdd { delta: 1 };

/// A journal without a write for this time has nothing left to write: it covers many ticks of its
/// lane.
const AT_REST: Duration = Duration::from_millis(250);

/// Limits the size of files that a process may write to `bytes`.
fn limit_files(process: &Child, bytes: u64) {
    let limit = libc::rlimit {
        rlim_cur: bytes,
        rlim_max: libc::RLIM_INFINITY,
    };
    let pid = process.id().cast_signed();
    // SAFETY: `limit` outlives the call. The old limit is not requested.
    let done = unsafe {
        libc::prlimit(
            pid,
            libc::RLIMIT_FSIZE,
            &raw const limit,
            std::ptr::null_mut(),
        )
    };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
}

/// Runs one addition to its end, also if its link fails meanwhile: on a busy machine it may.
fn add(verbs: &mut Verbs, target: u64, mode: Mode, rkey: u32) -> Ended {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let how = verbs.run(target, mode, rkey, 0, ADD);
        if !was_not_begun(&how) {
            return how;
        }
        assert!(Instant::now() < deadline, "{how:?}");
    }
}

/// Whether there was no link when it was posted: it was not executed, and may be posted again.
fn was_not_begun(how: &Ended) -> bool {
    matches!(how, Ended::Other(why) if why.starts_with("NoSuchPeer"))
}

/// How a lane learns that its journal has failed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shows {
    /// By its next write.
    Written,
    /// A thread that watches the files reports it, a moment later. Until then everything is as
    /// before.
    Reported,
}

/// Makes the journal of a node fail by `harm` while verbs continue, and checks its reports and its
/// further behavior. Returns the acknowledged additions, and the maximum of further ones.
fn fail(dir: &Path, what: &str, shows: Shows, harm: impl FnOnce(&Child)) -> (u64, u64) {
    let a = Node::new(dir, "a", &["p0"], "").start();
    let b = with_journal(dir, "b");
    let daemon = command::start(&["--config", &command::file(dir, &b)]);
    let socket = b.config.socket_path();
    eventually("the daemon listens", || {
        covalent_ipc::seqpacket::Connection::connect(&socket).is_ok()
    });
    let mut owner = App::attach(&socket);
    let (bank, _bank) = owner.register_durable("bank", 4096);
    let (plain, _plain) = owner.register("plain", 4096);
    let mut watch = Client::connect(&socket);
    eventually("the link is up", || {
        watch.status().links.iter().all(|link| link.state == "up")
    });
    let target = watch.status().guid.bits();
    let mut here = Verbs::new(App::attach(&socket));
    let mut there = Verbs::new(App::attach(&a.config.socket_path()));
    let mut acknowledged = 0;
    for mode in [Mode::OnePhase, Mode::TwoPhase] {
        for _ in 0..20 {
            add(&mut here, 0, mode, bank).word();
            add(&mut there, target, mode, bank).word();
            acknowledged += 2;
        }
    }
    let mut events = Client::connect(&socket);
    events.done(&Request::Subscribe);

    harm(&daemon.0);
    // Verbs in flight now never complete. The file may fail only when something is written.
    let in_flight = 2;
    assert!(here.post(0, Mode::OnePhase, 1, bank, 0, ADD));
    assert!(there.post(target, Mode::TwoPhase, 1, bank, 0, ADD));
    let reason = loop {
        match events.receive() {
            Some((Reply::Event(event), _)) => {
                if let EventKind::JournalFailed { lane, reason } = event.kind {
                    assert_eq!(lane, 0);
                    break reason;
                }
            }
            other => panic!("{other:?}"),
        }
    };
    assert!(
        reason.contains(what) && reason.contains("journal.") && reason.contains("restart"),
        "{reason}"
    );
    let journal = watch.status().lanes[0].journal.clone().expect("a journal");
    assert_eq!(journal.failure.as_ref(), Some(&reason));

    // Even if the cause is gone: it is unknown what was lost.
    limit_files(&daemon.0, libc::RLIM_INFINITY);
    // Durable regions have their own reason for the refusal, for all clients.
    let mut late = Verbs::new(App::attach(&socket));
    let mut late_there = Verbs::new(App::attach(&a.config.socket_path()));
    for mode in [Mode::OnePhase, Mode::TwoPhase] {
        for ended in [
            add(&mut late, 0, mode, bank),
            add(&mut late_there, target, mode, bank),
        ] {
            assert_eq!(ended, Ended::Other("Refused(JournalFailed)".into()));
        }
        // And all others go on.
        add(&mut late, 0, mode, plain).word();
        add(&mut late_there, target, mode, plain).word();
    }
    let (reply, _fds) = owner.client.call(&Request::RegisterRegion {
        name: "other".into(),
        size_bytes: 64,
        rights: Rights::ALL,
        durable: true,
    });
    assert!(matches!(reply, Reply::Region { .. }), "{reply:?}");
    let why = owner.client.refused(&Request::Mapped);
    assert!(why.contains("journal has failed"), "{why}");
    let why = owner.client.refused(&Request::DeleteRegion {
        name: "bank".into(),
    });
    assert!(why.contains(what), "{why}");
    // Verbs in flight do not complete, however long the client waits.
    thread::sleep(Duration::from_millis(300));
    let reported: Vec<_> = [here.poll(), there.poll()].concat();
    assert!(
        reported.iter().all(|(_, how)| how.is_doubt()
            || was_not_begun(how)
            || (shows == Shows::Reported && matches!(how, Ended::Committed { .. }))
            || *how == Ended::Other("Refused(JournalFailed)".into())),
        "{reported:?}"
    );
    let status = watch.status();
    assert_eq!(
        status.lanes[0]
            .journal
            .as_ref()
            .map(|journal| journal.durable),
        Some(journal.durable)
    );
    daemon.kill();
    (acknowledged, in_flight)
}

#[test]
fn a_write_that_fails_ends_the_journal_and_nothing_else() {
    let dir = tempfile::tempdir().expect("a directory");
    let (acknowledged, in_flight) = fail(dir.path(), "File too large", Shows::Written, |daemon| {
        // Every batch and every mark is beyond this limit. The mark of the last batch may come
        // first.
        limit_files(daemon, 4096);
    });
    // The next daemon has the acknowledged additions.
    let b = with_journal(dir.path(), "b").start();
    let mut app = App::attach(&b.config.socket_path());
    let (_, memory) = app.register_durable("bank", 4096);
    let sum = memory.load(0).expect("a word");
    assert!(
        (acknowledged..=acknowledged + in_flight).contains(&sum),
        "{acknowledged} were acknowledged, and there are {sum}"
    );
}

#[test]
fn a_journal_whose_file_is_removed_fails() {
    let dir = tempfile::tempdir().expect("a directory");
    let journal = dir.path().join("b-journal/lane-0");
    fail(dir.path(), "was removed", Shows::Reported, |_| {
        fs::remove_file(journal.join("journal.1")).expect("a file");
    });
}

#[test]
fn a_shutdown_does_not_wait_for_a_failed_journal_and_is_not_graceful() {
    let dir = tempfile::tempdir().expect("a directory");
    let a = Node::new(dir.path(), "a", &["p0"], "").start();
    let b = with_journal(dir.path(), "b");
    let log = dir.path().join("log");
    let mut daemon = command::start_logging(&["--config", &command::file(dir.path(), &b)], &log);
    let socket = b.config.socket_path();
    eventually("the daemon listens", || {
        covalent_ipc::seqpacket::Connection::connect(&socket).is_ok()
    });
    let mut owner = App::attach(&socket);
    let (bank, _bank) = owner.register_durable("bank", 4096);
    let mut watch = Client::connect(&socket);
    eventually("the link is up", || {
        watch.status().links.iter().all(|link| link.state == "up")
    });
    let target = watch.status().guid.bits();
    let mut here = Verbs::new(App::attach(&socket));
    let mut there = Verbs::new(App::attach(&a.config.socket_path()));
    add(&mut here, 0, Mode::OnePhase, bank).word();
    add(&mut there, target, Mode::TwoPhase, bank).word();
    // The second mark of the last batch would fail before a verb is executed.
    let journal = dir.path().join("b-journal/lane-0/journal.1");
    eventually("the journal is at rest", || {
        let written = fs::metadata(&journal).and_then(|it| it.modified());
        let since = written.expect("a file").elapsed();
        since.is_ok_and(|since| since > AT_REST)
    });
    // Verbs that the disk does not take now are executed and never reported.
    limit_files(&daemon.0, 4096);
    assert!(here.post(0, Mode::OnePhase, 1, bank, 0, ADD));
    assert!(there.post(target, Mode::OnePhase, 1, bank, 0, ADD));
    eventually("the journal has failed", || {
        let journal = watch.status().lanes[0].journal.clone();
        journal.is_some_and(|journal| journal.failure.is_some())
    });
    limit_files(&daemon.0, libc::RLIM_INFINITY);
    let begun = Instant::now();
    kill(Pid::from_raw(daemon.0.id().cast_signed()), Signal::SIGTERM).expect("it runs");
    assert!(daemon.0.wait().expect("it ends").success());
    let reported = fs::read_to_string(&log).expect("a log");
    eprintln!("ended in {:?}", begun.elapsed());
    assert!(
        reported.contains("results that the journal failed to store were not reported"),
        "{reported}"
    );
    assert!(
        !reported.contains("could not be closed in time"),
        "{reported}"
    );
}

#[test]
fn an_impossible_journal_is_refused_before_any_file_is_created() {
    let dir = tempfile::tempdir().expect("a directory");
    fs::write(dir.path().join("file"), "").expect("room on the disk");
    let mut node = with_journal(dir.path(), "b");
    node.config.journal.directory = Some(dir.path().join("file/journal"));
    let config = dir.path().join("node.toml");
    let path = command::file(dir.path(), &node);
    let why = Daemon::start(node.config.clone())
        .expect_err("no directory")
        .to_string();
    assert!(why.contains("put a journal into"), "{why}");
    let (good, text) = command::run(&["--config", &path, "--check"]);
    assert!(!good && text.contains("put a journal into"), "{text}");
    node.config.journal.directory = Some(dir.path().join("journal"));
    let path = command::file(dir.path(), &node);
    let limited = std::process::Command::new("sh")
        .args(["-c", "ulimit -f 64; exec \"$0\" --config \"$1\""])
        .args([env!("CARGO_BIN_EXE_covalentd"), &path])
        .env_remove("NOTIFY_SOCKET")
        .output()
        .expect("a shell");
    let text = String::from_utf8(limited.stderr).expect("text");
    assert!(
        !limited.status.success() && text.contains("ulimit -f") && text.contains("file_mib"),
        "{text}"
    );
    let mut left: Vec<_> = fs::read_dir(dir.path())
        .expect("a directory")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    left.sort();
    assert_eq!(left, [dir.path().join("file"), config]);
}
