//! `covalent verb`, between two nodes.
#![allow(clippy::unwrap_used)]

mod support;

use covalent::{Device, Region, Rights};
use serde_json::Value;
use support::node::{Node, PATIENCE};

/// Node `a`, which posts verbs, and node `b`, which owns the regions.
struct Two {
    a: Node,
    b: Node,
    _place: tempfile::TempDir,
}

impl Two {
    fn up() -> Self {
        let place = tempfile::tempdir().unwrap();
        let [a, b] = Node::pair(place.path());
        Self {
            a,
            b,
            _place: place,
        }
    }

    /// Returns the output of a verb on `region` of node b, and its exit status.
    fn verb(&self, verb: &str, region: &str, rest: &[&str]) -> (Option<i32>, Value) {
        let mut arguments = vec!["verb", verb, "b", region];
        arguments.extend(rest);
        arguments.extend(["--format", "json"]);
        let output = self.a.command(&arguments).output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout);
        let printed = serde_json::from_str(&printed).unwrap_or_else(|_| {
            Value::String(String::from_utf8_lossy(&output.stderr).into_owned())
        });
        (output.status.code(), printed)
    }
}

#[test]
fn every_verb_command_executes_its_verb() {
    let two = Two::up();
    let device = Device::attach(two.b.socket(), "host").unwrap();
    let bank = device.register_region("bank", 128, Rights::ALL).unwrap();
    let (status, printed) = two.verb("lookup", "bank", &[]);
    assert_eq!(
        (status, &printed["size_bytes"]),
        (Some(0), &128.into()),
        "{printed}"
    );

    // The old value that each verb returns, and the new value.
    bank.store(0, 40).unwrap();
    for (verb, rest, old, new) in [
        ("fetch-add", &["0", "2"][..], 40, 42),
        ("fetch-add", &["0", "-1"], 42, 41),
        ("swap", &["0", "0xf0"], 41, 0xf0),
        ("fetch-and", &["0", "0x3c"], 0xf0, 0x30),
        ("fetch-or", &["0", "3"], 0x30, 0x33),
        ("fetch-xor", &["0", "0x11"], 0x33, 0x22),
        ("fetch-max", &["0", "100"], 0x22, 100),
        ("fetch-min", &["0", "7"], 100, 7),
        ("fetch-min", &["0", "-1"], 7, 7),
        ("fetch-min", &["0", "-1", "--signed"], 7, u64::MAX),
        ("compare-and-swap", &["0", "-1", "5"], u64::MAX, 5),
        ("cas", &["0", "5", "6"], 5, 6),
        ("update-if", &["0", "at-least", "6", "add", "4"], 6, 10),
        ("swap", &["0", "9", "--one-phase"], 10, 9),
    ] {
        let (status, printed) = two.verb(verb, "bank", rest);
        assert_eq!(status, Some(0), "{verb} {rest:?}: {printed}");
        assert_eq!(printed["old"], old, "{verb} {rest:?}: {printed}");
        assert_eq!(bank.load(0).unwrap(), new, "{verb} {rest:?}");
        assert!(
            printed["stamp"]["executor_count"].as_u64().unwrap() > 0,
            "{printed}"
        );
    }
    // An unexpected value changes nothing, and has its own exit status.
    for (verb, rest) in [
        ("compare-and-swap", &["0", "1", "2"][..]),
        ("update-if", &["0", "less", "9", "swap", "1"]),
        ("multi-commit", &["0:9:1", "8:5:6"]),
    ] {
        let (status, printed) = two.verb(verb, "bank", rest);
        assert_eq!(
            (status, &printed["outcome"]),
            (Some(3), &"mismatch".into()),
            "{printed}"
        );
        assert_eq!(bank.load(0).unwrap(), 9, "{verb}");
    }
    let (status, printed) = two.verb("multi-commit", "bank", &["0:9:1", "8:0:6"]);
    assert_eq!(status, Some(0), "{printed}");
    assert_eq!((bank.load(0).unwrap(), bank.load(8).unwrap()), (1, 6));

    let (status, printed) = two.verb("write", "bank", &["16", "hello"]);
    assert_eq!(status, Some(0), "{printed}");
    let (status, printed) = two.verb("write", "bank", &["22", "--hex", "00 ff"]);
    assert_eq!(status, Some(0), "{printed}");
    let mut bytes = [0; 8];
    bank.read(16, &mut bytes).unwrap();
    assert_eq!(&bytes, b"hello\0\0\xff");
    let (_, printed) = two.verb("read", "bank", &["8", "16"]);
    assert_eq!(printed["bytes"], "060000000000000068656c6c6f0000ff");
    assert_eq!(printed["words"][0], 6);
    let (went, printed) = two.a.run(&["verb", "read", "b", "bank", "16"]);
    assert!(
        went && printed.contains("68 65 6c 6c 6f 00 00 ff  hello..."),
        "{printed}"
    );

    let mut queue = device.receive_queue("orders", 8192).unwrap();
    let (status, printed) = two.verb("send", "orders", &["12 crates of apples"]);
    assert_eq!(status, Some(0), "{printed}");
    let message = queue.recv(PATIENCE).unwrap();
    assert_eq!(message.data, b"12 crates of apples");
}

