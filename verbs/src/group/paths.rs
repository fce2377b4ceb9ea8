//! Which nodes' paths a group watches.

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Watched {
    guid: u64,
    /// As far as is known it is reached.
    known_up: bool,
    under_way: bool,
}

/// The nodes that are watched.
#[derive(Debug)]
pub(super) struct WatchedPaths {
    nodes: Vec<Watched>,
    /// Those whose watch is not under way.
    idle: usize,
}

impl WatchedPaths {
    /// Watches nothing yet. At first nothing says that a node is not reached.
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
                under_way: false,
            });
            self.idle += 1;
        }
    }

    /// How many they are.
    pub(super) const fn len(&self) -> usize {
        self.nodes.len()
    }

    /// The next node whose watch is to be put under way, and what is known of it.
    pub(super) fn next_idle(&self) -> Option<(u64, bool)> {
        if self.idle == 0 {
            return None;
        }
        let node = self.nodes.iter().find(|node| !node.under_way)?;
        Some((node.guid, node.known_up))
    }

    /// A node's watch is under way.
    pub(super) fn begin(&mut self, guid: u64) {
        if let Some(node) = self.of(guid)
            && !node.under_way
        {
            node.under_way = true;
            self.idle -= 1;
        }
    }

    /// A node's watch told that it is reached, or lost.
    pub(super) fn told(&mut self, guid: u64, up: bool) {
        self.end(guid);
        if let Some(node) = self.of(guid) {
            node.known_up = up;
        }
    }

    /// A node's watch ended and told nothing: another one may be put under way.
    pub(super) fn end(&mut self, guid: u64) {
        if let Some(node) = self.of(guid)
            && node.under_way
        {
            node.under_way = false;
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
    fn a_node_has_one_watch_under_way_and_it_knows_what_was_told() {
        let mut paths = WatchedPaths::new();
        paths.add(7);
        paths.add(7);
        assert_eq!(paths.len(), 1);
        assert_eq!(paths.next_idle(), Some((7, true)));
        paths.begin(7);
        assert_eq!(paths.next_idle(), None);
        paths.told(7, false);
        assert_eq!(paths.next_idle(), Some((7, false)));
        paths.begin(7);
        paths.end(7);
        assert_eq!(paths.next_idle(), Some((7, false)), "refused: once more");
    }
}
