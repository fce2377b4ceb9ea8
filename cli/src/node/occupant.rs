//! Which node answers at a node's place, its runtime directory.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use covalent_api::control::ControlReply;
use covalent_config::Config;

use crate::{
    client::{Client, SHORT_PATIENCE},
    control_client,
};

/// Another node at the place of a configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Occupant {
    node: String,
    socket: PathBuf,
    wanted: String,
    directory: PathBuf,
}

impl Occupant {
    /// Returns the node whose daemon or control answers at the place of `config` under another
    /// name. A process that is silent, or refuses this user, names no node.
    pub fn of(config: &Config) -> Option<Self> {
        let daemon = config.socket_path();
        let control = config.control_socket_path();
        [
            (daemon_node(&daemon), daemon),
            (control_node(&control), control),
        ]
        .into_iter()
        .find_map(|(node, socket)| {
            let node = node.filter(|node| *node != config.node.name)?;
            Some(Self {
                node,
                socket,
                wanted: config.node.name.clone(),
                directory: config.node.runtime_dir.clone(),
            })
        })
    }

    /// Fails if another node answers at the place of `config`, which comes from `file`.
    ///
    /// # Errors
    /// Names both nodes, the place and the remedy.
    pub fn refuse(config: &Config, file: &Path) -> Result<()> {
        match Self::of(config) {
            None => Ok(()),
            Some(occupant) => bail!(
                "{}; nothing was changed\n  cure: {}",
                occupant.found(),
                occupant.cure(file)
            ),
        }
    }

    /// The runtime directory that both nodes claim.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The two nodes and the place.
    pub fn found(&self) -> String {
        let Self {
            node,
            socket,
            wanted,
            directory,
        } = self;
        format!(
            "node {node} answers at {}, and node {wanted} has the same runtime directory {}",
            socket.display(),
            directory.display()
        )
    }

    /// The remedy for the configuration in `file`.
    pub fn cure(&self, file: &Path) -> String {
        let Self { node, wanted, .. } = self;
        format!(
            "for node {node}, name its own file: --config FILE; for node {wanted}, set another \
             node.runtime_dir in {}; to rename node {node}, run `covalent down` under its old name \
             first",
            file.display()
        )
    }
}

fn daemon_node(socket: &Path) -> Option<String> {
    let client = Client::connect_within(socket, SHORT_PATIENCE).ok()?;
    Some(client.node().to_owned())
}

fn control_node(socket: &Path) -> Option<String> {
    match control_client::version_within(socket, SHORT_PATIENCE)? {
        ControlReply::Version(version) => Some(version.node),
        _ => None,
    }
}
