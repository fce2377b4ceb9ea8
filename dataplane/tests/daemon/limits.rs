//! A daemon at its limits: descriptors, threads and memory that the system does not give it.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use covalent_api::request::{PipeKind, Reply, Request, Rights};
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use tempfile::TempDir;

use super::{
    client::{App, Client},
    command::{Running, file},
    node::{Node, eventually},
};

/// A daemon in a process whose limits are set from outside.
struct Limited {
    node: Node,
    daemon: Running,
    log: PathBuf,
    _dir: TempDir,
}

impl Limited {
    fn start() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let node = Node::new(
            dir.path(),
            "a",
            &["p0"],
            "[dataplane]\nhuge_pages = \"never\"\nsession_memory_max_mib = 512\n",
        );
        let log = dir.path().join("log");
        let child = Command::new(env!("CARGO_BIN_EXE_covalentd"))
            .args(["--config", &file(dir.path(), &node)])
            .env_remove("NOTIFY_SOCKET")
            .env_remove("RUST_LOG")
            .stdout(Stdio::null())
            .stderr(File::create(&log).expect("room on the disk"))
            .spawn()
            .expect("covalentd runs");
        let limited = Self {
            node,
            daemon: Running(child),
            log,
            _dir: dir,
        };
        eventually("it is ready", || limited.log().contains("ready"));
        limited
    }

    fn log(&self) -> String {
        fs::read_to_string(&self.log).expect("its log")
    }

    fn proc(&self, what: &str) -> PathBuf {
        Path::new("/proc")
            .join(self.daemon.0.id().to_string())
            .join(what)
    }

    /// Sets a limit. Returns the former one.
    fn limit(&self, resource: Resource, current: Option<u64>) -> Option<u64> {
        let pid = Pid::from_raw(self.daemon.0.id() as i32);
        let maximum = None;
        let none = Rlimit {
            current: None,
            maximum,
        };
        // Only the lower one is changed: raising the upper one again takes a privilege.
        let was = match resource {
            Resource::Nofile => {
                let text = fs::read_to_string(self.proc("limits")).expect("procfs");
                let line = text.lines().find(|line| line.starts_with("Max open files"));
                let words: Vec<&str> = line.expect("a limit").split_whitespace().collect();
                let number = |at: usize| words[at].parse::<u64>().ok();
                Rlimit {
                    current: number(3),
                    maximum: number(4),
                }
            }
            _ => none,
        };
        let new = Rlimit {
            current,
            maximum: was.maximum,
        };
        prlimit(pid, resource, new).expect("a child");
        was.current
    }

    fn descriptors(&self) -> u64 {
        fs::read_dir(self.proc("fd")).expect("procfs").count() as u64
    }

    fn threads(&self) -> usize {
        fs::read_dir(self.proc("task")).expect("procfs").count()
    }

    fn app(&self) -> App {
        App::attach(&self.node.config.socket_path())
    }

    /// Fails unless the daemon runs and serves clients.
    fn check_alive(&mut self) {
        assert!(self.daemon.0.try_wait().expect("a child").is_none());
        let mut app = self.app();
        app.open(PipeKind::Rx, None);
        assert!(!self.log().contains("panicked"), "{}", self.log());
    }
}

fn open_pipe(client: &mut Client, capacity_bytes: u64) -> Result<(), String> {
    let open = Request::OpenPipe {
        kind: PipeKind::Rx,
        capacity_bytes,
        port: None,
        completions: None,
    };
    match client.call(&open).0 {
        Reply::Pipe { .. } => {
            client.done(&Request::Mapped);
            Ok(())
        }
        Reply::Refused { reason, .. } => Err(reason),
        other => panic!("{other:?}"),
    }
}

#[test]
fn lack_of_descriptors_refuses_new_pipes_and_delays_new_clients() {
    let mut limited = Limited::start();
    let mut app = limited.app();
    app.open(PipeKind::Rx, None);
    for room in 0..4 {
        // Numbers below the limit may be free, so at least this many are left.
        let usual = limited.limit(Resource::Nofile, Some(limited.descriptors() + room));
        let refused = (0..64).find_map(|_| open_pipe(&mut app.client, 1 << 16).err());
        let reason = refused.expect("there are no more descriptors");
        assert!(
            reason.contains("open files") || reason.contains("ulimit"),
            "{reason}"
        );
        assert!(!app.client.status().pipes.is_empty(), "it is served");
        limited.limit(Resource::Nofile, usual);
        open_pipe(&mut app.client, 1 << 16).expect("there are some again");
    }
    // No connection can be accepted, and a client waits for that.
    let usual = limited.limit(Resource::Nofile, Some(limited.descriptors()));
    let socket = limited.node.config.socket_path();
    let waiting = std::thread::spawn(move || Client::connect(&socket).status().node);
    app.client.status();
    eventually("it is reported", || {
        limited.log().contains("no connection can be accepted") || waiting.is_finished()
    });
    limited.limit(Resource::Nofile, usual);
    assert_eq!(waiting.join().expect("it is served"), "a");
    limited.check_alive();
}

