//! Nodes and cables as the link layer sees them: which nodes reach each other, and over how many
//! cables.

use std::collections::VecDeque;

/// No path.
const NONE: u8 = u8::MAX;

/// The graph of the nodes that run and of the cables that are whole.
#[derive(Debug, Clone)]
pub struct Graph {
    cables: Vec<[usize; 2]>,
    cut: Vec<bool>,
    running: Vec<bool>,
    /// Cables of the shortest way from each node to each other, `nodes · nodes` of them.
    hops: Vec<u8>,
}

impl Graph {
    /// `nodes` nodes that run, joined by whole cables.
    #[must_use]
    pub fn new(nodes: usize, cables: Vec<[usize; 2]>) -> Self {
        let mut graph = Self {
            cut: vec![false; cables.len()],
            cables,
            running: vec![true; nodes],
            hops: vec![NONE; nodes * nodes],
        };
        graph.measure();
        graph
    }

    /// Nodes, whether they run or not.
    #[must_use]
    pub const fn nodes(&self) -> usize {
        self.running.len()
    }

    /// The nodes at the ends of each cable.
    #[must_use]
    pub fn cables(&self) -> &[[usize; 2]] {
        &self.cables
    }

    /// Whether a cable is cut.
    #[must_use]
    pub fn is_cut(&self, cable: usize) -> bool {
        self.cut[cable]
    }

    /// Cables of the shortest way, 0 from a node that runs to itself.
    #[must_use]
    pub fn hops(&self, from: usize, to: usize) -> Option<u8> {
        let hops = self.hops[from * self.nodes() + to];
        (hops != NONE).then_some(hops)
    }

    /// Cables of the longest of the shortest ways, 1 at least.
    #[must_use]
    pub fn diameter(&self) -> u8 {
        let distances = self.hops.iter().filter(|hops| **hops != NONE);
        distances.copied().max().unwrap_or(1).max(1)
    }

    /// Cuts a cable or mends it.
    pub fn set_cut(&mut self, cable: usize, cut: bool) {
        self.cut[cable] = cut;
        self.measure();
    }

    /// Cuts every cable between nodes of different parts.
    pub fn divide(&mut self, part: &[u8]) {
        for (cable, [a, b]) in self.cables.iter().enumerate() {
            self.cut[cable] |= part[*a] != part[*b];
        }
        self.measure();
    }

    /// Mends every cable.
    pub fn mend(&mut self) {
        self.cut.fill(false);
        self.measure();
    }

    /// Marks a node as running or crashed.
    pub fn set_running(&mut self, node: usize, running: bool) {
        self.running[node] = running;
        self.measure();
    }

    /// Whether a node runs.
    #[must_use]
    pub fn runs(&self, node: usize) -> bool {
        self.running[node]
    }

    fn measure(&mut self) {
        let nodes = self.nodes();
        self.hops.fill(NONE);
        for from in (0..nodes).filter(|node| self.running[*node]) {
            let mut reached = VecDeque::from([from]);
            self.hops[from * nodes + from] = 0;
            while let Some(at) = reached.pop_front() {
                let next = self.hops[from * nodes + at] + 1;
                for (cable, ends) in self.cables.iter().enumerate() {
                    let Some(end) = ends.iter().position(|end| *end == at) else {
                        continue;
                    };
                    let far = ends[1 - end];
                    if !self.cut[cable]
                        && self.running[far]
                        && self.hops[from * nodes + far] == NONE
                    {
                        self.hops[from * nodes + far] = next;
                        reached.push_back(far);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_follow_cuts_and_dead_nodes() {
        let mut graph = Graph::new(4, vec![[0, 1], [1, 2], [2, 3], [3, 0]]);
        assert_eq!(graph.hops(0, 2), Some(2));
        assert_eq!(graph.diameter(), 2);
        graph.set_cut(3, true);
        assert_eq!(graph.hops(0, 3), Some(3));
        graph.set_running(1, false);
        assert_eq!(graph.hops(0, 3), None);
        assert_eq!(graph.hops(1, 1), None);
        assert_eq!(graph.hops(2, 3), Some(1));
        graph.set_running(1, true);
        graph.divide(&[0, 0, 1, 1]);
        assert_eq!(graph.hops(1, 2), None);
        assert_eq!(graph.hops(0, 1), Some(1));
        graph.mend();
        assert_eq!(graph.hops(0, 3), Some(1));
    }
}
