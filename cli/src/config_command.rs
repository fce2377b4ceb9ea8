//! `covalent config …`

use std::{path::PathBuf, process::ExitCode};

use anyhow::{Result, bail};
use clap::Subcommand;
use covalent_config::{Config, DEFAULT_TOML};

use crate::{
    args::{ConfigArgs, Format},
    configure, output,
};

/// `covalent config …`
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Print a complete configuration in which every key is explained.
    #[command(after_help = "Examples:\n  covalent config print-default > my.toml")]
    PrintDefault,
    /// Check a file: keys, values, ranges and names that must agree.
    #[command(after_help = "Examples:\n  \
        covalent config check my.toml\n  \
        covalent config check --config my.toml")]
    Check {
        /// The file.
        #[arg(value_name = "FILE", required_unless_present = "config")]
        file: Option<PathBuf>,
        /// The file, as the other commands name it.
        #[arg(long, value_name = "FILE", conflicts_with = "file")]
        config: Option<PathBuf>,
    },
    /// Show the values that `auto` selects for each interface on this machine, and why.
    #[command(
        after_help = "The values come from a table of drivers and kernels, and from the present \
        state of the interface. The daemon uses the same values. If the table has no entry, the \
        daemon tries when it opens the port, and `covalent status` shows the result.\n\n\
        Examples:\n  \
        covalent config auto\n  \
        covalent config auto --config my.toml --format json | jq '.[].auto.copy'"
    )]
    Auto {
        /// Which node.
        #[command(flatten)]
        config: ConfigArgs,
        /// Output format.
        #[arg(long, value_enum, default_value_t = Format::Table)]
        format: Format,
    },
}

/// Runs `covalent config …`.
///
/// # Errors
/// Everything that is wrong with the file, each with its line and key.
pub fn run(command: &ConfigCommand) -> Result<ExitCode> {
    match command {
        ConfigCommand::PrintDefault => output::line(DEFAULT_TOML.trim_end())?,
        ConfigCommand::Check { file, config } => {
            // The command line has exactly one of the two.
            let Some(file) = file.as_ref().or(config.as_ref()) else {
                bail!("no file was named; `covalent config check FILE` names one");
            };
            let config = Config::load(file)?;
            output::line(&format!(
                "{}: valid: node `{}` with {} and {}",
                file.display(),
                config.node.name,
                output::counted(config.lane.len() as u64, "lane"),
                output::counted(config.port.len() as u64, "port"),
            ))?;
        }
        ConfigCommand::Auto { config, format } => {
            configure::explain_auto(&Config::load(config.file())?, *format)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
