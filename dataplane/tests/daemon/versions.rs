//! Programs of the release before and of the next one at a daemon's socket.

use covalent_api::{
    API_VERSION,
    request::{PipeKind, Reply, Request},
    rule::Match,
    versions::Versions,
};
use covalent_protocol::{Mode, verb::Verb};

use super::{
    client::{App, Client, Verbs, sent},
    node::Node,
};

/// Returns the greeting of a program that supports `oldest` to `newest`, from a release with more
/// fields in it.
fn hello(oldest: u32, newest: u32) -> Vec<u8> {
    format!(
        r#"{{"request":"hello","version":{newest},"oldest":{oldest},"program":"later","color":{{"r":1}}}}"#
    )
    .into_bytes()
}

fn spoken(welcome: &Reply) -> (u32, Option<Versions>) {
    match welcome {
        Reply::Welcome {
            version, speaks, ..
        } => (*version, *speaks),
        other => panic!("{other:?}"),
    }
}

#[test]
fn programs_of_the_release_before_and_of_the_next_work() {
    let dir = tempfile::tempdir().expect("a directory");
    let node = Node::new(dir.path(), "a", &["p0"], "").start();
    let socket = node.config.socket_path();
    let greetings = [
        (sent(&Request::hello_of_version_5("before")), 5),
        (sent(&Request::hello("same")), API_VERSION),
        (hello(API_VERSION, API_VERSION + 1), API_VERSION),
        (hello(API_VERSION - 4, API_VERSION - 1), API_VERSION - 1),
    ];
    for (number, (greeting, agreed)) in greetings.into_iter().enumerate() {
        let (client, welcome) = Client::greet(&socket, &greeting);
        assert_eq!(spoken(&welcome), (agreed, Some(Versions::SUPPORTED)));
        let mut app = App::of(client, 0);
        let (pipe, _rx) = app.rx(Some("p0"));
        app.bind(pipe, Match::Any);
        app.unbind(pipe, Match::Any);
        let (rkey, _memory) = app.register(&format!("region-{number}"), 4096);
        let mut verbs = Verbs::new(app);
        let add = Verb::FetchAdd { delta: 7 };
        let before = verbs.run(0, Mode::OnePhase, rkey, 0, add);
        assert_eq!(before.word(), 0);
        verbs.app.client.done(&Request::Subscribe);
    }
    assert_eq!(node.status().peers_refused["version"], 0);
}

#[test]
fn a_program_more_than_one_release_away_reads_both_ranges() {
    let dir = tempfile::tempdir().expect("a directory");
    let node = Node::new(dir.path(), "a", &["p0"], "").start();
    let socket = node.config.socket_path();
    let old = sent(&Request::Hello {
        version: API_VERSION - 2,
        oldest: None,
        program: "old".into(),
    });
    for (greeting, range) in [
        (old, Versions::only(API_VERSION - 2).to_string()),
        (
            hello(API_VERSION + 1, API_VERSION + 2),
            format!("versions {} to {}", API_VERSION + 1, API_VERSION + 2),
        ),
        // A range whose ends are swapped contains no version.
        (hello(API_VERSION, API_VERSION - 1), "versions".to_owned()),
    ] {
        let (mut client, reply) = Client::greet(&socket, &greeting);
        let Reply::Refused { reason, speaks } = reply else {
            panic!("{reply:?}")
        };
        for part in [&range, &Versions::SUPPORTED.to_string(), "release"] {
            assert!(reason.contains(part), "{reason}");
        }
        assert_eq!(speaks, Some(Versions::SUPPORTED));
        assert!(client.receive().is_none(), "and is closed");
    }
    assert_eq!(node.status().peers_refused["version"], 3);
}

#[test]
fn a_request_that_is_not_known_is_refused_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    let node = Node::new(dir.path(), "a", &["p0"], "").start();
    let mut app = App::attach(&node.config.socket_path());
    let (pipe, _rx) = app.rx(None);
    for unknown in [
        r#"{"request":"paint","pipe":0}"#,
        r#"{"request":"close_pipe","pipe":0,"color":"red"}"#,
        r#"{"request":"open_pipe","kind":"painted","capacity_bytes":65536,"port":null}"#,
    ] {
        let reply = app.client.call_bytes(unknown.as_bytes());
        let Reply::Refused { reason, .. } = reply else {
            panic!("{unknown}: {reply:?}")
        };
        let spoken = Versions::SUPPORTED.to_string();
        assert!(reason.contains(&spoken), "{reason}");
    }
    // The pipe is still there, and so is the connection.
    app.bind(pipe, Match::Any);
    // Such a request closes memory that was handed over and not mapped, as any other request does.
    let (reply, fds) = app.client.call(&Request::OpenPipe {
        kind: PipeKind::Rx,
        capacity_bytes: 1 << 16,
        port: None,
        completions: None,
    });
    assert!(matches!(reply, Reply::Pipe { .. }), "{reply:?}");
    drop(fds);
    app.client.call_bytes(br#"{"request":"paint"}"#);
    assert!(matches!(
        app.client.call(&Request::Mapped).0,
        Reply::Refused { .. }
    ));
}
