//! The library at the socket of a daemon of the previous release, of the next one, and of others. A
//! thread acts as the daemon with its literal messages.

use std::{path::Path, thread, time::Duration};

use covalent::{Client, Error, Timeout};
use covalent_api::{MAX_DATAGRAM_BYTES, event::EventKind, versions::Versions};
use covalent_ipc::seqpacket::{Connection, Listener};

use crate::nodes::PATIENCE;

/// How a daemon of version 5 refuses a greeting that it does not know.
const REFUSAL_OF_5: &str = r#"{"reply":"refused","reason":"not a message that this side knows: unknown field `oldest`, expected `version` or `program` (are both sides of the same version?); speak JSON as in covalent-api, version 5"}"#;

/// Returns the next datagram as text. `None` once the library has closed the connection.
fn receive_text(connection: &Connection) -> Option<String> {
    assert!(
        connection.wait(Some(PATIENCE)).unwrap(),
        "no request arrives"
    );
    let mut buffer = vec![0; MAX_DATAGRAM_BYTES];
    let (length, _) = connection.recv(&mut buffer).ok()?;
    Some(String::from_utf8(buffer[..length].to_vec()).unwrap())
}

/// Replies to the requests of one connection in turn, then closes it. Returns the requests.
fn play(listener: &Listener, answers: &[&str]) -> Vec<String> {
    let connection = listener.accept().unwrap();
    let requests = answers.iter().map_while(|answer| {
        let requests = receive_text(&connection)?;
        connection.send(answer.as_bytes(), &[]).unwrap();
        Some(requests)
    });
    requests.collect()
}

/// Connects to a daemon that sends these replies on each of its connections. Returns the result and
/// the requests.
fn meet<R>(connections: &[&[&str]], program: impl FnOnce(&Path) -> R) -> (R, Vec<Vec<String>>) {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("covalentd.sock");
    let listener = Listener::bind(&socket).unwrap();
    thread::scope(|scope| {
        let daemon = scope.spawn(|| {
            let requests = connections.iter().map(|answers| play(&listener, answers));
            requests.collect::<Vec<_>>()
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
    let (client, requests) = meet(&connections, |socket| {
        let mut client = Client::connect(socket, "p").unwrap();
        client.subscribe().unwrap();
        client
    });
    assert_eq!(client.node().name, "a");
    let Versions { oldest, newest } = Versions::SUPPORTED;
    assert_eq!(
        requests,
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
    let Versions { newest, .. } = Versions::SUPPORTED;
    let speaks = format!(
        r#","color":"red","speaks":{{"oldest":{newest},"newest":{}}}"#,
        newest + 1
    );
    let welcome = welcome(newest, &speaks);
    let events =
        r#"{"reply":"event","sequence":1,"realtime_ns":2,"event":"node_painted","color":{"r":1}}"#;
    let connections: [&[&str]; 1] = [&[&welcome, r#"{"reply":"done","color":"red"}"#, events]];
    let (event, _) = meet(&connections, |socket| {
        let mut client = Client::connect(socket, "p").unwrap();
        client.subscribe().unwrap();
        // The simulated daemon sends the event only as a reply to a request.
        client.set_request_timeout(Duration::from_millis(200));
        assert!(matches!(
            client.set_port("p0", true),
            Err(Error::Deadline { .. } | Error::DaemonGone { .. })
        ));
        client.next_event(Timeout::FOREVER).unwrap()
    });
    assert_eq!((event.sequence, event.kind), (1, EventKind::Unknown));
}

#[test]
fn a_daemon_more_than_one_release_away_is_refused_with_both_ranges() {
    let spoken = Versions::SUPPORTED.to_string();
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
fn another_refusal_is_reported_and_not_retried() {
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
