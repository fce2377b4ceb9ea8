//! `covalent up` and `covalent down`: this node's two processes without an init system.

mod args;
mod down;
mod lock;
mod occupant;
mod record;
mod systemd;
mod up;
mod written;

use std::path::{Path, PathBuf};

use covalent_config::Config;

pub use self::{
    args::UpArgs,
    down::run as down,
    lock::NodeLock,
    occupant::Occupant,
    systemd::{UNIT_DIRECTORIES, units},
    up::run as up,
};
use crate::client;

/// One of the two programs of a node.
#[derive(Debug)]
struct Program {
    name: &'static str,
    socket: fn(&Config) -> PathBuf,
    serves: fn(&Path) -> bool,
}

/// The programs of a node, in the order in which they start. They end in the reverse order.
const PROGRAMS: [Program; 2] = [
    Program {
        name: "covalentd",
        socket: Config::socket_path,
        serves: client::serves,
    },
    Program {
        name: "covalent-control",
        socket: Config::control_socket_path,
        serves: client::answers,
    },
];

impl Program {
    /// Whether it runs for this node and serves.
    fn is_ready(&self, config: &Config) -> bool {
        (self.serves)(&(self.socket)(config))
    }

    /// Where its log is when no init system takes it.
    fn log(&self, config: &Config) -> PathBuf {
        config.node.runtime_dir.join(format!("{}.log", self.name))
    }
}

/// Returns the records of processes that `covalent up` started for this node and that exited
/// without `covalent down`.
pub fn stale_records(config: &Config) -> Vec<PathBuf> {
    PROGRAMS
        .iter()
        .filter_map(|program| record::Record::of(config, program.name).stale())
        .collect()
}
