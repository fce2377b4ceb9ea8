//! Shapes of the cabling, in meshes of up to [`NODES_MAX`] nodes.
//!
//! | file | contents |
//! |---|---|
//! | `form` | how a shape is specified: `ring`, `chords:2`, `torus:25x40`, a file |
//! | `read` | a shape from a file |
//! | `bad` | why there is no such shape |

mod bad;
mod form;
mod read;

use fastrand::Rng;

pub use self::{
    bad::BadShape,
    form::{FORMS, Form},
};

/// Most nodes of a shape.
pub const NODES_MAX: usize = 1000;
/// Most cables at one node, unless more are allowed.
pub const VALENCE: usize = 8;
/// Most cables at one node that can be allowed.
pub const VALENCE_MAX: usize = 16;
/// Mean number of cables at a node of a random shape, unless specified.
const DEGREE: usize = 4;
/// Pairs of nodes that are drawn for one cable of a random shape. So many fail only if hardly any
/// node has a free port.
const DRAWS_MAX: usize = 1000;

/// Shape of the cabling.
#[derive(Debug, Clone, PartialEq)]
pub struct Shape {
    /// Specification of the shape.
    pub name: String,
    /// Nodes, which are numbered from 0.
    pub nodes: usize,
    /// The two nodes of each cable.
    pub cables: Vec<[u16; 2]>,
    /// Position of each node in a drawing, x and y, if the shape sets it.
    pub places: Option<Vec<[f32; 2]>>,
    /// Names of the nodes, if they have any but their numbers.
    names: Option<Vec<String>>,
}

/// One end of a cable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Spot {
    /// The cable's place in [`Shape::cables`].
    pub cable: u16,
    /// Which of its ends, 0 or 1.
    pub end: u8,
}

impl Shape {
    /// Each node to the next.
    #[must_use]
    pub fn line(nodes: usize) -> Self {
        let places = (0..nodes).map(|node| [node as f32, 0.0]).collect();
        let cables = pairs((1..nodes).map(|node| [node - 1, node]));
        Self::new("line", nodes, cables, Some(places))
    }

    /// As a line, and the last to the first, from three nodes on.
    #[must_use]
    pub fn ring(nodes: usize) -> Self {
        let mut cables = Self::line(nodes).cables;
        if nodes > 2 {
            cables.extend(pairs([[nodes - 1, 0]]));
        }
        Self::new("ring", nodes, cables, Some(circle(nodes)))
    }

    /// A ring with cables across, evenly spread. Each joins a node to the one half a ring further:
    /// with 8 nodes and 2 chords these are 0 to 4 and 2 to 6. A ring of fewer than four nodes has
    /// no chord. No ring has more than one chord for two nodes.
    #[must_use]
    pub fn ring_with_chords(nodes: usize, chords: usize) -> Self {
        let mut shape = Self::ring(nodes);
        let most = if nodes < 4 { 0 } else { nodes / 2 };
        let chords = chords.min(most);
        shape.cables.extend(pairs((0..chords).map(|chord| {
            let from = chord * nodes / (2 * chords);
            [from, from + nodes / 2]
        })));
        shape.name = format!("chords:{chords}");
        shape
    }

    /// Each node to each other.
    #[must_use]
    pub fn full(nodes: usize) -> Self {
        let all = (0..nodes).flat_map(|b| (0..b).map(move |a| [a, b]));
        Self::new("full", nodes, pairs(all), Some(circle(nodes)))
    }

    /// Rows of `width` nodes, each joined to the next in its row and in its column.
    #[must_use]
    pub fn grid(width: usize, height: usize) -> Self {
        Self::new(
            &format!("grid:{width}x{height}"),
            width * height,
            grid_cables(width, height),
            Some(grid_places(width, height)),
        )
    }

    /// A grid whose rows and columns close to rings. A row or column with fewer than three nodes
    /// stays open.
    #[must_use]
    pub fn torus(width: usize, height: usize) -> Self {
        let mut cables = grid_cables(width, height);
        if width > 2 {
            cables.extend(pairs(
                (0..height).map(|row| [row * width + width - 1, row * width]),
            ));
        }
        if height > 2 {
            cables.extend(pairs(
                (0..width).map(|column| [(height - 1) * width + column, column]),
            ));
        }
        Self::new(
            &format!("torus:{width}x{height}"),
            width * height,
            cables,
            Some(grid_places(width, height)),
        )
    }

