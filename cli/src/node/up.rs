//! `covalent up`

use std::{
    fs,
    path::Path,
    process::{Child, ExitCode},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use covalent_api::{
    config::Config,
    control::{ControlReply, ControlRequest},
};

use super::{
    PROGRAMS, Program, args::UpArgs, lock::NodeLock, occupant::Occupant, record::Record, systemd,
    written,
};
use crate::{
    client::Client,
    control_client,
    identity::Identity,
    interrupt::{Interrupt, Interrupted},
    output,
    process::{Launch, Process, log_tail},
    program,
    status::mode,
};

/// How long a process may take until its socket answers.
const START_PATIENCE: Duration = Duration::from_secs(15);

/// Longest time until a process exits after the request to stop.
const END_PATIENCE: Duration = Duration::from_secs(3);

/// How often a wait looks again.
const RECHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Runs `covalent up`.
///
/// # Errors
/// Returns the configuration's problems, the other node that answers at its place, or why a process
/// did not come up, with the end of its log. Processes that were started are stopped again.
pub fn run(args: &UpArgs, interrupt: &Interrupt) -> Result<ExitCode> {
    if !args.interfaces.is_empty() {
        let (file, name) = (args.config.file(), args.name.as_deref());
        Occupant::refuse(&written::wanted(name, &args.interfaces)?, file)?;
        if written::write(file, name, &args.interfaces)? {
            output::line(&format!("wrote {}", file.display()))?;
        }
    }
    let named = args.config.file();
    let file = fs::canonicalize(named).unwrap_or_else(|_| named.to_owned());
    let config = Config::load(&file)?;
    Occupant::refuse(&config, &file)?;
    // A configuration is up when both of its processes are: one alone is completed below.
    if PROGRAMS.iter().all(|program| program.is_ready(&config)) {
        let node = Client::connect(&config.socket_path())?.node().to_owned();
        output::line(&format!(
            "node {node} is up already; `covalent status` shows it"
        ))?;
        return Ok(ExitCode::SUCCESS);
    }
    fs::create_dir_all(&config.node.runtime_dir).with_context(|| {
        format!(
            "cannot make the runtime directory {}",
            config.node.runtime_dir.display()
        )
    })?;
    let _lock = NodeLock::take(&config)?;
    // The holder before this one may have started another node.
    Occupant::refuse(&config, &file)?;
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
    announce(config)?;
    output::line(&format!(
        "logs: {}; end it with `covalent down --config {}`",
        PROGRAMS
            .each_ref()
            .map(|program| program.log(config).display().to_string())
            .join(", "),
        file.display()
    ))?;
    Ok(ExitCode::SUCCESS)
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
    announce(config)?;
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

fn announce(config: &Config) -> Result<()> {
    let status = Client::connect(&config.socket_path())?.status()?;
    output::line(&format!("node {} ({}) is up", status.node, status.guid))?;
    // Skip cables between two lanes: the user did not configure these ports.
    for port in status.ports.iter().filter(|port| port.kind != "lane") {
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
    output::line(&format!(
        "  metrics: http://{}/metrics",
        config.control.metrics_listen
    ))
}

#[cfg(test)]
mod tests {
    use covalent_api::{
        API_VERSION, MAX_DATAGRAM_BYTES, control::ControlVersion, datagram, guid::Guid,
    };
    use covalent_pipe::seqpacket::Listener;

    use super::*;

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
                let connection = listener.accept().expect("it asks");
                let mut buffer = vec![0; MAX_DATAGRAM_BYTES];
                connection.recv(&mut buffer).expect("a request");
                let version = ControlVersion {
                    api: API_VERSION,
                    oldest: None,
                    program: String::new(),
                    pid: 1,
                    uptime_ns: 1,
                    node: "a".to_owned(),
                    guid: (round == UNTIL_REACHED).then(|| Guid::new(1).expect("not zero")),
                    file: None,
                };
                let reply = datagram::encode(&ControlReply::Version(version)).expect("short");
                connection.send(&reply, &[]).expect("it listens");
            }
            up.join().expect("no panic").expect("it is up");
        });
    }
}
