//! A pinned core that the system takes away while the lane runs on it, and gives back.

use std::{
    fs, io,
    path::{Path, PathBuf},
    thread::sleep,
    time::{Duration, Instant},
};

use covalent_ipc::seqpacket::Connection;
use nix::{
    sched::{CpuSet, sched_getaffinity},
    unistd::Pid,
};

use super::{
    client::{App, Client, Verbs},
    command,
    held::thread_of,
    node::{Node, PATIENCE, eventually},
    stopped::{Additions, check_sums},
};

const BETWEEN: u64 = 300;
const IN_FLIGHT_MAX: u64 = 64;

/// A control group with cores of its own, and one process in it. Dropping it moves the process
/// back.
struct Group {
    path: PathBuf,
    root: PathBuf,
    pid: u32,
}

impl Group {
    /// `None` without root, or where no cpuset controller is to be had.
    fn around(pid: u32, cores: &[u32]) -> Option<Self> {
        let root = ["/sys/fs/cgroup/cpuset", "/sys/fs/cgroup"]
            .map(PathBuf::from)
            .into_iter()
            .find(|root| {
                let handed_down = fs::read_to_string(root.join("cgroup.subtree_control"));
                root.join("cpuset.mems").exists()
                    || handed_down.is_ok_and(|controllers| controllers.contains("cpuset"))
            })?;
        let path = root.join(format!("covalent-test-cores-{pid}"));
        fs::create_dir(&path).ok()?;
        let group = Self { path, root, pid };
        // Version 1 has a group begin without memory.
        if let Ok(memory) = fs::read_to_string(group.root.join("cpuset.mems")) {
            fs::write(group.path.join("cpuset.mems"), memory.trim()).ok()?;
        }
        group.try_allow(cores).ok()?;
        fs::write(group.path.join("cgroup.procs"), pid.to_string()).ok()?;
        Some(group)
    }

    fn try_allow(&self, cores: &[u32]) -> io::Result<()> {
        let cores: Vec<String> = cores.iter().map(u32::to_string).collect();
        fs::write(self.path.join("cpuset.cpus"), cores.join(","))
    }

    fn allow(&self, cores: &[u32]) {
        self.try_allow(cores).expect("cores of this machine");
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::write(self.root.join("cgroup.procs"), self.pid.to_string());
        let _ = (0..200).find(|_| {
            sleep(Duration::from_millis(5));
            fs::remove_dir(&self.path).is_ok()
        });
    }
}

/// Returns the cores on which the thread may run, as the kernel reports them.
fn cores_of(pid: u32, thread: libc::pid_t) -> String {
    let path = Path::new("/proc").join(format!("{pid}/task/{thread}/status"));
    let status = fs::read_to_string(path).expect("it runs");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    line.expect("procfs").trim().to_owned()
}

#[test]
fn a_lane_that_loses_its_core_continues_reports_it_and_takes_it_back() {
    let all = sched_getaffinity(Pid::from_raw(0)).expect("own cores");
    let mut cores =
        (0..CpuSet::count() as u32).filter(|&core| all.is_set(core as usize) == Ok(true));
    let (Some(kept), Some(taken)) = (cores.next(), cores.next()) else {
        eprintln!("skipped: needs two cores");
        return;
    };
    let dir = tempfile::tempdir().expect("a directory");
    let a = Node::new(dir.path(), "a", &["p0"], "").start();
    let b = Node::new(
        dir.path(),
        "b",
        &["p0"],
        &format!("[[lane]]\ncore = {taken}\n"),
    );
    let daemon = command::start(&["--config", &command::file(dir.path(), &b)]);
    let pid = daemon.0.id();
    let socket = b.config.socket_path();
    eventually("the daemon listens", || {
        Connection::connect(&socket).is_ok()
    });
    let mut far = Client::connect(&socket);
    let Some(group) = Group::around(pid, &[kept, taken]) else {
        eprintln!("skipped: needs root and the cpuset controller of cgroups");
        return;
    };
    let mut near = a.client();
    eventually("the link is up", || {
        near.status().links.iter().all(|link| link.state == "up")
    });
    let lane = thread_of(pid, "covalent-lane0");
    let mut owner = App::attach(&socket);
    let (key, word) = owner.register("bank", 64);
    let target = far.status().guid.bits();
    let mut verbs = Verbs::new(App::attach(&a.config.socket_path()));
    let mut additions = Additions::default();
    let go_on = |additions: &mut Additions, verbs: &mut Verbs, enough: u64| {
        let deadline = Instant::now() + PATIENCE;
        while additions.ended < enough {
            assert!(Instant::now() < deadline, "{} ended", additions.ended);
            additions.go_on(verbs, target, key, enough + IN_FLIGHT_MAX);
        }
    };
    let core = |far: &mut Client| far.status().lanes[0].core;
    eventually("the lane has its core", || core(&mut far) == Some(taken));
    go_on(&mut additions, &mut verbs, BETWEEN);
    for round in 1..=2 {
        group.allow(&[kept]);
        go_on(&mut additions, &mut verbs, round * 4 * BETWEEN);
        eventually("it reports that it floats", || core(&mut far).is_none());
        assert_eq!(cores_of(pid, lane), kept.to_string());
        group.allow(&[kept, taken]);
        eventually("it has its core again", || core(&mut far) == Some(taken));
        assert_eq!(cores_of(pid, lane), taken.to_string());
        go_on(&mut additions, &mut verbs, (round * 4 + 2) * BETWEEN);
    }
    let deadline = Instant::now() + PATIENCE;
    while additions.ended < additions.posted {
        assert!(Instant::now() < deadline, "{} ended", additions.ended);
        additions.go_on(&mut verbs, target, key, 0);
    }
    check_sums([("additions", &additions, &word)]);
}
