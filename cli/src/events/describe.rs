//! An event in words.

use crate::output::{Color, counted};
use covalent_api::event::EventKind;

/// The description of an event.
pub struct Description {
    /// As JSON calls it.
    pub name: &'static str,
    /// The event and its object.
    pub text: String,
    /// Its severity for the node, if any.
    pub color: Option<Color>,
}

/// Describes an event of this kind.
pub fn describe(kind: &EventKind) -> Description {
    let (name, text, color) = match kind {
        EventKind::LinkUp {
            port,
            peer,
            peer_name,
            peer_port,
            epoch,
        } => (
            "link_up",
            format!(
                "link {port} to {peer_name} ({peer}), its port {peer_port}, is up under epoch \
                 {epoch}"
            ),
            Some(Color::Green),
        ),
        EventKind::LinkDown {
            port,
            reason,
            open_transactions,
        } => (
            "link_down",
            format!("link {port} is down: {reason}; {open_transactions} exchanges were open"),
            Some(Color::Red),
        ),
        EventKind::LinkRefused { port, refusal } => (
            "link_refused",
            format!(
                "link {port} is refused: {}. Cure: {}",
                refusal.reason, refusal.cure
            ),
            Some(Color::Red),
        ),
        EventKind::LinkRefusalOver { port } => (
            "link_refusal_over",
            format!("nothing is found any more that kept link {port} from coming up"),
            None,
        ),
        EventKind::Carrier { port, up } => {
            let what = if *up {
                "has a carrier"
            } else {
                "lost its carrier"
            };
            let color = if *up { Color::Green } else { Color::Red };
            ("carrier", format!("port {port} {what}"), Some(color))
        }
        EventKind::PortAbsent { port, reason } => (
            "port_absent",
            format!("port {port} is gone: {reason}"),
            Some(Color::Red),
        ),
        EventKind::PortOpened { port } => (
            "port_opened",
            format!("port {port} was opened"),
            Some(Color::Green),
        ),
        EventKind::NodeReachable {
            guid,
            name,
            hops,
            port,
        } => (
            "node_reachable",
            format!(
                "node {name} ({guid}) is reached over port {port}, {} away",
                counted((*hops).into(), "cable")
            ),
            Some(Color::Green),
        ),
        EventKind::NodeUnreachable { guid, name } => (
            "node_unreachable",
            format!("node {name} ({guid}) cannot be reached any more"),
            Some(Color::Red),
        ),
        EventKind::FabricProblem {
            cause,
            reason,
            cure,
        } => (
            "fabric_problem",
            format!("{cause}: {reason}. Cure: {cure}"),
            Some(Color::Red),
        ),
        EventKind::Attached {
            session,
            pid,
            program,
        } => (
            "attached",
            format!("session {session}: {program}, process {pid}"),
            None,
        ),
        EventKind::Detached {
            session,
            reason,
            pipes,
            regions,
        } => (
            "detached",
            format!(
                "session {session}: {reason}; {pipes} pipes and {regions} regions were taken back"
            ),
            None,
        ),
        EventKind::JournalFailed { lane, reason } => (
            "journal_failed",
            format!("lane {lane}: {reason}"),
            Some(Color::Red),
        ),
        EventKind::Configured { epoch, changed } => (
            "configured",
            format!(
                "revision {epoch} is in force; changed: {}",
                changed.join(", ")
            ),
            None,
        ),
        EventKind::NotConfigured { reason } => (
            "not_configured",
            format!("a configuration was refused, and nothing has changed: {reason}"),
            Some(Color::Yellow),
        ),
        EventKind::Stopping => (
            "stopping",
            "the daemon shuts down gracefully".to_owned(),
            None,
        ),
        EventKind::Unknown => (
            "unknown",
            "an event that this program does not know: covalentd is of a later release".to_owned(),
            None,
        ),
    };
    Description { name, text, color }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One of the tags of JSON, which scripts know.
    #[test]
    fn the_name_is_that_of_json() {
        for kind in [
            EventKind::Stopping,
            EventKind::LinkRefusalOver { port: "p".into() },
            EventKind::NotConfigured { reason: "x".into() },
            EventKind::NodeUnreachable {
                guid: covalent_api::guid::Guid::new(7).expect("not zero"),
                name: "b".into(),
            },
        ] {
            let json = serde_json::to_value(&kind).expect("JSON");
            assert_eq!(json["event"], describe(&kind).name);
        }
    }
}
