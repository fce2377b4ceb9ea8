//! `[port.faults]`: damage done to a port's frames on purpose, for tests of what stands above it.

use serde::{Deserialize, Serialize};

use super::table::Table;

/// Frames among which a rate counts: a rate of 1000 is one frame in a hundred.
pub const FAULT_RATE_FRAMES: u32 = 100_000;

/// What a port does to its own frames. `covalentd` takes it only if it was started with `--allow-faults`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct FaultsConfig {
    /// Where the choice of frames begins; the same seed chooses alike, whatever lies in the frames. Default 0.
    pub seed: u32,
    /// What happens to frames that arrive.
    pub rx: FaultRates,
    /// What happens to frames that are sent.
    pub tx: FaultRates,
}

/// What happens to the frames of one direction. Nothing by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FaultRates {
    /// Of [`FAULT_RATE_FRAMES`] frames, how many are lost.
    pub drop_per_100k: u32,
    /// Of as many that are not lost, how many have one of their bits turned over.
    pub corrupt_per_100k: u32,
    /// Of as many that are not lost, how many come twice, one right behind the other.
    pub duplicate_per_100k: u32,
    /// Whether every frame is lost while the carrier stays.
    pub blackhole: bool,
}

impl FaultRates {
    /// Whether each rate is one.
    ///
    /// # Errors
    /// Names the first that is not, and says what was expected.
    pub fn check(&self) -> Result<(), String> {
        let rates = [
            ("drop_per_100k", self.drop_per_100k),
            ("corrupt_per_100k", self.corrupt_per_100k),
            ("duplicate_per_100k", self.duplicate_per_100k),
        ];
        match rates.iter().find(|(_, rate)| *rate > FAULT_RATE_FRAMES) {
            Some((name, rate)) => Err(format!(
                "`{name}` is {rate}; expected 0 to {FAULT_RATE_FRAMES} of {FAULT_RATE_FRAMES} frames"
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
