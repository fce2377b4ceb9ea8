//! `covalent watch`, on running nodes.
#![allow(clippy::unwrap_used)]

mod support;

use std::{
    fs,
    io::{BufRead, BufReader},
    net::TcpListener,
    process::Stdio,
};

use nix::sys::signal::Signal;
use serde_json::Value;
use support::{
    Guarded,
    node::{Node, PATIENCE},
    terminal::Terminal,
    wait_until,
};

fn alone(place: &tempfile::TempDir) -> Node {
    Node::up(place.path(), "a", &place.path().join("x.sock"), "")
}

fn lines(printed: &str) -> Vec<Value> {
    let lines = printed.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn programs_get_samples_line_by_line() {
    let place = tempfile::tempdir().unwrap();
    let node = alone(&place);
    let watch = ["watch", "port", "covalent_up", "--interval", "0.1"];
    let json = ["--count", "3", "--format", "json"];
    let (went, printed) = node.run(&[&watch[..], &json].concat());
    assert!(went, "{printed}");
    let samples = lines(&printed);
    for (sample, number) in samples.iter().zip(1..) {
        assert_eq!(sample["number"], number);
        assert_eq!(sample["node"], "a");
        assert_eq!(sample["daemon_answers"], true);
        let families = sample["families"].as_array().unwrap();
        let carrier = families
            .iter()
            .find(|family| family["name"] == "covalent_port_carrier")
            .unwrap();
        assert_eq!(carrier["kind"], "gauge");
        assert_eq!(carrier["series"][0]["labels"]["port"], "p0");
        assert!(families.iter().all(|family| {
            let name = family["name"].as_str().unwrap();
            name.starts_with("covalent_port_") || name == "covalent_up"
        }));
    }
    assert_eq!(samples.len(), 3);
    let clock = |at: usize| samples[at]["monotonic_ns"].as_u64().unwrap();
    assert!(clock(1) > clock(0) && clock(2) > clock(1));
}

#[test]
fn without_a_terminal_each_change_is_a_line() {
    let place = tempfile::tempdir().unwrap();
    let node = alone(&place);
    let watch = ["watch", "node", "--interval", "0.1", "--count", "3"];
    let (went, printed) = node.run(&watch);
    assert!(went && !printed.contains('\u{1b}'), "{printed}");
    let of = |name: &str| printed.lines().filter(|line| line.contains(name)).count();
    assert_eq!(of(" covalent_node_info{"), 1, "{printed}");
    assert_eq!(of(" covalent_node_uptime_seconds "), 3, "{printed}");
    assert!(
        printed.lines().all(|line| line.starts_with("20")),
        "{printed}"
    );
}

#[test]
fn the_first_sample_has_rates() {
    let place = tempfile::tempdir().unwrap();
    let node = alone(&place);
    // The sample after the first would take an hour.
    let watch = ["watch", "lane_loops", "--interval", "3600", "--count", "1"];
    let (went, printed) = node.run(&watch);
    assert!(went, "{printed}");
    let lines: Vec<_> = printed.lines().collect();
    assert!(
        !lines.is_empty() && lines.iter().all(|line| line.ends_with("/s)")),
        "{printed}"
    );
}

#[test]
fn missing_families_are_named() {
    let place = tempfile::tempdir().unwrap();
    let node = alone(&place);
    for (arguments, wanted) in [
        (
            &["watch", "prot"][..],
            "`covalent_prot`, which matches no metric",
        ),
        (
            &["watch", "--label", "prot=p0"],
            "a label that no metric has",
        ),
        (
            &["watch", "--interval", "0.01"],
            "expected seconds, 0.1 to 3600",
        ),
        (&["watch", "--events", "port"], "cannot be used with"),
        (
            &["watch", "--socket", "/nowhere.sock"],
            "no telemetry server at /nowhere.sock",
        ),
    ] {
        let (went, printed) = node.run(arguments);
        assert!(
            !went && printed.contains(wanted),
            "{arguments:?}: {printed}"
        );
    }
}

#[test]
fn kept_events_and_new_events_are_printed() {
    let place = tempfile::tempdir().unwrap();
    let [a, b] = Node::pair(place.path());
    let mut command = a.command(&["watch", "--events", "--format", "json"]);
    let mut watches = Guarded(command.stdout(Stdio::piped()).spawn().unwrap());
    let printed = BufReader::new(watches.0.stdout.take().unwrap());
    let mut events = printed
        .lines()
        .map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    let up = events.find(|event| event["event"] == "link_up").unwrap();
    assert_eq!(up["peer_name"], "b");
    // The same as the daemon's own.
    let kept = a.json(&["events"]);
    assert!(kept.as_array().unwrap().contains(&up), "{up} {kept}");
    drop(b);
    let down = events.find(|event| event["event"] == "link_down").unwrap();
    assert_eq!(down["port"], "p0");
    watches.signal(Signal::SIGINT);
    assert_eq!(watches.exit_code(PATIENCE), Some(130));

    let (went, printed) = a.run(&["watch", "--events", "--count", "1"]);
    assert!(went && printed.lines().count() == 1, "{printed}");
}

#[test]
fn it_is_served_at_an_address_after_a_reload_and_ends_with_control() {
    let place = tempfile::tempdir().unwrap();
    let node = alone(&place);
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap().to_string();
    drop(free);
    let text = fs::read_to_string(node.file()).unwrap();
    let with = text.replace(
        "[control]\n",
        &format!("[control]\ngrpc_listen = \"{address}\"\n"),
    );
    fs::write(node.file(), with).unwrap();
    let (went, printed) = node.run(&["reload"]);
    assert!(went && printed.contains("control.grpc_listen"), "{printed}");
    let watch = ["watch", "up", "--count", "1", "--at", &address];
    wait_until("it is served there", PATIENCE, || node.run(&watch).0);

    let mut command = node.command(&["watch", "up", "--at", &address, "--format", "json"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut watches = Guarded(command.spawn().unwrap());
    let mut printed = BufReader::new(watches.0.stdout.take().unwrap()).lines();
    assert!(printed.next().is_some());
    drop(node);
    assert_eq!(watches.exit_code(PATIENCE), Some(1));
    let mut error_output = String::new();
    let mut errors = watches.0.stderr.take().unwrap();
    std::io::Read::read_to_string(&mut errors, &mut error_output).unwrap();
    assert!(
        error_output.contains("covalent-control at"),
        "{error_output}"
    );
}

#[test]
fn on_a_terminal_the_newest_sample_stands() {
    let Some(terminal) = Terminal::open() else {
        return;
    };
    let place = tempfile::tempdir().unwrap();
    let node = alone(&place);
    let program = env!("CARGO_BIN_EXE_covalent");
    let file = node.file();
    terminal.run(&format!(
        "clear; {program} watch node_uptime up --interval 0.1 --config {}",
        file.display()
    ));
    terminal.wait_for("covalent_node_uptime_seconds");
    let uptime = || {
        let screen = terminal.screen();
        assert_eq!(screen.matches("covalent_up ").count(), 1, "{screen}");
        let line = screen
            .lines()
            .find(|line| line.contains("covalent_node_uptime_seconds"));
        line.map(str::to_owned)
    };
    let first = uptime();
    wait_until("another sample", PATIENCE, || {
        uptime().is_some_and(|now| Some(now) != first)
    });
    terminal.send(&["C-c"]);
    terminal.run("echo status-$?");
    terminal.wait_for("status-130");
}
