//! Arguments that several commands have. A command's own arguments are beside it, and import these;
//! this file imports none of them.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Which configuration.
#[derive(Debug, Args)]
pub struct ConfigArgs {
    /// The node's configuration file.
    #[arg(
        long,
        env = "COVALENT_CONFIG",
        default_value = "/etc/covalent/covalent.toml",
        value_name = "FILE"
    )]
    pub config: PathBuf,
}

/// Which running node.
#[derive(Debug, Args)]
pub struct NodeArgs {
    /// Its configuration.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// The daemon's socket, instead of a configuration.
    #[arg(long, env = "COVALENT_SOCKET", value_name = "PATH")]
    pub socket: Option<PathBuf>,
}

/// Which running node's control process.
#[derive(Debug, Args)]
pub struct ControlNodeArgs {
    /// Its configuration.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Control's socket, instead of the one in the configuration.
    #[arg(long, env = "COVALENT_CONTROL_SOCKET", value_name = "PATH")]
    pub socket: Option<PathBuf>,
}

/// How a result is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Table,
    /// For programs.
    Json,
}
