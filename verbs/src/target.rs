//! Which node a target is: its address, from the names that the daemon knows.

use std::time::{Duration, Instant};

use covalent_api::{
    guid::Guid,
    name::{LANES_MAX, of_lane},
    status::{FarNodeStatus, LinkStatus, NodeStatus},
};

use crate::{
    device::Device,
    error::{Error, Result},
    remote::RemoteRegion,
    timeout::Timeout,
    verb::Target,
};

/// How long a lookup that ran out of time waits for the daemon's reply about the path.
const REASON_TIMEOUT: Duration = Duration::from_millis(50);

impl Device {
    /// Returns the address of the lane of a node by its name: this one, a neighbor, or a node
    /// reached over others. Asks only the local daemon, and blocks for its reply as
    /// [`Device::status`] does. An event loop opens a region with this call and
    /// [`Verbs::post_lookup`](crate::Verbs::post_lookup), and never waits for the other node.
    ///
    /// # Errors
    /// As [`Device::status`]. [`Error::UnknownNode`] if no such node is known yet: a later call
    /// may find it.
    ///
    /// # Examples
    /// ```no_run
    /// use covalent::Device;
    ///
    /// let device = Device::attach("/run/covalent/covalentd.sock", "example")?;
    /// let mut verbs = device.verbs()?;
    /// let node = device.find_node("machine-2")?;
    /// verbs.post_lookup(Some(node), "bank", 0)?;
    /// # Ok::<(), covalent::Error>(())
    /// ```
    pub fn find_node(&self, name: &str) -> Result<Guid> {
        let other = resolve(self, Target::Name(name), None)?;
        Ok(other.unwrap_or_else(|| self.address()))
    }
}

/// The address of the target; `None` for the own node.
pub(crate) fn resolve(
    device: &Device,
    target: Target<'_>,
    deadline: Option<Instant>,
) -> Result<Option<Guid>> {
    let own_name = device.lane_name();
    match target {
        Target::Local => Ok(None),
        Target::Guid(guid) if guid == device.address() => Ok(None),
        Target::Guid(guid) => Ok(Some(guid)),
        Target::Name(name) if name == own_name => Ok(None),
        Target::Name(name) => {
            let timeout = deadline.map_or(Timeout::FOREVER, Timeout::from);
            let status = device.status_timeout(timeout)?;
            neighbor(name, &status.links, true)
                .or_else(|| far_node(name, &status.nodes))
                // The last neighbor of a link that is not up: it may return.
                .or_else(|| neighbor(name, &status.links, false))
                .map(Some)
                .ok_or_else(|| unknown_node(name, &own_name, &status))
        }
    }
}

/// The address of a neighbor by its name, on a link that is up or on one that is not.
fn neighbor(name: &str, links: &[LinkStatus], is_up: bool) -> Option<Guid> {
    let is_wanted = |link: &&LinkStatus| {
        (link.state == "up") == is_up && link.peer_name.as_deref() == Some(name)
    };
    links.iter().find(is_wanted)?.peer
}

/// The address of a node beyond the neighbors by its name, or of a lane of it (`NAME.1`).
fn far_node(name: &str, nodes: &[FarNodeStatus]) -> Option<Guid> {
    let found = |wanted: &dyn Fn(&str) -> bool| {
        let is_wanted = |node: &&FarNodeStatus| node.name.as_deref().is_some_and(wanted);
        nodes.iter().find(is_wanted).map(|node| node.guid)
    };
    found(&|node| node == name).or_else(|| {
        let lane: u32 = name.rsplit_once('.')?.1.parse().ok()?;
        let is_lane = (1..LANES_MAX as u32).contains(&lane);
        let node = found(&|node| is_lane && of_lane(node, lane) == name)?;
        Some(node.lane(lane))
    })
}

