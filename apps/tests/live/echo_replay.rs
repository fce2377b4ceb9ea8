//! Frames out, back, and compared.

use std::fs;

use covalent::{Client, Match};

use crate::{
    nodes::{Nodes, eventually, soon},
    process::{App, ECHO, REPLAY, number},
};

fn socket(nodes: &Nodes, name: &str) -> String {
    nodes.socket(name).to_str().unwrap().to_owned()
}

#[test]
fn the_built_in_sample_returns_exactly() {
    let nodes = Nodes::start(&["p0"]);
    let (a, b) = (socket(&nodes, "a"), socket(&nodes, "b"));
    let echo = App::ready(ECHO, &["--socket", &b, "--port", "p0"]);
    let replay = App::start(REPLAY, &["--socket", &a, "--port", "p0", "--rounds", "50"]);
    let (report, status) = replay.report();
    assert!(status.success(), "{report}");
    assert_eq!(report["ok"], true);
    assert_eq!(report["source"], "built-in sample");
    assert_eq!(number(&report, "rounds"), 50);
    assert_eq!(
        number(&report, "sent_packets"),
        50 * number(&report, "frames")
    );
    assert_eq!(
        number(&report, "received_packets"),
        number(&report, "sent_packets")
    );
    assert_eq!(number(&report, "refused_packets"), 0);
    assert!(
        number(&report, "rtt_p50_ns") > 0
            && number(&report, "rtt_p99_ns") >= number(&report, "rtt_p50_ns")
    );
    echo.terminate();
    let (echoed, status) = echo.report();
    assert!(status.success());
    assert_eq!(number(&echoed, "packets"), number(&report, "sent_packets"));
    assert_eq!(number(&echoed, "bytes"), number(&report, "sent_bytes"));
}

#[test]
fn real_captures_return_exactly_and_refusals_are_reported_by_cause() {
    let collection = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/data/captures");
    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/samples");
    let named = std::env::var("COVALENT_CAPTURES").ok();
    let data = match &named {
        Some(named) => named,
        None if fs::exists(collection).unwrap() => collection,
        None => sample,
    };
    let broken = tempfile::tempdir().unwrap();
    fs::write(
        broken.path().join("cut.pcap"),
        [0xd4, 0xc3, 0xb2, 0xa1, 2, 0],
    )
    .unwrap();
    let nodes = Nodes::start(&["p0"]);
    let (a, b) = (socket(&nodes, "a"), socket(&nodes, "b"));
    let _echo = App::ready(ECHO, &["--socket", &b, "--port", "p0"]);
    let broken = broken.path().to_str().unwrap();
    let replay = App::start(
        REPLAY,
        &[
            "--socket",
            &a,
            "--port",
            "p0",
            "--captures",
            data,
            broken,
            "--window",
            "100",
        ],
    );
    let (report, status) = replay.report();
    assert!(status.success(), "{report}");
    assert_eq!(
        number(&report, "received_packets") + number(&report, "refused_packets"),
        number(&report, "frames")
    );
    let frames_min = if data == collection { 5000 } else { 1 };
    assert!(number(&report, "frames") >= frames_min, "{report}");
    let refusals = report["refusals"].as_object().unwrap();
    assert!(
        refusals
            .keys()
            .all(|cause| cause == "too_long" || cause == "runt"),
        "{refusals:?}"
    );
    let bad = report["bad_captures"].as_array().unwrap();
    assert_eq!(bad.len(), 1);
    assert!(bad[0]["file"].as_str().unwrap().ends_with("cut.pcap"));
}

#[test]
fn two_ports_at_once_with_a_window_of_one() {
    let nodes = Nodes::start(&["p0", "p1"]);
    let (a, b) = (socket(&nodes, "a"), socket(&nodes, "b"));
    let echo = App::ready(ECHO, &["--socket", &b, "--port", "p0", "--port", "p1"]);
    let ports = [
        "--socket", &a, "--port", "p0", "--port", "p1", "--rounds", "20", "--window", "1",
    ];
    let (report, status) = App::start(REPLAY, &ports).report();
    assert!(status.success(), "{report}");
    echo.terminate();
    let (echoed, _) = echo.report();
    let on_port = |index: usize| number(&echoed["ports"][index], "packets");
    assert!(on_port(0) > 0 && on_port(1) > 0, "{echoed}");
    assert_eq!(on_port(0) + on_port(1), number(&report, "sent_packets"));
}

#[test]
fn progress_is_reported_during_a_replay() {
    let nodes = Nodes::start(&["p0"]);
    let (a, b) = (socket(&nodes, "a"), socket(&nodes, "b"));
    let _echo = App::ready(ECHO, &["--socket", &b, "--port", "p0"]);
    let mut replay = App::ready(
        REPLAY,
        &[
            "--socket",
            &a,
            "--port",
            "p0",
            "--seconds",
            "0.7",
            "--progress-json",
        ],
    );
    let mut reported = 0;
    let report = loop {
        let line = replay.line();
        if line["type"] == "report" {
            break line;
        }
        assert_eq!(line["type"], "progress");
        assert!(number(&line, "received_packets") >= reported);
        reported = number(&line, "received_packets");
    };
    assert!(reported > 0);
    assert!(number(&report, "received_packets") >= reported);
    assert!(number(&report, "elapsed_ns") >= 600_000_000);
}

