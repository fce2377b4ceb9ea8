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
        Self::beside(config, control_version(config).as_ref())
    }

    /// As [`Occupant::of`], with the reply of control.
    fn beside(config: &Config, version: Option<&ControlVersion>) -> Option<Self> {
        let daemon = config.socket_path();
        let control = config.control_socket_path();
        let file_of = |node: &str| {
            let version = version.filter(|version| version.node == node)?;
            version.file.clone()
        };
        let control_node = version.map(|version| version.node.clone());
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
        Self::of(config).map_or(Ok(()), |occupant| occupant.refusal(file))
    }

    /// As [`Occupant::refuse`], and fails if the node of `config` runs from another file. Queries
    /// control once.
    ///
    /// # Errors
    /// As [`Occupant::refuse`], or names both files and the remedy.
    pub fn refuse_other_file(config: &Config, file: &Path) -> Result<()> {
        let version = control_version(config);
        if let Some(occupant) = Self::beside(config, version.as_ref()) {
            return occupant.refusal(file);
        }
        match version {
            Some(control) if control.node == config.node.name => {
                control_client::expect_file(&control, file).context("nothing was changed")
            }
            _ => Ok(()),
        }
    }

    fn refusal(&self, file: &Path) -> Result<()> {
        bail!(
            "{}; nothing was changed\n  cure: {}",
            self.found(),
            self.cure(file)
        )
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

fn daemon_node(socket: &Path) -> Option<String> {
    let client = Client::connect_within(socket, SHORT_PATIENCE).ok()?;
    Some(client.node().to_owned())
}

fn control_version(config: &Config) -> Option<ControlVersion> {
    match control_client::version_within(&config.control_socket_path(), SHORT_PATIENCE)? {
        ControlReply::Version(version) => Some(version),
        _ => None,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::thread;

    use covalent_api::{API_VERSION, MAX_DATAGRAM_BYTES, datagram, guid::Guid};
    use covalent_ipc::seqpacket::Listener;

    use super::*;

    /// Accepts a connection, and answers its query as the control of `node`.
    pub fn answer_one(listener: &Listener, node: &str, guid: Option<Guid>, file: Option<&Path>) {
        let connection = listener.accept().expect("it asks");
        let mut buffer = vec![0; MAX_DATAGRAM_BYTES];
        connection.recv(&mut buffer).expect("a request");
        let version = ControlVersion {
            api: API_VERSION,
            oldest: None,
            program: String::new(),
            pid: 1,
            uptime_ns: 1,
            node: node.to_owned(),
            guid,
            file: file.map(|file| file.display().to_string()),
        };
        let reply = datagram::encode(&ControlReply::Version(version)).expect("short");
        connection.send(&reply, &[]).expect("it listens");
    }

    #[test]
    fn one_query_of_control_finds_another_node_and_another_file() {
        let directory = tempfile::tempdir().expect("a directory");
        let text = format!(
            "[node]\nname = \"a\"\nruntime_dir = \"{}\"\ninterfaces = [\"eth1\"]\n",
            directory.path().display()
        );
        let config = Config::parse(&text, "test").expect("a configuration");
        let (own, other) = (Path::new("/own.toml"), Path::new("/other.toml"));
        let listener = Listener::bind(&config.control_socket_path()).expect("bound");
        for (node, file, wanted) in [
            ("a", own, None),
            ("a", other, Some("node a runs from /other.toml")),
            ("b", own, Some("node b answers at ")),
        ] {
            let checked = thread::scope(|scope| {
                let check = scope.spawn(|| Occupant::refuse_other_file(&config, own));
                answer_one(&listener, node, None, Some(file));
                // A second query finds no reply, and so neither the node nor its file.
                check.join().expect("no panic")
            });
            match (checked, wanted) {
                (Ok(()), None) => {}
                (Err(error), Some(wanted)) => {
                    let error = format!("{error:#}");
                    assert!(error.contains(wanted), "{error}");
                }
                (checked, wanted) => panic!("{checked:?}, not {wanted:?}"),
            }
        }
    }
}
