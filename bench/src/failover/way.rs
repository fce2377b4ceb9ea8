//! How a link is cut.

use anyhow::{Context, Result};
use covalent::Client;
use covalent_config::FaultRates;
use serde::{Deserialize, Serialize};

use crate::interfaces::Interfaces;

/// A kind of cut. The initiator is at the near end of the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// No cut: the reference for the other figures.
    Uncut,
    /// The interface at the near end is taken down, and with it the carrier at both.
    CarrierNear,
    /// The interface at the far end is.
    CarrierFar,
    /// Every frame is lost in both directions, and the carrier stays up.
    Silent,
    /// Every frame towards the near end is.
    SilentTowardsInitiator,
    /// Every frame towards the far end is.
    SilentTowardsResponder,
}

impl Method {
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

    /// Returns whether frames are lost that the near end receives, and that it sends.
    const fn losses(self) -> [bool; 2] {
        match self {
            Self::Uncut | Self::CarrierNear | Self::CarrierFar => [false, false],
            Self::Silent => [true, true],
            Self::SilentTowardsInitiator => [true, false],
            Self::SilentTowardsResponder => [false, true],
        }
    }
}

/// Cuts and restores links.
#[derive(Debug)]
pub struct LinkCutter {
    /// The daemon at the near end. Its ports inject the frame loss.
    pub daemon: Client,
    /// Interfaces of the links at the near end, and at the far one.
    pub interfaces: [Interfaces; 2],
}

impl LinkCutter {
    /// Cuts or restores the link at `at`, whose near port is `port`. The change is in effect when
    /// this returns.
    pub fn set(&mut self, way: Method, at: usize, port: &str, cut: bool) -> Result<()> {
        match way {
            Method::CarrierNear => self.interfaces[0].set(at, !cut),
            Method::CarrierFar => self.interfaces[1].set(at, !cut),
            // `Method::Uncut` makes the same call without any loss.
            _ => {
                let [rx, tx] = way.losses().map(|lost| FaultRates {
                    blackhole: lost && cut,
                    ..FaultRates::default()
                });
                self.daemon
                    .set_faults(port, rx, tx)
                    .with_context(|| format!("setting the faults of port {port}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_silent_method_loses_its_own_direction() {
        let losses = Method::ALL.map(Method::losses);
        assert_eq!(losses[..3], [[false; 2]; 3]);
        assert_eq!(losses[3..], [[true, true], [true, false], [false, true]]);
    }
}
