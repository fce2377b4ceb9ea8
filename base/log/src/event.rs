//! Events as both processes write them.

use covalent_api::{event::EventKind, refusal::LinkRefusal};
use tracing::{error, info, warn};

/// Writes an event, with all that is known of it.
pub fn log_event(kind: &EventKind) {
    match kind {
        EventKind::LinkUp {
            port,
            peer,
            peer_name,
            peer_port,
            epoch,
        } => info!(port, %peer, peer_name, peer_port, epoch, "link up"),
        EventKind::LinkDown {
            port,
            reason,
            open_transactions,
        } => warn!(port, reason, open_transactions, "link down"),
        EventKind::LinkRefused { port, refusal } => {
            let LinkRefusal { reason, cure, .. } = refusal;
            warn!(port, reason, cure, "link refused");
        }
        EventKind::LinkRefusalOver { port } => info!(port, "link refused no longer"),
        EventKind::Carrier { port, up } => info!(port, up, "carrier changed"),
        EventKind::PortAbsent { port, reason } => error!(port, reason, "a port has no device"),
        EventKind::PortOpened { port } => info!(port, "a port was opened"),
        EventKind::NodeReachable {
            guid,
            name,
            hops,
            port,
        } => info!(name, %guid, hops, port, "a node can be reached"),
        EventKind::NodeUnreachable { guid, name } => {
            warn!(name, %guid, "a node has become unreachable");
        }
        EventKind::FabricProblem { reason, cure, .. } => {
            warn!(reason, cure, "the fabric has a problem");
        }
        EventKind::Attached {
            session,
            pid,
            program,
        } => info!(session, pid, program, "application attached"),
        EventKind::JournalFailed { lane, reason } => error!(lane, reason, "the journal has failed"),
        EventKind::Configured { epoch, changed } => {
            info!(
                revision = epoch,
                ?changed,
                "another configuration is in force"
            );
        }
        EventKind::NotConfigured { reason } => warn!(reason, "a configuration was refused"),
        EventKind::Stopping => info!("the daemon shuts down gracefully"),
        EventKind::Unknown => {
            info!("an event of a later release, which this program does not know")
        }
        EventKind::Detached {
            session,
            reason,
            pipes,
            regions,
        } => info!(session, reason, pipes, regions, "application detached"),
    }
}
