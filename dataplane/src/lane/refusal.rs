//! Why a link does not come up, in the operator's words.

use std::{collections::BTreeMap, fmt};

use covalent_api::refusal::LinkRefusal as Told;
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

/// What is wrong with the cable of the port of this number, with the `names` of all by their numbers, and what to do.
pub fn tell(why: LinkRefusal, port: u16, names: &BTreeMap<u16, String>) -> Told {
    let (reason, cure) = match why {
        LinkRefusal::OwnPort(other) if other == port => (
            "this port hears itself: its cable leads back to it".to_owned(),
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
            "the node at the other end says this node's GUID".to_owned(),
            "one machine's `node.state_dir` was copied from the other's: on one of them end the daemon, remove the file `guid` in that \
             directory, and start it again: it draws another",
        ),
        LinkRefusal::TwinGuid(guid) => (
            format!(
                "two nodes say the GUID {guid:016x}: the one here, and one that another link leads to, which looked like a restart of it"
            ),
            "one machine's `node.state_dir` was copied from the other's: on one of them end the daemon, remove the file `guid` in that \
             directory, and start it again: it draws another",
        ),
        LinkRefusal::Version(version) => (
            format!(
                "the neighbour speaks version {version} of the link protocol, this node version {VERSION}"
            ),
            "upgrade the node that speaks the lower version and restart its covalentd",
        ),
        LinkRefusal::Crossed(guid) => (
            format!(
                "node {guid:016x} is heard here, and hears another node: the two halves of this cable lead to different ports"
            ),
            "lead both fibres of a port to one port",
        ),
        LinkRefusal::Shared => (
            "more than one port is heard on this cable: it leads into a switch or a hub".to_owned(),
            "cable the port straight to one port of a neighbour, or give it `link = false`",
        ),
        LinkRefusal::NoRoom => (
            "there is no room for another neighbour: each one that this node met is cabled, or has verbs that wait for its return"
                .to_owned(),
            "plug one of those cables back, or end the applications whose verbs wait",
        ),
    };
    Told {
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
        assert_eq!(Told::CAUSES, LinkRefusal::NAMES);
        let names = (0..4).map(|port| (port, format!("p{port}"))).collect();
        let told = |why| tell(why, 0, &names);
        for (why, wanted) in [
            (LinkRefusal::OwnPort(0), "itself"),
            (LinkRefusal::OwnPort(3), "(`p0`, `p3`)"),
            (LinkRefusal::OwnPort(9), "(`p0`, number 9)"),
            (LinkRefusal::OwnGuid, "this node's GUID"),
            (LinkRefusal::TwinGuid(0xab), "00000000000000ab"),
            (LinkRefusal::Version(9), "version 9"),
            (LinkRefusal::Crossed(0xab), "00000000000000ab"),
            (LinkRefusal::Shared, "switch"),
            (LinkRefusal::NoRoom, "no room"),
        ] {
            let refusal = told(why);
            assert!(refusal.reason.contains(wanted), "{refusal:?}");
            assert!(!refusal.cure.is_empty());
            assert!(Told::CAUSES.contains(&&refusal.cause[..]));
        }
    }
}
