//! How a link is cut.

use anyhow::{Context, Result};
use covalent_api::config::FaultRates;
use covalent_verbs::Client;
use serde::{Deserialize, Serialize};

use super::carrier::Interfaces;

/// A way to cut a link. Whoever asks is at its near end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// Nothing is cut: what the figures of the others are to be compared with.
    Uncut,
    /// The interface at the near end is taken down, and with it the carrier at both.
    CarrierNear,
    /// The interface at the far end is.
    CarrierFar,
    /// Every frame is lost in both directions, and the carrier stays.
    Silent,
    /// Every frame towards the near end is.
    SilentTowardsInitiator,
    /// Every frame towards the far end is.
    SilentTowardsResponder,
}

impl Way {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Uncut,
        Self::CarrierNear,
        Self::CarrierFar,
        Self::Silent,
        Self::SilentTowardsInitiator,
        Self::SilentTowardsResponder,
    ];

    /// For people.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Uncut => "not cut, to compare with",
            Self::CarrierNear => "interface down at the initiator",
            Self::CarrierFar => "interface down at the responder",
            Self::Silent => "silent both ways",
            Self::SilentTowardsInitiator => "silent towards the initiator",
            Self::SilentTowardsResponder => "silent towards the responder",
        }
    }

    /// What is lost of the frames that the near end receives and of those that it sends.
    const fn losses(self) -> [bool; 2] {
        match self {
            Self::Uncut | Self::CarrierNear | Self::CarrierFar => [false, false],
            Self::Silent => [true, true],
            Self::SilentTowardsInitiator => [true, false],
            Self::SilentTowardsResponder => [false, true],
        }
    }
}

/// Who can cut links.
#[derive(Debug)]
pub struct Shears {
    /// The daemon at the near end, whose ports may lose frames.
    pub daemon: Client,
    /// Interfaces of the links at the near end, and at the far one.
    pub interfaces: [Interfaces; 2],
}

impl Shears {
    /// Cuts or mends the link at `at`, whose near end is called `port`. It is done when this returns.
    pub fn set(&mut self, way: Way, at: usize, port: &str, cut: bool) -> Result<()> {
        match way {
            Way::CarrierNear => self.interfaces[0].set(at, !cut),
            Way::CarrierFar => self.interfaces[1].set(at, !cut),
            // One that is not cut has the same asked of it.
            _ => {
                let [rx, tx] = way.losses().map(|lost| FaultRates {
                    blackhole: lost && cut,
                    ..FaultRates::default()
                });
                self.daemon
                    .set_faults(port, rx, tx)
                    .with_context(|| format!("changing what port {port} loses"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_silent_way_loses_its_own_direction() {
        let losses = Way::ALL.map(Way::losses);
        assert_eq!(losses[..3], [[false; 2]; 3]);
        assert_eq!(losses[3..], [[true, true], [true, false], [false, true]]);
    }
}
