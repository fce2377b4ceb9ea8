//! A daemon on a machine that booted a moment or a long time ago: its monotonic clock starts
//! elsewhere. A time namespace provides that clock. The wall clock cannot be set per namespace.
//! `cli/tests/clock_steps.rs` sets it for a node's processes. No decision depends on it, as
//! `check/spec/tests/clocks.rs` shows.

use std::{
    process::{Command, Stdio},
    time::Instant,
};

use covalent_ipc::seqpacket::Connection;
use nix::time::{ClockId, clock_gettime};

use super::{
    client::{App, Client, Verbs},
    command::{Running, file},
    node::{Node, PATIENCE, eventually},
    stopped::{Additions, check_sums},
};

const ENOUGH: u64 = 500;
/// Beyond 2³¹, and so far away that its nanoseconds still fit 63 bits.
const YEARS_95_S: i64 = 3_000_000_000;

/// Starts the daemon in a namespace whose monotonic clock is `ahead_s` seconds ahead. The daemon
/// exits with the program that created the namespace.
fn start(config: &str, ahead_s: i64) -> Running {
    let child = Command::new("unshare")
        .args(["--time", "--kill-child"])
        .args([
            &format!("--monotonic={ahead_s}"),
            &format!("--boottime={ahead_s}"),
        ])
        .arg(env!("CARGO_BIN_EXE_covalentd"))
        .args(["--config", config])
        .env_remove("NOTIFY_SOCKET")
        .env_remove("RUST_LOG")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    Running(child.expect("util-linux is installed"))
}

fn can_have_time_namespaces() -> bool {
    let status = Command::new("unshare")
        .args(["--time", "--kill-child", "true"])
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}

#[test]
fn a_daemon_works_after_any_uptime() {
    if !can_have_time_namespaces() {
        eprintln!("skipped: needs root and time namespaces");
        return;
    }
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("a clock");
    for ahead_s in [1 - now.tv_sec(), YEARS_95_S] {
        let dir = tempfile::tempdir().expect("a directory");
        let a = Node::new(dir.path(), "a", &["p0"], "").start();
        let b = Node::new(dir.path(), "b", &["p0"], "");
        let _daemon = start(&file(dir.path(), &b), ahead_s);
        let socket = b.config.socket_path();
        eventually("the daemon listens", || {
            Connection::connect(&socket).is_ok()
        });
        let mut far = Client::connect(&socket);
        let mut near = a.client();
        eventually("the link is up", || {
            let links = [near.status().links, far.status().links].concat();
            links.iter().all(|link| link.state == "up")
        });
        let (mut owner_a, mut owner_b) =
            (App::attach(&a.config.socket_path()), App::attach(&socket));
        let (key_a, word_a) = owner_a.register("bank", 64);
        let (key_b, word_b) = owner_b.register("bank", 64);
        let (guid_a, guid_b) = (a.guid(), far.status().guid.bits());
        let mut from_a = Verbs::new(App::attach(&a.config.socket_path()));
        let mut from_b = Verbs::new(App::attach(&socket));
        let (mut out, mut back) = (Additions::default(), Additions::default());
        let deadline = Instant::now() + PATIENCE;
        while out.ended < ENOUGH || back.ended < ENOUGH {
            assert!(
                Instant::now() < deadline,
                "{} and {} ended, {ahead_s} s ahead",
                out.ended,
                back.ended
            );
            out.go_on(&mut from_a, guid_b, key_b, ENOUGH);
            back.go_on(&mut from_b, guid_a, key_a, ENOUGH);
        }
        check_sums([("out", &out, &word_b), ("back", &back, &word_a)]);
        let uptime_ns = far.status().uptime_ns;
        assert!(uptime_ns < PATIENCE.as_nanos() as u64 * 10, "{uptime_ns}");
    }
}
