//! Nodes under test: `covalentd` as a program.

use std::{
    fs::{self, File},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use covalent_api::{request::Request, status::NodeStatus};
use covalent_config::Config;
use covalent_ipc::seqpacket::Connection;

use nix::unistd::{Gid, Group, geteuid};
use tempfile::TempDir;

use super::client::Client;

/// Maximum wait of a test for something that must happen. Far beyond the expected time.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Memory limit of one session, in MiB. One user may have eight times as much.
pub const MEMORY_MAX_MIB: u64 = 16;

/// A user without rights, and his group: there for nothing else.
const UNPRIVILEGED: u32 = 65534;

/// A directory for nodes, where other users find their sockets.
pub fn place() -> TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("it is ours");
    dir
}

/// Returns the group of the user that unprivileged applications run as. `None` if this process
/// cannot become that user.
pub fn unprivileged() -> Option<Group> {
    geteuid()
        .is_root()
        .then(|| Group::from_gid(Gid::from_raw(UNPRIVILEGED)).ok().flatten())
        .flatten()
}

/// A running daemon, killed when this is dropped.
pub struct Node {
    config: Config,
    log: PathBuf,
    process: Child,
}

impl Node {
    /// Starts a node called `name` in `dir`. `port` is the configuration text of its port `p0`.
    pub fn start(dir: &Path, name: &str, port: &str) -> Self {
        let group = unprivileged().map_or(String::new(), |group| group.name);
        let text = format!(
            "[node]\ngroup = \"{group}\"\nname = \"{name}\"\nruntime_dir \
             = \"{0}/{name}\"\nstate_dir = \"{0}/{name}-state\"\n\
             [dataplane]\nhuge_pages = \"never\"\nsession_memory_max_mib = \
             {MEMORY_MAX_MIB}\n[link]\nidle_tick_ms = 20\nkeepalive_misses_max = 200\n\
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

    /// Returns its status.
    pub fn status(&self) -> NodeStatus {
        self.client().status()
    }

    /// Returns its status once no application is attached. The daemon releases the resources of a
    /// process some rounds after the process has exited.
    pub fn status_at_rest(&self) -> NodeStatus {
        eventually("no application is attached", || self.status().sessions == 0);
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

    /// Returns its log so far.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).expect("its log")
    }

    /// Fails unless the very process that was started still runs, and answers.
    pub fn check_alive(&mut self) {
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

/// Starts two nodes `a` and `b` on the interfaces `near0` and `far0` of this network namespace, and
/// waits until their link is up.
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
