//! Rates of deliberate damage to a port's frames, to test the layers above it.

use serde::{Deserialize, Serialize};

/// Frames among which a rate counts: a rate of 1000 is one frame in a hundred.
pub const FAULT_RATE_FRAMES: u32 = 100_000;

/// Faults of one direction. None by default. Take the default and change fields of it: a later
/// version may have more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
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
}
