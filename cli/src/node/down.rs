//! `covalent down`

use std::{process::ExitCode, time::Duration};

use anyhow::{Result, bail};
use covalent_config::Config;

use super::{PROGRAMS, lock::NodeLock, occupant::Occupant, record::Record, systemd};
use crate::{
    args::ConfigArgs,
    client::{self, Client},
    identity::End,
    output,
};

/// Longest time until a process exits after the request to stop.
const END_PATIENCE: Duration = Duration::from_secs(5);

/// Runs `covalent down`.
///
/// # Errors
/// When another node answers at its place, a process does not end, or the node runs but was not
/// started by `covalent up`.
pub fn run(args: &ConfigArgs) -> Result<ExitCode> {
    let config = Config::load(args.file())?;
    // Without the directory there is neither a record nor another running command.
    let _lock = match config.node.runtime_dir.is_dir() {
        true => Some(NodeLock::take(&config)?),
        false => None,
    };
    Occupant::refuse(&config, args.file())?;
    let mut ended = Vec::new();
    for program in PROGRAMS.iter().rev() {
        let record = Record::of(&config, program.name);
        if let Some(identity) = record.running() {
            ended.push(match identity.end(END_PATIENCE)? {
                End::Killed => format!(
                    "{} did not end within {END_PATIENCE:?} and was killed",
                    program.name
                ),
                End::OnRequest | End::Gone => format!("{} ended", program.name),
            });
        }
        record.remove()?;
    }
    if !ended.is_empty() {
        output::line(&format!(
            "node {} is down ({})",
            config.node.name,
            ended.join(", ")
        ))?;
        return Ok(ExitCode::SUCCESS);
    }
    if client::no_daemon_listens(&config.socket_path()) {
        output::line(&format!("node {} was not up", config.node.name))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut client = Client::connect(&config.socket_path())?;
    let cure = match systemd::units() {
        Some(units) => format!("systemctl stop {units}"),
        None => format!("end process {} where it was started", client.status()?.pid),
    };
    bail!(
        "node {} runs, but `covalent up` did not start it\n  cure: {cure}",
        client.node()
    )
}
