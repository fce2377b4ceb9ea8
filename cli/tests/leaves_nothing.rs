//! Whatever ends a demonstration, nothing of it is left.
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
    Guarded, children_of, covalent, entries, exists, is_inhabited, media, namespaces_of, wait_until,
};

const PATIENCE: Duration = Duration::from_secs(20);

fn start(temporary: &Path, medium: &str) -> Guarded {
    let mut command = covalent(temporary);
    command
        .args(["demo", "--quick", "--no-bench", "--port", medium])
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    Guarded(command.spawn().unwrap())
}

/// Its processes and their namespaces, once both daemons and both control processes run.
fn running(demo: &Guarded) -> (BTreeSet<i32>, BTreeSet<PathBuf>) {
    wait_until("four processes run", PATIENCE, || {
        children_of(demo.0.id()).len() >= 4
    });
    let children = children_of(demo.0.id());
    let namespaces = namespaces_of(&children);
    (children, namespaces)
}

fn assert_gone(children: &BTreeSet<i32>, namespaces: &BTreeSet<PathBuf>) {
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
        // From the first breath over the start of the nodes into streams and verbs.
        for (after_ms, signal) in [
            (0, Signal::SIGTERM),
            (60, Signal::SIGINT),
            (250, Signal::SIGHUP),
            (900, Signal::SIGINT),
            (2_600, Signal::SIGTERM),
        ] {
            let temporary = tempfile::tempdir().unwrap();
            let mut demo = start(temporary.path(), medium);
            thread::sleep(Duration::from_millis(after_ms));
            let children = children_of(demo.0.id());
            let namespaces = namespaces_of(&children);
            demo.signal(signal);
            let code = demo.exit_code(PATIENCE);
            // A signal before it was taken over ends the process in the ordinary way, with nothing made yet.
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
fn after_kill_9_the_children_are_gone_at_once_and_the_next_start_sweeps_the_rest() {
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
            "its directory and that of the one that lives"
        );

        let clean = covalent(temporary.path())
            .args(["demo", "--clean"])
            .output()
            .unwrap();
        assert!(clean.status.success());
        let told = String::from_utf8(clean.stdout).unwrap();
        assert!(
            told.contains(&format!("covalent-demo-{}-", demo.0.id())),
            "{told}"
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
