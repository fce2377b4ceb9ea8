//! A demonstration leaves nothing behind, however it is stopped.
#![allow(clippy::unwrap_used)]

mod support;

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::Stdio,
    thread,
    time::Duration,
};

use nix::sys::signal::Signal;
use support::{
    Guarded, Held, children_of, covalent, entries, exists, is_inhabited, is_root, media,
    namespaces_of, wait_until,
};

const PATIENCE: Duration = Duration::from_secs(60);

fn start(temporary: &Path, medium: &str) -> Guarded {
    start_with(temporary, &["--no-bench", "--port", medium])
}

fn start_with(temporary: &Path, more: &[&str]) -> Guarded {
    let mut command = covalent(temporary);
    command
        .args(["demo", "--quick"])
        .args(more)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    Guarded(command.spawn().unwrap())
}

/// Its processes and their namespaces, once both daemons and both control processes run.
fn running(demo: &Guarded) -> (BTreeSet<i32>, Vec<Held>) {
    wait_until("four processes run", PATIENCE, || {
        children_of(demo.0.id()).len() >= 4
    });
    let children = children_of(demo.0.id());
    let namespaces = namespaces_of(&children);
    (children, namespaces)
}

fn assert_gone(children: &BTreeSet<i32>, namespaces: &[Held]) {
    wait_until("every process is gone", PATIENCE, || {
        !children.iter().any(|&pid| exists(pid))
    });
    wait_until("every namespace is gone", PATIENCE, || {
        !is_inhabited(namespaces)
    });
}

#[test]
fn a_signal_at_any_moment_leaves_nothing() {
    for &medium in media() {
        // From the first instruction over the start of the nodes to streams and verbs. There are
        // more of these than any machine completes in that time.
        for (after_ms, signal) in [
            (0, Signal::SIGTERM),
            (60, Signal::SIGINT),
            (250, Signal::SIGHUP),
            (900, Signal::SIGINT),
            (2_600, Signal::SIGTERM),
        ] {
            let temporary = tempfile::tempdir().unwrap();
            let endless = ["--no-bench", "--port", medium, "--fetch-adds", "1000000000"];
            let mut demo = start_with(temporary.path(), &endless);
            thread::sleep(Duration::from_millis(after_ms));
            let children = children_of(demo.0.id());
            let namespaces = namespaces_of(&children);
            demo.signal(signal);
            let code = demo.exit_code(PATIENCE);
            // A signal before its handling is installed kills the process in the default way, with
            // nothing created yet.
            assert!(
                code.is_none() || code == Some(128 + signal as i32),
                "{medium} {signal} after {after_ms} ms: {code:?}"
            );
            assert_gone(&children, &namespaces);
            assert_eq!(
                entries(temporary.path()),
                Vec::<PathBuf>::new(),
                "{medium} {signal} after {after_ms} ms"
            );
        }
    }
}

#[test]
fn after_kill_9_children_end_and_the_next_start_removes_the_rest() {
    for &medium in media() {
        let temporary = tempfile::tempdir().unwrap();
        let mut demo = start(temporary.path(), medium);
        let (children, namespaces) = running(&demo);
        assert_eq!(namespaces.len(), if medium == "af_xdp" { 2 } else { 0 });
        let living = start(temporary.path(), "cable");
        running(&living);

        demo.signal(Signal::SIGKILL);
        demo.exit_code(PATIENCE);
        assert_gone(&children, &namespaces);
        assert_eq!(
            entries(temporary.path()).len(),
            2,
            "its directory and that of the running one"
        );

        let clean = covalent(temporary.path())
            .args(["demo", "--clean"])
            .output()
            .unwrap();
        assert!(clean.status.success());
        let printed = String::from_utf8(clean.stdout).unwrap();
        assert!(
            printed.contains(&format!("covalent-demo-{}-", demo.0.id())),
            "{printed}"
        );
        let left = entries(temporary.path());
        assert_eq!(left.len(), 1);
        assert!(
            left[0]
                .to_string_lossy()
                .contains(&format!("covalent-demo-{}-", living.0.id())),
            "{left:?}"
        );
    }
}

#[test]
#[cfg_attr(
    debug_assertions,
    ignore = "a debug build does not measure performance"
)]
fn an_end_while_the_performance_is_measured_leaves_nothing() {
    if !is_root() {
        return;
    }
    let measures = |temporary: &Path| {
        entries(temporary)
            .iter()
            .flat_map(|workplace| entries(workplace))
            .any(|entry| entry.join("node.toml").exists())
    };
    let patience = Duration::from_secs(60);
    for signal in [Signal::SIGINT, Signal::SIGKILL] {
        let temporary = tempfile::tempdir().unwrap();
        let mut demo = start_with(temporary.path(), &["--port", "af_xdp"]);
        wait_until("a daemon of the measurement runs", patience, || {
            measures(temporary.path())
        });
        let children = children_of(demo.0.id());
        let namespaces = namespaces_of(&children);
        demo.signal(signal);
        demo.exit_code(PATIENCE);
        assert_gone(&children, &namespaces);
        if signal == Signal::SIGKILL {
            let clean = covalent(temporary.path())
                .args(["demo", "--clean"])
                .output()
                .unwrap();
            assert!(clean.status.success());
        }
        assert_eq!(entries(temporary.path()), Vec::<PathBuf>::new(), "{signal}");
    }
}
