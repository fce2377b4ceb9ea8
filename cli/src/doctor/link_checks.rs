//! Links of the node, if it runs: those that do not come up although somebody answers, and nodes that share a name.

use std::collections::BTreeMap;

use covalent_api::status::{LinkStatus, NodeStatus};

use super::finding::Finding;

/// Causes of what is refused to a neighbor beyond its share, and what that is.
const QUOTAS: [(&str, &str); 4] = [
    ("quota_roots", "announcements of nodes"),
    ("quota_transits", "paths through this node"),
    ("quota_ends", "paths to this node"),
    ("quota_relays", "questions to pass on"),
];

/// What keeps each of them from coming up. Links that are only down, or to which nobody answers, are no finding.
pub fn links(status: &NodeStatus) -> Vec<Finding> {
    let refused = status.links.iter().filter_map(|link| {
        let refusal = link.refusal.as_ref()?;
        let check = format!("link {}", link.port);
        Some(Finding::failed(check, &refusal.reason, &refusal.cure))
    });
    let greedy = status.links.iter().filter_map(beyond_its_share);
    refused.chain(greedy).collect()
}

/// What the neighbour at a link asked for beyond its share, since the daemon started.
fn beyond_its_share(link: &LinkStatus) -> Option<Finding> {
    let counts = QUOTAS.map(|(cause, what)| (link.drops.get(cause).copied().unwrap_or(0), what));
    let refused = counts.iter().filter(|(count, _)| *count > 0);
    let refused: Vec<String> = refused
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    if refused.is_empty() {
        return None;
    }
    let name = link.peer_name.as_deref().unwrap_or("the neighbor");
    Some(Finding::warning(
        format!("link {}: share", link.port),
        format!(
            "{name} asked for more than its share; refused: {}",
            refused.join(", ")
        ),
        "set `fabric.roots_max` to twice the number of nodes, and `fabric.transits` and `fabric.paths` higher (questions have no key, and may pass); if it goes on, find out which node \
         behind this cable announces nodes that do not exist (`covalent status --nodes`), and pull its cable",
    ))
}

/// The last bits of an address tell lanes of one node apart.
const LANE_BITS: u64 = 0xff;

/// Other nodes of which one has the name of another, or of this node.
pub fn names(status: &NodeStatus) -> Vec<Finding> {
    let own = (Some(status.node.as_str()), status.guid);
    let neighbours = status
        .links
        .iter()
        .filter_map(|link| Some((link.peer_name.as_deref(), link.peer?)));
    let far = status.nodes.iter().map(|it| (it.name.as_deref(), it.guid));
    let mut holders: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for (name, guid) in [own].into_iter().chain(neighbours).chain(far) {
        let Some(name) = name else { continue };
        let node = guid.bits() & !LANE_BITS;
        let known = holders.entry(name).or_default();
        if !known.contains(&node) {
            known.push(node);
        }
    }
    let twins = holders.iter().filter(|(_, nodes)| nodes.len() > 1);
    let findings: Vec<Finding> = twins
        .map(|(name, nodes)| {
            let nodes: Vec<String> = nodes.iter().map(|node| format!("{node:016x}")).collect();
            Finding::warning(
                format!("name {name}"),
                format!("{} nodes have it ({}): whoever names it cannot tell which one is meant", nodes.len(), nodes.join(", ")),
                "another node.name in the file of all but one of them, then restart covalentd there",
            )
        })
        .collect();
    if findings.is_empty() {
        return vec![Finding::fine("names", "each known node has its own")];
    }
    findings
}

#[cfg(test)]
mod tests {
    use covalent_api::guid::Guid;

    use super::{
        super::{finding::Level, samples},
        *,
    };

    #[test]
    fn a_neighbor_that_takes_more_than_its_share_is_named_with_what_was_refused() {
        let mut status = samples::running().after;
        status.links.truncate(1);
        let link = &mut status.links[0];
        (link.refusal, link.peer_name) = (None, Some("b".into()));
        link.drops.insert("quota_roots".into(), 0);
        assert_eq!(links(&status), []);
        status.links[0].drops.insert("quota_roots".into(), 7);
        let told = links(&status);
        assert_eq!((told.len(), told[0].level), (1, Level::Warning));
        let expected = "b asked for more than its share; refused: 7 announcements of nodes";
        assert_eq!(told[0].found, expected);
    }

    #[test]
    fn two_nodes_of_one_name_are_told_and_two_lanes_of_one_node_are_not() {
        let mut status = samples::running().after;
        status.nodes.clear();
        let guid = |bits| Guid::new(bits).expect("not zero");
        (status.node, status.guid) = ("a".into(), guid(0x100));
        let link = &mut status.links[0];
        (link.peer, link.peer_name) = (Some(guid(0x200)), Some("b".into()));
        let mut second = link.clone();
        status.links.truncate(1);
        second.peer = Some(guid(0x201));
        status.links.push(second);
        assert_eq!(names(&status)[0].level, Level::Fine);
        status.links[1].peer = Some(guid(0x300));
        assert_eq!(names(&status)[0].check, "name b");
        status.links[1].peer_name = Some("a".into());
        let told = &names(&status)[0];
        assert!(
            told.check == "name a" && told.level == Level::Warning,
            "{told:?}"
        );
    }
}
