//! `covalent region`: deletes durable regions that are no longer needed.

use std::process::ExitCode;

use anyhow::Result;

use crate::{
    args::{DeleteArgs, RegionCommand},
    client::Client,
    output, status,
};

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
