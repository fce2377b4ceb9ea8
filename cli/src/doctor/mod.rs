//! `covalent doctor`: reports each problem, its cause and its remedy.

mod args;
mod core_checks;
mod driver;
mod effect_checks;
mod facts;
mod finding;
mod flow_checks;
mod host_checks;
mod journal_checks;
mod link_checks;
mod memory_checks;
mod miss_checks;
mod offload_checks;
mod place_checks;
mod port_checks;
mod process_checks;
mod report;
mod rest_checks;
#[cfg(test)]
mod samples;
mod socket_checks;
mod unit_checks;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    time::Instant,
};

use anyhow::Result;
use covalent_api::control::ControlReply;
use covalent_config::{Config, INSTALLED_FILE};

pub use self::args::DoctorArgs;
#[cfg(test)]
pub use self::report::tests::widest;
use self::{
    facts::{Daemon, Machine, Named, running},
    finding::Finding,
    process_checks::Starter,
    report::Report,
};
use crate::{args::Format, node::Occupant, output};

/// Runs `covalent doctor`.
///
/// # Errors
/// When the facts cannot be read. A configuration that is wrong is a finding, not an error.
pub fn run(args: &DoctorArgs) -> Result<ExitCode> {
    let began = Instant::now();
    let file = args.config.clone().or_else(|| {
        let installed = PathBuf::from(INSTALLED_FILE);
        installed.exists().then_some(installed)
    });
    let findings = examine(file.as_deref())?;
    let report = Report::new(findings, began.elapsed());
    match args.format {
        Format::Json => output::json(&report)?,
        Format::Table => report.print()?,
    }
    Ok(report.exit_code(args.strict))
}

fn examine(file: Option<&Path>) -> Result<Vec<Finding>> {
    let machine = Machine::gather()?;
    let Some(file) = file else {
        let mut findings = vec![unconfigured()];
        findings.extend(of_machine(&machine, None, &Daemon::Absent));
        return Ok(findings);
    };
    let config = match Config::load(file) {
        Ok(config) => config,
        Err(error) => {
            let mut findings = vec![Finding::failed(
                "configuration",
                error.to_string(),
                "correct the file; `covalent config print-default` explains every key",
            )];
            findings.extend(of_kernel(&machine, None));
            return Ok(findings);
        }
    };
    let mut named = Named::gather(&config, file)?;
    if !named.units.hold_the_socket
        && let Some(occupant) = Occupant::of(&config)
    {
        return Ok(beside(&machine, named, &config, &occupant, file));
    }
    let daemon = match named.units.hold_the_socket {
        true => Daemon::Absent,
        false => running::daemon(&config),
    };
    let starter = Starter::new(file, named.units.manage_the_node);
    let mut findings = of_machine(&machine, Some(&config), &daemon);
    let elsewhere = daemon.in_another_network();
    if let Some(pid) = elsewhere {
        findings.push(process_checks::in_another_network(pid, file));
        // What is named so here is another interface, or none.
        named.interfaces.clear();
    }
    findings.extend(of_config(&machine, &named, &config, &daemon));
    let control = running::control(&config);
    if let Some(ControlReply::Version(version)) = &control {
        findings.extend(process_checks::other_file(&config, version, file));
    }
    findings.extend(process_checks::processes(
        &daemon,
        control.is_some(),
        named.is_expected_to_run(),
        &starter,
    ));
    if let Some(running) = daemon.running() {
        findings.extend(port_checks::running(&named, &running.after));
        if elsewhere.is_none() {
            findings.extend(effect_checks::modes(&config, &named, running));
        }
        findings.extend(core_checks::running(&config, running));
        findings.extend(rest_checks::lanes(&config, running, file));
        findings.extend(journal_checks::lanes(running));
        findings.extend(flow_checks::pipes(running));
        findings.extend(flow_checks::misses(running));
        findings.extend(flow_checks::losses(running));
        findings.extend(link_checks::links(&running.after));
        findings.extend(link_checks::states(&running.after));
        findings.extend(link_checks::names(&running.after));
    }
    Ok(findings)
}

/// No configuration was named, and none is installed.
fn unconfigured() -> Finding {
    Finding::warning(
        "configuration",
        format!("no file at {INSTALLED_FILE}, so only the machine was checked"),
        "`covalent up --name NAME --interfaces IF` writes one; `--config FILE` names another",
    )
}

/// Returns the findings for a node at whose place another node answers. What the processes, sockets
/// and records there show is about that other node.
fn beside(
    machine: &Machine,
    mut named: Named,
    config: &Config,
    occupant: &Occupant,
    file: &Path,
) -> Vec<Finding> {
    let directory = occupant.directory().display().to_string();
    named
        .sockets
        .retain(|socket| !Path::new(&socket.path).starts_with(&directory));
    named.stale_records.clear();
    let mut findings = vec![Finding::failed(
        format!("node {}", config.node.name),
        occupant.found(),
        occupant.cure(file),
    )];
    findings.extend(of_machine(machine, Some(config), &Daemon::Absent));
    findings.extend(of_config(machine, &named, config, &Daemon::Absent));
    findings
}

fn of_kernel(machine: &Machine, config: Option<&Config>) -> Vec<Finding> {
    vec![
        host_checks::kernel(machine, config),
        host_checks::kernel_features(machine, config),
    ]
}

fn of_machine(machine: &Machine, config: Option<&Config>, daemon: &Daemon) -> Vec<Finding> {
    let mut findings = of_kernel(machine, config);
    // A running daemon already had its resources to start. The limits of the calling user do not
    // apply to it.
    if !daemon.is_there() {
        findings.extend([
            host_checks::privilege(machine, config),
            host_checks::locked_memory(machine, config),
            host_checks::descriptors(machine, config),
            memory_checks::huge_pages(machine, config),
            memory_checks::memory(machine, config),
        ]);
    }
    findings
}

fn of_config(machine: &Machine, named: &Named, config: &Config, daemon: &Daemon) -> Vec<Finding> {
    let mut findings = core_checks::lanes(machine, &named.refused_cores, config);
    for interface in &named.interfaces {
        findings.extend(port_checks::port(config, interface, daemon));
        findings.extend(offload_checks::offloads(config, interface));
        findings.extend(miss_checks::port(config, interface));
    }
    if !daemon.is_there() {
        findings.extend(named.places.iter().map(place_checks::place));
    }
    findings.extend(place_checks::set_aside(&named.set_aside));
    findings.extend(named.sockets.iter().map(socket_checks::socket));
    findings.extend(named.stale_records.iter().map(place_checks::record));
    findings.push(socket_checks::group(config, named));
    findings.extend(unit_checks::units(config, &named.units));
    findings
}

#[cfg(test)]
mod tests {
    use super::{finding::Level, *};

    #[test]
    fn without_a_configuration_the_first_finding_reports_that_none_was_checked() {
        let findings = examine(None).expect("the machine can be examined");
        let first = &findings[0];
        assert_eq!(
            (first.check.as_str(), first.level),
            ("configuration", Level::Warning)
        );
        assert!(first.found.contains(INSTALLED_FILE), "{}", first.found);
        for cure in [
            "`covalent up --name NAME --interfaces IF`",
            "`--config FILE`",
        ] {
            assert!(first.cure.contains(cure), "{}", first.cure);
        }
        assert!(findings.len() > 1, "the machine is checked too");
    }
}
