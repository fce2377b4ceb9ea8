//! Properties of the graph: which nodes are connected, and by the fewest cables.

use std::collections::VecDeque;

use crate::shape::Shape;

/// No way leads there.
pub const UNREACHABLE: u16 = u16::MAX;

/// The nodes that are on, and the cables between them that are whole in both directions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Truth {
    neighbors: Vec<Vec<u16>>,
    on: Vec<bool>,
}

impl Truth {
    /// Of a shape in which only these nodes are on, and these cables are whole.
    #[must_use]
    pub fn new(shape: &Shape, on: impl Fn(usize) -> bool, whole: impl Fn(usize) -> bool) -> Self {
        let on: Vec<bool> = (0..shape.nodes).map(on).collect();
        let mut neighbors = vec![Vec::new(); shape.nodes];
        for (cable, &[a, b]) in shape.cables.iter().enumerate() {
            if whole(cable) && on[usize::from(a)] && on[usize::from(b)] {
                neighbors[usize::from(a)].push(b);
                neighbors[usize::from(b)].push(a);
            }
        }
        Self { neighbors, on }
    }

    /// Number of cables between each node and `root`; [`UNREACHABLE`] for nodes that are cut off
    /// from it or off.
    #[must_use]
    pub fn hops_to(&self, root: usize) -> Vec<u16> {
        let mut hops = vec![UNREACHABLE; self.neighbors.len()];
        if !self.on[root] {
            return hops;
        }
        hops[root] = 0;
        let mut next = VecDeque::from([root]);
        while let Some(node) = next.pop_front() {
            for &neighbor in &self.neighbors[node] {
                let neighbor = usize::from(neighbor);
                if hops[neighbor] == UNREACHABLE {
                    hops[neighbor] = hops[node] + 1;
                    next.push_back(neighbor);
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
                *seen |= hops != UNREACHABLE;
            }
        }
        parts
    }

    /// Cables between the two nodes that are furthest from each other and connected.
    #[must_use]
    pub fn diameter(&self) -> u16 {
        let roots = 0..self.neighbors.len();
        let hops = roots.flat_map(|root| self.hops_to(root));
        hops.filter(|hops| *hops != UNREACHABLE).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hops_count_whole_cables_between_running_nodes() {
        let ring = Shape::ring(6);
        let whole = Truth::new(&ring, |_| true, |_| true);
        assert_eq!(whole.hops_to(0), [0, 1, 2, 3, 2, 1]);
        assert_eq!((whole.parts(), whole.diameter()), (1, 3));
        let cut = Truth::new(&ring, |_| true, |cable| cable != 0);
        assert_eq!(cut.hops_to(0), [0, 5, 4, 3, 2, 1]);
        let apart = Truth::new(&ring, |node| node != 3, |cable| cable != 0);
        assert_eq!(
            apart.hops_to(0),
            [0, UNREACHABLE, UNREACHABLE, UNREACHABLE, 2, 1]
        );
        assert_eq!(apart.hops_to(3), [UNREACHABLE; 6]);
        assert_eq!((apart.parts(), apart.diameter()), (2, 2));
        let torus = Truth::new(&Shape::torus(25, 40), |_| true, |_| true);
        assert_eq!(torus.diameter(), 32);
    }
}
