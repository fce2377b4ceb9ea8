//! What a lane reports to the host thread: answers, and the events of its ports, links and nodes.
//!
//! An event names a port as the operator does, and is reported once per change. Answers are never
//! lost, events are bounded ([`Outbox`]).

use std::{collections::BTreeMap, sync::Arc, time::Instant};

use covalent_api::{event::EventKind, guid::Guid};
use covalent_protocol::{LinkEvent, NodeEvent, PATH_PORTS};

use super::{
    command::{Answer, Report},
    failover::Failovers,
    far_nodes::FarNodes,
    new_port::NewPort,
    outbox::Outbox,
    pending::PendingTable,
    refusal,
};
use crate::mailbox::Mailbox;

/// See the module.
#[derive(Debug)]
pub(super) struct Reports {
    outbox: Outbox,
    /// Names of the lane's ports, by number.
    pub port_names: BTreeMap<u16, String>,
    /// Reported state of nodes beyond the neighbors.
    pub far_nodes: FarNodes,
    /// Failures and recoveries of links, for the gap in the status.
    pub failovers: Failovers,
}

impl Reports {
    /// Those of lane `lane` with these ports, into `mailbox`.
    pub fn new(lane: u32, ports: &[NewPort], mailbox: Arc<Mailbox<Report>>) -> Self {
        Self {
            outbox: Outbox::new(mailbox),
            port_names: ports
                .iter()
                .map(|port| (port.number, port.name.clone()))
                .collect(),
            far_nodes: FarNodes::new(lane),
            failovers: Failovers::new(ports.iter().map(|port| port.number)),
        }
    }

    /// As [`Outbox::push`].
    pub fn push(&mut self, report: Report) {
        self.outbox.push(report);
    }

    /// Answers the command with this ticket.
    pub fn answer(&mut self, ticket: u64, result: Result<Answer, String>) {
        self.push(Report::Answer { ticket, result });
    }

    /// As [`Outbox::flush`].
    pub fn flush(&mut self) {
        self.outbox.flush();
    }

    /// Whether no report waits for space.
    pub fn is_empty(&self) -> bool {
        self.outbox.is_empty()
    }

    /// The name of a port; empty if there is no such port.
    fn name(&self, port: u16) -> String {
        self.port_names.get(&port).cloned().unwrap_or_default()
    }

    /// The carrier of a port has changed.
    pub fn carrier(&mut self, port: u16, up: bool) {
        let port = self.name(port);
        self.push(Report::Event(EventKind::Carrier { port, up }));
    }

    /// A tree has changed.
    pub fn tree_event(&mut self, event: NodeEvent) {
        if let Some(problem) = self.far_nodes.on_tree_event(event, &self.port_names) {
            self.push(Report::Event(problem));
        }
    }

    /// A link has changed. `pending` are the verbs that wait for other nodes.
    pub fn link_event(&mut self, event: LinkEvent, pending: &PendingTable) {
        // A path is not a port of the node: the status reports it.
        if event.port() >= PATH_PORTS {
            return;
        }
        let kind = match event {
            LinkEvent::Up {
                port,
                peer,
                name: peer_name,
                peer_port,
                epoch,
            } => {
                self.failovers.up(port, peer);
                // Zero is no GUID, and the protocol brings up no link to it.
                let Some(peer) = Guid::new(peer) else { return };
                EventKind::LinkUp {
                    port: self.name(port),
                    peer,
                    peer_name: peer_name.to_string(),
                    peer_port,
                    epoch,
                }
            }
            LinkEvent::Down { port, reason, open } => {
                let waits = |peer| pending.waits_for(peer);
                self.failovers.down(port, waits, Instant::now());
                EventKind::LinkDown {
                    port: self.name(port),
                    reason: reason.to_string(),
                    open_transactions: open,
                }
            }
            LinkEvent::Refused { port, why } => EventKind::LinkRefused {
                port: self.name(port),
                refusal: refusal::report(why, port, &self.port_names),
            },
            LinkEvent::RefusalOver { port } => EventKind::LinkRefusalOver {
                port: self.name(port),
            },
        };
        self.push(Report::Event(kind));
    }
}
