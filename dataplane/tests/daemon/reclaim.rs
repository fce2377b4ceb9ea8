//! Applications that end, in every way, leave nothing behind.

use std::{
    fs,
    io::{self, BufRead, BufReader, Write},
    path::PathBuf,
    process::{Command, Stdio},
};

use covalent_api::{
    event::EventKind,
    request::{Reply, Request},
    rule::Match,
};
use covalent_protocol::{Mode, verb::Verb};

use super::{
    client::{App, Verbs},
    node::{Node, eventually, pair},
    streams::numbered,
};

const SOCKET: &str = "COVALENT_TEST_SOCKET";

/// An application that holds every kind of resource, prints `ready`, and waits to be killed.
#[test]
#[ignore = "the body of a child process of the other tests here"]
fn child_that_holds_everything() {
    let Some(socket) = std::env::var_os(SOCKET).map(PathBuf::from) else {
        return;
    };
    let mut app = App::attach(&socket);
    let (pipe, _rx) = app.rx(None);
    app.bind(pipe, Match::Any);
    app.bind(
        pipe,
        Match::Prefix {
            dst: "10.0.0.0/8".parse().expect("a prefix"),
        },
    );
    let (_pipe, _rx_tx) = app.rx_tx("p0");
    let (_rkey, _memory) = app.register("bank", 1 << 20);
    let (tx_pipe, mut tx) = app.tx("p0");
    let peer = app.client.status().links[0].peer.expect("a peer").bits();
    let mut verbs = Verbs::new(app);
    let mut number = 0;
    while verbs.post(
        peer,
        Mode::TwoPhase,
        number,
        1,
        0,
        Verb::FetchAdd { delta: 1 },
    ) && number < 1000
    {
        number += 1;
    }
    while tx.send(&numbered(0, 1500)).is_ok() {}
    tx.publish();
    verbs.app.ring(tx_pipe);
    writeln!(io::stdout(), "ready").expect("the parent reads");
    std::thread::sleep(std::time::Duration::from_secs(60));
}

fn kill_one_child(node: &Node) {
    let executable = std::env::current_exe().expect("this test");
    let mut child = Command::new(executable)
        .args([
            "--exact",
            "reclaim::child_that_holds_everything",
            "--ignored",
            "--nocapture",
        ])
        .env(SOCKET, node.config.socket_path())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .expect("a child");
    let output = BufReader::new(child.stdout.take().expect("its output"));
    let ready = output
        .lines()
        .map_while(Result::ok)
        .any(|line| line.contains("ready"));
    child.kill().expect("SIGKILL");
    child.wait().expect("it ends");
    assert!(ready, "the child got as far as it should");
}

#[test]
fn a_killed_application_is_reclaimed_completely_every_time() {
    let dir = tempfile::tempdir().expect("a directory");
    let (a, b) = pair(dir.path(), &["p0"]);
    let mut subscriber = a.client();
    subscriber.done(&Request::Subscribe);
    let descriptors = || fs::read_dir("/proc/self/fd").expect("procfs").count();
    let mappings = || {
        fs::read_to_string("/proc/self/maps")
            .expect("procfs")
            .matches("memfd:")
            .count()
    };
    let before = (descriptors(), mappings());
    for _ in 0..3 {
        kill_one_child(&a);
        let (pipes, regions, reason) = loop {
            match subscriber.receive() {
                Some((Reply::Event(event), _)) => {
                    if let EventKind::Detached {
                        pipes,
                        regions,
                        reason,
                        ..
                    } = event.kind
                    {
                        break (pipes, regions, reason);
                    }
                }
                other => panic!("{other:?}"),
            }
        };
        assert_eq!((pipes, regions, reason.as_str()), (5, 1, "process ended"));
    }
    let status = a.status();
    assert_eq!(
        (status.sessions, status.pipes.len(), status.regions.len()),
        (0, 0, 0)
    );
    assert_eq!(status.sessions_detached["process_ended"], 3);
    eventually("descriptors and mappings are back", || {
        let now = (descriptors(), mappings());
        now.0 <= before.0 && now.1 <= before.1
    });
    // Names, matches and verbs are free for the next one; the peer is as willing as before.
    let mut app = App::attach(&a.config.socket_path());
    let (pipe, _rx) = app.rx(None);
    app.bind(pipe, Match::Any);
    app.register("bank", 64);
    let mut owner = App::attach(&b.config.socket_path());
    let (rkey, memory) = owner.register("count", 64);
    let mut verbs = Verbs::new(app);
    let old = verbs.run(
        b.guid(),
        Mode::TwoPhase,
        rkey,
        0,
        Verb::FetchAdd { delta: 1 },
    );
    assert_eq!((old.word(), memory.load(0)), (0, Some(1)));
    eventually("verbs of the dead are accounted for", || {
        let verbs = a.status().verbs;
        verbs.submitted == verbs.completed
    });
}

#[test]
fn a_region_that_vanishes_is_unknown_to_the_next_verb() {
    let dir = tempfile::tempdir().expect("a directory");
    let (a, b) = pair(dir.path(), &["p0"]);
    let mut owner = App::attach(&b.config.socket_path());
    let (rkey, _memory) = owner.register("bank", 64);
    let mut verbs = Verbs::new(App::attach(&a.config.socket_path()));
    assert_eq!(
        verbs
            .run(
                b.guid(),
                Mode::OnePhase,
                rkey,
                0,
                Verb::FetchAdd { delta: 1 }
            )
            .word(),
        0
    );
    drop(owner);
    eventually("the region is removed", || b.status().regions.is_empty());
    let after = verbs.run(
        b.guid(),
        Mode::OnePhase,
        rkey,
        0,
        Verb::FetchAdd { delta: 1 },
    );
    assert_eq!(
        after,
        super::client::Ended::Other("Refused(UnknownRegion)".into())
    );
}
