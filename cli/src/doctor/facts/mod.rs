//! The facts that the doctor judges, collected once.

pub mod interface;
mod machine;
pub mod places;
pub mod process;
pub mod running;
pub mod socket;
pub mod units;

pub use self::{
    interface::{HeldProgram, NamedInterface},
    machine::Machine,
    places::Place,
    running::{Daemon, Running},
    socket::{NamedSocket, SocketState},
};

use std::{collections::BTreeSet, path::Path};

use anyhow::Result;
use covalent_config::Config;
use nix::unistd::Group;

use crate::cores;

/// The file of the state directory that a node's first start creates.
const GUID_FILE: &str = "guid";

/// The objects that the configuration names, as they are on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Named {
    /// The interfaces of AF_XDP ports, one for each such port, in the order of the file.
    pub interfaces: Vec<NamedInterface>,
    /// The node's two sockets, and the sockets of its cables.
    pub sockets: Vec<NamedSocket>,
    /// Number of the configured group; `None` if there is no such group, or none is configured.
    pub group: Option<u32>,
    /// Cores of lanes to which no lane can be pinned.
    pub refused_cores: BTreeSet<u32>,
    /// Directories that the node writes to.
    pub places: Vec<Place>,
    /// Files of journals that were set aside.
    pub set_aside: Vec<String>,
    /// Records of processes that are gone, by path.
    pub stale_records: Vec<String>,
    /// Whether the node was started once: its state directory has its GUID.
    pub was_started: bool,
    /// The units that are installed.
    pub units: units::Units,
}

impl Named {
    /// Returns whether the node should run now: it was started once, and no client starts it.
    pub const fn is_expected_to_run(&self) -> bool {
        self.was_started && !self.units.hold_the_socket
    }

    /// Examines the objects that `config`, read from `file`, names.
    ///
    /// # Errors
    /// Fails if netlink refuses.
    pub fn gather(config: &Config, file: &Path) -> Result<Self> {
        let group = &config.node.group;
        let group = match group.is_empty() {
            true => None,
            false => Group::from_name(group).ok().flatten(),
        };
        let stale = crate::node::stale_records(config);
        let units = units::Units::gather(file, &config.socket_path());
        Ok(Self {
            interfaces: interface::gather(config)?,
            sockets: socket::gather(config, units.hold_the_socket),
            group: group.map(|group| group.gid.as_raw()),
            refused_cores: cores::refused(config.lane.iter().filter_map(|lane| lane.core)),
            places: places::gather(config),
            set_aside: places::set_aside(config),
            stale_records: stale
                .iter()
                .map(|path| path.display().to_string())
                .collect(),
            was_started: config.node.state_dir.join(GUID_FILE).exists(),
            units,
        })
    }
}
