//! Which node answers at a node's place, its runtime directory.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use covalent_api::control::{ControlReply, ControlVersion};
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
    /// The file that its control rereads, if control answers.
    file: Option<String>,
    wanted: String,
    directory: PathBuf,
}

impl Occupant {
    /// Returns the node whose daemon or control answers at the place of `config` under another
    /// name. A process that is silent, or refuses this user, names no node.
    pub fn of(config: &Config) -> Option<Self> {
        let daemon = config.socket_path();
        let control = config.control_socket_path();
        let version = control_version(&control);
        let file_of = |node: &str| {
            let version = version.as_ref().filter(|version| version.node == node)?;
            version.file.clone()
        };
        let control_node = version.as_ref().map(|version| version.node.clone());
        [(daemon_node(&daemon), daemon), (control_node, control)]
            .into_iter()
            .find_map(|(node, socket)| {
                let node = node.filter(|node| *node != config.node.name)?;
                Some(Self {
                    file: file_of(&node),
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
    /// Names both nodes, the file of the one that runs, the place and the remedy.
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
            file,
            wanted,
            directory,
        } = self;
        let from = file.as_ref().map(|file| format!(" and runs from {file}"));
        format!(
            "node {node} answers at {}{}; node {wanted} has the same runtime directory {}",
            socket.display(),
            from.unwrap_or_default(),
            directory.display()
        )
    }

    /// The remedy for the configuration in `file`.
    pub fn cure(&self, file: &Path) -> String {
        let Self { node, wanted, .. } = self;
        let (given, own) = (file.display(), self.file.as_deref().unwrap_or("FILE"));
        format!(
            "to change node {node}, edit its own file, then `covalent reload --config {own}`; to \
             replace it by node {wanted} or rename it, first `covalent down --config {own}`; to run \
             both, set another node.runtime_dir in {given}"
        )
    }
}

/// Fails if the node of `config` runs from another file than `given`.
///
/// # Errors
/// Names both files and the remedy.
pub fn refuse_other_file(config: &Config, given: &Path) -> Result<()> {
    match control_version(&config.control_socket_path()) {
        Some(control) if control.node == config.node.name => {
            control_client::expect_file(&control, given).context("nothing was changed")
        }
        _ => Ok(()),
    }
}

fn daemon_node(socket: &Path) -> Option<String> {
    let client = Client::connect_within(socket, SHORT_PATIENCE).ok()?;
    Some(client.node().to_owned())
}

fn control_version(socket: &Path) -> Option<ControlVersion> {
    match control_client::version_within(socket, SHORT_PATIENCE)? {
        ControlReply::Version(version) => Some(version),
        _ => None,
    }
}
