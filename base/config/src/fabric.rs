//! `[fabric]`: a node's knowledge of the network beyond its neighbors.

use serde::Serialize;

use super::table::Table;

/// Most lanes of a node that takes part: lane 0 has a place for each other lane, and one more.
pub const FABRIC_LANES_MAX: usize = 16;

/// Name of the port by which lane `from` is joined with lane `to`.
#[must_use]
pub fn lane_cable_name(from: u32, to: u32) -> String {
    format!("lane-{from}-{to}")
}

/// Most nodes that may be known.
const ROOTS_MAX: u16 = 16_384;

/// Most paths that may end at a lane.
const PATHS_MAX: u16 = 64;

/// Most paths that may lead through a lane.
const TRANSITS_MAX: u16 = 1024;

/// A node's knowledge of the network beyond its neighbors.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FabricConfig {
    /// Whether the node takes part: it finds paths to other nodes, they find paths to it, and its
    /// lanes are joined. Default true.
    pub enabled: bool,
    /// Maximum number of nodes that each lane knows, this node included, 2 to 16,384. Each takes
    /// 180 bytes, and 28 for each link. Default 1,024.
    pub roots_max: u16,
    /// Maximum number of concurrent paths of each lane to nodes beyond the neighbors, opened by
    /// either end, 0 to 64. Each takes up to 160 KiB, allocated on use. Default 16.
    pub paths: u16,
    /// Maximum number of concurrent paths of other nodes through each lane, 0 to 1,024. Each takes
    /// 6 KiB. Default 64.
    pub transits: u16,
}

impl FabricConfig {
    pub(super) fn read(table: &mut Table<'_, '_>) -> Self {
        let default = Self::default();
        Self {
            enabled: table.bool("enabled").unwrap_or(default.enabled),
            roots_max: table
                .integer("roots_max", 2..=ROOTS_MAX, " (nodes)")
                .unwrap_or(default.roots_max),
            paths: table
                .integer("paths", 0..=PATHS_MAX, " (paths)")
                .unwrap_or(default.paths),
            transits: table
                .integer("transits", 0..=TRANSITS_MAX, " (paths)")
                .unwrap_or(default.transits),
        }
    }
}

impl Default for FabricConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            roots_max: 1024,
            paths: 16,
            transits: 64,
        }
    }
}
