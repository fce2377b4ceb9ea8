//! `covalent region`: deletes durable regions that are no longer needed.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};

use crate::{args::NodeArgs, client::Client, output, status};

/// `covalent region …`
#[derive(Debug, Subcommand)]
pub enum RegionCommand {
    /// Delete a durable region permanently: its contents are lost, its name and its space in the
    /// journal are freed.
    #[command(
        after_help = "Only the region's own user, root and the daemon's user may, and only while \
            no application has it registered. \
        `covalent status` lists the durable regions.\n\n\
        Examples:\n  \
        covalent region delete ledger\n  \
        covalent region delete ledger --socket /run/covalent/covalentd.sock"
    )]
    Delete(DeleteArgs),
}

/// `covalent region delete`
#[derive(Debug, Args)]
pub struct DeleteArgs {
    /// Name of the region.
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Which node.
    #[command(flatten)]
    pub node: NodeArgs,
}

/// Runs `covalent region …`.
///
/// # Errors
/// When no daemon answers or it refuses.
pub fn run(command: &RegionCommand) -> Result<ExitCode> {
    match command {
        RegionCommand::Delete(DeleteArgs { name, node }) => {
            Client::connect(&status::socket(node)?)?.delete_region(name)?;
            output::line(&format!("durable region {name} is deleted"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
