//! The node's processes, if they run. Each is queried twice, to distinguish moving from stalled
//! counters.

use std::{
    collections::BTreeMap,
    io,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;
use covalent_api::{control::ControlReply, event::EventKind, status::NodeStatus};
use covalent_config::Config;
use covalent_ipc::seqpacket::Connection;

use super::process::{self, ProcessState};
use crate::{client::Client, control_client};

/// How long a process of the node may take for an answer. It takes a few milliseconds.
const PATIENCE: Duration = Duration::from_millis(500);

/// Time between the two queries. It is long compared with a scheduler time slice and with the tick
/// of an idle link.
const BETWEEN: Duration = Duration::from_millis(250);

/// The first process.
const INIT: i32 = 1;

/// The daemon, as it was found.
#[derive(Debug, Clone, PartialEq)]
pub enum Daemon {
    /// No process listens at its socket.
    Absent,
    /// A process listens, and does not reply in time.
    Silent {
        /// The listening process; 0 if unknown.
        pid: i32,
        /// Its state.
        state: ProcessState,
    },
    /// It answers, and does not talk to this user or this program.
    Refused {
        /// Its word.
        reason: String,
    },
    /// It answers.
    Answers(Box<Running>),
}

/// A daemon that answers.
#[derive(Debug, Clone, PartialEq)]
pub struct Running {
    /// The status from the first query.
    pub before: NodeStatus,
    /// The status from the second query.
    pub after: NodeStatus,
    /// The time between.
    pub between: Duration,
    /// Attached applications that are still known, by session.
    pub applications: BTreeMap<u64, Application>,
}

/// An application.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Application {
    /// Its process.
    pub pid: u32,
    /// The name under which it identifies itself.
    pub program: String,
    /// Its state.
    pub state: ProcessState,
}

impl Daemon {
    /// Returns whether a process listens, regardless of its reply.
    pub const fn is_there(&self) -> bool {
        !matches!(self, Self::Absent)
    }

    /// The daemon's process, if it is known and runs in another network namespace.
    pub fn in_another_network(&self) -> Option<i32> {
        let pid = match self {
            Self::Answers(running) => i32::try_from(running.after.pid).ok()?,
            Self::Silent { pid, .. } => *pid,
            Self::Absent | Self::Refused { .. } => return None,
        };
        process::is_in_another_network(pid, "covalentd").then_some(pid)
    }

    /// The daemon, if it answers.
    pub fn running(&self) -> Option<&Running> {
        match self {
            Self::Answers(running) => Some(running),
            Self::Absent | Self::Silent { .. } | Self::Refused { .. } => None,
        }
    }
}

/// Checks whether the daemon of `config` replies, and queries it twice.
pub fn daemon(config: &Config) -> Daemon {
    let socket = config.socket_path();
    let peer = match Connection::connect_timeout(&socket, PATIENCE) {
        Ok(connection) => connection.peer_credentials().map_or(0, |peer| peer.pid),
        // The listener accepts no connection and its backlog is full.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return Daemon::Refused {
                reason: format!("user {} may not connect to it", nix::unistd::geteuid()),
            };
        }
        Err(_) => return Daemon::Absent,
    };
    let began = Instant::now();
    match query(&socket) {
        Ok(running) => Daemon::Answers(Box::new(running)),
        Err(_) if began.elapsed() >= PATIENCE => {
            // For a socket that systemd created, the peer is systemd, whichever process replies.
            let pid = match peer {
                INIT => process::only_one_called("covalentd").unwrap_or(0),
                pid => pid,
            };
            Daemon::Silent {
                pid,
                state: process::state(pid),
            }
        }
        Err(problem) => Daemon::Refused {
            // The second line is a remedy for a command that needs the daemon.
            reason: format!("{problem:#}")
                .lines()
                .next()
                .unwrap_or_default()
                .to_owned(),
        },
    }
}

fn query(socket: &Path) -> Result<Running> {
    let mut client = Client::connect_within(socket, PATIENCE)?;
    let before = client.status()?;
    let began = Instant::now();
    let mut applications = BTreeMap::new();
    for event in client.events()? {
        match event.kind {
            EventKind::Attached {
                session,
                pid,
                program,
            } => {
                let state = i32::try_from(pid).map_or(ProcessState::Gone, process::state);
                applications.insert(
                    session,
                    Application {
                        pid,
                        program,
                        state,
                    },
                );
            }
            EventKind::Detached { session, .. } => {
                applications.remove(&session);
            }
            _ => {}
        }
    }
    thread::sleep(BETWEEN.saturating_sub(began.elapsed()));
    Ok(Running {
        after: client.status()?,
        between: began.elapsed(),
        before,
        applications,
    })
}

/// Returns the reply of the control process of `config`, if it answers.
pub fn control(config: &Config) -> Option<ControlReply> {
    control_client::version_within(&config.control_socket_path(), PATIENCE)
}
