//! Two nodes `a` and `b` joined by cables.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use covalent::{Client, Device};
use covalent_config::Config;
use covalent_dataplane::Daemon;
use tempfile::TempDir;

/// How long a test waits for a required event: far longer than it takes.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Two running nodes and their directory. Dropping this stops them.
pub struct Nodes {
    a: Option<Daemon>,
    b: Option<Daemon>,
    directory: TempDir,
    cables: Vec<String>,
    more: String,
}

impl Nodes {
    /// Starts both, with a port on each for each cable, and waits until all links are up.
    pub fn start(cables: &[&str]) -> Self {
        Self::start_with(cables, "")
    }

    /// As [`Nodes::start`], with more text in both configurations.
    pub fn start_with(cables: &[&str], more: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let start = |name| Some(Daemon::start(config(&directory, name, cables, more)).unwrap());
        let nodes = Self {
            a: start("a"),
            b: start("b"),
            directory,
            cables: cables.iter().map(|&cable| cable.to_owned()).collect(),
            more: more.to_owned(),
        };
        for name in ["a", "b"] {
            let mut client = Client::connect(nodes.socket(name), "test").unwrap();
            eventually("all links are up", || {
                client
                    .status()
                    .unwrap()
                    .links
                    .iter()
                    .all(|link| link.state == "up")
            });
        }
        nodes
    }

    /// Ends a node's daemon.
    pub fn stop(&mut self, name: &str) {
        self.daemon(name).take().unwrap().stop();
    }

    /// Starts a node's daemon that was ended.
    pub fn respawn(&mut self, name: &str) {
        let cables: Vec<&str> = self.cables.iter().map(String::as_str).collect();
        let config = config(&self.directory, name, &cables, &self.more);
        *self.daemon(name) = Some(start_when_free(&config));
    }

    /// Sets the additional text of the configuration for daemons that start from now on.
    pub fn configure(&mut self, more: &str) {
        more.clone_into(&mut self.more);
    }

    fn daemon(&mut self, name: &str) -> &mut Option<Daemon> {
        if name == "a" {
            &mut self.a
        } else {
            &mut self.b
        }
    }

    /// Gives a node with a stopped daemon a new identity: the old one is in its state directory.
    pub fn forget(&self, name: &str) {
        let state = self.directory.path().join(format!("{name}-state"));
        std::fs::remove_dir_all(state).unwrap();
    }

    /// A node's socket.
    pub fn socket(&self, name: &str) -> PathBuf {
        self.directory.path().join(name).join("covalentd.sock")
    }

    /// A new attachment to a node.
    pub fn attach(&self, name: &str) -> Device {
        Device::attach(self.socket(name), "test").unwrap()
    }

    /// Plugs or pulls a port of node a.
    pub fn set_port(&self, port: &str, enabled: bool) {
        Client::connect(self.socket("a"), "test")
            .unwrap()
            .set_port(port, enabled)
            .unwrap();
    }
}

/// The configuration of a node with its files in `directory` and these cables.
pub fn config(directory: &TempDir, name: &str, cables: &[&str], more: &str) -> Config {
    config_for("", directory, name, cables, more)
}

/// As [`config`], of a node that members of `group` may use too.
pub fn config_for(
    group: &str,
    directory: &TempDir,
    name: &str,
    cables: &[&str],
    more: &str,
) -> Config {
    let at = directory.path().display();
    let mut text = format!(
        "[node]\ngroup = \"{group}\"\nname = \"{name}\"\nruntime_dir = \"{at}/{name}\"\nstate_dir \
         = \"{at}/{name}-state\"\n\
         [link]\nidle_tick_ms = 5\n{more}\n"
    );
    for cable in cables {
        text += &format!(
            "[[port]]\nname = \"{cable}\"\nkind = \"cable\"\npath = \"{at}/{cable}\"\nring_slots = \
             1024\n"
        );
    }
    Config::parse(&text, "test").unwrap()
}

/// A deadline that is never reached unless something is broken.
pub fn soon() -> Instant {
    Instant::now() + PATIENCE
}

/// Starts a daemon right after another one may have stopped. A process that another test spawns has
/// copies of all descriptors for an instant, and with them the locks of a daemon that stopped here.
pub fn start_when_free(config: &Config) -> Daemon {
    let deadline = soon();
    loop {
        match Daemon::start(config.clone()) {
            Err(error) if error.to_string().contains("in use") && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(5));
            }
            started => return started.unwrap(),
        }
    }
}

/// Waits until `condition` holds.
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = soon();
    while !condition() {
        assert!(Instant::now() < deadline, "waited too long until {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
