//! The node's configuration: one TOML file. Every key has a default, and unknown keys are refused.
//!
//! [`Config::parse`] is the only conversion from text to a [`Config`]. It reports all problems at
//! once, each with its line, column and key ([`ConfigError`]). [`DEFAULT_TOML`] explains every key.
//! [`auto`] resolves the values that depend on an interface, because all three programs use the
//! result. [`arguments`] defines the command lines of both processes.
//!
//! The crate has no threads, no `unsafe`, and no I/O except reading the file, the kernel's release,
//! and the host name for a node without a name.

pub mod arguments;
pub mod auto;
pub mod other_node;

mod configure;
mod control;
mod cross;
mod dataplane;
mod dpdk;
mod dpdk_device;
mod error;
mod fabric;
mod faults;
mod interfaces;
mod journal;
mod lane;
mod link;
mod node;
mod packet_memory;
mod place;
mod port;
mod reload;
mod rss_key;
mod steer;
mod table;
mod wording;

use std::{
    io::Read,
    path::{Path, PathBuf},
};

use serde::Serialize;
use toml::de::DeTable;

pub use self::{
    configure::{Amount, Care, ConfigureConfig, Offloads},
    control::ControlConfig,
    dataplane::{DataplaneConfig, HugePages, Idle},
    dpdk::DpdkConfig,
    error::{ConfigError, Problem},
    fabric::{FABRIC_LANES_MAX, FabricConfig, lane_cable_name},
    faults::FaultsConfig,
    journal::JournalConfig,
    lane::LaneConfig,
    link::LinkConfig,
    node::NodeConfig,
    packet_memory::{
        BATCH_FRAMES, CHUNK_BYTES, CHUNK_FRAME_BYTES, HEADROOM_BYTES, LINK_MTU_BYTES_MIN,
        LINK_RING_SLOTS, MTU_BYTES_MAX, QUEUES_MAX, packet_memory_bytes, queue_memory_bytes,
        receive_chunks, send_chunks,
    },
    place::place,
    port::{CopyMode, PORTS_MAX, PortConfig, PortKind, RxChecksum, TxChecksum, XdpMode},
    reload::{changes, is_same_port},
    rss_key::{BadRssKey, RSS_KEY_BYTES, RssKey},
};
use self::{error::Problems, table::Table};
use covalent_api::rule::Rule;
pub use covalent_api::{
    faults::{FAULT_RATE_FRAMES, FaultRates},
    key_change::{Effect, KeyChange},
    name::LANES_MAX,
};

/// The commented file that explains every key and holds the defaults. `covalent config
/// print-default` prints it.
pub const DEFAULT_TOML: &str = include_str!("covalent.toml");

/// The configuration file of a node that was installed.
pub const INSTALLED_FILE: &str = "/etc/covalent/covalent.toml";

/// The daemon's socket of a node that was installed.
const INSTALLED_SOCKET: &str = "/run/covalent/covalentd.sock";

/// The daemon's socket: `socket` if it is given, else that of the configuration `file`, else that
/// of a node that was installed.
///
/// # Errors
/// [`ConfigError`] if the file is needed and cannot be read.
pub fn daemon_socket(socket: Option<&Path>, file: Option<&Path>) -> Result<PathBuf, ConfigError> {
    match (socket, file) {
        (Some(socket), _) => Ok(socket.to_path_buf()),
        (None, Some(file)) => Ok(Config::load(file)?.socket_path()),
        (None, None) => Ok(INSTALLED_SOCKET.into()),
    }
}

/// Longest file that is read, in bytes.
pub const CONFIG_BYTES_MAX: u64 = 1 << 20;

/// The whole file.
///
/// The fields are public, so programs can build a value. [`Config::check`] reports whether it would
/// be accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Config {
    /// The identity of this node.
    pub node: NodeConfig,
    /// Settings shared by all lanes.
    pub dataplane: DataplaneConfig,
    /// Poll-mode threads, 1 to [`LANES_MAX`].
    pub lane: Vec<LaneConfig>,
    /// Where frames come and go, 1 to [`PORTS_MAX`].
    pub port: Vec<PortConfig>,
    /// Settings shared by all DPDK ports.
    pub dpdk: DpdkConfig,
    /// Settings shared by all links.
    pub link: LinkConfig,
    /// The node's knowledge of the network beyond its neighbors.
    pub fabric: FabricConfig,
    /// Storage of durable regions.
    pub journal: JournalConfig,
    /// Rules that hold before any application binds a pipe.
    pub steer: Vec<Rule>,
    /// The control process.
    pub control: ControlConfig,
    /// Settings that `covalent configure` applies to the machine.
    pub configure: ConfigureConfig,
}

impl Config {
    /// The daemon's socket.
    #[must_use]
    pub fn socket_path(&self) -> PathBuf {
        self.node.runtime_dir.join(node::DAEMON_SOCKET)
    }

    /// The control process's socket.
    #[must_use]
    pub fn control_socket_path(&self) -> PathBuf {
        self.node.runtime_dir.join(node::CONTROL_SOCKET)
    }

