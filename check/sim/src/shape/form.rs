//! How a shape is specified.

use std::{fmt, fs, path::PathBuf, str::FromStr};

use fastrand::Rng;

use super::{BadShape, DEGREE, NODES_MAX, Shape};

/// Syntax of the forms, for display.
pub const FORMS: &str = "line, ring, chords:N, full, grid or grid:WxH, torus or torus:WxH, random \
    or random:DEGREE, or the path of a file with a \
                         cable in each line";

/// A specified shape without its number of nodes, or a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Form {
    /// [`Shape::line`].
    Line,
    /// [`Shape::ring`].
    Ring,
    /// [`Shape::ring_with_chords`], with so many.
    Chords(usize),
    /// [`Shape::full`].
    Full,
    /// [`Shape::grid`]; without sides, those nearest to a square.
    Grid(Option<[usize; 2]>),
    /// [`Shape::torus`]; without sides, those nearest to a square.
    Torus(Option<[usize; 2]>),
    /// [`Shape::random`], with so many cables at a node in the mean.
    Random(usize),
    /// [`Shape::read`].
    File(PathBuf),
}

impl Form {
    /// Returns the shape, with `nodes` nodes if the form does not set their number. `rng` draws a
    /// random shape. If the form is a file, reads it.
    ///
    /// # Errors
    /// Returns why there is no such shape, or that a node of it has more cables than `valence`.
    pub fn shape(
        &self,
        nodes: Option<usize>,
        valence: usize,
        rng: &mut Rng,
    ) -> Result<Shape, BadShape> {
        let shape = match self {
            Self::File(path) => {
                let file = path.display().to_string();
                let text = fs::read_to_string(path).map_err(|error| BadShape::File {
                    file: file.clone(),
                    why: error.to_string(),
                })?;
                Shape::read(&text, &file)?
            }
            Self::Grid(Some([width, height])) => Shape::grid(*width, *height),
            Self::Torus(Some([width, height])) => Shape::torus(*width, *height),
            _ => {
                let nodes = nodes.ok_or(BadShape::NoNodes)?;
                // Before anything of that size is made.
                if !(2..=NODES_MAX).contains(&nodes) {
                    return Err(BadShape::Nodes { found: nodes });
                }
                self.of(nodes, valence, rng)
            }
        };
        if let Some(nodes) = nodes.filter(|nodes| *nodes != shape.nodes) {
            let found = self.to_string();
            return Err(BadShape::Sides { found, nodes });
        }
        shape.check(valence)?;
        Ok(shape)
    }

    fn of(&self, nodes: usize, valence: usize, rng: &mut Rng) -> Shape {
        match self {
            Self::Ring => Shape::ring(nodes),
            Self::Chords(chords) => Shape::ring_with_chords(nodes, *chords),
            Self::Full => Shape::full(nodes),
            Self::Grid(_) => {
                let [width, height] = sides(nodes);
                Shape::grid(width, height)
            }
            Self::Torus(_) => {
                let [width, height] = sides(nodes);
                Shape::torus(width, height)
            }
            Self::Random(degree) => Shape::random(nodes, *degree, valence, rng),
            Self::Line | Self::File(_) => Shape::line(nodes),
        }
    }
}

/// Returns two numbers whose product is `nodes`, as close to each other as possible.
fn sides(nodes: usize) -> [usize; 2] {
    let width = (1..=nodes.isqrt())
        .rev()
        .find(|side| nodes.is_multiple_of(*side));
    let width = width.unwrap_or(1);
    [width, nodes / width]
}

impl FromStr for Form {
    type Err = BadShape;

