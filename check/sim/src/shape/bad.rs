//! Why there is no such shape.

use std::fmt;

use super::{FORMS, NODES_MAX, VALENCE_MAX};

/// Why there is no such shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BadShape {
    /// It is none of the forms that there are.
    Unknown {
        /// The requested text.
        found: String,
    },
    /// The form is known, but the text behind the colon is none of its sizes.
    Size {
        /// The requested text.
        found: String,
        /// How it is written.
        written: &'static str,
    },
    /// The sides of a grid or torus make another number of nodes than requested.
    Sides {
        /// The requested text.
        found: String,
        /// The requested number of nodes.
        nodes: usize,
    },
    /// Neither the form nor another option sets the number of nodes.
    NoNodes,
    /// Too few nodes, or too many.
    Nodes {
        /// How many.
        found: usize,
    },
    /// Too many cables at one node.
    Valence {
        /// The node's name.
        node: String,
        /// Its cables.
        found: usize,
        /// Most that it may have.
        max: usize,
    },
    /// A line of a file is no cable.
    Line {
        /// The file.
        file: String,
        /// The line, counted from 1.
        line: usize,
        /// Description of the error.
        what: String,
    },
    /// A file cannot be read.
    File {
        /// The file.
        file: String,
        /// Why not.
        why: String,
    },
}

impl fmt::Display for BadShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { found } => {
                write!(f, "`{found}` is no shape and no file; cure: write {FORMS}")
            }
            Self::Size { found, written } => {
                write!(f, "`{found}` is no size of a shape; cure: write {written}")
            }
            Self::Sides { found, nodes } => write!(
                f,
                "`{found}` does not have {nodes} nodes; cure: leave out the sides or the number of \
                 nodes"
            ),
            Self::NoNodes => {
                f.write_str("the shape has no number of nodes; cure: set it with --nodes")
            }
            Self::Nodes { found } => write!(
                f,
                "a shape of {found} nodes; cure: request 2 to {NODES_MAX}"
            ),
            Self::Valence { node, found, max } => write!(
                f,
                "node {node} has {found} cables, and may have {max}; cure: fewer of them, or \
                 --valence {VALENCE_MAX}"
            ),
            Self::Line { file, line, what } => write!(
                f,
                "{file}, line {line}: {what}; cure: write the names of two nodes, with space \
                 between"
            ),
            Self::File { file, why } => write!(
                f,
                "{file} cannot be read: {why}; cure: name a file that you may read"
            ),
        }
    }
}

impl std::error::Error for BadShape {}
