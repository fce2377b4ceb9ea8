//! `covalent up` and `covalent down`: this node's two processes without an init system.

mod down;
mod record;
mod systemd;
mod up;

use std::path::PathBuf;

use covalent_api::config::Config;

pub use self::{down::run as down, up::run as up};

/// The processes of a node, in the order in which they start. They end in the reverse order.
pub const PROGRAMS: [&str; 2] = ["covalentd", "covalent-control"];

/// Where a program's log is when no init system takes it.
fn log_path(config: &Config, program: &str) -> PathBuf {
    config.node.runtime_dir.join(format!("{program}.log"))
}
