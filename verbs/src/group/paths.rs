//! Which nodes' paths a group watches.

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Watched {
    guid: u64,
    /// As far as is known it is reached.
    known_up: bool,
    in_flight: bool,
}

/// The nodes that are watched.
#[derive(Debug)]
pub(super) struct WatchedPaths {
    nodes: Vec<Watched>,
    /// Number of nodes without a watch in flight.
    idle: usize,
}

impl WatchedPaths {
    /// Watches nothing yet. A node initially counts as reachable.
    pub(super) const fn new() -> Self {
        Self {
            nodes: Vec::new(),
            idle: 0,
        }
    }

    /// Watches one more node, if it is none of them.
    pub(super) fn add(&mut self, guid: u64) {
        if self.of(guid).is_none() {
            self.nodes.push(Watched {
                guid,
                known_up: true,
                in_flight: false,
            });
            self.idle += 1;
        }
    }

    /// How many they are.
    pub(super) const fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the next node that needs a watch, and its known state.
    pub(super) fn next_idle(&self) -> Option<(u64, bool)> {
        if self.idle == 0 {
            return None;
        }
        let node = self.nodes.iter().find(|node| !node.in_flight)?;
        Some((node.guid, node.known_up))
    }

    /// Records that a node's watch is in flight.
    pub(super) fn begin(&mut self, guid: u64) {
        if let Some(node) = self.of(guid)
            && !node.in_flight
        {
            node.in_flight = true;
            self.idle -= 1;
        }
    }

    /// Records that a node's watch reported the node as reachable or unreachable.
    pub(super) fn reported(&mut self, guid: u64, up: bool) {
        self.end(guid);
        if let Some(node) = self.of(guid) {
            node.known_up = up;
        }
    }

    /// Records that a node's watch completed without a report: another one may be posted.
    pub(super) fn end(&mut self, guid: u64) {
        if let Some(node) = self.of(guid)
            && node.in_flight
        {
            node.in_flight = false;
            self.idle += 1;
        }
    }

    fn of(&mut self, guid: u64) -> Option<&mut Watched> {
        self.nodes.iter_mut().find(|node| node.guid == guid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_has_one_watch_in_flight_with_the_last_reported_state() {
        let mut paths = WatchedPaths::new();
        paths.add(7);
        paths.add(7);
        assert_eq!(paths.len(), 1);
        assert_eq!(paths.next_idle(), Some((7, true)));
        paths.begin(7);
        assert_eq!(paths.next_idle(), None);
        paths.reported(7, false);
        assert_eq!(paths.next_idle(), Some((7, false)));
        paths.begin(7);
        paths.end(7);
        assert_eq!(paths.next_idle(), Some((7, false)), "refused: once more");
    }
}
