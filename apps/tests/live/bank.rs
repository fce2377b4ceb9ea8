//! A bank on one node and clients on both.

use std::{thread, time::Duration};

use covalent::Timeout;
use serde_json::Value;

use crate::{
    nodes::{Nodes, eventually},
    process::{App, BANK, number},
};

fn socket(nodes: &Nodes, name: &str) -> String {
    nodes.socket(name).to_str().unwrap().to_owned()
}

fn host(nodes: &Nodes, more: &[&str]) -> App {
    host_at(&socket(nodes, "b"), more)
}

fn client(nodes: &Nodes, on: &str, more: &[&str]) -> App {
    client_at(&socket(nodes, on), more)
}

/// A bank at the daemon that listens at `socket`.
pub fn host_at(socket: &str, more: &[&str]) -> App {
    App::ready(BANK, &[&["host", "--socket", socket], more].concat())
}

/// A client at the daemon that listens at `socket`, of the bank on node b.
pub fn client_at(socket: &str, more: &[&str]) -> App {
    App::start(
        BANK,
        &[&["client", "--socket", socket, "--node", "b"], more].concat(),
    )
}

/// The host's report, once its stdin is closed.
pub fn books(mut host: App) -> Value {
    drop(host.stdin.take());
    let (report, status) = host.report();
    assert!(status.success(), "{report}");
    report
}

/// Checks the clients' sums against the bank's counter, as the help text describes.
pub fn assert_exact(books: &Value, clients: &[Value]) {
    let sum = |name: &str| {
        clients
            .iter()
            .fold(0u64, |sum, report| sum.wrapping_add(number(report, name)))
    };
    let counter = number(books, "counter");
    assert_eq!(counter, sum("delta_sum"));
    assert_eq!(counter.wrapping_mul(counter), sum("squares"));
    assert_eq!(
        counter.wrapping_mul(counter).wrapping_mul(counter),
        sum("cubes")
    );
    assert_eq!(sum("overlaps"), 0);
    assert_eq!(
        books["guarded"],
        serde_json::json!([sum("locks"), sum("locks")])
    );
    assert_eq!(
        number(books, "accounts_sum"),
        number(books, "accounts_sum_expected")
    );
    assert_eq!(number(books, "lock"), 0);
}

#[test]
fn four_clients_on_two_nodes_are_exact_through_cuts() {
    let nodes = Nodes::start(&["p0", "p1"]);
    let host = host(&nodes, &["--accounts", "16", "--balance", "500"]);
    let clients: Vec<_> = ["a", "a", "b", "b"]
        .into_iter()
        .zip(["1", "2", "3", "4"])
        .map(|(on, seed)| {
            let work = [
                "--fetch-adds",
                "8000",
                "--transfers",
                "800",
                "--locks",
                "60",
                "--seed",
                seed,
            ];
            client(&nodes, on, &[&work[..], &["--delta", seed]].concat())
        })
        .collect();
    for (port, enabled) in [("p0", false), ("p0", true), ("p1", false), ("p1", true)] {
        thread::sleep(Duration::from_millis(60));
        nodes.set_port(port, enabled);
    }
    let reports: Vec<_> = clients
        .into_iter()
        .map(|client| {
            let (report, status) = client.report();
            assert!(status.success(), "{report}");
            assert_eq!(report["complete"], true);
            report
        })
        .collect();
    let books = books(host);
    assert_eq!(books["ok"], true);
    assert_eq!(number(&books, "counter"), 8000 * (1 + 2 + 3 + 4));
    assert_eq!(books["accounts"].as_array().unwrap().len(), 16);
    assert_exact(&books, &reports);
    assert!(
        reports
            .iter()
            .all(|report| number(report, "rtt_p50_ns") > 0 && number(report, "verbs") >= 8860)
    );
}

#[test]
fn a_client_that_ends_early_leaves_exact_books_and_no_lock() {
    let nodes = Nodes::start(&["p0"]);
    let host = host(&nodes, &[]);
    let mut client = client(
        &nodes,
        "a",
        &[
            "--fetch-adds",
            "100000000",
            "--locks",
            "1000000",
            "--progress-json",
        ],
    );
    assert_eq!(client.line()["type"], "ready");
    let progress = client.line();
    assert_eq!(progress["type"], "progress");
    assert!(number(&progress, "fetch_adds") > 0);
    client.terminate();
    let (report, status) = client.report();
    assert!(status.success(), "{report}");
    assert_eq!(report["complete"], false);
    assert_exact(&books(host), &[report]);
}

