//! The arguments of `covalent status`, `links`, `groups` and `pipes`.

use clap::Args;

use crate::args::{Format, NodeArgs};

/// `covalent status`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    covalent status\n  \
    covalent status --nodes                 the nodes beyond the neighbors: whether and over which \
    port each is reached\n  \
    covalent status --socket /run/covalent/covalentd.sock --format json | jq .links")]
pub struct StatusArgs {
    /// Which node.
    #[command(flatten)]
    pub node: NodeArgs,
    /// Show only the other nodes, at any distance: whether each is reachable, in how many hops and
    /// over which port.
    #[arg(long)]
    pub nodes: bool,
    /// Show all columns of the tables, each as wide as its contents. Without it the tables have the
    /// most important columns and fit the terminal, or `COLUMNS`, or 100 columns in a file.
    #[arg(long)]
    pub wide: bool,
    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
}

/// `covalent links`, `covalent groups`, `covalent pipes`
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Which node.
    #[command(flatten)]
    pub node: NodeArgs,
    /// Show all columns of the tables, each as wide as its contents. Without it the tables have the
    /// most important columns and fit the terminal, or `COLUMNS`, or 100 columns in a file.
    #[arg(long)]
    pub wide: bool,
    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
}