    /// A tree that `rng` grows, and then more cables until the mean number of cables at a node is
    /// `degree`, as far as possible. No node has more cables than `valence` (2 at least), and no
    /// two nodes share two cables.
    #[must_use]
    pub fn random(nodes: usize, degree: usize, valence: usize, rng: &mut Rng) -> Self {
        let mut taken = vec![0; nodes];
        let mut cables: Vec<[u16; 2]> = Vec::new();
        let mut open: Vec<usize> = Vec::new();
        for node in 0..nodes {
            if node > 0 {
                let place = rng.usize(..open.len());
                let other = open[place];
                cables.extend(pairs([[other, node]]));
                taken[node] += 1;
                taken[other] += 1;
                if taken[other] == valence {
                    open.swap_remove(place);
                }
            }
            open.push(node);
        }
        let wanted = (nodes * degree / 2).min(nodes * nodes.saturating_sub(1) / 2);
        let mut draws = DRAWS_MAX;
        while cables.len() < wanted && draws > 0 {
            draws -= 1;
            let (a, b) = (rng.usize(..nodes), rng.usize(..nodes));
            let cable = [a.min(b) as u16, a.max(b) as u16];
            if a != b && taken[a] < valence && taken[b] < valence && !cables.contains(&cable) {
                cables.push(cable);
                taken[a] += 1;
                taken[b] += 1;
                draws = DRAWS_MAX;
            }
        }
        Self::new(&format!("random:{degree}"), nodes, cables, None)
    }

    /// Reads a shape from the text of a file called `name`. Each line holds a cable: the names of
    /// its two nodes, separated by space. `#` starts a comment. Nodes are numbered by their first
    /// mention. Several cables may join two nodes.
    ///
    /// # Errors
    /// Returns the line and its error.
    pub fn read(text: &str, name: &str) -> Result<Self, BadShape> {
        read::read(text, name)
    }

    fn new(name: &str, nodes: usize, cables: Vec<[u16; 2]>, places: Option<Vec<[f32; 2]>>) -> Self {
        Self {
            name: name.to_owned(),
            nodes,
            cables,
            places,
            names: None,
        }
    }

    /// A node's name, for people.
    #[must_use]
    pub fn node_name(&self, node: usize) -> String {
        let name = self.names.as_ref().and_then(|names| names.get(node));
        name.map_or_else(|| node.to_string(), Clone::clone)
    }

    /// Returns the cable ends at each node, in the order of the cables. The index of an end is the
    /// number of the node's port.
    #[must_use]
    pub fn ports(&self) -> Vec<Vec<Spot>> {
        let mut ports = vec![Vec::new(); self.nodes];
        for (cable, ends) in self.cables.iter().enumerate() {
            for (end, node) in ends.iter().enumerate() {
                ports[usize::from(*node)].push(Spot {
                    cable: cable as u16,
                    end: end as u8,
                });
            }
        }
        ports
    }

    /// Checks that the shape has 2 to [`NODES_MAX`] nodes, and that no node has more cables than
    /// `valence`.
    ///
    /// # Errors
    /// Returns the exceeded limit.
    pub fn check(&self, valence: usize) -> Result<(), BadShape> {
        if !(2..=NODES_MAX).contains(&self.nodes) {
            return Err(BadShape::Nodes { found: self.nodes });
        }
        let ports = self.ports();
        let most = ports
            .iter()
            .enumerate()
            .max_by_key(|(_, ports)| ports.len());
        match most {
            Some((node, ports)) if ports.len() > valence => Err(BadShape::Valence {
                node: self.node_name(node),
                found: ports.len(),
                max: valence,
            }),
            _ => Ok(()),
        }
    }
}

fn pairs(ends: impl IntoIterator<Item = [usize; 2]>) -> Vec<[u16; 2]> {
    ends.into_iter()
        .map(|ends| ends.map(|node| node as u16))
        .collect()
}

fn grid_cables(width: usize, height: usize) -> Vec<[u16; 2]> {
    let nodes = (0..height).flat_map(|row| (0..width).map(move |column| (row, column)));
    pairs(nodes.flat_map(|(row, column)| {
        let node = row * width + column;
        let right = (column + 1 < width).then_some([node, node + 1]);
        let below = (row + 1 < height).then_some([node, node + width]);
        right.into_iter().chain(below)
    }))
}

fn grid_places(width: usize, height: usize) -> Vec<[f32; 2]> {
    (0..width * height)
        .map(|node| [(node % width) as f32, (node / width) as f32])
        .collect()
}

