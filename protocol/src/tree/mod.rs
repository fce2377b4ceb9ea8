//! Trees: each node roots one, and all others know over which neighbour the way to it leads.
//!
//! | file | what |
//! |---|---|
//! | `label` | how near a node is to a root |
//! | `note` | what neighbours say to each other, as bytes |
//!
//! # Why there is no loop
//! A node's [`Label`] only ever comes nearer, and the node takes or keeps as its parent only a neighbour whose label, as that neighbour
//! said it last, is nearer than its own. What was said earlier is the label of now or one further. So along parents labels come nearer
//! at every instant, whatever is under way, late or lost, and no way leads back to where it began. Between two labels there nearly always
//! is room for another: a node whose parent is gone asks a neighbour to come nearer than it, and nobody behind it has to know.

mod label;
pub mod note;

pub use label::Label;
