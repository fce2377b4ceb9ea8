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
fn links_name_their_peer_and_their_failures() {
    let place = tempfile::tempdir().unwrap();
    let [a, _b] = Node::pair(place.path());
    let links = a.json(&["links"]);
    assert_eq!(links[0]["peer_name"], "b");
    let (went, printed) = a.run(&["links"]);
    for wanted in ["links", "p0", "up", "b (", "frames of links"] {
        assert!(went && printed.contains(wanted), "{wanted}: {printed}");
    }
    assert!(
        !printed.contains('\u{1b}'),
        "no terminal, no colors: {printed}"
    );

    let links = |columns: &str, more: &[&str]| {
        let mut command = a.command(&[&["links"], more].concat());
        let output = command.env("COLUMNS", columns).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let longest = |text: &str| text.lines().map(|line| line.chars().count()).max();
    let usual = links("", &[]);
    assert!(!usual.contains("never seen"), "{usual}");
    assert!(longest(&usual) <= Some(100), "{usual}");
    let narrow = links("60", &[]);
    assert!(
        longest(&narrow) <= Some(60) && narrow.contains("committed"),
        "{narrow}"
    );
    let wide = links("60", &["--wide"]);
    assert!(
        longest(&wide) > Some(132) && wide.contains("never seen"),
        "{wide}"
    );
}

#[test]
fn pipes_are_those_of_applications() {
    let place = tempfile::tempdir().unwrap();
    let node = Node::up(place.path(), "a", &place.path().join("x.sock"), "");
    assert_eq!(node.json(&["pipes"]), Value::Array(Vec::new()));
    let (went, printed) = node.run(&["pipes"]);
    assert!(
        went && printed.contains("no application has a pipe"),
        "{printed}"
    );

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
    let (went, printed) = node.run(&["pipes"]);
    let line = printed.lines().find(|line| line.contains("RX/TX"));
    let line = line.unwrap_or_default();
    for words in ["covalent-echo", " p0 "] {
        assert!(went && line.contains(words), "{words}: {printed}");
    }
    assert!(
        printed.lines().all(|line| line.chars().count() <= 100),
        "{printed}"
    );
    // The events name its owner.
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
    let (went, printed) = a.run(&["events"]);
    assert!(
        went && printed.contains("link_up") && printed.contains("link p0 to b ("),
        "{printed}"
    );

    let mut command = a.command(&["events", "--follow", "--format", "json"]);
    let mut follows = Guarded(command.stdout(Stdio::piped()).spawn().unwrap());
    let (line, lines) = mpsc::channel();
    let printed = BufReader::new(follows.0.stdout.take().unwrap());
    let reader = thread::spawn(move || {
        for read in printed.lines() {
            let event: Value = serde_json::from_str(&read.unwrap()).unwrap();
            line.send(event).unwrap();
        }
    });
    let next = || lines.recv_timeout(PATIENCE).unwrap();
    // First the stored events, in order.
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
fn a_following_command_ends_with_the_daemon() {
    let place = tempfile::tempdir().unwrap();
    let node = Node::up(place.path(), "a", &place.path().join("x.sock"), "");
    let mut command = node.command(&["events", "--follow"]);
    let mut follows = Guarded(command.stdout(Stdio::piped()).spawn().unwrap());
    let printed = BufReader::new(follows.0.stdout.take().unwrap());
    // Its first output shows that it is subscribed.
    node.run(&["steer", "add", "drop", "--vlan", "7"]);
    let mut lines = printed.lines();
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
fn rules_change_at_run_time_and_the_file_wins_at_a_reload() {
    let place = tempfile::tempdir().unwrap();
    let in_file = "[[steer]]\nmatch = \"vlan\"\nvlan = 7\naction = \"kernel\"\n";
    let node = Node::up(place.path(), "a", &place.path().join("x.sock"), in_file);
    // Control is ready before it has received the daemon's configuration.
    wait_until("the rules are known", PATIENCE, || {
        node.run(&["steer", "list"]).0
    });
    let listed = || node.json(&["steer", "list"]);
    assert_eq!(listed()[0]["vlan"], 7);
    assert_eq!(listed()[0]["in_file"], true);

    let dns = ["--transport", "udp", "--dst-port", "53"];
    let (went, printed) = node.run(&[&["steer", "add", "drop"], &dns[..]].concat());
    assert!(
        went && printed.contains("in force under revision 1: Udp -> port 53, drop")
            && printed.contains("[[steer]]\n"),
        "{printed}"
    );
    let rules = listed();
    assert_eq!(
        (&rules[1]["dst_port"], &rules[1]["in_file"]),
        (&53.into(), &false.into())
    );
    let (_, printed) = node.run(&["steer", "list"]);
    assert!(printed.contains("no: until the next reload"), "{printed}");
    // The daemon's own status confirms it.
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
        let (went, printed) = node.run(command);
        assert!(!went && printed.contains(wanted), "{command:?}: {printed}");
    }
    assert_eq!(listed(), rules, "nothing of it has changed anything");

    let (went, printed) = node.run(&["steer", "del", "--vlan", "7"]);
    assert!(
        went && printed.contains("no rule is about VLAN 7 any more"),
        "{printed}"
    );
    assert_eq!(listed().as_array().unwrap().len(), 1);
    // The file is as it was, and has the last word.
    assert!(
        fs::read_to_string(node.file())
            .unwrap()
            .contains("vlan = 7")
    );
    let (went, printed) = node.run(&["reload"]);
    assert!(went && printed.contains("steer"), "{printed}");
    let rules = listed();
    assert_eq!(rules.as_array().unwrap().len(), 1);
    assert_eq!(rules[0]["vlan"], 7);
}
