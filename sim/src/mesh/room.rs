//! How much room nodes have for paths.

use covalent_protocol::FabricConfig;
use fastrand::Rng;

use super::{load::MeshLoad, world::SILENT_PACES_MAX};

/// Room of each node of a world.
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
    /// Paces within which a mesh comes to rest behind the last fault.
    pub paces_to_rest: u32,
}

/// Paces within which a mesh comes to rest where nobody waits for room: those after which a silent link is dead, and as many again in which both
/// ends come to say so and begin anew.
const PACES_TO_REST: u32 = 2 * SILENT_PACES_MAX + 4;
/// Paces more where somebody lies, for each turn in which as many roots find room as there are spare
/// places: one of 64 hops is turned away after 128 paces, forgotten 8 later, and a neighbor that was
/// left out is asked every 64.
const PACES_PER_TURN: u32 = 200;
/// Spare places for roots beside those that are configured: one of so many, and some at least.
const ROOTS_PER_SPARE: u16 = 8;
const SPARE_MIN: u16 = 2;
/// Paces for each node more where everybody waits for the room of others: as many take their turns at each end of a path, and who is done keeps it for
/// two paces.
const PACES_PER_NODE: u32 = 3;

impl Room {
    /// In a mesh of so many nodes. Where everybody asks anybody, half of the worlds have as much as a daemon, and half so little that nodes have to give paths back for each
    /// other; elsewhere there are no paths.
    ///
    /// Where somebody lies there is room for twice as many roots as there are.
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
        let paces_lied_to = u32::from(is_lied_to) * turns * PACES_PER_TURN;
        Self {
            roots,
            paths,
            transits,
            message_bytes,
            paces_to_rest: PACES_TO_REST
                + paces_lied_to
                + u32::from(scarce) * PACES_PER_NODE * nodes as u32,
        }
    }
}

/// Places for roots that a node has beside those that are configured.
pub(super) fn spare_roots(roots: u16) -> u16 {
    (roots / ROOTS_PER_SPARE).max(SPARE_MIN)
}
