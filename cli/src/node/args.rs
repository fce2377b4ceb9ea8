//! The arguments of `covalent up`.

use clap::{Args, builder::BoolishValueParser};

use crate::args::ConfigArgs;

/// `covalent up`
#[derive(Debug, Args)]
#[command(
    after_help = "A port whose interface does not exist has the mark `!`. The node runs \
    without it, and covalent-control opens it when the interface appears. So a node without an open \
    port keeps running, until `covalent down`. A node that runs from another file is refused: \
    `covalent down` stops it.\n\n\
    Exit status: 0 if the node is up and a port is open, 1 if it is not up or no port is open.\n\n\
    Examples:\n  \
    sudo covalent up --name a --interfaces eth1,eth2   all that a node needs; it is written to the \
    file for later starts\n  \
    sudo covalent up --config my.toml\n  \
    sudo covalent up --config my.toml --foreground   stay; Ctrl-C stops both processes"
)]
pub struct UpArgs {
    /// Which node.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Name of a node that has no configuration yet. Default: the host name.
    #[arg(
        long,
        env = "COVALENT_NAME",
        requires = "interfaces",
        value_name = "NAME"
    )]
    pub name: Option<String>,
    /// The node's interfaces, each cabled to a neighbor. Name and interfaces are written to the
    /// configuration file if it does not exist or is the installed example.
    #[arg(
        long,
        env = "COVALENT_INTERFACES",
        value_delimiter = ',',
        value_name = "INTERFACE,…"
    )]
    pub interfaces: Vec<String>,
    /// Stay in the foreground. The node's processes exit with this command.
    #[arg(long, env = "COVALENT_FOREGROUND", value_parser = BoolishValueParser::new())]
    pub foreground: bool,
}
