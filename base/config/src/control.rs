//! `[control]`: the control process.

use std::net::{IpAddr, SocketAddr};

use serde::Serialize;

use super::table::Table;

/// Valid values of [`ControlConfig::grpc_listen`].
const GRPC_ADDRESS: &str =
    "a loopback address and a port, in quotes, such as \"127.0.0.1:9465\" or \"[::1]:9465\"";

/// Valid values of [`ControlConfig::metrics_hosts`].
const HOSTS: &str = "a list of host names or addresses without a port, such as \
    [\"node-a.example\", \"2001:db8::5\"]";

/// Longest host name (RFC 1035).
const HOST_BYTES_MAX: usize = 253;

/// Whether this may be a host name or an address, without brackets or a port.
fn is_host(text: &str) -> bool {
    let is_name = |text: &str| {
        text.bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
    };
    !text.is_empty()
        && text.len() <= HOST_BYTES_MAX
        && (text.parse::<IpAddr>().is_ok() || is_name(text))
}

/// The control process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ControlConfig {
    /// Where `/metrics` is served. Default `127.0.0.1:9464`.
    pub metrics_listen: SocketAddr,
    /// Whether [`ControlConfig::metrics_listen`] may be a non-loopback address. Default `false`.
    pub metrics_beyond_loopback: bool,
    /// Additional host names, and addresses without a port, for which HTTP requests are answered.
    /// Loopback names and the address that a request arrives at are always answered. Default: none.
    pub metrics_hosts: Vec<String>,
    /// Loopback address on which telemetry is served over gRPC, in addition to the socket in
    /// `node.runtime_dir`. `None` (the default): only on the socket.
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
        let metrics_listen: SocketAddr = table
            .parsed(
                "metrics_listen",
                "an address and a port, in quotes, such as \"127.0.0.1:9464\" or \"[::1]:9464\"",
            )
            .unwrap_or(default.metrics_listen);
        let beyond_loopback = table.bool("metrics_beyond_loopback").unwrap_or_default();
        if !beyond_loopback && !metrics_listen.ip().to_canonical().is_loopback() {
            table.refuse(
                "metrics_listen",
                "this is no loopback address: every host that reaches it can read all metrics and \
                 the live page, unencrypted; if that is intended, set \
                 `control.metrics_beyond_loopback = true`",
            );
        }
        let metrics_hosts = table.texts("metrics_hosts", HOSTS).unwrap_or_default();
        if let Some(wrong) = metrics_hosts.iter().find(|host| !is_host(host)) {
            table.refuse(
                "metrics_hosts",
                format!("{wrong:?} is none; expected {HOSTS}"),
            );
        }
        Self {
            metrics_listen,
            metrics_beyond_loopback: beyond_loopback,
            metrics_hosts,
            grpc_listen,
            bring_up: table.bool("bring_up").unwrap_or(default.bring_up),
        }
    }
}

impl Default for ControlConfig {
    fn default() -> Self {
        Self {
            metrics_listen: SocketAddr::from(([127, 0, 0, 1], 9464)),
            metrics_beyond_loopback: false,
            metrics_hosts: Vec::new(),
            grpc_listen: None,
            bring_up: true,
        }
    }
}
