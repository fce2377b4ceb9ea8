//! `[[lane]]`: one poll-mode thread.

use serde::Serialize;

use super::table::Table;

/// Largest core number: the kernel's `CPU_SETSIZE` less one.
const CORE_MAX: u32 = 1023;

/// One poll-mode thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LaneConfig {
    /// Core to pin it to, 0 to 1023. `None` (the default): not pinned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub core: Option<u32>,
}

impl LaneConfig {
    pub(super) fn read(table: &mut Table<'_, '_>) -> Self {
        Self {
            core: table.integer("core", 0..=CORE_MAX, " (a core's number)"),
        }
    }
}
