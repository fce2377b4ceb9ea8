//! The node's configuration: one TOML file, every key with a default, unknown keys refused.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::rule::Rule;

/// The whole file. `configs/covalent.toml` explains every key; `covalent config print-default` prints it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Who this node is.
    pub node: NodeConfig,
    /// What all lanes share.
    #[serde(default)]
    pub dataplane: DataplaneConfig,
    /// Poll-mode threads. At least one.
    #[serde(default = "one_lane")]
    pub lane: Vec<LaneConfig>,
    /// Where frames come and go. At least one.
    pub port: Vec<PortConfig>,
    /// What all links share.
    #[serde(default)]
    pub link: LinkConfig,
    /// Rules that hold before any application binds a pipe.
    #[serde(default)]
    pub steer: Vec<Rule>,
    /// The control process.
    #[serde(default)]
    pub control: ControlConfig,
}

/// Identity and places.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeConfig {
    /// Name for people, 1 to 32 bytes of letters, digits, `-`, `_` and `.`.
    pub name: String,
    /// Directory for the sockets. Made at start if missing.
    #[serde(default = "runtime_dir")]
    pub runtime_dir: PathBuf,
    /// Directory for what survives a restart: the GUID.
    #[serde(default = "state_dir")]
    pub state_dir: PathBuf,
    /// Group whose members may attach besides root and the daemon's own user; empty for nobody else.
    #[serde(default)]
    pub group: String,
}

/// What all lanes share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DataplaneConfig {
    /// What a lane does when it finds no work.
    pub idle: Idle,
    /// Under `adaptive`: microseconds of fruitless polling before the lane sleeps, 0 to 1,000,000.
    pub spin_us: u32,
    /// Frames taken from a port at a time, 1 to 1024.
    pub burst: u32,
    /// Page size wanted for packet memory and pipes.
    pub huge_pages: HugePages,
    /// Most pipes in one session, 1 to 4096.
    pub pipes_per_session_max: u32,
    /// Most memory that one session's pipes and regions may take together, in MiB.
    pub session_memory_max_mib: u32,
}

/// What a lane does when it finds no work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Idle {
    /// Spins for ever: lowest latency, one core burnt.
    Poll,
    /// Spins for a while, then sleeps until something arrives.
    Adaptive,
    /// Sleeps at once.
    Interrupt,
}

/// Page size wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HugePages {
    /// 2 MiB pages if the host has them free, else 4 KiB, and say which.
    Auto,
    /// 2 MiB pages or fail.
    Require,
    /// 4 KiB pages.
    Never,
}

/// One poll-mode thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LaneConfig {
    /// Core to pin it to; absent lets it float.
    pub core: Option<u32>,
}

/// One port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortConfig {
    /// Name for people and requests, unique in the file.
    pub name: String,
    /// The lane that owns it, 0-based.
    #[serde(default)]
    pub lane: u32,
    /// Whether the port runs the link protocol (its cable leads straight to another node's port).
    #[serde(default = "yes")]
    pub link: bool,
    /// What it is made of.
    #[serde(flatten)]
    pub kind: PortKind,
}

/// What a port is made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum PortKind {
    /// AF_XDP sockets on a network interface.
    AfXdp {
        /// Name of the interface.
        interface: String,
        /// Receive queues to use, from queue 0; 0 means all that the interface has.
        #[serde(default)]
        queues: u32,
        /// Descriptors in each ring of each queue: a power of two, 64 to 32768.
        #[serde(default = "ring_slots")]
        ring_slots: u32,
        /// Which XDP hook to use.
        #[serde(default)]
        xdp: XdpMode,
        /// Whether frames may be copied by the kernel.
        #[serde(default)]
        copy: CopyMode,
    },
    /// Shared memory between two processes: no NIC and no privilege needed.
    Cable {
        /// Unix socket where the two ends meet. Whichever comes first listens.
        path: PathBuf,
        /// Frames that fit in each direction: a power of two, 64 to 32768.
        #[serde(default = "ring_slots")]
        ring_slots: u32,
    },
    /// Reads frames from one capture file and writes sent frames to another.
    Pcap {
        /// File to read; absent for nothing to receive.
        input: Option<PathBuf>,
        /// File to write; absent to count and forget.
        output: Option<PathBuf>,
    },
}

/// Which XDP hook to use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum XdpMode {
    /// Native if the driver has it, else generic, and say which.
    #[default]
    Auto,
    /// In the driver, or fail.
    Native,
    /// In the kernel's generic path (slow, every driver).
    Generic,
}

/// Whether frames may be copied by the kernel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CopyMode {
    /// Zero-copy if the driver has it, else copy, and say which.
    #[default]
    Auto,
    /// Zero-copy or fail.
    ZeroCopy,
    /// Copy.
    Copy,
}

/// What all links share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LinkConfig {
    /// EtherType of link frames, 0x0600 to 0xffff. Both ends must agree.
    pub ethertype: u16,
    /// Exchanges that may be open at once on each link, 1 to 255.
    pub slots: u32,
    /// Pace of an idle link's ball, in milliseconds, 1 to 1000.
    pub idle_pace_ms: u32,
    /// Idle paces without a word from the peer after which the link is declared dead, 2 to 1000. It only declares death; it never re-sends.
    pub silent_paces_max: u32,
}

/// The control process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ControlConfig {
    /// Where `/metrics` is served.
    pub metrics_listen: SocketAddr,
    /// Whether control sets the ports' interfaces up (no address is configured).
    pub bring_up: bool,
}

impl Config {
    /// The daemon's socket.
    #[must_use]
    pub fn socket_path(&self) -> PathBuf {
        self.node.runtime_dir.join("covalentd.sock")
    }

    /// The control process's socket.
    #[must_use]
    pub fn control_socket_path(&self) -> PathBuf {
        self.node.runtime_dir.join("control.sock")
    }

    /// Reads and checks a file.
    ///
    /// # Errors
    /// [`ConfigError`] names the file, the line and the key, and says what was expected.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| ConfigError { place: path.display().to_string(), problem: error.to_string() })?;
        Self::parse(&text, &path.display().to_string())
    }

    /// Parses and checks `text`; `place` is named in errors.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn parse(text: &str, place: &str) -> Result<Self, ConfigError> {
        let config: Self = toml::from_str(text)
            .map_err(|error| ConfigError { place: place.to_owned(), problem: error.to_string() })?;
        Ok(config)
    }
}

/// Why a configuration was refused. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {problem}")]
pub struct ConfigError {
    /// The file, with line and column where known.
    pub place: String,
    /// The key, what was found and what was expected.
    pub problem: String,
}

impl Default for DataplaneConfig {
    fn default() -> Self {
        Self {
            idle: Idle::Adaptive,
            spin_us: 50,
            burst: 64,
            huge_pages: HugePages::Auto,
            pipes_per_session_max: 1024,
            session_memory_max_mib: 256,
        }
    }
}

impl Default for LinkConfig {
    fn default() -> Self {
        Self { ethertype: 0x88b5, slots: 64, idle_pace_ms: 20, silent_paces_max: 10 }
    }
}

impl Default for ControlConfig {
    fn default() -> Self {
        Self { metrics_listen: SocketAddr::from(([127, 0, 0, 1], 9464)), bring_up: true }
    }
}

fn one_lane() -> Vec<LaneConfig> {
    vec![LaneConfig { core: None }]
}

fn runtime_dir() -> PathBuf {
    "/run/covalent".into()
}

fn state_dir() -> PathBuf {
    "/var/lib/covalent".into()
}

const fn ring_slots() -> u32 {
    2048
}

const fn yes() -> bool {
    true
}
