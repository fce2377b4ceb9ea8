//! Nodes under test: `covalentd` as a program.

use std::{
    fs::{self, File},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use covalent_api::{config::Config, request::Request, status::NodeStatus};
use covalent_pipe::seqpacket::Connection;

use nix::unistd::{Gid, Group, geteuid};
use tempfile::TempDir;

use super::client::Client;

/// How long a test waits for something that must happen. Far beyond what it takes.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// What one session may have, in MiB; eight times as much, one user.
pub const MEMORY_MAX_MIB: u64 = 16;

/// A user without rights, and his group: there for nothing else.
const NOBODY: u32 = 65534;

/// A directory for nodes, where other users find their sockets.
pub fn place() -> TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("it is ours");
    dir
}

/// The group of the user as which applications run that have no rights; `None` where this process cannot become him.
pub fn unprivileged() -> Option<Group> {
    geteuid()
        .is_root()
        .then(|| Group::from_gid(Gid::from_raw(NOBODY)).ok().flatten())
        .flatten()
}

/// A running daemon, killed when this is dropped.
pub struct Node {
    config: Config,
    log: PathBuf,
    process: Child,
}

impl Node {
    /// Starts a node called `name` in `dir`, whose port `p0` is what `port` says in the words of the configuration.
    pub fn start(dir: &Path, name: &str, port: &str) -> Self {
        let group = unprivileged().map_or(String::new(), |group| group.name);
        let text = format!(
            "[node]\ngroup = \"{group}\"\nname = \"{name}\"\nruntime_dir = \"{0}/{name}\"\nstate_dir = \"{0}/{name}-state\"\n\
             [dataplane]\nhuge_pages = \"never\"\nsession_memory_max_mib = {MEMORY_MAX_MIB}\n[link]\nidle_pace_ms = 20\nsilent_paces_max = 200\n\
             [[port]]\nname = \"p0\"\nring_slots = 1024\n{port}\n",
            dir.display()
        );
        let config = Config::parse(&text, "test").expect("a valid configuration");
        let path = dir.join(format!("{name}.toml"));
        fs::write(&path, text).expect("room on the disk");
        let log = dir.join(format!("{name}.log"));
        let process = Command::new(env!("CARGO_BIN_EXE_covalentd"))
            .arg("--config")
            .arg(path)
            .env_remove("NOTIFY_SOCKET")
            .env_remove("RUST_LOG")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log).expect("room on the disk"))
            .spawn()
            .expect("covalentd runs");
        let node = Self {
            config,
            log,
            process,
        };
        eventually("the daemon listens", || {
            Connection::connect(&node.socket()).is_ok()
        });
        node
    }

    /// Where it listens.
    pub fn socket(&self) -> PathBuf {
        self.config.socket_path()
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Another connection to it.
    pub fn client(&self) -> Client {
        Client::connect(&self.socket())
    }

    /// What it tells of itself.
    pub fn status(&self) -> NodeStatus {
        self.client().status()
    }

    /// What it tells of itself once nobody is attached any more: it takes back what a process held some rounds after that ended.
    pub fn status_at_rest(&self) -> NodeStatus {
        eventually("nobody is attached", || self.status().sessions == 0);
        self.status()
    }

    /// Disables its port, for good.
    pub fn disable_port(&self) {
        self.client().done(&Request::SetPort {
            port: "p0".to_owned(),
            enabled: false,
        });
    }

    /// Kills it with SIGKILL and waits for its end.
    pub fn kill(mut self) {
        self.process.kill().expect("SIGKILL");
        self.process.wait().expect("it ends");
    }

    /// What it logged so far.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).expect("its log")
    }

    /// Fails unless the very process that was started still runs, and answers.
    pub fn check_lives(&mut self) {
        let ended = self.process.try_wait().expect("a child");
        assert!(
            ended.is_none(),
            "the daemon ended: {ended:?}\n{}",
            self.log()
        );
        assert_eq!(self.status().pid, self.pid());
        assert!(!self.log().contains("panicked"), "{}", self.log());
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Two nodes `a` and `b` on a cable, with their link up.
pub fn pair_on_a_cable(dir: &Path) -> (Node, Node) {
    let port = format!("kind = \"cable\"\npath = \"{}/cable\"", dir.display());
    pair(dir, &port, &port)
}

/// Two nodes `a` and `b` on the interfaces `near0` and `far0` of this network namespace, with their link up.
pub fn pair_on_af_xdp(dir: &Path) -> (Node, Node) {
    let port = |interface| format!("kind = \"af_xdp\"\ninterface = \"{interface}\"");
    pair(dir, &port("near0"), &port("far0"))
}

fn pair(dir: &Path, port_a: &str, port_b: &str) -> (Node, Node) {
    let nodes = (Node::start(dir, "a", port_a), Node::start(dir, "b", port_b));
    for node in [&nodes.0, &nodes.1] {
        let mut client = node.client();
        eventually("the link is up", || {
            client.status().links.iter().all(|link| link.state == "up")
        });
    }
    nodes
}

/// Waits until `condition` holds.
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "waited too long until {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
