//! The daemon's notifications to a service manager: that it is ready, and that it is alive while
//! each of its threads makes progress.

use std::{
    os::unix::net::UnixDatagram,
    path::Path,
    process::{Child, Command, Stdio},
    thread::sleep,
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::{
    command::{Running, file},
    held::{Held, thread_of},
    node::{Node, PATIENCE, eventually},
};

/// Interval at which the service manager requires a notification.
const EVERY: Duration = Duration::from_millis(400);

/// A daemon of two lanes, and its notifications to its service manager.
struct Watched {
    daemon: Running,
    manager: UnixDatagram,
}

impl Watched {
    fn start(dir: &Path) -> Self {
        let path = dir.join("notify.sock");
        let manager = UnixDatagram::bind(&path).expect("a socket");
        let mut node = Node::new(dir, "a", &["p0"], "");
        node.config.lane.push(node.config.lane[0].clone());
        let child: Child = Command::new(env!("CARGO_BIN_EXE_covalentd"))
            .args(["--config", &file(dir, &node)])
            .env("NOTIFY_SOCKET", &path)
            .env("WATCHDOG_USEC", EVERY.as_micros().to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("covalentd runs");
        Self {
            daemon: Running(child),
            manager,
        }
    }

    /// Returns the next notification within `patience`.
    fn next_notification(&self, patience: Duration) -> Option<String> {
        self.manager
            .set_read_timeout(Some(patience))
            .expect("a socket");
        let mut buffer = [0; 256];
        let length = self.manager.recv(&mut buffer).ok()?;
        Some(String::from_utf8_lossy(&buffer[..length]).trim().to_owned())
    }
}

#[test]
fn the_watchdog_is_notified_while_every_thread_progresses() {
    let dir = tempfile::tempdir().expect("a directory");
    let watched = Watched::start(dir.path());
    assert_eq!(
        watched.next_notification(PATIENCE).as_deref(),
        Some("READY=1")
    );
    assert_eq!(
        watched.next_notification(PATIENCE).as_deref(),
        Some("WATCHDOG=1")
    );
    for name in ["covalent-lane0", "covalent-lane1", "covalent-host"] {
        let held = Held::hold(thread_of(watched.daemon.0.id(), name));
        // Drain notifications in flight, and one more if the thread had moved since it was last
        // checked.
        sleep(EVERY);
        while watched
            .next_notification(Duration::from_millis(1))
            .is_some()
        {}
        assert_eq!(
            watched.next_notification(3 * EVERY),
            None,
            "while {name} stands still"
        );
        drop(held);
        assert_eq!(
            watched.next_notification(PATIENCE).as_deref(),
            Some("WATCHDOG=1"),
            "when {name} continues"
        );
    }
    let pid = Pid::from_raw(watched.daemon.0.id().cast_signed());
    kill(pid, Signal::SIGTERM).expect("signaled");
    eventually("it reports that it stops", || {
        watched.next_notification(PATIENCE).as_deref() == Some("STOPPING=1")
    });
}
