//! Counters in shared memory, read while a daemon runs, is stopped or has crashed. The readers are
//! the command, control for /metrics, and a script that knows only the description of the file.
#![allow(clippy::unwrap_used)]

mod support;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::Command,
};

use covalent::Device;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;
use support::{
    node::{Node, PATIENCE},
    wait_until,
};

/// Starts a node without a neighbor. Returns it and the address of its /metrics.
fn lonely(place: &Path, more: &str) -> (Node, String) {
    // The port is free now, and the node binds it at once.
    let address = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let node = Node::up(place, "a", &place.join("x.sock"), "");
    let (went, printed) = node.run(&["down"]);
    assert!(went, "{printed}");
    let text = fs::read_to_string(node.file()).unwrap();
    let text = text
        .replace("127.0.0.1:0", &address.to_string())
        .replace("[dataplane]\n", &format!("[dataplane]\n{more}"));
    fs::write(node.file(), text).unwrap();
    let (went, printed) = node.run(&["up"]);
    assert!(went, "{printed}");
    (node, format!("http://{address}/metrics"))
}

fn file(node: &Node) -> PathBuf {
    node.socket().with_file_name("counters")
}

fn state(node: &Node) -> String {
    let printed = node.json(&["counters"]);
    printed["state"].as_str().unwrap().to_owned()
}

/// Returns only the series: the other fields change by themselves.
fn series(printed: &Value) -> BTreeMap<String, String> {
    let series = printed["series"].as_array().unwrap().iter();
    series
        .map(|one| {
            let name = format!("{}{}", one["name"].as_str().unwrap(), one["labels"]);
            (name, one["value"].to_string())
        })
        .collect()
}

fn scrape(address: &str) -> String {
    let mut answer = ureq::get(address).call().unwrap();
    answer.body_mut().read_to_string().unwrap()
}

/// Names and labels of the samples, and their values.
fn samples(page: &str) -> BTreeMap<&str, &str> {
    let lines = page.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.rsplit_once(' ').unwrap()).collect()
}

fn of_daemon<'a>(samples: &BTreeMap<&'a str, &str>) -> BTreeSet<&'a str> {
    let names = samples.keys().copied();
    names
        .filter(|name| !name.starts_with("covalent_control_"))
        .collect()
}

#[test]
fn counters_are_read_while_the_daemon_runs_and_after_it_ended_or_died() {
    let place = tempfile::tempdir().unwrap();
    let node = Node::up(place.path(), "a", &place.path().join("x.sock"), "");
    // Zeros are not shown, and a lane writes once before its first loop.
    wait_until(
        "every writer has written, and the lane loops",
        PATIENCE,
        || {
            let printed = node.json(&["counters"]);
            let has_written = |writer: &Value| writer["written_realtime_ns"] != 0;
            let series = printed["series"].as_array().unwrap();
            printed["writers"]
                .as_array()
                .unwrap()
                .iter()
                .all(has_written)
                && series
                    .iter()
                    .any(|one| one["name"] == "covalent_lane_loops_total" && one["value"] != 0.0)
        },
    );
    let running = node.json(&["counters"]);
    assert_eq!(
        (&running["state"], &running["node"]),
        (&"running".into(), &"a".into())
    );
    let value = |printed: &Value, name: &str| -> f64 {
        let found = printed["series"].as_array().unwrap().iter();
        let mut found = found.filter(|one| one["name"] == name);
        found.next().unwrap_or_else(|| panic!("no {name}"))["value"]
            .as_f64()
            .unwrap()
    };
    assert!(value(&running, "covalent_port_frame_max_bytes") > 1000.0);
    let (went, printed) = node.run(&["counters"]);
    assert!(
        went && printed.contains("is running") && printed.contains("covalent_lane_loops_total"),
        "{printed}"
    );

    // The daemon is stopped: reading does not need it.
    let pid = Pid::from_raw(running["pid"].as_i64().unwrap() as i32);
    let before = value(&running, "covalent_lane_loops_total");
    wait_until("the lane goes round", PATIENCE, || {
        value(&node.json(&["counters"]), "covalent_lane_loops_total") > before
    });
    kill(pid, Signal::SIGSTOP).unwrap();
    assert_eq!(state(&node), "running");
    let last = series(&node.json(&["counters"]));

    // The daemon is killed, and cannot report anything.
    kill(pid, Signal::SIGKILL).unwrap();
    wait_until("it is known to be dead", PATIENCE, || {
        state(&node) == "died"
    });
    let dead = node.json(&["counters"]);
    assert_eq!(series(&dead), last);
    let (went, printed) = node.run(&["counters"]);
    assert!(went && printed.contains("has died"), "{printed}");
    let of_dead = fs::File::open(file(&node)).unwrap();

    // The next daemon replaces the file. The old one is kept, and open descriptors still refer to
    // it.
    let (went, printed) = node.run(&["up"]);
    assert!(went, "{printed}");
    let kept = file(&node).with_file_name("counters.before");
    let kept = node.json(&["counters", "--file", kept.to_str().unwrap()]);
    assert_eq!(
        (&kept["state"], &kept["pid"]),
        (&"died".into(), &dead["pid"])
    );
    assert_eq!(series(&kept), last);
    assert!(file(&node).with_file_name("counters.ring.before").exists());
    let next = node.json(&["counters"]);
    assert_eq!(next["state"], "running");
    assert_ne!(next["pid"], dead["pid"]);
    let mut head = [0; 32];
    std::os::unix::fs::FileExt::read_exact_at(&of_dead, &mut head, 0).unwrap();
    assert_eq!(&head[24..32], (pid.as_raw() as u64).to_ne_bytes());
    let (went, printed) = node.run(&["down"]);
    assert!(went, "{printed}");
    let ended = node.json(&["counters"]);
    assert_eq!(
        (&ended["state"], &ended["pid"]),
        (&"ended".into(), &next["pid"])
    );
    assert!(value(&ended, "covalent_lane_loops_total") > 0.0);
    assert!(node.run(&["counters"]).1.contains("has ended"));
}

