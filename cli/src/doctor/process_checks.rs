//! The node's two processes: whether both run, and do something.

use std::path::Path;

use covalent_api::control::ControlVersion;
use covalent_config::Config;

use super::{
    facts::{Daemon, process::ProcessState},
    finding::Finding,
};
use crate::control_client::{self, OtherFile};

/// The commands that start the processes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Starter {
    daemon: String,
    control: String,
}

impl Starter {
    /// Returns the commands for the node of `file`. `systemd` is whether systemd manages the node.
    pub fn new(file: &Path, systemd: bool) -> Self {
        let up = format!("covalent up --config {}", file.display());
        if systemd {
            return Self {
                daemon: "systemctl start covalentd".into(),
                control: "systemctl start covalent-control".into(),
            };
        }
        Self {
            daemon: up.clone(),
            control: up,
        }
    }
}

/// Returns the failure that the daemon `pid` runs in another network namespace, where the
/// interfaces of its ports are.
pub fn in_another_network(pid: i32, file: &Path) -> Finding {
    Finding::failed(
        "network namespace",
        format!(
            "covalentd (process {pid}) runs in another network namespace; no port was \
             examined"
        ),
        format!(
            "run the doctor there: `nsenter -n -t {pid} covalent doctor --config {}`",
            file.display()
        ),
    )
}

/// Returns the failure that the node of `config` runs from another file than `file`.
pub fn other_file(config: &Config, control: &ControlVersion, file: &Path) -> Option<Finding> {
    if control.node != config.node.name {
        return None;
    }
    let OtherFile { found, cure } = control_client::other_file(control, file)?;
    Some(Finding::failed(
        format!("node {}", control.node),
        found,
        cure,
    ))
}

/// Returns the findings for both processes. `expected` is whether the node should run: it was
/// started once, and no client starts it.
pub fn processes(
    daemon: &Daemon,
    control_answers: bool,
    expected: bool,
    starter: &Starter,
) -> Vec<Finding> {
    const DAEMON: &str = "covalentd";
    const CONTROL: &str = "covalent-control";
    let of_daemon = match daemon {
        Daemon::Absent if control_answers => Finding::failed(
            DAEMON,
            "does not run, but covalent-control does: no frame is moved, and applications have \
             nothing to attach to",
            starter.daemon.clone(),
        ),
        Daemon::Absent if expected => Finding::warning(
            DAEMON,
            "does not run, although the node was started before: applications cannot attach",
            starter.daemon.clone(),
        ),
        Daemon::Absent => Finding::fine(DAEMON, "does not run"),
        Daemon::Silent {
            pid,
            state: ProcessState::Stopped,
        } => Finding::failed(
            DAEMON,
            format!("process {pid} is stopped (SIGSTOP or a debugger) and does not answer"),
            format!("kill -CONT {pid}"),
        ),
        Daemon::Silent { pid, state } => Finding::failed(
            DAEMON,
            format!("process {pid} {state}, and does not answer: it is still starting, or hangs"),
            "its log shows its progress (journalctl -u covalentd, or covalentd.log in \
             node.runtime_dir); systemd ends a process that hangs for 20 s",
        ),
        Daemon::Refused { reason } => Finding::failed(
            DAEMON,
            reason.clone(),
            "sudo covalent doctor; for an application: its user must be root, the daemon's or a \
             member of node.group, and needs no capability",
        ),
        Daemon::Answers(running) => Finding::fine(DAEMON, format!("process {}", running.after.pid)),
    };
    let of_control = match (control_answers, daemon.running()) {
        (true, _) => Finding::fine(CONTROL, "answers"),
        (false, Some(_)) => Finding::warning(
            CONTROL,
            "does not answer, while covalentd runs: ports are not opened again when their \
             interfaces change, and nothing is measured",
            starter.control.clone(),
        ),
        (false, None) => Finding::fine(CONTROL, "does not run"),
    };
    vec![of_daemon, of_control]
}

#[cfg(test)]
mod tests {
    use super::{
        super::{finding::Level, samples},
        *,
    };

    fn starter() -> Starter {
        Starter::new(Path::new("/etc/my.toml"), false)
    }

    fn levels(daemon: &Daemon, control: bool) -> [Level; 2] {
        let findings = processes(daemon, control, false, &starter());
        [findings[0].level, findings[1].level]
    }

    #[test]
    fn half_a_node_is_reported_with_the_command_for_the_other_half() {
        let answers = Daemon::Answers(Box::new(samples::running()));
        assert_eq!(levels(&Daemon::Absent, false), [Level::Fine; 2]);
        assert_eq!(levels(&answers, true), [Level::Fine; 2]);
        assert_eq!(levels(&Daemon::Absent, true), [Level::Failed, Level::Fine]);
        assert_eq!(levels(&answers, false), [Level::Fine, Level::Warning]);
        let findings = processes(&Daemon::Absent, true, true, &starter());
        assert_eq!(findings[0].cure, "covalent up --config /etc/my.toml");
        let systemd = Starter::new(Path::new("/etc/my.toml"), true);
        let findings = processes(&answers, false, true, &systemd);
        assert_eq!(findings[1].cure, "systemctl start covalent-control");
    }

    #[test]
    fn a_node_that_was_started_and_does_not_run_is_a_warning() {
        let down = processes(&Daemon::Absent, false, true, &starter()).remove(0);
        assert_eq!(down.level, Level::Warning, "{down:?}");
        assert_eq!(down.cure, "covalent up --config /etc/my.toml");
        let fresh = processes(&Daemon::Absent, false, false, &starter()).remove(0);
        assert_eq!(fresh.level, Level::Fine, "{fresh:?}");
    }

    #[test]
    fn a_stopped_daemon_is_distinguished_from_a_busy_one() {
        let silent = |state| Daemon::Silent { pid: 7, state };
        let stopped = &processes(&silent(ProcessState::Stopped), true, true, &starter())[0];
        assert_eq!(stopped.cure, "kill -CONT 7");
        let busy = &processes(&silent(ProcessState::Alive), true, true, &starter())[0];
        assert!(busy.level == Level::Failed && busy.found.contains("process 7 runs"));
        let refused = Daemon::Refused {
            reason: "user 7 may not".into(),
        };
        assert_eq!(levels(&refused, true), [Level::Failed, Level::Fine]);
    }
}
