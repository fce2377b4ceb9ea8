//! Which node a target is: its address, from the names that the daemon knows.

use std::time::Instant;

use covalent_api::{
    guid::Guid,
    name::{LANES_MAX, of_lane},
    status::{FarNodeStatus, LinkStatus, NodeStatus},
};

use crate::{
    device::Device,
    error::{Error, Result},
    timeout::Timeout,
    verb::Target,
};

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
            let is_wanted = |link: &&LinkStatus| link.peer_name.as_deref() == Some(name);
            let neighbor = status.links.iter().find(is_wanted);
            neighbor
                .and_then(|link| link.peer)
                .or_else(|| far_node(name, &status.nodes))
                .map(Some)
                .ok_or_else(|| unknown_node(name, &own_name, &status))
        }
    }
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
