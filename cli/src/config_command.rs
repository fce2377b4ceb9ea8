//! `covalent config …`

use std::process::ExitCode;

use anyhow::Result;
use covalent_api::config::{Config, DEFAULT_TOML};

use crate::{args::ConfigCommand, configure, output};

/// Runs `covalent config …`.
///
/// # Errors
/// Everything that is wrong with the file, each with its line and key.
pub fn run(command: &ConfigCommand) -> Result<ExitCode> {
    match command {
        ConfigCommand::PrintDefault => output::line(DEFAULT_TOML.trim_end())?,
        ConfigCommand::Check { file } => {
            let config = Config::load(file)?;
            output::line(&format!(
                "{}: valid: node `{}` with {} and {}",
                file.display(),
                config.node.name,
                counted(config.lane.len(), "lane"),
                counted(config.port.len(), "port"),
            ))?;
        }
        ConfigCommand::Auto { config, format } => {
            configure::explain_auto(&Config::load(&config.config)?, *format)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn counted(count: usize, noun: &str) -> String {
    if count == 1 {
        format!("1 {noun}")
    } else {
        format!("{count} {noun}s")
    }
}
