use std::path::PathBuf;

use clap::Parser;

use super::LogFormat;

/// Brings links up, keeps the neighbor table, serves /metrics and answers the CLI.
#[derive(Debug, Parser)]
#[command(
    name = "covalent-control",
    version,
    after_help = "`covalent up` starts it together with covalentd. Started alone, it waits for the \
                  daemon of that configuration. On `covalent reload` or SIGHUP it reads the file \
                  again and applies it, as a whole or not at all.\n\n\
                  Examples:\n  \
                  covalent-control --config /etc/covalent/covalent.toml"
)]
pub struct ControlArguments {
    /// The node's configuration
    #[arg(
        long,
        env = "COVALENT_CONFIG",
        value_name = "FILE",
        default_value = "/etc/covalent/covalent.toml"
    )]
    pub config: PathBuf,

    /// How log lines look, and where they go
    #[arg(long, env = "COVALENT_LOG_FORMAT", value_enum, default_value_t = LogFormat::Auto)]
    pub log_format: LogFormat,

    /// Least important lines to write: error, warn, info, debug or trace
    #[arg(
        long,
        env = "COVALENT_LOG_LEVEL",
        value_name = "LEVEL",
        default_value = "info"
    )]
    pub log_level: String,
}
