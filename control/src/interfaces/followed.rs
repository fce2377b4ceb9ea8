//! Which interfaces are followed. A reload may change that.

use covalent_config::{Config, PortConfig};

/// The part of a configuration that concerns interfaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Followed {
    /// Whether one that appears is set up.
    pub bring_up: bool,
    /// The ports whose interfaces are followed.
    pub ports: Vec<PortConfig>,
}

impl Followed {
    /// Extracts the part from `config`.
    #[must_use]
    pub fn by(config: &Config) -> Self {
        Self {
            bring_up: config.control.bring_up,
            ports: config.port.clone(),
        }
    }
}
