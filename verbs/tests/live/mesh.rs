//! Up to four nodes, each cabled to all others.

use std::path::PathBuf;

use covalent::{Client, Device};
use covalent_dataplane::Daemon;
use tempfile::TempDir;

use crate::nodes::{config, eventually, start_when_free};

/// Their names.
pub const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// Running nodes. They end with this.
pub struct Mesh {
    daemons: Vec<Option<Daemon>>,
    directory: TempDir,
}

impl Mesh {
    /// Starts `count` nodes and waits until all links are up. Links are declared down after a
    /// second of silence: a busy machine must not cause that.
    pub fn start(count: usize) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut mesh = Self {
            daemons: (0..count).map(|_| None).collect(),
            directory,
        };
        (0..count).for_each(|at| mesh.start_one(at));
        mesh.await_links();
        mesh
    }

    /// Starts a node's daemon, which does not run.
    pub fn start_one(&mut self, at: usize) {
        let cables = cables_of(at, self.daemons.len());
        let cables: Vec<&str> = cables.iter().map(String::as_str).collect();
        let more = "keepalive_misses_max = 200\n";
        let config = config(&self.directory, NAMES[at], &cables, more);
        self.daemons[at] = Some(start_when_free(&config));
    }

    pub fn attach(&self, at: usize) -> Device {
        Device::attach(self.socket(at), "test").unwrap()
    }

    /// Ends a node's daemon.
    pub fn stop(&mut self, at: usize) {
        self.daemons[at].take().unwrap().stop();
    }

    /// Plugs or pulls the cables between each of these and each of those.
    pub fn set_cables(&self, these: &[usize], those: &[usize], plugged: bool) {
        for &one in these {
            let mut client = self.client(one);
            for &other in those {
                client.set_port(&cable(one, other), plugged).unwrap();
            }
        }
    }

    /// Waits until all links are up.
    pub fn await_links(&self) {
        for at in 0..self.daemons.len() {
            let mut client = self.client(at);
            eventually("all links are up", || {
                let links = client.status().unwrap().links;
                links.iter().all(|link| link.state == "up")
            });
        }
    }

    fn client(&self, at: usize) -> Client {
        Client::connect(self.socket(at), "test").unwrap()
    }

    /// A node's socket.
    pub fn socket(&self, at: usize) -> PathBuf {
        let directory = self.directory.path().join(NAMES[at]);
        directory.join("covalentd.sock")
    }
}

fn cable(one: usize, other: usize) -> String {
    format!("{}{}", NAMES[one.min(other)], NAMES[one.max(other)])
}

fn cables_of(at: usize, count: usize) -> Vec<String> {
    let others = (0..count).filter(|&other| other != at);
    others.map(|other| cable(at, other)).collect()
}
