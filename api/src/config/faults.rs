//! `[port.faults]`: deliberate damage to a port's frames, to test the layers above it.

use serde::{Deserialize, Serialize};

use super::table::Table;

/// Frames among which a rate counts: a rate of 1000 is one frame in a hundred.
pub const FAULT_RATE_FRAMES: u32 = 100_000;

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

/// Faults of one direction. None by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FaultRates {
    /// Of [`FAULT_RATE_FRAMES`] frames, how many are lost.
    pub drop_per_100k: u32,
    /// Of as many that are not lost, how many have one of their bits turned over.
    pub corrupt_per_100k: u32,
    /// Of as many that are not lost, how many come twice, one right behind the other.
    pub duplicate_per_100k: u32,
    /// Whether every frame is lost although the carrier stays up.
    pub blackhole: bool,
}

impl FaultRates {
    /// Checks that each rate is in range.
    ///
    /// # Errors
    /// Names the first rate that is not, and the expected range.
    pub fn check(&self) -> Result<(), String> {
        let rates = [
            ("drop_per_100k", self.drop_per_100k),
            ("corrupt_per_100k", self.corrupt_per_100k),
            ("duplicate_per_100k", self.duplicate_per_100k),
        ];
        match rates.iter().find(|(_, rate)| *rate > FAULT_RATE_FRAMES) {
            Some((name, rate)) => Err(format!(
                "`{name}` is {rate}; expected 0 to {FAULT_RATE_FRAMES} of {FAULT_RATE_FRAMES} \
                 frames"
            )),
            None => Ok(()),
        }
    }

    fn read(table: &mut Table<'_, '_>) -> Self {
        let mut rate = |key| {
            table
                .integer(key, 0..=FAULT_RATE_FRAMES, " (of 100000 frames)")
                .unwrap_or_default()
        };
        Self {
            drop_per_100k: rate("drop_per_100k"),
            corrupt_per_100k: rate("corrupt_per_100k"),
            duplicate_per_100k: rate("duplicate_per_100k"),
            blackhole: table.bool("blackhole").unwrap_or_default(),
        }
    }
}

impl FaultsConfig {
    /// `None` if the table that `[port.faults]` belongs to has none.
    pub(super) fn read_in(port: &mut Table<'_, '_>) -> Option<Self> {
        let given = port.has("faults");
        let faults = port.table("faults", |table| Self {
            seed: table.integer("seed", 0..=u32::MAX, "").unwrap_or_default(),
            rx: table.table("rx", FaultRates::read).unwrap_or_default(),
            tx: table.table("tx", FaultRates::read).unwrap_or_default(),
        });
        faults.filter(|_| given)
    }
}
