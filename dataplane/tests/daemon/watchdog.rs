//! What a service manager is told: that the daemon is ready, and that it lives while each of its threads moves.

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

/// How often a service manager wants to be told.
const EVERY: Duration = Duration::from_millis(400);

/// A daemon of two lanes, and what it tells its service manager.
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

    /// The next thing that is told within `patience`.
    fn told(&self, patience: Duration) -> Option<String> {
        self.manager
            .set_read_timeout(Some(patience))
            .expect("a socket");
        let mut buffer = [0; 256];
        let length = self.manager.recv(&mut buffer).ok()?;
        Some(String::from_utf8_lossy(&buffer[..length]).trim().to_owned())
    }
}

#[test]
fn the_service_manager_hears_that_the_daemon_lives_while_each_thread_moves() {
    let dir = tempfile::tempdir().expect("a directory");
    let watched = Watched::start(dir.path());
    assert_eq!(watched.told(PATIENCE).as_deref(), Some("READY=1"));
    assert_eq!(watched.told(PATIENCE).as_deref(), Some("WATCHDOG=1"));
    for name in ["covalent-lane0", "covalent-lane1", "covalent-host"] {
        let held = Held::hold(thread_of(watched.daemon.0.id(), name));
        // What was on its way, and one more if it had moved by then since it was last seen.
        sleep(EVERY);
        while watched.told(Duration::from_millis(1)).is_some() {}
        assert_eq!(watched.told(3 * EVERY), None, "while {name} stands still");
        drop(held);
        assert_eq!(
            watched.told(PATIENCE).as_deref(),
            Some("WATCHDOG=1"),
            "when {name} goes on"
        );
    }
    let pid = Pid::from_raw(watched.daemon.0.id().cast_signed());
    kill(pid, Signal::SIGTERM).expect("signalled");
    eventually("it says that it stops", || {
        watched.told(PATIENCE).as_deref() == Some("STOPPING=1")
    });
}
