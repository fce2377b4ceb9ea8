//! Commands at the sockets of a daemon and a control process of the previous release, of the next
//! one, and of others. A thread plays the servers.
#![allow(clippy::unwrap_used)]

mod support;

use std::{process::Output, thread, time::Duration};

use covalent_api::{MAX_DATAGRAM_BYTES, versions::Versions};
use covalent_ipc::seqpacket::Listener;
use support::covalent;

const PATIENCE: Duration = Duration::from_secs(60);

/// Replies recorded from version 5.
const REPLIES_OF_5: &str = include_str!("../../base/api/tests/version_5/replies.jsonl");
const CONTROL_REPLIES_OF_5: &str =
    include_str!("../../base/api/tests/version_5/control_replies.jsonl");

const REFUSAL_OF_5: &str = r#"{"reply":"refused","reason":"not a message that this side knows: unknown field `oldest`, expected `version` or `program` (are both sides of the same version?); speak JSON as in covalent-api, version 5"}"#;

fn recorded(all: &'static str, start: &str) -> &'static str {
    all.lines().find(|text| text.starts_with(start)).unwrap()
}

/// A copy of `reply` in which each object has a member that only a later version knows.
fn later(reply: &str) -> String {
    reply
        .replace('{', r#"{"of_a_later_version":{},"#)
        .replace(r#"{"of_a_later_version":{},}"#, "{}")
}

/// Runs a command whose last argument is a socket. The socket gives these replies, one list for
/// each connection.
fn run(arguments: &[&str], connections: &[&[&str]]) -> (Output, String) {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("socket");
    let listener = Listener::bind(&socket).unwrap();
    thread::scope(|scope| {
        let played = scope.spawn(|| {
            for answers in connections {
                let connection = listener.accept().unwrap();
                let mut buffer = vec![0; MAX_DATAGRAM_BYTES];
                for answer in *answers {
                    assert!(
                        connection.wait(Some(PATIENCE)).unwrap(),
                        "no request arrives"
                    );
                    connection.recv(&mut buffer).unwrap();
                    connection.send(answer.as_bytes(), &[]).unwrap();
                }
                // Until the command has read the last one.
                let _ = connection.wait(Some(PATIENCE));
            }
        });
        let output = covalent(directory.path())
            .args(arguments)
            .arg(&socket)
            .output()
            .unwrap();
        played.join().unwrap();
        let text = format!(
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        (output, text)
    })
}

#[test]
fn a_daemon_of_the_release_before_is_shown() {
    let welcome = recorded(REPLIES_OF_5, r#"{"reply":"welcome"#);
    let events =
        recorded(REPLIES_OF_5, r#"{"reply":"events"#).replace(r#""next":17"#, r#""next":null"#);
    let (output, text) = run(
        &["events", "--socket"],
        &[&[REFUSAL_OF_5], &[welcome, &events]],
    );
    assert!(output.status.success(), "{text}");
    assert!(
        text.contains("link_up") && text.contains("stopping"),
        "{text}"
    );
    let status = recorded(REPLIES_OF_5, r#"{"reply":"status"#);
    let (output, text) = run(
        &["status", "--socket"],
        &[&[REFUSAL_OF_5], &[welcome, status]],
    );
    assert!(output.status.success(), "{text}");
    assert!(text.contains("p0") && text.contains("bank"), "{text}");
}

#[test]
fn a_daemon_of_the_next_release_is_shown() {
    let welcome = recorded(REPLIES_OF_5, r#"{"reply":"welcome"#).replace(
        r#""version":5"#,
        &format!(r#""version":{}"#, Versions::SUPPORTED.newest),
    );
    let events = r#"{"reply":"events","events":[{"sequence":7,"realtime_ns":1,"event":"node_painted","color":"red"}],"next":null}"#;
    let (output, text) = run(&["events", "--socket"], &[&[&welcome, events]]);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("later release"), "{text}");
    let status = recorded(REPLIES_OF_5, r#"{"reply":"status"#)
        .replace(r#""lane":0,"#, r#""lane":0,"color":"red","#);
    let (output, text) = run(&["status", "--socket"], &[&[&welcome, &status]]);
    assert!(output.status.success(), "{text}");
}

#[test]
fn a_daemon_more_than_one_release_away_is_refused_with_both_ranges() {
    let refusal = r#"{"reply":"refused","reason":"no","speaks":{"oldest":8,"newest":9}}"#;
    let (output, text) = run(&["events", "--socket"], &[&[refusal]]);
    assert!(!output.status.success());
    for part in [
        "versions 8 to 9",
        &Versions::SUPPORTED.to_string(),
        "covalent is the older",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn control_of_the_previous_and_next_release_is_supported() {
    let version = recorded(CONTROL_REPLIES_OF_5, r#"{"reply":"version"#);
    let reloaded = recorded(CONTROL_REPLIES_OF_5, r#"{"reply":"reloaded"#);
    let next = version.replace(
        r#""api":5"#,
        &format!(
            r#""api":{},"oldest":{}"#,
            Versions::SUPPORTED.newest + 1,
            Versions::SUPPORTED.newest
        ),
    );
    for (version, reloaded) in [
        (version.to_owned(), reloaded.to_owned()),
        (later(&next), later(reloaded)),
    ] {
        let (output, text) = run(&["reload", "--socket"], &[&[&version, &reloaded]]);
        assert!(output.status.success(), "{text}");
        assert!(text.contains("lane[0].core"), "{text}");
    }
}

#[test]
fn control_more_than_one_release_away_is_refused_with_both_ranges() {
    let version =
        recorded(CONTROL_REPLIES_OF_5, r#"{"reply":"version"#).replace(r#""api":5"#, r#""api":4"#);
    let (output, text) = run(&["reload", "--socket"], &[&[&version]]);
    assert!(!output.status.success());
    for part in [
        "version 4 ",
        &Versions::SUPPORTED.to_string(),
        "covalent-control is the older",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}