#[test]
fn without_memory_a_request_is_refused_and_nothing_else_happens() {
    let mut limited = Limited::start();
    let mut app = limited.app();
    app.open(PipeKind::Rx, None);
    for resource in [Resource::As, Resource::Fsize] {
        let limit = match resource {
            Resource::As => {
                let status = fs::read_to_string(limited.proc("status")).expect("procfs");
                let line = status.lines().find(|line| line.starts_with("VmSize:"));
                let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
                // Space for small allocations.
                (kib.expect("a size") << 10) + (16 << 20)
            }
            _ => 1 << 20,
        };
        limited.limit(resource, Some(limit));
        for round in 0..3 {
            let reason = open_pipe(&mut app.client, 64 << 20).expect_err("there is no room");
            assert!(!reason.is_empty());
            let register = Request::RegisterRegion {
                name: "large".to_owned(),
                size_bytes: 64 << 20,
                rights: Rights::ALL,
                durable: false,
            };
            let reason = app.client.refused(&register);
            eprintln!("round {round}: {reason}");
            assert_eq!(app.client.status().pipes.len(), 1, "open pipes remain");
        }
        limited.limit(resource, None);
        // Neither is its memory charged nor its name taken.
        let register = Request::RegisterRegion {
            name: format!("small {limit}").replace(' ', "-"),
            size_bytes: 1 << 16,
            rights: Rights::ALL,
            durable: false,
        };
        let (reply, _) = app.client.call(&register);
        assert!(matches!(reply, Reply::Region { .. }), "{reply:?}");
        app.client.done(&Request::Mapped);
    }
    limited.check_alive();
}

/// A control group with one process; removed when this goes.
struct ControlGroup(PathBuf);

impl ControlGroup {
    /// Puts a process there, if there is that controller.
    fn around(controller: &str, pid: u32) -> Option<Self> {
        let old = Path::new("/sys/fs/cgroup").join(controller);
        let root = [old.as_path(), Path::new("/sys/fs/cgroup")]
            .into_iter()
            .find(|root| root.join("cgroup.procs").exists())?;
        let group = root.join(format!("covalent-test-{controller}-{pid}"));
        fs::create_dir(&group).ok()?;
        let group = Self(group);
        fs::write(group.0.join("cgroup.procs"), pid.to_string()).ok()?;
        Some(group)
    }

    /// Sets a limit, in the first of these files that there is.
    fn limit(&self, files: &[&str], limit: u64) -> Option<()> {
        let file = files.iter().map(|name| self.0.join(name));
        fs::write(
            file.into_iter().find(|file| file.exists())?,
            limit.to_string(),
        )
        .ok()
    }

    /// A number in the first of these files that there is.
    fn number(&self, files: &[&str]) -> Option<u64> {
        let file = files.iter().map(|name| self.0.join(name));
        let text = fs::read_to_string(file.into_iter().find(|file| file.exists())?).ok()?;
        text.trim().parse().ok()
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        // Once its process has ended.
        let _ = (0..200).find(|_| {
            std::thread::sleep(std::time::Duration::from_millis(5));
            fs::remove_dir(&self.0).is_ok()
        });
    }
}

#[test]
fn every_client_is_served_without_new_threads() {
    let mut limited = Limited::start();
    let threads = limited.threads();
    let group = ControlGroup::around("pids", limited.daemon.0.id())
        .filter(|group| group.limit(&["pids.max"], threads as u64).is_some());
    let Some(group) = group else {
        eprintln!("skipped: needs root and the pids controller of cgroups");
        return;
    };
    for _ in 0..20 {
        let mut app = limited.app();
        app.open(PipeKind::Rx, None);
        app.open(PipeKind::Tx, Some("p0"));
        // It exits with its resources and with a request that is never read.
        app.client.send(&Request::Status);
    }
    limited.check_alive();
    assert_eq!(limited.threads(), threads);
    limited.daemon.0.kill().expect("SIGKILL");
    limited.daemon.0.wait().expect("it ends");
    drop(group);
}

#[test]
fn requests_at_the_control_group_limit_are_refused_without_a_kill() {
    const LIMIT: &[&str] = &["memory.max", "memory.limit_in_bytes"];
    const USAGE: &[&str] = &["memory.current", "memory.usage_in_bytes"];
    let mut limited = Limited::start();
    let mut app = limited.app();
    app.open(PipeKind::Rx, None);
    // Its existing memory stays charged to the former group.
    let group = ControlGroup::around("memory", limited.daemon.0.id());
    let usage = group.as_ref().and_then(|group| group.number(USAGE));
    let limit = usage.unwrap_or_default() + (64 << 20);
    let group = group.filter(|group| group.limit(LIMIT, limit).is_some());
    let Some(group) = group else {
        eprintln!("skipped: needs root and the memory controller of cgroups");
        return;
    };
    for bytes in [256 << 20, 1 << 20] {
        let mut greedy = limited.app();
        let reason = (0..256).find_map(|_| open_pipe(&mut greedy.client, bytes).err());
        let reason = reason.expect("the group has a limit");
        assert!(
            reason.contains("control group") && reason.contains("MemoryMax"),
            "{reason}"
        );
        let register = Request::RegisterRegion {
            name: "large".to_owned(),
            size_bytes: 64 << 20,
            rights: Rights::ALL,
            durable: false,
        };
        let reason = greedy.client.refused(&register);
        assert!(reason.contains("control group"), "{reason}");
        assert_eq!(
            app.client.status().sessions,
            2,
            "attached applications are served"
        );
        drop(greedy);
        eventually("its memory is free again", || {
            open_pipe(&mut app.client, 1 << 20).is_ok()
        });
    }
    limited.check_alive();
    limited.daemon.0.kill().expect("SIGKILL");
    limited.daemon.0.wait().expect("it ends");
    drop(group);
}
