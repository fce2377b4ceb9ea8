//! The sandbox that the daemon installs around itself. `base/sandbox/tests` shows its effect on a
//! process.

use std::{fs, path::Path};

use covalent_dataplane::sandbox;
use nix::{
    sys::{
        signal::Signal,
        wait::{WaitStatus, waitpid},
    },
    unistd::{ForkResult, fork},
};

use super::{
    command::{Running, file, start, wait_until_it_listens},
    node::{Node, eventually},
};

/// Returns the kernel's seccomp mode of each thread: 2 for a filter, 0 for none.
fn modes(daemon: &Running) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{}/task", daemon.0.id())).expect("it runs");
    let mode = |task: fs::DirEntry| {
        let status = fs::read_to_string(task.path().join("status")).ok()?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("Seccomp:"))?;
        Some(line.trim().to_owned())
    };
    tasks.flatten().filter_map(mode).collect()
}

fn running(dir: &Path, is_sandboxed: bool) -> (Node, Running) {
    let mut node = Node::new(dir, "a", &["p0"], "");
    node.config.node.sandbox = is_sandboxed;
    let daemon = start(&["--config", &file(dir, &node)]);
    (node, daemon)
}

#[test]
fn each_thread_of_a_running_daemon_is_in_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let (node, daemon) = running(dir.path(), true);
    eventually("each of its threads has a filter", || {
        let modes = modes(&daemon);
        modes.len() > 4 && modes.iter().all(|mode| mode == "2")
    });
    assert_eq!(node.status().node, "a");
}

#[test]
fn the_sandbox_stays_open_if_configured() {
    let dir = tempfile::tempdir().expect("a directory");
    let (node, daemon) = running(dir.path(), false);
    wait_until_it_listens(&node);
    assert_eq!(node.status().node, "a");
    assert!(modes(&daemon).iter().all(|mode| mode == "0"));
}

#[test]
fn another_program_ends_it() {
    // SAFETY: The child takes no lock but the allocator's, which the C library keeps consistent
    // across a fork.
    let status = match unsafe { fork() }.expect("a child") {
        ForkResult::Parent { child } => waitpid(child, None).expect("it ends"),
        ForkResult::Child => {
            let closed = sandbox::install().is_ok();
            let program = c"/bin/true";
            if closed {
                let _ = nix::unistd::execv(program, &[program]);
            }
            // SAFETY: ends the child at once, with nothing of the test's run.
            unsafe { libc::_exit(1) }
        }
    };
    assert!(
        matches!(status, WaitStatus::Signaled(_, Signal::SIGSYS, _)),
        "{status:?}"
    );
}
