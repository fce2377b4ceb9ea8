//! The library at the socket of a daemon of the release before, of the next one, and of others. A thread plays the daemon, in its words.

use std::{path::Path, thread, time::Duration};

use covalent_api::{MAX_DATAGRAM_BYTES, event::EventKind, versions::Versions};
use covalent_pipe::seqpacket::{Connection, Listener};
use covalent_verbs::{Client, Error};

use crate::nodes::PATIENCE;

/// How a daemon of version 5 refuses a greeting that it does not know.
const REFUSAL_OF_5: &str = r#"{"reply":"refused","reason":"not a message that this side knows: unknown field `oldest`, expected `version` or `program` (are both sides of the same version?); speak JSON as in covalent-api, version 5"}"#;

/// The next datagram as text; `None` once the library has hung up.
fn heard(connection: &Connection) -> Option<String> {
    assert!(connection.wait(Some(PATIENCE)).unwrap(), "nothing is asked");
    let mut buffer = vec![0; MAX_DATAGRAM_BYTES];
    let (length, _) = connection.recv(&mut buffer).ok()?;
    Some(String::from_utf8(buffer[..length].to_vec()).unwrap())
}

/// Answers the requests of one connection in turn, then hangs up. Gives the requests.
fn play(listener: &Listener, answers: &[&str]) -> Vec<String> {
    let connection = listener.accept().unwrap();
    let asked = answers.iter().map_while(|answer| {
        let asked = heard(&connection)?;
        connection.send(answer.as_bytes(), &[]).unwrap();
        Some(asked)
    });
    asked.collect()
}

/// Connects to a daemon that gives these answers on each of its connections, and gives what it was asked.
fn meet<R>(connections: &[&[&str]], program: impl FnOnce(&Path) -> R) -> (R, Vec<Vec<String>>) {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("covalentd.sock");
    let listener = Listener::bind(&socket).unwrap();
    thread::scope(|scope| {
        let daemon = scope.spawn(|| {
            let asked = connections.iter().map(|answers| play(&listener, answers));
            asked.collect::<Vec<_>>()
        });
        let result = program(&socket);
        (result, daemon.join().unwrap())
    })
}

fn welcome(version: u32, more: &str) -> String {
    format!(
        r#"{{"reply":"welcome","version":{version},"node":"a","guid":"0000000000000100","lanes":1,"ports":[]{more}}}"#
    )
}

fn apart(error: Error) -> String {
    match error {
        Error::Version(apart) => apart.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_daemon_of_version_5_is_greeted_as_version_5_does() {
    let welcome = welcome(5, "");
    let connections: [&[&str]; 2] = [&[REFUSAL_OF_5], &[&welcome, r#"{"reply":"done"}"#]];
    let (client, asked) = meet(&connections, |socket| {
        let mut client = Client::connect(socket, "p").unwrap();
        client.subscribe().unwrap();
        client
    });
    assert_eq!(client.node().name, "a");
    let Versions { oldest, newest } = Versions::SPOKEN;
    assert_eq!(
        asked,
        [
            vec![format!(
                r#"{{"request":"hello","version":{newest},"oldest":{oldest},"program":"p"}}"#
            )],
            vec![
                r#"{"request":"hello","version":5,"program":"p"}"#.to_owned(),
                r#"{"request":"subscribe"}"#.to_owned()
            ],
        ]
    );
}

#[test]
fn a_daemon_of_the_next_release_is_understood() {
    let Versions { newest, .. } = Versions::SPOKEN;
    let speaks = format!(
        r#","colour":"red","speaks":{{"oldest":{newest},"newest":{}}}"#,
        newest + 1
    );
    let welcome = welcome(newest, &speaks);
    let events =
        r#"{"reply":"event","sequence":1,"realtime_ns":2,"event":"node_painted","colour":{"r":1}}"#;
    let connections: [&[&str]; 1] = [&[&welcome, r#"{"reply":"done","colour":"red"}"#, events]];
    let (event, _) = meet(&connections, |socket| {
        let mut client = Client::connect(socket, "p").unwrap();
        client.subscribe().unwrap();
        // The daemon that is played says the event in answer to something.
        client.set_request_timeout(Duration::from_millis(200));
        assert!(matches!(
            client.set_port("p0", true),
            Err(Error::Deadline { .. } | Error::DaemonGone { .. })
        ));
        client.next_event(None).unwrap()
    });
    assert_eq!((event.sequence, event.kind), (1, EventKind::Unknown));
}

#[test]
fn a_daemon_more_than_one_release_away_is_told_with_both_ranges() {
    let spoken = Versions::SPOKEN.to_string();
    let refusal = r#"{"reply":"refused","reason":"no","speaks":{"oldest":8,"newest":9}}"#;
    let connections: [&[&str]; 1] = [&[refusal]];
    let (error, _) = meet(&connections, |socket| {
        Client::connect(socket, "p").unwrap_err()
    });
    let text = apart(error);
    for part in ["versions 8 to 9", &spoken, "library is the older"] {
        assert!(text.contains(part), "{text}");
    }
    // One that agrees on a version that was not offered.
    let welcome = welcome(4, "");
    let connections: [&[&str]; 1] = [&[&welcome]];
    let (error, _) = meet(&connections, |socket| {
        Client::connect(socket, "p").unwrap_err()
    });
    let text = apart(error);
    for part in ["version 4 ", &spoken, "covalentd is the older", "restart"] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn another_refusal_is_told_and_not_tried_again() {
    let refusal = r#"{"reply":"refused","reason":"user 1000 may not attach"}"#;
    let connections: [&[&str]; 1] = [&[refusal]];
    let (error, _) = meet(&connections, |socket| {
        Client::connect(socket, "p").unwrap_err()
    });
    assert!(
        matches!(&error, Error::Refused { reason, .. } if reason.contains("1000")),
        "{error}"
    );
}
