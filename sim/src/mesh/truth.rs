//! What the graph says: which nodes are connected, and by how many cables at least.

use std::collections::VecDeque;

use crate::shape::Shape;

/// No way leads there.
pub const NO_WAY: u16 = u16::MAX;

/// The nodes that are on, and the cables between them that are whole in both directions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Truth {
    neighbours: Vec<Vec<u16>>,
    on: Vec<bool>,
}

impl Truth {
    /// Of a shape in which only these nodes are on, and these cables are whole.
    #[must_use]
    pub fn new(shape: &Shape, on: impl Fn(usize) -> bool, whole: impl Fn(usize) -> bool) -> Self {
        let on: Vec<bool> = (0..shape.nodes).map(on).collect();
        let mut neighbours = vec![Vec::new(); shape.nodes];
        for (cable, &[a, b]) in shape.cables.iter().enumerate() {
            if whole(cable) && on[usize::from(a)] && on[usize::from(b)] {
                neighbours[usize::from(a)].push(b);
                neighbours[usize::from(b)].push(a);
            }
        }
        Self { neighbours, on }
    }

    /// Cables between each node and `root`; [`NO_WAY`] for those that are cut off from it or are not on.
    #[must_use]
    pub fn hops_to(&self, root: usize) -> Vec<u16> {
        let mut hops = vec![NO_WAY; self.neighbours.len()];
        if !self.on[root] {
            return hops;
        }
        hops[root] = 0;
        let mut next = VecDeque::from([root]);
        while let Some(node) = next.pop_front() {
            for &neighbour in &self.neighbours[node] {
                let neighbour = usize::from(neighbour);
                if hops[neighbour] == NO_WAY {
                    hops[neighbour] = hops[node] + 1;
                    next.push_back(neighbour);
                }
            }
        }
        hops
    }

    /// Parts that no cable joins to another, of nodes that are on.
    #[must_use]
    pub fn parts(&self) -> usize {
        let mut seen: Vec<bool> = self.on.iter().map(|on| !on).collect();
        let mut parts = 0;
        while let Some(root) = seen.iter().position(|seen| !seen) {
            parts += 1;
            for (seen, hops) in seen.iter_mut().zip(self.hops_to(root)) {
                *seen |= hops != NO_WAY;
            }
        }
        parts
    }

    /// Cables between the two nodes that are furthest from each other and connected.
    #[must_use]
    pub fn diameter(&self) -> u16 {
        let roots = 0..self.neighbours.len();
        let hops = roots.flat_map(|root| self.hops_to(root));
        hops.filter(|hops| *hops != NO_WAY).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hops_are_those_of_cables_that_are_whole_between_nodes_that_are_on() {
        let ring = Shape::ring(6);
        let whole = Truth::new(&ring, |_| true, |_| true);
        assert_eq!(whole.hops_to(0), [0, 1, 2, 3, 2, 1]);
        assert_eq!((whole.parts(), whole.diameter()), (1, 3));
        let cut = Truth::new(&ring, |_| true, |cable| cable != 0);
        assert_eq!(cut.hops_to(0), [0, 5, 4, 3, 2, 1]);
        let apart = Truth::new(&ring, |node| node != 3, |cable| cable != 0);
        assert_eq!(apart.hops_to(0), [0, NO_WAY, NO_WAY, NO_WAY, 2, 1]);
        assert_eq!(apart.hops_to(3), [NO_WAY; 6]);
        assert_eq!((apart.parts(), apart.diameter()), (2, 2));
        let torus = Truth::new(&Shape::torus(25, 40), |_| true, |_| true);
        assert_eq!(torus.diameter(), 32);
    }
}
