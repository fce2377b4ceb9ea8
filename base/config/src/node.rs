//! `[node]`: identity and places.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::table::Table;
use covalent_api::name;

/// File name of the daemon's socket in the runtime directory.
pub(super) const DAEMON_SOCKET: &str = "covalentd.sock";

/// File name of the counters in the runtime directory.
pub(super) const COUNTERS: &str = "counters";

/// File name of the log of samples and events in the runtime directory.
pub(super) const COUNTERS_RING: &str = "counters.ring";

/// File name of the control process's socket in the runtime directory.
pub(super) const CONTROL_SOCKET: &str = "control.sock";

/// File name of the socket in the runtime directory on which control serves telemetry over gRPC.
pub(super) const TELEMETRY_SOCKET: &str = "telemetry.sock";

/// Longest path of a Unix socket, in bytes: `sockaddr_un.sun_path` without its terminating zero
/// (unix(7)).
pub(super) const SOCKET_PATH_BYTES_MAX: usize = 107;

/// Rule for the names of nodes and ports.
const NAME_RULE: &str = "1 to 32 letters (a-z, A-Z), digits, `-`, `_` and `.`";

/// Longest group name (useradd(8)).
const GROUP_BYTES_MAX: usize = 32;

/// Identity and places.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NodeConfig {
    /// Human-readable name, 1 to 32 bytes of letters, digits, `-`, `_` and `.`. Default: the host
    /// name, if it is valid.
    pub name: String,
    /// Directory of the sockets, absolute, at most 92 bytes. Created at start if missing. Default
    /// `/run/covalent`.
    pub runtime_dir: PathBuf,
    /// Directory for data that survives a restart: the GUID and a secret. Absolute. Default
    /// `/var/lib/covalent`.
    pub state_dir: PathBuf,
    /// Group whose members may attach, in addition to root and the daemon's own user. Empty (the
    /// default): no group.
    pub group: String,
    /// Whether both processes enter a sandbox after they have started. Default `true`.
    pub sandbox: bool,
}

impl Default for NodeConfig {
    /// The default directories, and no name: the host name is queried when a file is read.
    fn default() -> Self {
        Self {
            name: String::new(),
            runtime_dir: "/run/covalent".into(),
            state_dir: "/var/lib/covalent".into(),
            group: String::new(),
            sandbox: true,
        }
    }
}

impl NodeConfig {
    pub(super) fn read(table: &mut Table<'_, '_>) -> Self {
        let name = match table.has("name") {
            true => read_name(table, "the node's name"),
            false => host_name(table),
        };
        let default = Self::default();
        let runtime_dir = table.path("runtime_dir").unwrap_or(default.runtime_dir);
        if let Err(message) = check_socket_path(&runtime_dir.join(DAEMON_SOCKET)) {
            table.refuse(
                "runtime_dir",
                format!("the sockets would not fit: {message}"),
            );
        }
        let state_dir = table.path("state_dir").unwrap_or(default.state_dir);
        let group = table
            .text("group", "the name of a group, or \"\"")
            .unwrap_or_default();
        if group.len() > GROUP_BYTES_MAX
            || group.contains(|c: char| c.is_whitespace() || c.is_control() || c == ':')
        {
            table.refuse(
                "group",
                format!("{group:?} cannot be a group; expected its name as in /etc/group, or \"\""),
            );
        }
        Self {
            name,
            runtime_dir,
            state_dir,
            group: group.to_owned(),
            sandbox: table.bool("sandbox").unwrap_or(default.sandbox),
        }
    }
}

/// The host's name, for a node without one.
fn host_name(table: &mut Table<'_, '_>) -> String {
    // Notes that the key is known.
    table.text("name", NAME_RULE);
    let host = rustix::system::uname();
    let host = host.nodename().to_string_lossy();
    if let Err(problem) = name::check(&host) {
        table.missing(
            "name",
            format_args!(
                "the node's name: {NAME_RULE} (the host's name, {host:?}, cannot stand for it: \
                 {problem})"
            ),
        );
    }
    host.into_owned()
}

/// Reads the key `name`. `what` names its owner in messages.
pub(super) fn read_name(table: &mut Table<'_, '_>, what: &str) -> String {
    let text = table.required_text("name", &format!("{what}: {NAME_RULE}"));
    if let Some(Err(problem)) = text.map(name::check) {
        table.refuse("name", format!("{problem}; expected {NAME_RULE}"));
    }
    text.unwrap_or_default().to_owned()
}

/// Whether a Unix socket can be bound at `path`, as far as its length goes.
pub(super) fn check_socket_path(path: &Path) -> Result<(), String> {
    let bytes = path.as_os_str().len();
    if bytes <= SOCKET_PATH_BYTES_MAX {
        return Ok(());
    }
    Err(format!(
        "{} is {bytes} bytes long; a Unix socket's path has at most {SOCKET_PATH_BYTES_MAX}",
        path.display()
    ))
}
