//! Links of a running node: finds links that do not come up although the neighbor replies, and
//! nodes that share a name.

use std::collections::BTreeMap;

use covalent_api::status::{LinkStatus, NodeStatus, PortStatus};

use super::finding::Finding;
use crate::status;

/// Causes of refusals to a neighbor beyond its quota, and the refused objects.
const QUOTAS: [(&str, &str); 4] = [
    ("quota_roots", "announcements of nodes"),
    ("quota_transits", "paths through this node"),
    ("quota_ends", "paths to this node"),
    ("quota_relays", "questions to pass on"),
];

/// Returns why links do not come up, and whether the node has lost all of them. One link of several
/// that is only down, or whose neighbor does not reply, is no finding.
pub fn links(status: &NodeStatus) -> Vec<Finding> {
    let refused = status.links.iter().filter_map(|link| {
        let refusal = link.refusal.as_ref()?;
        let check = format!("link {}", link.port);
        Some(Finding::failed(check, &refusal.reason, &refusal.cure))
    });
    let greedy = status.links.iter().filter_map(beyond_its_share);
    refused.chain(greedy).chain(cut_off(status)).collect()
}

/// Returns a line for each link to another node that is up, and for each whose neighbor never
/// answered although the port has a carrier.
pub fn states(status: &NodeStatus) -> Vec<Finding> {
    outer(status)
        .filter_map(|(link, port)| {
            let port = port?;
            let check = format!("link {}", link.port);
            if link.state == "up" {
                let name = link.peer_name.as_deref().unwrap_or("its neighbor");
                return Some(Finding::fine(check, format!("up to {name}")));
            }
            let (found, cure) = status::silence(link).filter(|_| port.carrier)?;
            Some(Finding::warning(check, found, cure))
        })
        .collect()
}

/// Returns the links to other nodes, each with its port. Leaves out cables between two lanes.
fn outer(status: &NodeStatus) -> impl Iterator<Item = (&LinkStatus, Option<&PortStatus>)> {
    let links = status.links.iter().map(|link| {
        let port = status.ports.iter().find(|port| port.name == link.port);
        (link, port)
    });
    links.filter(|(_, port)| port.is_none_or(|port| port.kind != "lane"))
}

/// Returns a failure if no link to another node is up, and one has no carrier or was up before. A
/// link that has a carrier and was never up may wait for a neighbor that is not installed yet.
fn cut_off(status: &NodeStatus) -> Option<Finding> {
    let is_reported = |link: &LinkStatus| link.state == "up" || link.refusal.is_some();
    if outer(status).any(|(link, _)| is_reported(link)) {
        return None;
    }
    let is_lost = |link: &LinkStatus, port: Option<&PortStatus>| {
        let has_interface = port.is_some_and(|port| port.interface.is_some());
        link.ups > 0 || link.state == "down" && has_interface
    };
    if !outer(status).any(|(link, port)| is_lost(link, port)) {
        return None;
    }
    let states: Vec<String> = outer(status)
        .map(|(link, _)| format!("{} is {}", link.port, link.state))
        .collect();
    Some(Finding::failed(
        "links",
        format!(
            "none is up, so this node reaches no other: {}",
            states.join(", ")
        ),
        "`down`: mend the cable, or set the interface up at both ends; `init`: the neighbor does not \
         answer, so check its node; `covalent events` shows when and why the link failed",
    ))
}

/// Returns the neighbor's requests beyond its quota since the daemon started.
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
            "{name} requested more than its share; refused: {}",
            refused.join(", ")
        ),
        "set `fabric.roots_max` to twice the number of nodes, and `fabric.transits` and \
         `fabric.paths` higher (queries have no key, and may pass); if it continues, find the node \
         behind this cable that announces nodes that do not exist (`covalent status --nodes`), and \
         disconnect its cable",
    ))
}

