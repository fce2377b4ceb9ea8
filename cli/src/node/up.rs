//! `covalent up`

use std::{
    fs,
    path::Path,
    process::{Child, ExitCode},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, bail};
use covalent_api::{
    control::{ControlReply, ControlRequest},
    status::{NodeStatus, PortStatus},
};
use covalent_config::Config;

use super::{
    PROGRAMS, Program, args::UpArgs, lock::NodeLock, occupant::Occupant, record::Record, systemd,
    written,
};
use crate::{
    client::Client,
    control_client,
    identity::Identity,
    interrupt::{Interrupt, Interrupted},
    netlink::{self, Interface},
    output,
    process::{Launch, Process, log_tail},
    program,
    status::mode,
};

/// How long a process may take until its socket answers.
const START_PATIENCE: Duration = Duration::from_secs(15);

/// Longest time until a process exits after the request to stop.
const END_PATIENCE: Duration = Duration::from_secs(3);

/// How long control may take to open a port whose interface exists.
const PORT_PATIENCE: Duration = Duration::from_secs(5);

/// How often a wait looks again.
const RECHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Runs `covalent up`.
///
/// # Errors
/// Returns the configuration's problems, the other node that answers at its place, the other file
/// from which this node runs already, or why a process did not come up, with the end of its log.
/// Processes that were started are stopped again. A node without an open port keeps running:
/// control opens a port when its interface appears.
pub fn run(args: &UpArgs, interrupt: &Interrupt) -> Result<ExitCode> {
    if !args.interfaces.is_empty() {
        let (file, name) = (args.config.file(), args.name.as_deref());
        let check = |wanted: &Config| Occupant::refuse_other_file(wanted, file);
        if written::write(file, name, &args.interfaces, check)? {
            output::line(&format!("wrote {}", file.display()))?;
        }
    }
    let named = args.config.file();
    let file = fs::canonicalize(named).unwrap_or_else(|_| named.to_owned());
    let config = Config::load(&file)?;
    Occupant::refuse_other_file(&config, &file)?;
    // A configuration is up when both of its processes are: one alone is completed below.
    if PROGRAMS.iter().all(|program| program.is_ready(&config)) {
        let status = Client::connect(&config.socket_path())?.status()?;
        let (node, shown) = (&status.node, file.display());
        output::line(&format!(
            "node {node} is up already; `covalent status --config {shown}` shows it"
        ))?;
        print_absent_ports(&status, &file)?;
        return Ok(exit_code(&status, &file));
    }
    fs::create_dir_all(&config.node.runtime_dir).with_context(|| {
        format!(
            "cannot make the runtime directory {}",
            config.node.runtime_dir.display()
        )
    })?;
    let _lock = NodeLock::take(&config)?;
    // The holder before this one may have started another node.
    Occupant::refuse_other_file(&config, &file)?;
    if args.foreground {
        return foreground(&file, &config, interrupt);
    }
    if let Some(units) = systemd::units() {
        bail!(
            "systemd looks after this node\n  cure: systemctl start {units}\n  \
             (or `covalent up --foreground` for a run beside it, with another configuration)"
        );
    }
    background(&file, &config, interrupt)
}

fn background(file: &Path, config: &Config, interrupt: &Interrupt) -> Result<ExitCode> {
    let mut started: Vec<Started> = Vec::new();
    for program in &PROGRAMS {
        if program.is_ready(config) {
            output::line(&format!("{} runs already", program.name))?;
            continue;
        }
        let log = program.log(config);
        let mut child = launch(program, file)?
            .log_to(log.clone())
            .start_detached()?;
        let identity = Identity::of(i32::try_from(child.id())?)?;
        let record = Record::of(config, program.name);
        // Before the record is written: should that fail, the process is ended.
        let process = Started {
            identity,
            record,
            keep: false,
        };
        process.record.write(identity)?;
        started.push(process);
        wait_until_ready(program, config, interrupt, || {
            still_runs(&mut child, program.name, &log)
        })?;
    }
    wait_until_joined(config, interrupt)?;
    for process in &mut started {
        process.keep = true;
    }
    let status = announce(config, file)?;
    output::line(&format!(
        "logs: {}; end it with `covalent down --config {}`",
        PROGRAMS
            .each_ref()
            .map(|program| program.log(config).display().to_string())
            .join(", "),
        file.display()
    ))?;
    Ok(exit_code(&status, file))
}

