//! Why a link does not come up, in the operator's words.

use std::{collections::BTreeMap, fmt};

use covalent_api::refusal::LinkRefusal as ReportedRefusal;
use covalent_protocol::{LinkRefusal, wire::VERSION};

/// A port of this node by its number, with the names of those that there are.
struct Port<'a>(&'a BTreeMap<u16, String>, u16);

impl fmt::Display for Port<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.get(&self.1) {
            Some(name) => write!(f, "`{name}`"),
            None => write!(f, "number {}", self.1),
        }
    }
}

/// Describes the cable problem of the port with number `port`, and the remedy. `names` maps port
/// numbers to names.
pub fn report(why: LinkRefusal, port: u16, names: &BTreeMap<u16, String>) -> ReportedRefusal {
    let (reason, cure) = match why {
        LinkRefusal::OwnPort(other) if other == port => (
            "this port receives its own frames: its cable leads back to it".to_owned(),
            "cable it to another node",
        ),
        LinkRefusal::OwnPort(other) => (
            format!(
                "both ends of this cable are ports of this node ({}, {})",
                Port(names, port),
                Port(names, other)
            ),
            "move one end to another node",
        ),
        LinkRefusal::OwnGuid => (
            "the node at the other end has this node's GUID".to_owned(),
            "one machine's `node.state_dir` was copied from the other's: on one of them stop the \
             daemon, remove the file `guid` in that directory, and start it again: it generates \
             another",
        ),
        LinkRefusal::TwinGuid(guid) => (
            format!(
                "two nodes have the GUID {guid:016x}: the one here, and one on another link, which \
                 looked like a restart of the first"
            ),
            "one machine's `node.state_dir` was copied from the other's: on one of them stop the \
             daemon, remove the file `guid` in that directory, and start it again: it generates \
             another",
        ),
        LinkRefusal::Version(version) => (
            format!(
                "the neighbor speaks version {version} of the link protocol, this node version \
                 {VERSION}"
            ),
            "upgrade the node that speaks the lower version and restart its covalentd",
        ),
        LinkRefusal::Crossed(guid) => (
            format!(
                "this port receives node {guid:016x}, which receives another node: the two halves \
                 of this cable lead to different ports"
            ),
            "connect both fibers of a port to one port",
        ),
        LinkRefusal::Shared => (
            "frames of more than one port arrive on this cable: it leads into a switch or a \
             hub"
            .to_owned(),
            "cable the port straight to one port of a neighbor, or give it `link = false`",
        ),
        LinkRefusal::NoRoom => (
            "there is no room for another neighbor: each known neighbor is cabled, or has verbs \
             that wait for its return"
                .to_owned(),
            "reconnect one of those cables, or stop the applications whose verbs wait",
        ),
    };
    ReportedRefusal {
        cause: why.as_str().to_owned(),
        reason,
        cure: cure.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_has_its_name_its_ports_and_a_cure() {
        assert_eq!(ReportedRefusal::CAUSES, LinkRefusal::NAMES);
        let names = (0..4).map(|port| (port, format!("p{port}"))).collect();
        let refusal_of = |why| report(why, 0, &names);
        for (why, wanted) in [
            (LinkRefusal::OwnPort(0), "its own frames"),
            (LinkRefusal::OwnPort(3), "(`p0`, `p3`)"),
            (LinkRefusal::OwnPort(9), "(`p0`, number 9)"),
            (LinkRefusal::OwnGuid, "this node's GUID"),
            (LinkRefusal::TwinGuid(0xab), "00000000000000ab"),
            (LinkRefusal::Version(9), "version 9"),
            (LinkRefusal::Crossed(0xab), "00000000000000ab"),
            (LinkRefusal::Shared, "switch"),
            (LinkRefusal::NoRoom, "no room"),
        ] {
            let refusal = refusal_of(why);
            assert!(refusal.reason.contains(wanted), "{refusal:?}");
            assert!(!refusal.cure.is_empty());
            assert!(ReportedRefusal::CAUSES.contains(&&refusal.cause[..]));
        }
    }
}