/// Other nodes of which one has the name of another, or of this node.
pub fn names(status: &NodeStatus) -> Vec<Finding> {
    let own = (Some(status.node.as_str()), status.guid);
    // A link that is not up remembers its last neighbor, which may have got another GUID since.
    let neighbors = status
        .links
        .iter()
        .filter(|link| link.state == "up")
        .filter_map(|link| Some((link.peer_name.as_deref(), link.peer?)));
    let far = status.nodes.iter().map(|it| (it.name.as_deref(), it.guid));
    let mut holders: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for (name, guid) in [own].into_iter().chain(neighbors).chain(far) {
        let Some(name) = name else { continue };
        let node = guid.node_bits();
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
                format!(
                    "{} nodes have it ({}), so a reference by this name is \
                         ambiguous",
                    nodes.len(),
                    nodes.join(", ")
                ),
                "another node.name in the file of all but one of them, then restart covalentd \
                 there",
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
    fn a_neighbor_above_its_quota_is_named_with_the_refusals() {
        let mut status = samples::running().after;
        status.links.truncate(1);
        let link = &mut status.links[0];
        (link.refusal, link.peer_name) = (None, Some("b".into()));
        link.drops.insert("quota_roots".into(), 0);
        assert_eq!(links(&status), []);
        status.links[0].drops.insert("quota_roots".into(), 7);
        let judged = links(&status);
        assert_eq!((judged.len(), judged[0].level), (1, Level::Warning));
        let expected = "b requested more than its share; refused: 7 announcements of nodes";
        assert_eq!(judged[0].found, expected);
    }

    #[test]
    fn a_link_is_reported_if_it_is_up_or_never_had_an_answer() {
        let mut status = samples::running().after;
        status.links.truncate(1);
        let link = &mut status.links[0];
        (link.refusal, link.state, link.peer_name) = (None, "up".into(), Some("b".into()));
        let port = link.port.clone();
        let check = format!("link {port}");
        assert_eq!(states(&status), [Finding::fine(check, "up to b")]);
        let link = &mut status.links[0];
        (link.state, link.ups) = ("init".into(), 0);
        (link.rx_frames, link.tx_frames) = (0, 635);
        status.ports[0].carrier = true;
        let judged = states(&status);
        assert_eq!((judged.len(), judged[0].level), (1, Level::Warning));
        let wanted = "init, 635 frames sent, none received: no Covalent node answers";
        assert_eq!(judged[0].found, wanted);
        status.ports[0].carrier = false;
        assert_eq!(states(&status), [], "the port is reported already");
        (status.ports[0].carrier, status.links[0].rx_frames) = (true, 1);
        assert_eq!(states(&status), [], "it answers");
        (status.ports[0].kind, status.links[0].rx_frames) = ("lane".into(), 0);
        assert_eq!(states(&status), [], "between lanes");
    }

    #[test]
    fn a_node_whose_links_are_all_down_is_cut_off() {
        let mut status = samples::running().after;
        status.links.truncate(1);
        (status.links[0].refusal, status.links[0].drops) = (None, [].into());
        let judge = |state: &str, ups: u64, change: fn(&mut NodeStatus)| {
            let mut status = status.clone();
            (status.links[0].state, status.links[0].ups) = (state.into(), ups);
            change(&mut status);
            links(&status)
                .into_iter()
                .map(|it| it.level)
                .collect::<Vec<_>>()
        };
        assert_eq!(judge("up", 1, |_| {}), []);
        assert_eq!(judge("down", 0, |_| {}), [Level::Failed]);
        assert_eq!(judge("init", 3, |_| {}), [Level::Failed], "it was up");
        assert_eq!(judge("init", 0, |_| {}), [], "no neighbor was met yet");
        let no_interface = |status: &mut NodeStatus| status.ports[0].interface = None;
        assert_eq!(judge("down", 0, no_interface), []);
        let second_is_up = |status: &mut NodeStatus| {
            let mut second = status.links[0].clone();
            (second.port, second.state) = ("p9".into(), "up".into());
            status.links.push(second);
        };
        assert_eq!(judge("down", 1, second_is_up), []);
        let between_lanes = |status: &mut NodeStatus| status.ports[0].kind = "lane".into();
        assert_eq!(judge("down", 1, between_lanes), []);
    }

    #[test]
    fn two_nodes_of_one_name_are_reported_and_two_lanes_of_one_node_not() {
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
        let judged = &names(&status)[0];
        assert!(
            judged.check == "name a" && judged.level == Level::Warning,
            "{judged:?}"
        );
        // The last neighbor of a link that is down may be no more.
        status.links[1].state = "init".into();
        assert_eq!(names(&status)[0].level, Level::Fine);
    }
}
