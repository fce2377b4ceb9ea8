//! Verbs that nodes request from each other.

use crate::named::named;

named! {
    "load of a mesh":
    /// Which nodes request verbs from which, all the time.
    MeshLoad {
        /// No node.
        None = "none",
        /// Neighbors each other.
        Verbs = "verbs",
        /// Each node from any other, over paths where no cable leads there. Half of the requests go
        /// to a neighbor.
        Far = "far",
    }
}