#[test]
fn a_node_may_do_without_the_files() {
    let place = tempfile::tempdir().unwrap();
    let (node, address) = lonely(place.path(), "counters_ms = 0\n");
    assert!(
        !file(&node).exists(),
        "the files of the previous daemon are gone"
    );
    assert!(!file(&node).with_file_name("counters.ring").exists());
    let (went, printed) = node.run(&["counters"]);
    assert!(
        !went && printed.contains("dataplane.counters_ms"),
        "{printed}"
    );
    wait_until("/metrics queries the daemon instead", PATIENCE, || {
        samples(&scrape(&address)).contains_key("covalent_node_events_total{node=\"a\"}")
    });
}

#[test]
fn metrics_are_read_from_the_file_without_a_request() {
    const PIPES: usize = 1000;
    let place = tempfile::tempdir().unwrap();
    let (node, address) = lonely(place.path(), "pipes_per_session_max = 2000\n");
    let status_requests =
        |page: &str| samples(page)["covalent_control_status_requests_total{node=\"a\"}"].to_owned();
    let device = Device::attach(node.socket(), "test").unwrap();
    let mut pipes: Vec<_> = (0..PIPES)
        .map(|_| device.tx_pipe(64 << 10, "p0").unwrap())
        .collect();
    let of_pipes = |page: &str| {
        let found = page
            .lines()
            .filter(|line| line.starts_with("covalent_pipe_tx_packets_total{"));
        found.count()
    };
    wait_until("all pipes are written", PATIENCE, || {
        of_pipes(&scrape(&address)) >= PIPES
    });
    let before = scrape(&address);
    for _ in 0..10 {
        assert!(of_pipes(&scrape(&address)) >= PIPES);
    }
    let shared = scrape(&address);
    assert_eq!(
        status_requests(&shared),
        status_requests(&before),
        "a scrape requests no status"
    );
    assert_eq!(samples(&shared)["covalent_up{node=\"a\"}"], "1");
    assert_eq!(
        samples(&shared)["covalent_node_omitted_objects{node=\"a\"}"],
        "0"
    );

    // With few pipes, so that the status fits them, both methods report the same series in the same
    // words.
    pipes.truncate(3);
    // Their memory is freed a little later: then the session has one mapping, and each pipe three.
    wait_until("the other pipes are gone", PATIENCE, || {
        let page = scrape(&address);
        of_pipes(&page) == 3 && samples(&page)["covalent_node_mappings{node=\"a\"}"] == "10"
    });
    let shared = scrape(&address);
    fs::remove_file(file(&node)).unwrap();
    let printed = scrape(&address);
    assert_ne!(
        status_requests(&printed),
        status_requests(&shared),
        "now the status was requested"
    );
    let (shared_samples, printed_samples) = (samples(&shared), samples(&printed));
    assert_eq!(of_daemon(&shared_samples), of_daemon(&printed_samples));
    let about = |page: &str| -> BTreeSet<String> {
        let lines = page.lines().filter(|line| line.starts_with('#'));
        lines.map(ToOwned::to_owned).collect()
    };
    assert_eq!(about(&shared), about(&printed));
    // Values that do not change by themselves are equal.
    let moves = [
        "_seconds", "_loops_", "_sleeps_", "resident", "_events_", "_frames",
    ];
    for (name, value) in &shared_samples {
        if !name.starts_with("covalent_control_") && !moves.iter().any(|word| name.contains(word)) {
            assert_eq!(Some(value), printed_samples.get(name), "{name}");
        }
    }
    drop(pipes);
}

