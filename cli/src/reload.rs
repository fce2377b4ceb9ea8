//! `covalent reload`: an edited configuration, put in force while the node runs.

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use covalent_api::control::ControlRequest;

use crate::{
    args::ControlNodeArgs,
    control_client::{self, describe_change, expect_file, put_in_force},
    output,
};

/// `covalent reload`
#[derive(Debug, Args)]
#[command(
    after_help = "covalent-control reads the file that it was started with, and proposes it to \
    covalentd. Another file is refused. Every lane accepts the file, or none does. A change of a \
    value that is read only at covalentd's start is refused, with its place in the file. SIGHUP to \
    covalent-control does the same.\n\n\
    Exit status: 0 if the file is in force, 1 if nothing was changed.\n\n\
    Examples:\n  \
    sudo covalent reload\n  \
    sudo covalent reload --config my.toml"
)]
pub struct ReloadArgs {
    /// Which node.
    #[command(flatten)]
    pub node: ControlNodeArgs,
}

/// Runs `covalent reload`.
///
/// # Errors
/// Fails if the file is wrong, or if control does not reply.
pub fn run(args: &ReloadArgs) -> Result<ExitCode> {
    const UNCHANGED: &str = "nothing was changed";
    let socket = control_client::socket(&args.node).context(UNCHANGED)?;
    // With a socket instead of a file, no file is meant.
    let control = if args.node.socket.is_none() {
        let control = control_client::version(&socket).context(UNCHANGED)?;
        expect_file(&control, args.node.config.file()).context(UNCHANGED)?;
        Some(control)
    } else {
        None
    };
    let now = put_in_force(&socket, &ControlRequest::Reload)?;
    let file = control.and_then(|control| control.file);
    let file = file.as_deref().unwrap_or("the file of control");
    if now.changed.is_empty() {
        output::line(&format!(
            "nothing to change: {file} equals the configuration in force under revision {}",
            now.epoch
        ))?;
        return Ok(ExitCode::SUCCESS);
    }
    output::line(&format!(
        "in force under revision {}, from {file}:",
        now.epoch
    ))?;
    for change in &now.changed {
        output::line(&format!("  {}", describe_change(change)))?;
    }
    for beware in &now.beware {
        output::line(&format!("beware: {beware}"))?;
    }
    Ok(ExitCode::SUCCESS)
}