    /// The socket on which the control process serves telemetry over gRPC.
    #[must_use]
    pub fn telemetry_socket_path(&self) -> PathBuf {
        self.node.runtime_dir.join(node::TELEMETRY_SOCKET)
    }

    /// The counters in shared memory.
    #[must_use]
    pub fn counters_path(&self) -> PathBuf {
        self.node.runtime_dir.join(node::COUNTERS)
    }

    /// The log of samples and events in shared memory.
    #[must_use]
    pub fn counters_ring_path(&self) -> PathBuf {
        self.node.runtime_dir.join(node::COUNTERS_RING)
    }

    /// Reads and checks a file of at most [`CONFIG_BYTES_MAX`] bytes.
    ///
    /// # Errors
    /// [`ConfigError`] names the file, the line and the key of every problem, and the expected
    /// value.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let file = path.display().to_string();
        let text = read_bounded(path).map_err(|message| ConfigError::unreadable(&file, message))?;
        Self::parse(&text, &file)
    }

    /// Parses and checks `text`. Errors use `file` as its name.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn parse(text: &str, file: &str) -> Result<Self, ConfigError> {
        let mut problems = Problems::new(file, text);
        let document = match DeTable::parse(text) {
            Ok(document) => document,
            Err(error) => {
                let message = format!("this is not TOML: {}", error.message());
                problems.add("", error.span().unwrap_or(0..0), message);
                return Err(problems.into_error());
            }
        };
        let config = read(&mut Table::root(&mut problems, document.get_ref()));
        if problems.is_empty() {
            cross::check(&config, document.get_ref(), &mut problems);
        }
        if problems.is_empty() {
            Ok(config)
        } else {
            Err(problems.into_error())
        }
    }

    /// The configuration as TOML, without comments. [`Config::parse`] gives back an equal one.
    ///
    /// # Errors
    /// [`ConfigError`] if a path is not UTF-8.
    pub fn to_toml(&self) -> Result<String, ConfigError> {
        toml::to_string(self)
            .map_err(|error| ConfigError::unreadable("configuration", error.to_string()))
    }

    /// Checks whether a configuration built by a program would be accepted from a file.
    ///
    /// # Errors
    /// [`ConfigError`]. Its line numbers refer to [`Config::to_toml`].
    pub fn check(&self) -> Result<(), ConfigError> {
        Self::parse(&self.to_toml()?, "configuration").map(drop)
    }
}

/// Reads every section. `table` records each invalid value, and its default replaces it.
fn read(table: &mut Table<'_, '_>) -> Config {
    let (node, of_interfaces) = table
        .table("node", |table| {
            (NodeConfig::read(table), interfaces::read(table))
        })
        .unwrap_or_default();
    let has_no_port = !table.has("port") && of_interfaces.is_empty();
    let config = Config {
        node,
        dataplane: table
            .table("dataplane", DataplaneConfig::read)
            .unwrap_or_default(),
        lane: table
            .tables("lane", 1..=LANES_MAX, LaneConfig::read)
            .unwrap_or_else(|| vec![LaneConfig { core: None }]),
        port: table
            .tables("port", 1..=PORTS_MAX, PortConfig::read)
            .unwrap_or_default()
            .into_iter()
            .flatten()
            .chain(of_interfaces)
            .collect(),
        dpdk: table.table("dpdk", DpdkConfig::read).unwrap_or_default(),
        link: table.table("link", LinkConfig::read).unwrap_or_default(),
        fabric: table
            .table("fabric", FabricConfig::read)
            .unwrap_or_default(),
        journal: table
            .table("journal", JournalConfig::read)
            .unwrap_or_default(),
        steer: table
            .tables("steer", 0..=steer::RULES_MAX, steer::read)
            .unwrap_or_default()
            .into_iter()
            .flatten()
            .collect(),
        control: table
            .table("control", ControlConfig::read)
            .unwrap_or_default(),
        configure: table
            .table("configure", ConfigureConfig::read)
            .unwrap_or_default(),
    };
    table.refuse_unknown();
    // An unknown key there is probably the misspelled one.
    if has_no_port && !table.has_unknown_in(&["", "node"]) {
        table.missing(
            "port",
            "at least one `[[port]]`, with `name` and `kind`, or `interfaces` in `[node]`",
        );
    }
    config
}

/// The text of a file, unless it is longer than any configuration.
fn read_bounded(path: &Path) -> Result<String, String> {
    let file = std::fs::File::open(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            "there is no such file; `covalent up --name NAME --interfaces IF` writes one, and \
             `covalent config print-default` prints every key"
                .to_owned()
        }
        _ => error.to_string(),
    })?;
    let mut bytes = Vec::new();
    file.take(CONFIG_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| error.to_string())?;
    if bytes.len() as u64 > CONFIG_BYTES_MAX {
        return Err(format!(
            "longer than {CONFIG_BYTES_MAX} bytes, so it is not a configuration"
        ));
    }
    String::from_utf8(bytes).map_err(|error| {
        format!(
            "not UTF-8 text after byte {}",
            error.utf8_error().valid_up_to()
        )
    })
}
