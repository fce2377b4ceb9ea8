//! A node of a test: two processes, whose ports are in-memory cables.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    time::Duration,
};

use serde_json::Value;

use super::{covalent, wait_until};

/// How long anything may take.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A node, up until it is dropped.
pub struct Node {
    place: PathBuf,
}

impl Node {
    /// Starts the node `name` with all paths below `directory` and port `p0` at the cable `cable`.
    /// `more` is appended to its configuration.
    ///
    /// # Panics
    /// If it does not come up.
    pub fn up(directory: &Path, name: &str, cable: &Path, more: &str) -> Self {
        Self::up_with(directory, name, cable, more, &[])
    }

    /// As [`Node::up`], with more in the environment of its processes.
    ///
    /// # Panics
    /// If it does not come up.
    pub fn up_with(
        directory: &Path,
        name: &str,
        cable: &Path,
        more: &str,
        environment: &[(&str, &str)],
    ) -> Self {
        let place = directory.join(name);
        fs::create_dir(&place).expect("made");
        let node = Self { place };
        let (place, cable) = (node.place.display(), cable.display());
        let text = format!(
            "[node]\nname = \"{name}\"\nruntime_dir = \"{place}/run\"\nstate_dir \
             = \"{place}/state\"\n\
             [dataplane]\nhuge_pages = \"never\"\nidle = \"interrupt\"\n\
             [control]\nmetrics_listen = \"127.0.0.1:0\"\n\
             [[port]]\nname = \"p0\"\nkind = \"cable\"\npath = \"{cable}\"\n{more}"
        );
        fs::write(node.file(), text).expect("written");
        let mut up = node.command(&["up"]);
        let (status, printed) = output_of(up.envs(environment.iter().copied()));
        assert!(status, "{printed}");
        node
    }

    /// Starts two nodes, `a` and `b`, and waits until their link is up.
    ///
    /// # Panics
    /// If they do not come up.
    pub fn pair(directory: &Path) -> [Self; 2] {
        let cable = directory.join("cable.sock");
        let nodes = ["a", "b"].map(|name| Self::up(directory, name, &cable, ""));
        wait_until("the link is up", PATIENCE, || {
            let links = nodes[0].json(&["links"]);
            links[0]["state"] == "up"
        });
        nodes
    }

    /// Its configuration file.
    pub fn file(&self) -> PathBuf {
        self.place.join("covalent.toml")
    }

    /// The daemon's socket.
    pub fn socket(&self) -> PathBuf {
        self.place.join("run/covalentd.sock")
    }

    /// Returns `covalent` with an environment that selects this node.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = covalent(&self.place);
        command.args(arguments).env("COVALENT_CONFIG", self.file());
        command
    }

    /// Returns whether the command succeeded, and all output.
    ///
    /// # Panics
    /// If there is no such program.
    pub fn run(&self, arguments: &[&str]) -> (bool, String) {
        output_of(&mut self.command(arguments))
    }

    /// Returns the command's JSON output.
    ///
    /// # Panics
    /// If it fails, or prints anything else.
    pub fn json(&self, arguments: &[&str]) -> Value {
        let mut arguments = arguments.to_vec();
        arguments.extend(["--format", "json"]);
        let (status, printed) = self.run(&arguments);
        assert!(status, "{arguments:?}: {printed}");
        serde_json::from_str(&printed)
            .unwrap_or_else(|error| panic!("{arguments:?}: {error}: {printed}"))
    }
}

/// Returns whether the command succeeded, and all output.
fn output_of(command: &mut Command) -> (bool, String) {
    let output: Output = command.output().expect("it starts");
    let printed = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    (output.status.success(), printed)
}

impl Drop for Node {
    fn drop(&mut self) {
        let (status, printed) = self.run(&["down"]);
        if !status {
            eprintln!("{printed}");
        }
    }
}
