//! `[journal]`: storage of durable regions.

use std::path::PathBuf;

use serde::Serialize;

use super::table::Table;

/// Storage that preserves durable regions across a crash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct JournalConfig {
    /// Directory of the journals, absolute, with one subdirectory for each lane. Created at start
    /// if missing. `None` (the default): no region can be durable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub directory: Option<PathBuf>,
    /// Size of each of the two files of a lane's journal, in MiB, 1 to 65,536. Default 64. The
    /// durable regions of a lane may take a quarter of it together. Each region takes its size, 104
    /// bytes, and 64 bytes for every 4 KiB. The regions of one user may take half of that quarter,
    /// and be at most 4,096. Root and the daemon's own user have no such limit.
    pub file_mib: u32,
}

impl JournalConfig {
    pub(super) fn read(table: &mut Table<'_, '_>) -> Self {
        Self {
            directory: table.path("directory"),
            file_mib: table
                .integer("file_mib", 1..=65_536, " (MiB)")
                .unwrap_or(Self::default().file_mib),
        }
    }
}

impl Default for JournalConfig {
    fn default() -> Self {
        Self {
            directory: None,
            file_mib: 64,
        }
    }
}
