//! `covalent links`, `pipes`, `events` and `steer`, on running nodes.
#![allow(clippy::unwrap_used)]

mod support;

use std::{
    fs,
    io::{BufRead, BufReader},
    process::Stdio,
    sync::mpsc,
    thread,
};

use nix::sys::signal::Signal;
use serde_json::Value;
use support::{
    Guarded,
    node::{Node, PATIENCE},
    wait_until,
};

#[test]
fn links_say_who_is_at_the_other_end_and_what_failed() {
    let place = tempfile::tempdir().unwrap();
    let [a, _b] = Node::pair(place.path());
    let links = a.json(&["links"]);
    assert_eq!(links[0]["peer_name"], "b");
    let (went, told) = a.run(&["links"]);
    for wanted in ["links", "p0", "up", "b (", "frames of links"] {
        assert!(went && told.contains(wanted), "{wanted}: {told}");
    }
    assert!(!told.contains('\u{1b}'), "no terminal, no colours: {told}");
}

#[test]
fn pipes_are_those_of_applications() {
    let place = tempfile::tempdir().unwrap();
    let node = Node::up(place.path(), "a", &place.path().join("x.sock"), "");
    assert_eq!(node.json(&["pipes"]), Value::Array(Vec::new()));
    let (went, told) = node.run(&["pipes"]);
    assert!(went && told.contains("no application has a pipe"), "{told}");

    let mut echo = node.command(&[]);
    let program = std::path::Path::new(echo.get_program()).with_file_name("covalent-echo");
    echo = std::process::Command::new(program);
    echo.args(["--port", "p0", "--socket"])
        .arg(node.socket())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let _echo = Guarded(echo.spawn().unwrap());
    wait_until("the echo has its pipe", PATIENCE, || {
        node.json(&["pipes"])[0]["kind"] == "rx_tx"
    });
    let (went, told) = node.run(&["pipes"]);
    assert!(went && told.contains("RX/TX"), "{told}");
    // The events say whose it is.
    let events = node.json(&["events"]);
    let attached = events
        .as_array()
        .unwrap()
        .iter()
        .find(|event| event["event"] == "attached");
    assert!(
        attached.is_some_and(|event| event["program"].as_str().unwrap().contains("echo")),
        "{events}"
    );
}

#[test]
fn events_are_kept_and_followed_without_a_gap() {
    let place = tempfile::tempdir().unwrap();
    let [a, b] = Node::pair(place.path());
    let kept = a.json(&["events"]);
    let kept = kept.as_array().unwrap();
    assert!(
        kept.iter()
            .any(|event| event["event"] == "link_up" && event["peer_name"] == "b")
    );
    let (went, told) = a.run(&["events"]);
    assert!(
        went && told.contains("link_up") && told.contains("link p0 to b ("),
        "{told}"
    );

    let mut command = a.command(&["events", "--follow", "--format", "json"]);
    let mut follows = Guarded(command.stdout(Stdio::piped()).spawn().unwrap());
    let (line, lines) = mpsc::channel();
    let told = BufReader::new(follows.0.stdout.take().unwrap());
    let reader = thread::spawn(move || {
        for read in told.lines() {
            let event: Value = serde_json::from_str(&read.unwrap()).unwrap();
            line.send(event).unwrap();
        }
    });
    let next = || lines.recv_timeout(PATIENCE).unwrap();
    // First what was kept, in order.
    for event in kept {
        assert_eq!(&next(), event);
    }
    drop(b);
    let mut before = kept.last().unwrap()["sequence"].as_u64().unwrap();
    loop {
        let event = next();
        let sequence = event["sequence"].as_u64().unwrap();
        assert_eq!(sequence, before + 1, "{event}");
        before = sequence;
        if event["event"] == "link_down" {
            break;
        }
    }
    follows.signal(Signal::SIGINT);
    assert_eq!(follows.exit_code(PATIENCE), Some(130));
    drop(lines);
    let _ = reader.join();
}

#[test]
fn who_follows_leaves_with_the_daemon() {
    let place = tempfile::tempdir().unwrap();
    let node = Node::up(place.path(), "a", &place.path().join("x.sock"), "");
    let mut command = node.command(&["events", "--follow"]);
    let mut follows = Guarded(command.stdout(Stdio::piped()).spawn().unwrap());
    let told = BufReader::new(follows.0.stdout.take().unwrap());
    // It is subscribed when it has said something.
    node.run(&["steer", "add", "drop", "--vlan", "7"]);
    let mut lines = told.lines();
    assert!(lines.next().unwrap().is_ok());
    drop(node);
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    assert!(
        rest.last().is_some_and(|line| line.contains("stopping")),
        "{rest:?}"
    );
    assert_eq!(follows.exit_code(PATIENCE), Some(0));
}

#[test]
fn rules_come_and_go_while_the_node_runs_and_the_file_has_the_last_word() {
    let place = tempfile::tempdir().unwrap();
    let in_file = "[[steer]]\nmatch = \"vlan\"\nvlan = 7\naction = \"kernel\"\n";
    let node = Node::up(place.path(), "a", &place.path().join("x.sock"), in_file);
    // Control is ready before it has heard what the daemon holds.
    wait_until("the rules are known", PATIENCE, || {
        node.run(&["steer", "list"]).0
    });
    let listed = || node.json(&["steer", "list"]);
    assert_eq!(listed()[0]["vlan"], 7);
    assert_eq!(listed()[0]["in_file"], true);

    let dns = ["--transport", "udp", "--dst-port", "53"];
    let (went, told) = node.run(&[&["steer", "add", "drop"], &dns[..]].concat());
    assert!(
        went && told.contains("in force under epoch 1: Udp -> port 53, drop")
            && told.contains("[[steer]]\n"),
        "{told}"
    );
    let rules = listed();
    assert_eq!(
        (&rules[1]["dst_port"], &rules[1]["in_file"]),
        (&53.into(), &false.into())
    );
    let (_, told) = node.run(&["steer", "list"]);
    assert!(told.contains("no: until the next reload"), "{told}");
    // The daemon itself says that it is so.
    let held = &node.json(&["status"])["config"]["held"];
    assert_eq!(held["epoch"], 1);

    for (command, wanted) in [
        (
            &["steer", "add", "kernel", "--vlan", "7"][..],
            "there is a rule for this already: VLAN 7, kernel",
        ),
        (
            &["steer", "del", "--any"],
            "no rule in force is about exactly this: any frame",
        ),
        (&["steer", "add", "drop", "--dst-port", "53"], "give one of"),
        (
            &["steer", "add", "drop", "--vlan", "5000"],
            "5000 is not a VLAN id",
        ),
    ] {
        let (went, told) = node.run(command);
        assert!(!went && told.contains(wanted), "{command:?}: {told}");
    }
    assert_eq!(listed(), rules, "nothing of it has changed anything");

    let (went, told) = node.run(&["steer", "del", "--vlan", "7"]);
    assert!(
        went && told.contains("no rule is about VLAN 7 any more"),
        "{told}"
    );
    assert_eq!(listed().as_array().unwrap().len(), 1);
    // The file is as it was, and has the last word.
    assert!(
        fs::read_to_string(node.file())
            .unwrap()
            .contains("vlan = 7")
    );
    let (went, told) = node.run(&["reload"]);
    assert!(went && told.contains("steer"), "{told}");
    let rules = listed();
    assert_eq!(rules.as_array().unwrap().len(), 1);
    assert_eq!(rules[0]["vlan"], 7);
}