/// Registers the region `notes`, of 64 bytes that verbs may only read.
fn read_only_notes(device: &Device) -> Region {
    let read_only = Rights {
        write: false,
        atomic: false,
        ..Rights::ALL
    };
    device.register_region("notes", 64, read_only).unwrap()
}

#[test]
fn a_verb_that_was_not_executed_is_reported_with_its_cure() {
    let two = Two::up();
    let device = Device::attach(two.b.socket(), "host").unwrap();
    let _notes = read_only_notes(&device);
    for (arguments, wanted) in [
        (
            &["read", "b", "nothing", "0"][..],
            "node b has no region `nothing`",
        ),
        (
            &["read", "c", "notes", "0"],
            "no node named `c` is known here; known:",
        ),
        (
            &["read", "b", "notes", "64"],
            "beyond the end of region `notes` of node b, which has 64 bytes",
        ),
        (
            &["swap", "b", "notes", "0", "1"],
            "grants read, but not the right that swap needs",
        ),
        (
            &["write", "b", "notes", "0", "--hex", "0"],
            "two hexadecimal digits",
        ),
        (&["read", "b", "notes", "0", "4000"], "512"),
        (
            &["swap", "b", "notes", "0", "ten"],
            "such as 42, -1 or 0xff",
        ),
        (
            &["write", "b", "notes", "0", ""],
            "0 bytes; one verb takes 1 to 512",
        ),
        (
            &["multi-commit", "b", "notes", "0:1"],
            "OFFSET:EXPECTED:NEW",
        ),
    ] {
        let (went, printed) = two.a.run(&[&["verb"], arguments].concat());
        assert!(
            !went && printed.contains(wanted),
            "{arguments:?}: {printed}"
        );
    }
    // Without a path, the report at the end of the wait gives the reason.
    let guid = two.b.json(&["status"])["guid"].as_str().unwrap().to_owned();
    drop(device);
    assert!(two.b.run(&["down"]).0);
    let lookup = ["verb", "lookup", &guid, "notes", "--timeout", "0.2"];
    let (went, printed) = two.a.run(&lookup);
    for words in [
        "nothing was posted: node ",
        "did not report within 0.2 s",
        "no path to it is up",
        "`covalent links`",
    ] {
        assert!(!went && printed.contains(words), "{words}: {printed}");
    }
}

#[test]
fn the_name_local_is_the_node_itself() {
    let two = Two::up();
    let device = Device::attach(two.b.socket(), "host").unwrap();
    let _notes = read_only_notes(&device);
    let (went, printed) = two.b.run(&["verb", "lookup", "local", "notes"]);
    assert!(
        went && printed.contains("64 bytes, grants read"),
        "{printed}"
    );
}
