//! Arguments that several commands have. A command's own arguments are beside it, and import these;
//! this file imports none of them.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use covalent_config::INSTALLED_FILE;

/// Which configuration.
#[derive(Debug, Args)]
pub struct ConfigArgs {
    /// The node's configuration file. Default: `/etc/covalent/covalent.toml`.
    #[arg(long, env = "COVALENT_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
}

impl ConfigArgs {
    /// The file.
    pub fn file(&self) -> &Path {
        self.config.as_deref().unwrap_or(Path::new(INSTALLED_FILE))
    }

    /// The file, or `None` if none was named and none is installed. A named file need not exist:
    /// the caller reads it and reports that.
    pub fn named_or_installed(&self) -> Option<&Path> {
        let file = self.file();
        (self.config.is_some() || file.exists()).then_some(file)
    }
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
