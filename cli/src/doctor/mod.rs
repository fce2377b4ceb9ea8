//! `covalent doctor`: what stands in the way, why, and what to do.

mod driver;
mod facts;
mod finding;
mod holder;
mod host_checks;
mod link_checks;
mod port_checks;
#[cfg(test)]
mod samples;

use std::process::ExitCode;

use anyhow::Result;
use comfy_table::{Cell, Color};
use covalent_api::config::Config;

pub use self::holder::{Holder, of_program as holders};
use self::{
    facts::{Machine, Named},
    finding::{Finding, Level},
};
use crate::{
    args::{DoctorArgs, Format},
    client::Client,
    output::{self, Theme},
};

/// Runs `covalent doctor`.
///
/// # Errors
/// When the facts cannot be read. A configuration that is wrong is a finding, not an error.
pub fn run(args: &DoctorArgs) -> Result<ExitCode> {
    let machine = Machine::gather()?;
    let mut findings = Vec::new();
    let config = match args.config.as_deref().map(Config::load).transpose() {
        Ok(config) => config,
        Err(error) => {
            findings.push(Finding::failed(
                "configuration",
                error.to_string(),
                "correct the file; `covalent config print-default` explains every key",
            ));
            None
        }
    };
    findings.extend(of_machine(&machine, config.as_ref()));
    if let Some(config) = &config {
        let named = Named::gather(config)?;
        findings.extend(of_config(&machine, &named, config));
        // Whether somebody answers there is told by the check of the socket.
        if let Ok(status) =
            Client::connect(&config.socket_path()).and_then(|mut client| client.status())
        {
            findings.extend(port_checks::running(&named, &status));
            findings.extend(link_checks::links(&status));
        }
    }
    match args.format {
        Format::Json => output::json(&findings)?,
        Format::Table => print(&findings)?,
    }
    let failed = findings
        .iter()
        .any(|finding| finding.level == Level::Failed);
    Ok(ExitCode::from(u8::from(failed)))
}

fn of_machine(machine: &Machine, config: Option<&Config>) -> Vec<Finding> {
    [
        host_checks::kernel,
        host_checks::kernel_features,
        host_checks::privilege,
        host_checks::locked_memory,
        host_checks::huge_pages,
    ]
    .iter()
    .map(|check| check(machine, config))
    .collect()
}

fn of_config(machine: &Machine, named: &Named, config: &Config) -> Vec<Finding> {
    let mut findings = host_checks::lanes(machine, config);
    findings.extend(
        named
            .interfaces
            .iter()
            .flat_map(|interface| port_checks::port(config, interface)),
    );
    findings.extend(named.sockets.iter().map(port_checks::socket));
    findings.push(port_checks::group(config, named));
    findings
}

fn print(findings: &[Finding]) -> Result<()> {
    let theme = Theme::of_stdout();
    let mut table = theme.table(&["", "check", "found", "what to do"]);
    for finding in findings {
        let (mark, colour) = match finding.level {
            Level::Fine => ("✓", Color::Green),
            Level::Warning => ("!", Color::Yellow),
            Level::Failed => ("✗", Color::Red),
        };
        table.add_row([
            theme.cell(mark, colour),
            Cell::new(&finding.check),
            Cell::new(&finding.found),
            Cell::new(&finding.cure),
        ]);
    }
    output::line(&table.to_string())?;
    let count = |level| {
        findings
            .iter()
            .filter(|finding| finding.level == level)
            .count()
    };
    output::line(&match (count(Level::Failed), count(Level::Warning)) {
        (0, 0) => "Nothing stands in the way.".to_owned(),
        (0, warnings) => format!("Nothing stands in the way; {warnings} to better."),
        (failed, warnings) => format!("{failed} in the way, {warnings} to better."),
    })
}
