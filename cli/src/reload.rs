//! `covalent reload`: an edited configuration, put in force while the node runs.

use std::process::ExitCode;

use anyhow::{Context, Result};
use covalent_api::control::ControlRequest;

use crate::{
    args::ReloadArgs,
    control_client::{self, describe_change, put_in_force},
    output,
};

/// Runs `covalent reload`.
///
/// # Errors
/// Fails if the file is wrong, or if control does not reply.
pub fn run(args: &ReloadArgs) -> Result<ExitCode> {
    let socket = control_client::socket(&args.node).context("nothing was changed")?;
    let now = put_in_force(&socket, &ControlRequest::Reload)?;
    if now.changed.is_empty() {
        output::line(&format!(
            "nothing to change: the file equals the configuration in force under epoch {}",
            now.epoch
        ))?;
        return Ok(ExitCode::SUCCESS);
    }
    output::line(&format!("in force under epoch {}:", now.epoch))?;
    for change in &now.changed {
        output::line(&format!("  {}", describe_change(change)))?;
    }
    for beware in &now.beware {
        output::line(&format!("beware: {beware}"))?;
    }
    Ok(ExitCode::SUCCESS)
}
