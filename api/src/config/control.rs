//! `[control]`: the control process.

use std::net::SocketAddr;

use serde::Serialize;

use super::table::Table;

/// What [`ControlConfig::grpc_listen`] may be.
const GRPC_ADDRESS: &str =
    "a loopback address and a port, in quotes, such as \"127.0.0.1:9465\" or \"[::1]:9465\"";

/// The control process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ControlConfig {
    /// Where `/metrics` is served. Default `127.0.0.1:9464`.
    pub metrics_listen: SocketAddr,
    /// A loopback address where telemetry is served over gRPC, beside the socket in `node.runtime_dir`. `None` (the default): only there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grpc_listen: Option<SocketAddr>,
    /// Whether control sets the ports' interfaces up (no address is configured). Default `true`.
    pub bring_up: bool,
}

impl ControlConfig {
    pub(super) fn read(table: &mut Table<'_, '_>) -> Self {
        let default = Self::default();
        let grpc_listen: Option<SocketAddr> = table.parsed("grpc_listen", GRPC_ADDRESS);
        if grpc_listen.is_some_and(|address| !address.ip().is_loopback()) {
            table.refuse(
                "grpc_listen",
                format!("this is no loopback address; expected {GRPC_ADDRESS}"),
            );
        }
        Self {
            metrics_listen: table
                .parsed("metrics_listen", "an address and a port, in quotes, such as \"127.0.0.1:9464\" or \"[::1]:9464\"")
                .unwrap_or(default.metrics_listen),
            grpc_listen,
            bring_up: table.bool("bring_up").unwrap_or(default.bring_up),
        }
    }
}

impl Default for ControlConfig {
    fn default() -> Self {
        Self {
            metrics_listen: SocketAddr::from(([127, 0, 0, 1], 9464)),
            grpc_listen: None,
            bring_up: true,
        }
    }
}
