//! Two nodes on AF_XDP whose processes run as a separate user, with exactly the capabilities that
//! the units grant.
#![allow(clippy::unwrap_used)]

mod support;

use std::{
    fs,
    os::unix::fs::{PermissionsExt, chown},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    thread,
};

use nix::sched::{CloneFlags, unshare};
use serde_json::Value;
use support::{Guarded, node::PATIENCE, wait_until};

/// A user id that no account has.
const USER: u32 = 64_321;

/// The value of a key of a unit that is shipped.
fn unit_value(unit: &str, key: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../configs");
    let text = fs::read_to_string(path.join(unit)).unwrap();
    let mut lines = text.lines();
    let value = lines.find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    value.unwrap().to_owned()
}

/// Returns a command that runs a program as [`USER`] with exactly these capabilities, such as
/// `CAP_NET_ADMIN CAP_BPF`. The program cannot gain others.
fn as_user(capabilities: &str) -> Command {
    let listed: Vec<String> = capabilities
        .split_whitespace()
        .map(|name| format!("+{}", name.strip_prefix("CAP_").unwrap().to_lowercase()))
        .collect();
    let set = ["-all".to_owned()].into_iter().chain(listed);
    let set = set.collect::<Vec<_>>().join(",");
    let mut command = Command::new("setpriv");
    command.args([
        format!("--reuid={USER}"),
        format!("--regid={USER}"),
        "--clear-groups".to_owned(),
        "--no-new-privs".to_owned(),
        format!("--inh-caps={set}"),
        format!("--ambient-caps={set}"),
        format!("--bounding-set={set}"),
    ]);
    command.env("LC_ALL", "C.UTF-8").stdin(Stdio::null());
    command
}

fn program(name: &str) -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_covalent")).with_file_name(name)
}

/// A daemon and its control.
struct Node {
    file: PathBuf,
    processes: Vec<(&'static str, Child)>,
}

impl Drop for Node {
    fn drop(&mut self) {
        for (_, child) in &mut self.processes {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Node {
    /// Starts the node `name`, whose port is `interface`, with all files below `place`.
    fn start(place: &Path, name: &str, interface: &str) -> Self {
        let place = place.join(name);
        fs::create_dir(&place).unwrap();
        let shown = place.display();
        let file = place.join("covalent.toml");
        let text = format!(
            "[node]\nname = \"{name}\"\nruntime_dir = \"{shown}/run\"\nstate_dir \
             = \"{shown}/state\"\n\
             [dataplane]\nhuge_pages = \"never\"\nidle = \"interrupt\"\n\
             [control]\nmetrics_listen = \"127.0.0.1:0\"\n\
             [[port]]\nname = \"p0\"\nkind = \"af_xdp\"\ninterface = \"{interface}\"\n"
        );
        fs::write(&file, text).unwrap();
        // As systemd makes them for the user.
        for (directory, mode) in [("run", 0o755), ("state", 0o700)] {
            let path = place.join(directory);
            fs::create_dir(&path).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            chown(&path, Some(USER), Some(USER)).unwrap();
        }
        let mut node = Self {
            file,
            processes: Vec::new(),
        };
        for name in ["covalentd", "covalent-control"] {
            let ambient = unit_value(&format!("{name}.service"), "AmbientCapabilities");
            let log = fs::File::create(place.join(format!("{name}.log"))).unwrap();
            let child = as_user(&ambient)
                .arg(program(name))
                .arg("--config")
                .arg(&node.file)
                .stdout(Stdio::null())
                .stderr(log)
                .spawn()
                .unwrap();
            node.processes.push((name, child));
        }
        node
    }

    /// Runs `covalent` as the nodes' user, without any capability.
    fn covalent(&self, arguments: &[&str]) -> Output {
        as_user("")
            .arg(env!("CARGO_BIN_EXE_covalent"))
            .args(arguments)
            .env("COVALENT_CONFIG", &self.file)
            .output()
            .unwrap()
    }

    fn json(&self, arguments: &[&str]) -> Option<Value> {
        let output = self.covalent(&[arguments, &["--format", "json"]].concat());
        serde_json::from_slice(&output.stdout).ok()
    }

    fn logs(&self) -> String {
        let place = self.file.parent().unwrap();
        let read = |name: &(&str, Child)| fs::read_to_string(place.join(format!("{}.log", name.0)));
        self.processes.iter().flat_map(read).collect()
    }
}

/// A line of `/proc/PID/status`.
fn status_line(pid: u32, key: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(key));
    line.unwrap().trim().to_owned()
}

#[test]
fn a_user_of_its_own_and_the_capabilities_of_the_units_are_enough() {
    if !support::is_root() {
        return;
    }
    // The programs must be reachable for another user.
    let place = tempfile::tempdir().unwrap();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let place = place.path().to_owned();
    // Processes that a thread starts are in its network namespace.
    thread::spawn(move || two_nodes(&place)).join().unwrap();
}

fn two_nodes(place: &Path) {
    unshare(CloneFlags::CLONE_NEWNET).unwrap();
    for line in ["link set lo up", "link add end-a type veth peer name end-b"] {
        let made = Command::new("ip").args(line.split(' ')).status().unwrap();
        assert!(made.success(), "{line}");
    }
    // Control sets the interfaces up.
    let nodes = [("a", "end-a"), ("b", "end-b")]
        .map(|(name, interface)| Node::start(place, name, interface));
    let [a, b] = &nodes;
    let is_up = |node: &Node| {
        let links = node.json(&["links"]);
        links.is_some_and(|links| links[0]["state"] == "up")
    };
    wait_until("the link is up", PATIENCE, || {
        for node in &nodes {
            let logs = node.logs();
            assert!(!logs.contains("ERROR"), "{logs}");
        }
        is_up(a) && is_up(b)
    });

    // A verb of an application over the link, exactly once.
    let host = as_user("")
        .arg(program("covalent-bank"))
        .arg("host")
        .arg("--socket")
        .arg(place.join("b/run/covalentd.sock"))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn();
    let _host = Guarded(host.unwrap());
    let add = || a.covalent(&["verb", "fetch-add", "b", "bank", "0", "5"]);
    wait_until("the region is there", PATIENCE, || add().status.success());
    let read = a.covalent(&["verb", "read", "b", "bank", "0"]);
    let printed = String::from_utf8_lossy(&read.stdout).into_owned();
    assert!(read.status.success() && printed.contains('5'), "{printed}");

    // The node's user may reload: it needs no capability, and the daemon admits control.
    let text = fs::read_to_string(&a.file).unwrap();
    let text = text.replace("idle = \"interrupt\"", "idle = \"interrupt\"\nburst = 32");
    fs::write(&a.file, text).unwrap();
    let reload = a.covalent(&["reload"]);
    let printed = String::from_utf8_lossy(&reload.stderr).into_owned();
    assert!(reload.status.success(), "{printed}{}", a.logs());

    for node in &nodes {
        for (name, child) in &node.processes {
            let line = |key| status_line(child.id(), key);
            let users = line("Uid:");
            let is_own = |user: &str| user == USER.to_string();
            assert!(users.split_whitespace().all(is_own), "{name}: {users}");
            assert_eq!(line("Seccomp:"), "2", "{name}");
            let set = |key| u64::from_str_radix(&line(key), 16).unwrap();
            assert_eq!(set("CapAmb:"), 0, "{name} hands nothing on");
            assert_eq!(set("CapInh:"), 0, "{name} hands nothing on");
        }
    }
}
