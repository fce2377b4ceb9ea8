//! Capacity of nodes for paths.

use covalent_protocol::FabricConfig;
use fastrand::Rng;

use super::{load::MeshLoad, world::KEEPALIVE_MISSES_MAX};

/// Capacity of each node of a world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Room {
    /// Roots that a node knows.
    pub roots: u16,
    /// Paths that end at a node.
    pub paths: u16,
    /// Paths of others that lead through it.
    pub transits: u16,
    /// Longest request, in bytes.
    pub message_bytes: u16,
    /// Ticks within which a mesh comes to rest after the last fault.
    pub ticks_to_rest: u32,
}

/// Ticks to rest without waits for capacity: those after which a silent link is dead, and as many
/// again until both ends have reported it and started over.
const TICKS_TO_REST: u32 = 2 * KEEPALIVE_MISSES_MAX + 4;
/// Additional ticks with a liar, for each turn in which as many roots find space as there are spare
/// entries. A root at 64 hops is rejected after 128 ticks and forgotten 8 later. A neighbor that
/// was left out is queried every 64.
const TICKS_PER_TURN: u32 = 200;
/// Spare places for roots beside those that are configured: one of so many, and some at least.
const ROOTS_PER_SPARE: u16 = 8;
const SPARE_MIN: u16 = 2;
/// Additional ticks per node if nodes wait for each other's capacity: as many nodes take turns at
/// each end of a path, and a finished one keeps the path for two ticks.
const TICKS_PER_NODE: u32 = 3;

impl Room {
    /// Draws the capacity for a mesh of `nodes` nodes. With `MeshLoad::Far`, half of the worlds
    /// have as much as a daemon. The other half have so little that nodes must release paths for
    /// each other. With other loads there are no paths.
    ///
    /// With a liar, there is space for twice as many roots as exist.
    pub fn draw(load: MeshLoad, nodes: usize, is_lied_to: bool, rng: &mut Rng) -> Self {
        let usual = FabricConfig::default();
        let scarce = load == MeshLoad::Far && rng.bool();
        let (paths, transits, message_bytes) = match load {
            MeshLoad::None | MeshLoad::Verbs => (0, 0, 64),
            // A message may take two frames.
            MeshLoad::Far if scarce => (4, 8, 1600),
            MeshLoad::Far => (usual.paths, usual.transits, 1600),
        };
        let times_roots = if is_lied_to { 2 } else { 1 };
        let roots = (times_roots * nodes) as u16;
        let turns = (nodes as u32).div_ceil(u32::from(spare_roots(roots)));
        let ticks_lied_to = u32::from(is_lied_to) * turns * TICKS_PER_TURN;
        Self {
            roots,
            paths,
            transits,
            message_bytes,
            ticks_to_rest: TICKS_TO_REST
                + ticks_lied_to
                + u32::from(scarce) * TICKS_PER_NODE * nodes as u32,
        }
    }
}

/// Places for roots that a node has beside those that are configured.
pub(super) fn spare_roots(roots: u16) -> u16 {
    (roots / ROOTS_PER_SPARE).max(SPARE_MIN)
}
