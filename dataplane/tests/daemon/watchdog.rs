//! What a service manager is told: that the daemon is ready, and that it lives while each of its threads moves.

use std::{
    fs, io,
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

    /// The thread of that name.
    fn thread(&self, name: &str) -> libc::pid_t {
        let tasks = format!("/proc/{}/task", self.daemon.0.id());
        fs::read_dir(tasks)
            .expect("it runs")
            .flatten()
            .find(|task| {
                fs::read_to_string(task.path().join("comm")).is_ok_and(|comm| comm.trim() == name)
            })
            .and_then(|task| task.file_name().to_str()?.parse().ok())
            .expect("a thread of that name")
    }
}

/// A thread that does not move until this goes.
struct Held(libc::pid_t);

impl Held {
    fn hold(thread: libc::pid_t) -> Self {
        trace(libc::PTRACE_SEIZE, thread).expect("it can be traced");
        let held = Self(thread);
        trace(libc::PTRACE_INTERRUPT, thread).expect("it is traced");
        let mut status = 0;
        // SAFETY: `status` is there to be written through the call.
        let waited = unsafe { libc::waitpid(thread, &mut status, libc::__WALL) };
        assert_eq!(waited, thread, "{}", io::Error::last_os_error());
        held
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // An error means that it has ended.
        let _ = trace(libc::PTRACE_DETACH, self.0);
    }
}

fn trace(request: libc::c_uint, thread: libc::pid_t) -> io::Result<()> {
    let none = std::ptr::null_mut::<libc::c_void>();
    // SAFETY: these requests take no memory of this process.
    let answer = unsafe { libc::ptrace(request, thread, none, none) };
    if answer < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

#[test]
fn the_service_manager_hears_that_the_daemon_lives_while_each_thread_moves() {
    let dir = tempfile::tempdir().expect("a directory");
    let watched = Watched::start(dir.path());
    assert_eq!(watched.told(PATIENCE).as_deref(), Some("READY=1"));
    assert_eq!(watched.told(PATIENCE).as_deref(), Some("WATCHDOG=1"));
    for name in ["covalent-lane0", "covalent-lane1", "covalent-host"] {
        let held = Held::hold(watched.thread(name));
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
