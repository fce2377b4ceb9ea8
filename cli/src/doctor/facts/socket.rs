//! The Unix sockets of a node, and the users that can reach them.

use std::{
    fs::{self, Metadata},
    io,
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::{Path, PathBuf},
    time::Duration,
};

use covalent_config::{Config, PortKind};
use covalent_ipc::seqpacket::Connection;

/// Longest time until a listener accepts a connection.
const PATIENCE: Duration = Duration::from_millis(200);

/// A Unix socket of the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedSocket {
    /// Its purpose, for example `socket` or `cable of port p0`.
    pub what: String,
    /// Its path.
    pub path: String,
    /// The object at the path.
    pub state: SocketState,
    /// Whether applications connect here, so that members of the node's group must reach it.
    pub is_for_applications: bool,
    /// Whether only daemons meet here.
    pub is_of_daemons: bool,
    /// The socket, if it is there, and the directories above it, from the root on.
    pub steps: Vec<Step>,
}

/// The object at a socket's path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SocketState {
    /// Nothing.
    Absent,
    /// A socket on which a process listens.
    Answers,
    /// A socket that systemd holds for a daemon that does not run.
    Held,
    /// A socket on which no process listens.
    Stale,
    /// Something else than a socket.
    NotASocket,
    /// A socket that this user may not knock at.
    Forbidden,
}

/// A directory on the way to a socket, or the socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Its path.
    pub path: String,
    /// Its permissions, the last twelve bits of its mode.
    pub mode: u32,
    /// Its owner.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Whether it is a directory, which one passes through.
    pub is_directory: bool,
}

impl Step {
    fn of(path: &Path) -> Option<Self> {
        let metadata: Metadata = fs::metadata(path).ok()?;
        Some(Self {
            path: path.display().to_string(),
            mode: metadata.mode() & 0o7777,
            uid: metadata.uid(),
            gid: metadata.gid(),
            is_directory: metadata.is_dir(),
        })
    }

    /// Returns whether a member of the group `gid`, without other relevant groups, passes: through
    /// a directory, or into a socket.
    pub fn admits(&self, gid: u32) -> bool {
        let bit = if self.is_directory { 0o1 } else { 0o2 };
        let shift = if self.gid == gid { 3 } else { 0 };
        self.mode & (bit << shift) != 0
    }
}

/// Examines the sockets that `config` names. If systemd holds the daemon's socket, the function
/// does not connect: a connection would start the daemon.
pub fn gather(config: &Config, is_held: bool) -> Vec<NamedSocket> {
    let inspect = |what: &str, path: &Path| NamedSocket {
        what: what.to_owned(),
        path: path.display().to_string(),
        state: state(path),
        is_for_applications: false,
        is_of_daemons: false,
        steps: Vec::new(),
    };
    let socket = config.socket_path();
    let daemon = NamedSocket {
        what: "socket".into(),
        path: socket.display().to_string(),
        state: if is_held {
            SocketState::Held
        } else {
            state(&socket)
        },
        is_for_applications: true,
        is_of_daemons: false,
        steps: steps(&socket),
    };
    let mut sockets = vec![daemon, inspect("socket", &config.control_socket_path())];
    for port in &config.port {
        if let PortKind::Cable { path, .. } = &port.kind {
            sockets.push(NamedSocket {
                is_of_daemons: true,
                ..inspect(&format!("port {}: cable", port.name), path)
            });
        }
    }
    sockets
}

fn state(path: &Path) -> SocketState {
    match fs::symlink_metadata(path) {
        Err(_) => return SocketState::Absent,
        Ok(metadata) if !metadata.file_type().is_socket() => return SocketState::NotASocket,
        Ok(_) => {}
    }
    match Connection::connect_timeout(path, PATIENCE) {
        Ok(_) => SocketState::Answers,
        // A process listens, and accepts no connection.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => SocketState::Answers,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => SocketState::Forbidden,
        Err(_) => SocketState::Stale,
    }
}

fn steps(path: &Path) -> Vec<Step> {
    let mut above: Vec<PathBuf> = path.ancestors().map(Path::to_owned).collect();
    above.reverse();
    above.iter().filter_map(|path| Step::of(path)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_object_at_a_sockets_path_is_reported() {
        let directory = tempfile::tempdir().expect("temporary directory");
        let path = directory.path().join("node.sock");
        assert_eq!(state(&path), SocketState::Absent);
        fs::write(&path, "").expect("written");
        assert_eq!(state(&path), SocketState::NotASocket);
        fs::remove_file(&path).expect("removed");
        let listener = covalent_ipc::seqpacket::Listener::bind(&path).expect("bound");
        assert_eq!(state(&path), SocketState::Answers);
        drop(listener);
        drop(std::os::unix::net::UnixListener::bind(&path).expect("bound"));
        assert_eq!(state(&path), SocketState::Stale);
    }

    #[test]
    fn the_steps_to_a_socket_lead_from_the_root_to_it() {
        let directory = tempfile::tempdir().expect("temporary directory");
        let path = directory.path().join("node.sock");
        let _listener = covalent_ipc::seqpacket::Listener::bind(&path).expect("bound");
        let steps = steps(&path);
        assert_eq!(steps.first().map(|step| step.path.as_str()), Some("/"));
        let last = steps.last().expect("the socket");
        assert!(last.path.ends_with("node.sock") && !last.is_directory);
    }

    #[test]
    fn a_member_passes_by_the_bits_of_its_group_or_of_others() {
        let step = |mode, gid, is_directory| Step {
            path: "/x".into(),
            mode,
            uid: 0,
            gid,
            is_directory,
        };
        assert!(step(0o755, 0, true).admits(7));
        assert!(!step(0o700, 0, true).admits(7));
        assert!(step(0o710, 7, true).admits(7));
        // For members, the group's permission bits apply, not those of others.
        assert!(!step(0o701, 7, true).admits(7));
        assert!(step(0o666, 0, false).admits(7));
        assert!(!step(0o660, 0, false).admits(7));
        assert!(step(0o660, 7, false).admits(7));
    }
}
