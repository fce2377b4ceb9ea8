//! The units of the node, where systemd runs this machine.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use crate::node::{UNIT_DIRECTORIES, units};

/// The daemon's unit.
const DAEMON: &str = "covalentd.service";

/// Whether systemd runs the unit. Where no systemd answers it does not.
fn is_active(unit: &str) -> bool {
    let answer = Command::new("systemctl")
        .args(["is-active", "--quiet", unit])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    answer.is_ok_and(|status| status.success())
}

/// The contents of the installed units.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Units {
    /// Whether systemd runs this machine, both services are installed, and they use the node's
    /// file.
    pub manage_the_node: bool,
    /// Whether systemd holds the node's socket and the daemon does not run. A connection would
    /// start the daemon.
    pub hold_the_socket: bool,
    /// `covalentd.service`, if it is installed.
    pub daemon: Option<Unit>,
    /// Sockets whose names start with `covalent`.
    pub sockets: Vec<Unit>,
}

/// A unit's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unit {
    /// Its path.
    pub path: String,
    text: String,
}

impl Units {
    /// Finds the units of the node that reads `file` and whose daemon listens at `socket`.
    pub fn gather(file: &Path, socket: &Path) -> Self {
        let found = Self::below(Path::new("/"));
        let reads_it = |unit: &Unit| {
            let start = unit.value("ExecStart").unwrap_or_default();
            start.split_whitespace().any(|word| Path::new(word) == file)
        };
        let listens = |unit: &&Unit| {
            let path = unit.value("ListenSequentialPacket");
            path.is_some_and(|path| Path::new(path) == socket)
        };
        let holder = found.sockets.iter().find(listens).map(Unit::name);
        Self {
            manage_the_node: units().is_some() && found.daemon.as_ref().is_some_and(reads_it),
            hold_the_socket: holder.is_some_and(|name| is_active(name) && !is_active(DAEMON)),
            ..found
        }
    }

    fn below(root: &Path) -> Self {
        let directories: Vec<_> = UNIT_DIRECTORIES
            .iter()
            .map(|directory| root.join(directory.trim_start_matches('/')))
            .collect();
        let daemon = directories
            .iter()
            .find_map(|directory| Unit::read(&directory.join(DAEMON)));
        let mut sockets: Vec<Unit> = Vec::new();
        for entry in directories
            .iter()
            .filter_map(|directory| fs::read_dir(directory).ok())
            .flatten()
        {
            let Ok(entry) = entry else { continue };
            let name = entry.file_name();
            let name = name.to_string_lossy();
            // One of the administrator goes before one of a package that has the same name.
            let is_known = sockets
                .iter()
                .any(|unit| unit.path.ends_with(&format!("/{name}")));
            if name.starts_with("covalent") && name.ends_with(".socket") && !is_known {
                sockets.extend(Unit::read(&entry.path()));
            }
        }
        Self {
            manage_the_node: false,
            hold_the_socket: false,
            daemon,
            sockets,
        }
    }
}

impl Unit {
    /// The unit at `path`, with its drop-ins beside it.
    fn read(path: &Path) -> Option<Self> {
        let mut text = fs::read_to_string(path).ok()?;
        let drop_ins = fs::read_dir(format!("{}.d", path.display()));
        let mut drop_ins: Vec<_> = drop_ins
            .into_iter()
            .flatten()
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|end| end == "conf"))
            .collect();
        drop_ins.sort();
        for more in drop_ins {
            text.push('\n');
            text.push_str(&fs::read_to_string(more).unwrap_or_default());
        }
        Some(Self {
            path: path.display().to_string(),
            text,
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// A unit of this text.
    #[cfg(test)]
    pub fn sample(path: &str, text: &str) -> Self {
        Self {
            path: path.into(),
            text: text.into(),
        }
    }

    /// The values of a key, in their order.
    pub fn values(&self, key: &str) -> Vec<&str> {
        let lines = self.text.lines().map(str::trim);
        lines
            .filter_map(|line| {
                Some(
                    line.strip_prefix(key)?
                        .trim_start()
                        .strip_prefix('=')?
                        .trim(),
                )
            })
            .collect()
    }

    /// The last value of a key, which is the one that holds.
    pub fn value(&self, key: &str) -> Option<&str> {
        self.values(key).pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_administrators_units_go_before_those_of_packages() {
        let root = tempfile::tempdir().expect("temporary directory");
        for (directory, mode) in [
            ("etc/systemd/system", "0600"),
            ("usr/lib/systemd/system", "0660"),
        ] {
            let directory = root.path().join(directory);
            fs::create_dir_all(&directory).expect("made");
            let text = format!("[Socket]\n# SocketMode=0777\nSocketMode = {mode}\n");
            fs::write(directory.join("covalentd.socket"), text).expect("written");
        }
        let units = Units::below(root.path());
        assert_eq!(units.daemon, None);
        assert_eq!(units.sockets.len(), 1);
        assert_eq!(units.sockets[0].value("SocketMode"), Some("0600"));
        assert_eq!(units.sockets[0].value("SocketGroup"), None);
        assert_eq!(units.sockets[0].name(), "covalentd.socket");
        let drop_ins = root.path().join("etc/systemd/system/covalentd.socket.d");
        fs::create_dir(&drop_ins).expect("made");
        fs::write(drop_ins.join("a.conf"), "[Socket]\nSocketMode=0666").expect("written");
        fs::write(drop_ins.join("notes"), "SocketMode=0000").expect("written");
        let units = Units::below(root.path());
        assert_eq!(units.sockets[0].value("SocketMode"), Some("0666"));
    }
}
