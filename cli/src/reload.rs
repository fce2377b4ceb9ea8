//! `covalent reload`: an edited configuration, put in force while the node runs.

use std::process::ExitCode;

use anyhow::{Context, Result};
use covalent_api::control::ControlRequest;

use crate::{
    args::ReloadArgs,
    control_client::{self, put_in_force, told},
    output,
};

/// Runs `covalent reload`.
///
/// # Errors
/// When the file is wrong, or nobody answers who could put it in force.
pub fn run(args: &ReloadArgs) -> Result<ExitCode> {
    let socket = control_client::socket(&args.node).context("nothing was changed")?;
    let now = put_in_force(&socket, &ControlRequest::Reload)?;
    if now.changed.is_empty() {
        output::line(&format!(
            "nothing to change: the file says what is in force under epoch {}",
            now.epoch
        ))?;
        return Ok(ExitCode::SUCCESS);
    }
    output::line(&format!("in force under epoch {}:", now.epoch))?;
    for change in &now.changed {
        output::line(&format!("  {}", told(change)))?;
    }
    for beware in &now.beware {
        output::line(&format!("beware: {beware}"))?;
    }
    Ok(ExitCode::SUCCESS)
}
