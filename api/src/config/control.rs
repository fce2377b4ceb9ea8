//! `[control]`: the control process.

use std::net::SocketAddr;

use serde::Serialize;

use super::table::Table;

/// The control process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ControlConfig {
    /// Where `/metrics` is served. Default `127.0.0.1:9464`.
    pub metrics_listen: SocketAddr,
    /// Whether control sets the ports' interfaces up (no address is configured). Default `true`.
    pub bring_up: bool,
}

impl ControlConfig {
    pub(super) fn read(table: &mut Table<'_, '_>) -> Self {
        let default = Self::default();
        Self {
            metrics_listen: table
                .parsed("metrics_listen", "an address and a port, in quotes, such as \"127.0.0.1:9464\" or \"[::1]:9464\"")
                .unwrap_or(default.metrics_listen),
            bring_up: table.bool("bring_up").unwrap_or(default.bring_up),
        }
    }
}

impl Default for ControlConfig {
    fn default() -> Self {
        Self {
            metrics_listen: SocketAddr::from(([127, 0, 0, 1], 9464)),
            bring_up: true,
        }
    }
}
