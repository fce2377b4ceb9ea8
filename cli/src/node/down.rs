//! `covalent down`

use std::{process::ExitCode, time::Duration};

use anyhow::{Result, bail};
use covalent_api::config::Config;

use super::{PROGRAMS, record::Record, systemd};
use crate::{args::ConfigArgs, client::Client, output};

/// How long a process may take to end when it is asked to.
const END_PATIENCE: Duration = Duration::from_secs(5);

/// Runs `covalent down`.
///
/// # Errors
/// When a process does not end, or the node runs but was not started by `covalent up`.
pub fn run(args: &ConfigArgs) -> Result<ExitCode> {
    let config = Config::load(&args.config)?;
    let mut ended = Vec::new();
    for program in PROGRAMS.iter().rev() {
        let record = Record::of(&config, program.name);
        if let Some(identity) = record.running() {
            identity.end(END_PATIENCE)?;
            ended.push(program.name);
        }
        record.remove()?;
    }
    if !ended.is_empty() {
        output::line(&format!(
            "node {} is down ({} ended)",
            config.node.name,
            ended.join(" and ")
        ))?;
        return Ok(ExitCode::SUCCESS);
    }
    let Ok(mut client) = Client::connect(&config.socket_path()) else {
        output::line(&format!("node {} was not up", config.node.name))?;
        return Ok(ExitCode::SUCCESS);
    };
    let cure = match systemd::units() {
        Some(units) => format!("systemctl stop {units}"),
        None => format!("end process {} where it was started", client.status()?.pid),
    };
    bail!(
        "node {} runs, but `covalent up` did not start it\n  cure: {cure}",
        client.node()
    )
}
