//! Nodes under test: configurations in a temporary directory, and pairs of running daemons.

use std::{
    path::Path,
    thread::sleep,
    time::{Duration, Instant},
};

use covalent_api::status::NodeStatus;
use covalent_config::{Config, PortKind};
use covalent_dataplane::Daemon;

use super::client::Client;

/// Maximum wait of a test for something that must happen. Far beyond the expected time.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Maximum time that the locks of a stopped daemon may stay taken.
const LOCKS_FREE: Duration = Duration::from_secs(20);

/// A node's place and configuration.
pub struct Node {
    pub config: Config,
    pub daemon: Option<Daemon>,
}

impl Node {
    /// Creates a node called `name` in `dir` with a cable port for each name in `cables`. Each
    /// cable meets its peer at `dir/<cable>`.
    pub fn new(dir: &Path, name: &str, cables: &[&str], more: &str) -> Self {
        let tick_config = if more.starts_with("idle_tick_ms") {
            ""
        } else {
            "idle_tick_ms = 5\n"
        };
        let mut text = format!(
            "[node]\nname = \"{name}\"\nruntime_dir = \"{0}/{name}\"\nstate_dir \
             = \"{0}/{name}-state\"\n\
             [link]\n{tick_config}{more}\n",
            dir.display()
        );
        for cable in cables {
            text += &format!(
                "[[port]]\nname = \"{cable}\"\nkind = \"cable\"\npath = \"{}/{cable}\"\nring_slots \
                 = 1024\n",
                dir.display()
            );
        }
        Self {
            config: Config::parse(&text, "test").expect("the test's configuration is valid"),
            daemon: None,
        }
    }

    pub fn start(mut self) -> Self {
        // A process that another test starts briefly has copies of all descriptors. They include
        // the locks and AF_XDP sockets of a daemon that has stopped here.
        let deadline = Instant::now() + LOCKS_FREE;
        self.daemon = Some(loop {
            match Daemon::start(self.config.clone()) {
                Err(error) if is_held(&error.to_string()) && Instant::now() < deadline => {
                    sleep(Duration::from_millis(5));
                }
                started => break started.expect("the node starts"),
            }
        });
        self
    }

    pub fn guid(&self) -> u64 {
        self.daemon.as_ref().expect("the node runs").guid().bits()
    }

    pub fn client(&self) -> Client {
        Client::connect(&self.config.socket_path())
    }

    pub fn status(&self) -> NodeStatus {
        self.client().status()
    }
}

/// As [`pair`] with one cable `p0` that holds `ring_slots` frames.
pub fn pair_on_a_short_cable(dir: &Path, ring_slots: u32) -> (Node, Node) {
    let node = |name| {
        let mut node = Node::new(dir, name, &["p0"], "");
        if let PortKind::Cable {
            ring_slots: slots, ..
        } = &mut node.config.port[0].kind
        {
            *slots = ring_slots;
        }
        node.start()
    };
    let pair = (node("a"), node("b"));
    await_links(&pair.0);
    await_links(&pair.1);
    pair
}

/// Two running nodes `a` and `b`, joined by `cables`, with all links up.
pub fn pair(dir: &Path, cables: &[&str]) -> (Node, Node) {
    pair_with(dir, cables, "")
}

/// As [`pair`], with more text in both configurations.
pub fn pair_with(dir: &Path, cables: &[&str], more: &str) -> (Node, Node) {
    let a = Node::new(dir, "a", cables, more).start();
    let b = Node::new(dir, "b", cables, more).start();
    await_links(&a);
    await_links(&b);
    (a, b)
}

fn await_links(node: &Node) {
    let mut client = node.client();
    eventually("all links are up", || {
        client.status().links.iter().all(|link| link.state == "up")
    });
}

/// Waits until `condition` holds.
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "waited too long until {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn is_held(why: &str) -> bool {
    [
        "in use by another daemon",
        "belongs to another AF_XDP socket",
    ]
    .iter()
    .any(|held| why.contains(held))
}