fn circle(nodes: usize) -> Vec<[f32; 2]> {
    (0..nodes)
        .map(|node| {
            let angle = std::f32::consts::TAU * node as f32 / nodes as f32;
            [angle.sin(), -angle.cos()]
        })
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::HashSet;

    use super::*;

    /// How many nodes can be reached from node 0.
    fn reached(shape: &Shape) -> usize {
        let mut reached = HashSet::from([0]);
        loop {
            let before = reached.len();
            for [a, b] in &shape.cables {
                if reached.contains(a) || reached.contains(b) {
                    reached.extend([*a, *b]);
                }
            }
            if reached.len() == before {
                return before;
            }
        }
    }

    fn valences(shape: &Shape) -> Vec<usize> {
        shape.ports().iter().map(Vec::len).collect()
    }

    #[test]
    fn every_shape_joins_all_nodes_without_a_cable_too_many() {
        let mut rng = Rng::with_seed(5);
        for nodes in 2..40 {
            let mut shapes = vec![
                Shape::line(nodes),
                Shape::ring(nodes),
                Shape::full(nodes),
                Shape::grid(nodes, 3),
                Shape::torus(2, nodes),
                Shape::torus(nodes, 5),
            ];
            shapes.extend((0..=nodes).map(|chords| Shape::ring_with_chords(nodes, chords)));
            shapes.extend((2..9).map(|degree| Shape::random(nodes, degree, VALENCE, &mut rng)));
            for shape in shapes {
                assert_eq!(reached(&shape), shape.nodes, "{shape:?}");
                let once: HashSet<_> = shape
                    .cables
                    .iter()
                    .map(|[a, b]| [*a.min(b), *a.max(b)])
                    .collect();
                assert_eq!(once.len(), shape.cables.len(), "{shape:?}");
                assert!(once.iter().all(|[a, b]| a != b), "{shape:?}");
                assert!(
                    shape
                        .places
                        .is_none_or(|places| places.len() == shape.nodes)
                );
            }
        }
    }

    #[test]
    fn shapes_have_the_cables_that_their_names_promise() {
        assert_eq!(Shape::line(5).cables.len(), 4);
        assert_eq!(Shape::ring(5).cables.len(), 5);
        assert_eq!(Shape::full(9).cables.len(), 36);
        assert_eq!(Shape::grid(4, 4).cables.len(), 24);
        assert_eq!(valences(&Shape::torus(25, 40)), [4; 1000]);
        let chords = Shape::ring_with_chords(8, 2);
        assert_eq!(chords.cables[8..], [[0, 4], [2, 6]]);
        assert_eq!(valences(&chords), [3, 2, 3, 2, 3, 2, 3, 2]);
    }

    #[test]
    fn a_random_shape_has_its_mean_and_keeps_the_valence() {
        let mut rng = Rng::with_seed(1);
        for (nodes, degree) in [(10, 3), (100, 4), (1000, 6)] {
            let shape = Shape::random(nodes, degree, VALENCE, &mut rng);
            assert_eq!(shape.cables.len(), nodes * degree / 2);
            shape.check(VALENCE).unwrap();
        }
        // As close to the mean as the valence allows.
        let shape = Shape::random(100, 8, 4, &mut rng);
        assert!(shape.cables.len() > 190, "{}", shape.cables.len());
        shape.check(4).unwrap();
        assert_eq!(Shape::random(3, 4, VALENCE, &mut rng).cables.len(), 3);
        let [a, b] = [(); 2].map(|()| Shape::random(50, 4, VALENCE, &mut Rng::with_seed(9)));
        assert_eq!(a, b);
    }

    #[test]
    fn a_port_is_the_place_of_its_cable_at_the_node() {
        let shape = Shape::ring(3);
        assert_eq!(shape.cables, [[0, 1], [1, 2], [2, 0]]);
        let spot = |cable, end| Spot { cable, end };
        let ports = [
            vec![spot(0, 0), spot(2, 1)],
            vec![spot(0, 1), spot(1, 0)],
            vec![spot(1, 1), spot(2, 0)],
        ];
        assert_eq!(shape.ports(), ports);
    }

    #[test]
    fn too_many_of_anything_is_refused() {
        Shape::full(9).check(VALENCE).unwrap();
        let error = Shape::full(10).check(VALENCE).unwrap_err();
        assert!(
            matches!(
                &error,
                BadShape::Valence {
                    found: 9,
                    max: 8,
                    ..
                }
            ),
            "{error}"
        );
        for nodes in [0, 1, 1001] {
            let refused = Shape::line(nodes).check(VALENCE);
            assert_eq!(refused, Err(BadShape::Nodes { found: nodes }));
        }
    }
}