#[test]
fn the_counters_of_a_hanging_daemon_are_not_served() {
    let place = tempfile::tempdir().unwrap();
    let (node, address) = lonely(place.path(), "");
    let up = || samples(&scrape(&address))["covalent_up{node=\"a\"}"] == "1";
    wait_until("the daemon is up", PATIENCE, up);
    let pid = node.json(&["counters"])["pid"].as_i64().unwrap();
    let pid = Pid::from_raw(pid as i32);
    kill(pid, Signal::SIGSTOP).unwrap();
    wait_until("/metrics reports that it hangs", PATIENCE, || !up());
    assert_eq!(state(&node), "running");
    kill(pid, Signal::SIGCONT).unwrap();
    wait_until("it is up again", PATIENCE, up);
}

#[test]
fn a_script_that_knows_the_description_alone_reads_both_files() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/counters.py");
    let python = |arguments: &[&Path]| {
        let run = Command::new("python3")
            .arg(&script)
            .args(arguments)
            .output();
        run.inspect_err(|error| eprintln!("skipped: python3: {error}"))
            .ok()
    };
    let place = tempfile::tempdir().unwrap();
    let [a, b] = Node::pair(place.path());
    let ring = file(&a).with_file_name("counters.ring");
    // Both read the file of the killed daemon, so that nothing changes in between.
    wait_until("samples were taken", PATIENCE, || {
        fs::read(&ring).unwrap()[152] > 20
    });
    let pid = a.json(&["counters"])["pid"].as_i64().unwrap();
    kill(Pid::from_raw(pid as i32), Signal::SIGKILL).unwrap();
    wait_until("it is dead", PATIENCE, || state(&a) == "died");
    let ours = a.json(&["counters"]);
    let Some(output) = python(&[&file(&a), &ring]) else {
        return;
    };
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let lines: Vec<Value> = output
        .stdout
        .split(|&byte| byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect();
    let theirs: Vec<&Value> = lines
        .iter()
        .filter(|line| !line["series"].is_null())
        .collect();
    // Only one lane writes, so no series is reported in parts.
    assert_eq!(theirs.len(), ours["series"].as_array().unwrap().len());
    for one in &theirs {
        let found = ours["series"].as_array().unwrap().iter().find(|other| {
            let labels: Vec<String> = other["labels"]
                .as_object()
                .unwrap()
                .iter()
                .map(|(name, value)| format!("{name}={value}"))
                .collect();
            other["name"] == one["series"]
                && labels
                    .iter()
                    .all(|label| one["labels"].as_str().unwrap().contains(label.as_str()))
                && labels.len() == one["labels"].as_str().unwrap().matches("=\"").count()
        });
        let found = found.unwrap_or_else(|| panic!("{one}"));
        assert_eq!(found["value"].as_f64(), one["value"].as_f64(), "{one}");
    }
    let records: Vec<&Value> = lines
        .iter()
        .filter(|line| !line["sequence"].is_null())
        .collect();
    assert!(records.windows(2).all(|two| {
        two[1]["sequence"].as_u64() == two[0]["sequence"].as_u64().map(|number| number + 1)
    }));
    let events = records.iter().filter(|record| !record["event"].is_null());
    let events: Vec<&Value> = events.map(|record| &record["event"]).collect();
    assert!(
        events
            .iter()
            .any(|event| event["event"] == "link_up" && event["peer_name"] == "b"),
        "{events:?}"
    );
    // The samples are of objects of the file: the lane has one at least.
    let sampled = records.iter().filter(|record| !record["values"].is_null());
    let lane: Vec<&&Value> = sampled
        .filter(|record| record["writer"] == 0 && record["table"] == 0)
        .collect();
    assert!(lane.len() > 1, "{records:?}");
    drop(b);
}
