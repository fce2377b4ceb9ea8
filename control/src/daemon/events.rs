//! Events of one connection: counted, written down once each, and missed ones noticed.

use covalent_api::{
    event::{Event, EventKind},
    refusal::LinkRefusal,
};
use tokio::time::Instant;
use tracing::{error, info, warn};

use crate::{live::Recent, metrics::OwnMetrics, repeats::Repeats};

/// Follows the daemon's events.
pub(super) struct Events {
    own: OwnMetrics,
    recent: Recent,
    repeats: Repeats,
    /// The sequence of the last event of this connection.
    last: Option<u64>,
}

impl Events {
    pub(super) fn new(own: OwnMetrics, recent: Recent) -> Self {
        Self {
            own,
            recent,
            repeats: Repeats::default(),
            last: None,
        }
    }

    /// A new connection counts anew.
    pub(super) const fn restart(&mut self) {
        self.last = None;
    }

    /// Takes note of an event. Returns whether some before it were missed.
    pub(super) fn note(&mut self, event: &Event) -> bool {
        self.own.event(&event.kind);
        self.recent.note(event);
        let missed = self.last.map_or(0, |last| {
            event.sequence.saturating_sub(last.saturating_add(1))
        });
        self.last = Some(event.sequence);
        if missed > 0 {
            self.own.events_missed.inc_by(missed);
            self.write("events of the daemon were missed", || {
                warn!(missed, "events of the daemon were missed")
            });
        }
        self.describe(&event.kind);
        missed > 0
    }

    /// When [`Events::write_due`] is next of use.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.repeats.next_due()
    }

    /// Writes how often lines were repeated whose time is over.
    pub(super) fn write_due(&mut self) {
        for (line, times) in self.repeats.take_due(Instant::now()) {
            info!(times, "{line}: again");
        }
    }

    fn write(&mut self, line: &str, write: impl FnOnce()) {
        if self.repeats.admit(line, Instant::now()) {
            write();
        }
    }

    fn describe(&mut self, kind: &EventKind) {
        match kind {
            EventKind::LinkUp {
                port,
                peer,
                peer_name,
                peer_port,
                epoch,
            } => {
                self.write(&format!("link {port} up to {peer_name}"), || {
                    info!(port, %peer, peer_name, peer_port, epoch, "link up");
                });
            }
            EventKind::LinkDown {
                port,
                reason,
                open_transactions,
            } => {
                self.write(&format!("link {port} down: {reason}"), || {
                    warn!(port, reason, open_transactions, "link down");
                });
            }
            EventKind::LinkRefused { port, refusal } => {
                let LinkRefusal { reason, cure, .. } = refusal;
                self.write(&format!("link {port} refused: {reason}"), || {
                    warn!(port, reason, cure, "link refused");
                });
            }
            EventKind::LinkRefusalOver { port } => {
                self.write(&format!("link {port} refused no longer"), || {
                    info!(port, "link refused no longer");
                });
            }
            EventKind::Carrier { port, up } => {
                let what = if *up { "carrier" } else { "no carrier" };
                self.write(&format!("port {port}: {what}"), || {
                    info!(port, up, "carrier changed")
                });
            }
            EventKind::PortAbsent { port, reason } => {
                self.write(&format!("port {port} has no device: {reason}"), || {
                    error!(port, reason, "a port has no device");
                });
            }
            EventKind::PortOpened { port } => {
                self.write(&format!("port {port} was opened"), || {
                    info!(port, "a port was opened");
                });
            }
            EventKind::NodeReachable {
                guid,
                name,
                hops,
                port,
            } => {
                self.write(&format!("node {name} can be reached"), || {
                    info!(name, %guid, hops, port, "a node can be reached");
                });
            }
            EventKind::NodeUnreachable { guid, name } => {
                self.write(&format!("node {name} cannot be reached"), || {
                    warn!(name, %guid, "a node cannot be reached any more");
                });
            }
            EventKind::FabricProblem { reason, cure, .. } => {
                self.write(&format!("the fabric has a problem: {reason}"), || {
                    warn!(reason, cure, "the fabric has a problem");
                });
            }
            EventKind::Attached {
                session,
                pid,
                program,
            } => {
                self.write(&format!("{program} attached"), || {
                    info!(session, pid, program, "application attached")
                });
            }
            EventKind::JournalFailed { lane, reason } => {
                self.write(
                    &format!("the journal of lane {lane} has ended: {reason}"),
                    || {
                        error!(lane, reason, "the journal has ended");
                    },
                );
            }
            EventKind::Configured { epoch, changed } => {
                self.write(&format!("configured under epoch {epoch}"), || {
                    info!(epoch, ?changed, "another configuration is in force");
                });
            }
            EventKind::NotConfigured { reason } => {
                self.write(&format!("not configured: {reason}"), || {
                    warn!(reason, "a configuration was refused");
                });
            }
            EventKind::Stopping => {
                self.write("the daemon ends", || info!("the daemon ends in order"));
            }
            EventKind::Detached {
                session,
                reason,
                pipes,
                regions,
            } => {
                self.write(&format!("application detached: {reason}"), || {
                    info!(session, reason, pipes, regions, "application detached");
                });
            }
        }
    }
}
