//! The packet memory of one lane.

use covalent_api::config::Config;

use super::PortError;

/// The packet memory that the AF_XDP ports of one lane share. Lanes share nothing, so each lane has its own.
#[derive(Debug, Default)]
pub struct LaneMemory {}

impl LaneMemory {
    /// Plans the memory that the AF_XDP ports of `lane` need together. Nothing is allocated before the first of them is opened, and
    /// nothing at all for a lane that has none.
    ///
    /// # Errors
    /// [`PortError::Setup`] when an interface is missing or has fewer queues than configured.
    pub fn for_lane(config: &Config, lane: u32) -> Result<Self, PortError> {
        let _ = (config, lane);
        Ok(Self::default())
    }
}