    fn from_str(text: &str) -> Result<Self, BadShape> {
        let (name, size) = match text.split_once(':') {
            Some((name, size)) => (name, Some(size)),
            None => (text, None),
        };
        let bad = |written| BadShape::Size {
            found: text.to_owned(),
            written,
        };
        let number = |size: &str, written| {
            let number = size.parse().ok();
            number
                .filter(|n| *n <= NODES_MAX)
                .ok_or_else(|| bad(written))
        };
        let sides = |written| {
            let Some(size) = size else { return Ok(None) };
            let sides = size.split_once('x').and_then(|(width, height)| {
                let sides = [width.parse().ok()?, height.parse().ok()?];
                let fits = sides.iter().all(|side| (1..=NODES_MAX).contains(side));
                (fits && sides[0] * sides[1] <= NODES_MAX).then_some(sides)
            });
            sides.map(Some).ok_or_else(|| bad(written))
        };
        match (name, size) {
            ("line", None) => Ok(Self::Line),
            ("ring", None) => Ok(Self::Ring),
            ("chords", Some(size)) => number(size, "chords:2").map(Self::Chords),
            ("full", None) => Ok(Self::Full),
            ("grid", _) => sides("grid:4x4, of at most 1000 nodes").map(Self::Grid),
            ("torus", _) => sides("torus:25x40, of at most 1000 nodes").map(Self::Torus),
            ("random", None) => Ok(Self::Random(DEGREE)),
            ("random", Some(size)) => number(size, "random:4").map(Self::Random),
            _ if PathBuf::from(text).is_file() => Ok(Self::File(text.into())),
            _ => Err(BadShape::Unknown {
                found: text.to_owned(),
            }),
        }
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line => f.write_str("line"),
            Self::Ring => f.write_str("ring"),
            Self::Chords(chords) => write!(f, "chords:{chords}"),
            Self::Full => f.write_str("full"),
            Self::Grid(None) => f.write_str("grid"),
            Self::Grid(Some([width, height])) => write!(f, "grid:{width}x{height}"),
            Self::Torus(None) => f.write_str("torus"),
            Self::Torus(Some([width, height])) => write!(f, "torus:{width}x{height}"),
            Self::Random(degree) => write!(f, "random:{degree}"),
            Self::File(path) => path.display().fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::shape::VALENCE;

    fn shape(text: &str, nodes: Option<usize>) -> Result<Shape, BadShape> {
        text.parse::<Form>()?
            .shape(nodes, VALENCE, &mut Rng::with_seed(1))
    }

    #[test]
    fn a_form_reads_as_it_was_written() {
        for text in [
            "line",
            "ring",
            "chords:2",
            "full",
            "grid",
            "grid:4x5",
            "torus",
            "torus:25x40",
            "random:3",
            "Cargo.toml",
        ] {
            assert_eq!(text.parse::<Form>().unwrap().to_string(), text);
        }
        assert_eq!("random".parse(), Ok(Form::Random(DEGREE)));
        for (text, part) in [
            ("star", "is no shape"),
            ("ring:3", "is no shape"),
            ("chords", "is no shape"),
            ("chords:-1", "chords:2"),
            ("grid:4", "grid:4x4"),
            ("grid:0x4", "grid:4x4"),
            ("torus:100x100", "at most 1000"),
            ("torus:99999999999999999999x1", "at most 1000"),
            ("random:x", "random:4"),
        ] {
            let error = text.parse::<Form>().unwrap_err().to_string();
            assert!(error.contains(part) && error.contains("cure: "), "{error}");
        }
    }

    #[test]
    fn a_number_of_nodes_alone_makes_a_shape_near_to_a_square() {
        for (nodes, name) in [
            (10, "torus:2x5"),
            (16, "torus:4x4"),
            (500, "torus:20x25"),
            (1000, "torus:25x40"),
            (13, "torus:1x13"),
        ] {
            assert_eq!(shape("torus", Some(nodes)).unwrap().name, name);
        }
        assert_eq!(shape("grid:3x5", None).unwrap().nodes, 15);
        assert_eq!(shape("grid:3x5", Some(15)).unwrap().nodes, 15);
        assert_eq!(shape("chords:2", Some(8)).unwrap().cables.len(), 10);
    }

    #[test]
    fn a_shape_that_cannot_be_is_refused() {
        assert_eq!(shape("ring", None), Err(BadShape::NoNodes));
        let found = 20_000_000;
        assert_eq!(shape("full", Some(found)), Err(BadShape::Nodes { found }));
        assert!(matches!(
            shape("grid:3x5", Some(16)),
            Err(BadShape::Sides { nodes: 16, .. })
        ));
        assert!(matches!(
            shape("full", Some(12)),
            Err(BadShape::Valence { found: 11, .. })
        ));
        // A file that is there and names no cables.
        assert!(matches!(
            shape("Cargo.toml", None),
            Err(BadShape::Line { .. })
        ));
    }
}
