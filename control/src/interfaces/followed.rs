//! Which interfaces are followed. A reload may change that.

use covalent_api::config::{Config, PortConfig};

/// What a configuration says about interfaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Followed {
    /// Whether one that appears is set up.
    pub bring_up: bool,
    /// The ports whose interfaces are followed.
    pub ports: Vec<PortConfig>,
}

impl Followed {
    /// What `config` says.
    #[must_use]
    pub fn by(config: &Config) -> Self {
        Self {
            bring_up: config.control.bring_up,
            ports: config.port.clone(),
        }
    }
}