fn foreground(file: &Path, config: &Config, interrupt: &Interrupt) -> Result<ExitCode> {
    if let Some(program) = PROGRAMS.iter().find(|program| program.is_ready(config)) {
        bail!(
            "{} of node {} runs already, so it cannot end with this command\n  \
             cure: `covalent down --config {}` first, or `covalent up` without --foreground, which \
             starts the missing processes",
            program.name,
            config.node.name,
            file.display()
        );
    }
    let mut processes: Vec<Process> = Vec::new();
    for program in &PROGRAMS {
        let mut process = launch(program, file)?.start()?;
        wait_until_ready(program, config, interrupt, || process.expect_running())?;
        processes.push(process);
    }
    wait_until_joined(config, interrupt)?;
    let status = announce(config, file)?;
    // It goes on: an interface may appear later.
    let _ = exit_code(&status, file);
    output::line("Ctrl-C ends it")?;
    let Interrupted(signal) = loop {
        if let Err(interrupted) = interrupt.sleep(Duration::from_millis(200)) {
            break interrupted;
        }
        for process in &mut processes {
            process.expect_running()?;
        }
    };
    // The reader may be gone. The node stops anyway.
    let _ = output::line(&format!("ending on {signal}"));
    for process in processes.iter_mut().rev() {
        process.request_end();
        process.wait_or_kill(END_PATIENCE)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A background process, stopped again unless all of them come up.
struct Started {
    identity: Identity,
    record: Record,
    keep: bool,
}

impl Drop for Started {
    fn drop(&mut self) {
        if !self.keep {
            // The original error is the one to report.
            let _ = self.identity.end(END_PATIENCE);
            let _ = self.record.remove();
        }
    }
}

fn launch(program: &Program, file: &Path) -> Result<Launch> {
    Ok(Launch::new(program.name, program::find(program.name)?).option("--config", file))
}

fn still_runs(child: &mut Child, program: &str, log: &Path) -> Result<()> {
    match child
        .try_wait()
        .with_context(|| format!("cannot wait for {program}"))?
    {
        None => Ok(()),
        Some(status) => bail!("{program} ended with {status}{}", log_tail(log)),
    }
}

fn wait_until_ready(
    program: &Program,
    config: &Config,
    interrupt: &Interrupt,
    mut still_runs: impl FnMut() -> Result<()>,
) -> Result<()> {
    let deadline = Instant::now() + START_PATIENCE;
    while !program.is_ready(config) {
        still_runs()?;
        if Instant::now() >= deadline {
            bail!("{} does not answer after {START_PATIENCE:?}", program.name);
        }
        interrupt.sleep(RECHECK_INTERVAL)?;
    }
    Ok(())
}

/// Waits until control is connected to the daemon. Before that, metrics and streams would report a
/// running node as down.
fn wait_until_joined(config: &Config, interrupt: &Interrupt) -> Result<()> {
    let deadline = Instant::now() + START_PATIENCE;
    let socket = config.control_socket_path();
    loop {
        let answer = control_client::send_request(&socket, &ControlRequest::Version)?;
        if matches!(&answer, ControlReply::Version(version) if version.guid.is_some()) {
            return Ok(());
        }
        if Instant::now() >= deadline {
            bail!(
                "covalent-control has not reached the daemon after {START_PATIENCE:?}\n  cure: see \
                 {}",
                config
                    .node
                    .runtime_dir
                    .join("covalent-control.log")
                    .display()
            );
        }
        interrupt.sleep(RECHECK_INTERVAL)?;
    }
}

/// The ports that the user configured: no cables between two lanes.
fn configured_ports(status: &NodeStatus) -> impl Iterator<Item = &PortStatus> {
    status.ports.iter().filter(|port| port.kind != "lane")
}

/// Reports success if a port of the node is open, else prints that none is.
fn exit_code(status: &NodeStatus, file: &Path) -> ExitCode {
    if configured_ports(status).any(|port| port.absent.is_none()) {
        return ExitCode::SUCCESS;
    }
    output::complain(&anyhow!(
        "node {} keeps running, but none of its ports is open: no frame is received or sent\n  \
         cure: mend what is reported of each port above: a port is opened as soon as its interface \
         exists; or stop the node: `covalent down --config {}`",
        status.node,
        file.display()
    ));
    ExitCode::FAILURE
}

fn print_absent_ports(status: &NodeStatus, file: &Path) -> Result<()> {
    let mut known = None;
    for port in configured_ports(status) {
        let Some(reason) = &port.absent else {
            continue;
        };
        output::line(&format!("! port {}: {reason}", port.name))?;
        let Some(wanted) = &port.interface else {
            continue;
        };
        if known.is_none() {
            known = Some(netlink::interfaces()?);
        }
        let known = known.as_deref().unwrap_or_default();
        if known.iter().all(|it| it.name != *wanted) {
            output::line(&misspelt(wanted, known, file))?;
        }
    }
    Ok(())
}

/// The remedy for the name of an interface that does not exist.
fn misspelt(wanted: &str, known: &[Interface], file: &Path) -> String {
    let file = file.display();
    let suggestion = netlink::suggestion(&netlink::similar_names(wanted, known));
    format!(
        "    if `{wanted}` is misspelt, correct it in {file}, then `covalent reload --config \
         {file}`{suggestion}"
    )
}

/// The status once control has opened the ports whose interfaces exist, or could not in time.
fn settled_status(config: &Config) -> Result<NodeStatus> {
    let deadline = Instant::now() + PORT_PATIENCE;
    loop {
        let status = Client::connect(&config.socket_path())?.status()?;
        let known = netlink::interfaces()?;
        let is_due = |port: &PortStatus| {
            let exists = |name: &String| known.iter().any(|it| it.name == *name);
            port.absent.is_some() && port.interface.as_ref().is_some_and(exists)
        };
        if !configured_ports(&status).any(is_due) || Instant::now() >= deadline {
            return Ok(status);
        }
        thread::sleep(RECHECK_INTERVAL);
    }
}

/// Prints the node and its ports, and returns its status.
fn announce(config: &Config, file: &Path) -> Result<NodeStatus> {
    let status = settled_status(config)?;
    output::line(&format!("node {} ({}) is up", status.node, status.guid))?;
    for port in configured_ports(&status).filter(|port| port.absent.is_none()) {
        let interface = port
            .interface
            .as_ref()
            .map(|name| format!(" on {name}"))
            .unwrap_or_default();
        output::line(&format!(
            "  port {}{interface}: {}",
            port.name,
            mode(&port.kind, &port.mode)
        ))?;
    }
    print_absent_ports(&status, file)?;
    output::line(&format!(
        "  metrics: http://{}/metrics",
        config.control.metrics_listen
    ))?;
    Ok(status)
}

#[cfg(test)]
mod tests {
    use covalent_api::guid::Guid;
    use covalent_ipc::seqpacket::Listener;

    use super::*;
    use crate::node::occupant::tests::answer_one;

    #[test]
    fn a_node_is_up_when_control_has_reached_the_daemon() {
        const UNTIL_REACHED: u32 = 3;
        let directory = tempfile::tempdir().expect("a directory");
        let text = format!(
            "[node]\nname = \"a\"\nruntime_dir = \"{}\"\n[[port]]\nname = \"p0\"\nkind \
             = \"cable\"\npath = \"{}\"\n",
            directory.path().display(),
            directory.path().join("cable").display()
        );
        let config = Config::parse(&text, "test").expect("a configuration");
        let listener = Listener::bind(&config.control_socket_path()).expect("bound");
        std::thread::scope(|scope| {
            let up = scope.spawn(|| wait_until_joined(&config, &Interrupt::default()));
            for round in 1..=UNTIL_REACHED {
                assert!(!up.is_finished(), "control has no daemon yet");
                let guid = (round == UNTIL_REACHED).then(|| Guid::new(1).expect("not zero"));
                answer_one(&listener, "a", guid, None);
            }
            up.join().expect("no panic").expect("it is up");
        });
    }
}