#[test]
fn a_killed_client_is_reclaimed_and_disturbs_no_other() {
    let nodes = Nodes::start(&["p0"]);
    let host = host(&nodes, &[]);
    let mut killed = client(
        &nodes,
        "a",
        &[
            "--fetch-adds",
            "100000000",
            "--locks",
            "0",
            "--progress-json",
        ],
    );
    killed.line();
    killed.line();
    killed.kill();
    let survivor = client(
        &nodes,
        "a",
        &[
            "--fetch-adds",
            "2000",
            "--transfers",
            "200",
            "--locks",
            "10",
        ],
    );
    let (report, status) = survivor.report();
    assert!(status.success(), "{report}");
    let mut watcher = covalent::Client::connect(nodes.socket("a"), "test").unwrap();
    eventually("both sessions are closed", || {
        watcher.status().unwrap().sessions == 0
    });
    let books = books(host);
    assert!(
        number(&books, "counter") > 2000,
        "the effects of the killed client persist"
    );
    assert_eq!(
        number(&books, "accounts_sum"),
        number(&books, "accounts_sum_expected")
    );
}

#[test]
fn a_lock_of_a_dead_holder_is_reported_and_blocks_no_client() {
    const LOCK: u64 = 8;
    const DEAD: u64 = 0xdead;
    let nodes = Nodes::start(&["p0"]);
    let host = host(&nodes, &[]);
    // A client that died inside the section leaves no more than this.
    let device = covalent::Device::attach(nodes.socket("a"), "dead holder").unwrap();
    let mut verbs = device.verbs().unwrap();
    let region = verbs
        .open_region(covalent::Target::Name("b"), "bank", Timeout::FOREVER)
        .unwrap();
    verbs
        .compare_and_swap(&region, LOCK, 0, DEAD, Timeout::FOREVER)
        .unwrap()
        .unwrap();

    let work = ["--fetch-adds", "100", "--transfers", "10", "--locks", "5"];
    let impatient = client(
        &nodes,
        "a",
        &[&work[..], &["--patience-ms", "300"]].concat(),
    );
    let (report, status) = impatient.report();
    assert_eq!(status.code(), Some(1), "{report}");
    assert!(
        report["problems"][0].as_str().unwrap().contains("0xdead"),
        "{report}"
    );
    assert!(
        number(&report["retries"], "lock_taken") < 2_000,
        "attempts pause between: {report}"
    );

    let mut stopped_client = client(&nodes, "b", &[&work[..], &["--progress-json"]].concat());
    assert_eq!(stopped_client.line()["type"], "ready");
    while number(&stopped_client.line(), "transfers") < 10 {}
    stopped_client.terminate();
    let (report, status) = stopped_client.report();
    assert!(status.success(), "{report}");
    assert_eq!(
        (number(&report, "locks"), &report["complete"]),
        (0, &false.into())
    );
    let (books, _) = {
        let mut host = host;
        drop(host.stdin.take());
        host.report()
    };
    assert_eq!(number(&books, "lock"), DEAD);
}

#[test]
fn a_client_waits_for_its_bank_and_reports_a_missing_one() {
    let nodes = Nodes::start(&["p0"]);
    let early = client(
        &nodes,
        "a",
        &["--fetch-adds", "10", "--transfers", "5", "--locks", "1"],
    );
    thread::sleep(Duration::from_millis(100));
    let host = host(&nodes, &["--region", "bank"]);
    let (report, status) = early.report();
    assert!(status.success(), "{report}");
    assert_exact(&books(host), &[report]);

    let (text, status) = client(&nodes, "a", &["--wait-ms", "50"]).failure();
    assert_eq!(status.code(), Some(2));
    assert!(text.contains("`bank`"), "{text}");
    let socket = socket(&nodes, "a");
    let (text, status) = App::start(
        BANK,
        &[
            "client",
            "--socket",
            &socket,
            "--node",
            "elsewhere",
            "--wait-ms",
            "50",
        ],
    )
    .failure();
    assert_eq!(status.code(), Some(2));
    assert!(
        text.contains("elsewhere") && text.contains("a, b"),
        "{text}"
    );
}

#[test]
fn a_client_can_use_the_bank_of_its_own_node() {
    let nodes = Nodes::start(&["p0"]);
    let host = host(&nodes, &[]);
    let socket = socket(&nodes, "b");
    let args = [
        "client",
        "--socket",
        &socket,
        "--node",
        "local",
        "--fetch-adds",
        "5000",
        "--transfers",
        "500",
    ];
    let (report, status) = App::start(BANK, &args).report();
    assert!(status.success(), "{report}");
    assert_exact(&books(host), &[report]);
}

#[test]
fn a_host_ends_on_a_signal_and_with_its_daemon() {
    let mut nodes = Nodes::start(&["p0"]);
    let first = host(&nodes, &[]);
    first.terminate();
    let (report, status) = first.report();
    assert!(status.success());
    assert_eq!(number(&report, "counter"), 0);
    let second = host(&nodes, &["--region", "other"]);
    nodes.stop("b");
    let (text, status) = second.failure();
    assert_eq!(status.code(), Some(2), "{text}");
    assert!(text.contains("gone"), "{text}");
}
