//! What nodes ask of each other.

use crate::named::named;

named! {
    "load of a mesh":
    /// Who asks whom for verbs, all the time.
    MeshLoad {
        /// Nobody.
        None = "none",
        /// Neighbours each other.
        Verbs = "verbs",
        /// Everybody anybody, over paths where no cable leads there: half of what is asked for is asked of a neighbour.
        Far = "far",
    }
}
