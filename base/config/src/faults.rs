//! `[port.faults]`: deliberate damage to a port's frames, to test the layers above it.

use serde::Serialize;

use super::table::Table;
use covalent_api::faults::{FAULT_RATE_FRAMES, FaultRates};

/// Faults that a port injects into its own frames. `covalentd` accepts them only if it was started
/// with `--allow-faults`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct FaultsConfig {
    /// Seed of the frame selection. The same seed selects the same frames, regardless of their
    /// contents. Default 0.
    pub seed: u32,
    /// Faults of received frames.
    pub rx: FaultRates,
    /// Faults of sent frames.
    pub tx: FaultRates,
}

impl FaultsConfig {
    /// `None` if the table that `[port.faults]` belongs to has none.
    pub(super) fn read_in(port: &mut Table<'_, '_>) -> Option<Self> {
        let given = port.has("faults");
        let faults = port.table("faults", |table| Self {
            seed: table.integer("seed", 0..=u32::MAX, "").unwrap_or_default(),
            rx: table.table("rx", rates).unwrap_or_default(),
            tx: table.table("tx", rates).unwrap_or_default(),
        });
        faults.filter(|_| given)
    }
}

fn rates(table: &mut Table<'_, '_>) -> FaultRates {
    let mut rate = |key| {
        table
            .integer(key, 0..=FAULT_RATE_FRAMES, " (of 100000 frames)")
            .unwrap_or_default()
    };
    FaultRates {
        drop_per_100k: rate("drop_per_100k"),
        corrupt_per_100k: rate("corrupt_per_100k"),
        duplicate_per_100k: rate("duplicate_per_100k"),
        blackhole: table.bool("blackhole").unwrap_or_default(),
    }
}
