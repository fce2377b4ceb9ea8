//! The arguments of `covalent doctor`.

use std::path::PathBuf;

use clap::{Args, builder::BoolishValueParser};

use crate::args::Format;

/// `covalent doctor`
#[derive(Debug, Args)]
#[command(
    after_help = "Checks the machine, the objects that the configuration names and, if the node \
    runs, its activity. It samples the node twice, a quarter of a second apart. Each finding gives \
    the fact, its object and the remedy. Nothing is changed. Run it as root to check all of the \
    node's files.\n\n\
    A finding is `fine`; `warning`: it works, and could be better; or `failed`: the node does not \
    start, does not work as configured, or loses frames. JSON has them under `findings`, each with \
    `check`, `level`, `found` and `cure`, their numbers under `failed` and `warnings`, and the \
    duration under `took_ms`.\n\n\
    Exit status: 0 if nothing failed (warnings do not count, unless --strict), 1 if something did \
    or the machine could not be examined, 2 if the command line is wrong.\n\n\
    Examples:\n  \
    sudo covalent doctor\n  \
    sudo covalent doctor --config my.toml --format json | jq '.findings[] | select(.level == \
    \"failed\")'\n  \
    sudo covalent doctor --strict && echo healthy"
)]
pub struct DoctorArgs {
    /// The node's configuration file. Default: `/etc/covalent/covalent.toml` if it exists, else
    /// only the machine is checked, with a warning.
    #[arg(long, env = "COVALENT_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Count warnings in the exit status.
    #[arg(long, env = "COVALENT_STRICT", value_parser = BoolishValueParser::new())]
    pub strict: bool,
    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
}