/// The event that a lookup waited for, with the state of the path to `node` now.
pub(crate) fn why_no_answer(device: &Device, node: Option<Guid>) -> &'static str {
    // Without a prompt reply of the daemon, the error gives no reason.
    let status = device.status_timeout(REASON_TIMEOUT).ok();
    let path = node
        .zip(status)
        .and_then(|(node, status)| has_path(node, &status.links, &status.nodes, status.omitted));
    match path {
        None => "the other node answered",
        Some(true) => {
            "the other node answered; a path to it is up, so its daemon is busy or stopped, or \
             the path was down until now"
        }
        Some(false) => {
            "the other node answered: no path to it is up. `covalent links` shows the links \
             of this node"
        }
    }
}

/// The part of [`Error::InDoubt`] about a verb on `region`. Queries nothing: callers may poll with
/// short timeouts.
pub(crate) fn of_region(device: &Device, region: &RemoteRegion) -> String {
    let rkey = region.rkey();
    match region.node().filter(|&node| node != device.address()) {
        None => format!(
            " on the region with key {rkey:#010x} of node {}",
            device.lane_name()
        ),
        Some(node) => format!(
            " on the region with key {rkey:#010x} of node {node} (`covalent links` shows whether a \
             path to it is up)"
        ),
    }
}

/// Whether a path leads to `node`: over a link that is up, or through other nodes. `None`: unknown,
/// because the status has `omitted` some nodes.
fn has_path(
    node: Guid,
    links: &[LinkStatus],
    nodes: &[FarNodeStatus],
    omitted: u64,
) -> Option<bool> {
    let is_it = |other: Guid| other.node_bits() == node.node_bits();
    let (mut links, mut nodes) = (links.iter(), nodes.iter());
    let is_reached = links.any(|link| link.state == "up" && link.peer.is_some_and(is_it))
        || nodes.any(|other| other.standing == "reached" && is_it(other.guid));
    (is_reached || omitted == 0).then_some(is_reached)
}

fn unknown_node(name: &str, own: &str, status: &NodeStatus) -> Error {
    let links = status.links.iter();
    let mut known: Vec<&str> = links
        .filter_map(|link| link.peer_name.as_deref())
        .chain(status.nodes.iter().filter_map(|node| node.name.as_deref()))
        .collect();
    known.push(own);
    known.sort_unstable();
    known.dedup();
    Error::UnknownNode {
        name: name.to_owned(),
        known: known.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_leads_to_nodes_over_links_that_are_up_and_to_reached_nodes() {
        let guid = |bits| Guid::new(bits).expect("not zero");
        let far = |bits, standing: &str| FarNodeStatus {
            guid: guid(bits),
            name: None,
            standing: standing.to_owned(),
            hops: None,
            port: None,
        };
        let nodes = [far(0x200, "reached"), far(0x300, "lost")];
        for (node, known, not_all_shown) in [
            (0x201, Some(true), Some(true)),
            (0x300, Some(false), None),
            (0x400, Some(false), None),
        ] {
            for (omitted, expected) in [(0, known), (1, not_all_shown)] {
                let found = has_path(guid(node), &[], &nodes, omitted);
                assert_eq!(found, expected, "{node:x}, {omitted} omitted");
            }
        }
    }

    #[test]
    fn far_nodes_and_their_lanes_are_found_by_name() {
        let node = |bits: u64, name: Option<&str>| FarNodeStatus {
            guid: Guid::new(bits).expect("not zero"),
            name: name.map(ToOwned::to_owned),
            standing: "reached".to_owned(),
            hops: Some(2),
            port: Some("p0".to_owned()),
        };
        let nodes = [
            node(0x100, Some("c")),
            node(0x200, Some("rack.7")),
            node(0x300, None),
        ];
        for (name, bits) in [
            ("c", Some(0x100)),
            ("c.1", Some(0x101)),
            ("rack.7", Some(0x200)),
            ("rack.7.2", Some(0x202)),
            ("c.0", None),
            ("c.256", None),
            ("c.x", None),
            ("rack", None),
            ("", None),
        ] {
            assert_eq!(far_node(name, &nodes).map(Guid::bits), bits, "{name}");
        }
    }
}
