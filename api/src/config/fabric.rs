//! `[fabric]`: what a node knows beyond its neighbours.

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

/// What a node knows beyond its neighbours.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FabricConfig {
    /// Whether the node takes part: others find their way to it, it finds its way to them, and its lanes are joined. Default true.
    pub enabled: bool,
    /// Most nodes that each lane knows, this one included, 2 to 16,384. Each takes 150 bytes, and 25 for each link. Default 1,024.
    pub roots_max: u16,
    /// Paths to nodes beyond the neighbours that each lane may have at once, whoever asked for them, 0 to 64. Each takes up to 160 KiB, as it is used. Default 16.
    pub paths: u16,
    /// Paths of others that may lead through each lane at once, 0 to 1,024. Each takes 6 KiB. Default 64.
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