#[test]
fn without_an_echo_everything_is_lost_and_the_check_fails() {
    let nodes = Nodes::start(&["p0"]);
    let a = socket(&nodes, "a");
    let replay = App::start(
        REPLAY,
        &["--socket", &a, "--port", "p0", "--patience-ms", "50"],
    );
    let (report, status) = replay.report();
    assert_eq!(status.code(), Some(1), "{report}");
    assert_eq!(report["ok"], false);
    assert_eq!(
        number(&report, "lost_packets"),
        number(&report, "sent_packets")
    );
    assert_eq!(number(&report, "received_packets"), 0);
    assert!(!report["problems"].as_array().unwrap().is_empty());
}

#[test]
fn a_changed_byte_is_found() {
    let nodes = Nodes::start(&["p0"]);
    let a = socket(&nodes, "a");
    let device = nodes.attach("b");
    let mut pipe = device.rx_tx_pipe(1 << 20, "p0").unwrap();
    pipe.bind(&Match::Any).unwrap();
    let replay = App::ready(
        REPLAY,
        &["--socket", &a, "--port", "p0", "--patience-ms", "10000"],
    );
    let mut seen = 0;
    while seen < 24 {
        let mut batch = pipe.recv(soon()).unwrap();
        while let Some(mut packet) = batch.next_packet() {
            seen += 1;
            if seen == 20 {
                packet[30] ^= 1;
            }
        }
        batch.send_all().unwrap();
    }
    let (report, status) = replay.report();
    assert_eq!(status.code(), Some(1), "{report}");
    assert_eq!(number(&report, "mismatched_packets"), 1, "{report}");
    assert_eq!(number(&report, "lost_packets"), 0);
    assert_eq!(number(&report, "received_packets"), 23);
    assert!(
        report["problems"][0].as_str().unwrap().contains("byte 30"),
        "{report}"
    );
}

#[test]
fn an_echo_counts_to_its_end() {
    let nodes = Nodes::start(&["p0"]);
    let (a, b) = (socket(&nodes, "a"), socket(&nodes, "b"));
    let echo = App::ready(
        ECHO,
        &[
            "--socket",
            &b,
            "--port",
            "p0",
            "--count",
            "10",
            "--match",
            "ethertype:0x0800",
        ],
    );
    // It waits this long for the other frames, which do not come back.
    let replay = App::start(
        REPLAY,
        &["--socket", &a, "--port", "p0", "--patience-ms", "1500"],
    );
    let (echoed, status) = echo.report();
    assert!(status.success());
    assert_eq!(number(&echoed, "packets"), 10);
    let (report, status) = replay.report();
    assert_eq!(status.code(), Some(1), "{report}");
    assert_eq!(
        number(&report, "received_packets"),
        10,
        "the last ones were sent too: {report}"
    );
}

#[test]
fn ending_early_is_clean_and_still_reports() {
    let nodes = Nodes::start(&["p0"]);
    let (a, b) = (socket(&nodes, "a"), socket(&nodes, "b"));
    let echo = App::ready(ECHO, &["--socket", &b, "--port", "p0"]);
    let mut replay = App::ready(
        REPLAY,
        &[
            "--socket",
            &a,
            "--port",
            "p0",
            "--seconds",
            "600",
            "--progress-json",
        ],
    );
    replay.line();
    replay.terminate();
    let (report, status) = replay.report();
    assert!(status.success(), "{report}");
    assert!(number(&report, "received_packets") > 0);
    drop(echo);
    // A kill at any moment leaves no session behind.
    for name in ["a", "b"] {
        let mut client = Client::connect(nodes.socket(name), "test").unwrap();
        eventually("every session is closed", || {
            client.status().unwrap().sessions == 0
        });
    }
}

#[test]
fn a_program_that_cannot_run_reports_the_reason() {
    let nodes = Nodes::start(&["p0"]);
    let a = socket(&nodes, "a");
    for (path, args, expected) in [
        (
            ECHO,
            vec!["--socket", "/nonexistent/s", "--port", "p0"],
            "/nonexistent/s",
        ),
        (ECHO, vec!["--socket", &a, "--port", "p7"], "it has p0"),
        (
            ECHO,
            vec!["--socket", &a, "--port", "p0", "--match", "nonsense"],
            "udp:53",
        ),
        (REPLAY, vec!["--socket", &a, "--port", "p7"], "it has p0"),
        (
            REPLAY,
            vec![
                "--socket",
                &a,
                "--port",
                "p0",
                "--captures",
                "/nonexistent/folder",
            ],
            "/nonexistent/folder",
        ),
        (
            REPLAY,
            vec![
                "--socket",
                &a,
                "--port",
                "p0",
                "--rounds",
                "1",
                "--seconds",
                "1",
            ],
            "cannot be used",
        ),
    ] {
        let (text, status) = App::start(path, &args).failure();
        assert_eq!(status.code(), Some(2), "{text}");
        assert!(text.contains(expected), "{expected} in {text}");
    }
}

#[test]
fn echo_and_replay_exit_when_the_daemon_exits() {
    let mut nodes = Nodes::start(&["p0"]);
    let (a, b) = (socket(&nodes, "a"), socket(&nodes, "b"));
    let echo = App::ready(ECHO, &["--socket", &b, "--port", "p0"]);
    let replay = App::ready(
        REPLAY,
        &["--socket", &a, "--port", "p0", "--seconds", "600"],
    );
    nodes.stop("a");
    nodes.stop("b");
    for app in [echo, replay] {
        let (text, status) = app.failure();
        assert_eq!(status.code(), Some(2), "{text}");
        assert!(text.contains("gone"), "{text}");
    }
}
