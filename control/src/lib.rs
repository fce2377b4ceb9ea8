//! The control process: brings links up, maintains the neighbor table, exports metrics.
//!
//! One tokio thread sleeps until an event occurs:
//! - [`interfaces`] sets the network interfaces of AF_XDP ports up and watches them;
//! - [`daemon`] keeps a connection to `covalentd`, follows its events and fetches its status;
//! - [`agreement`] keeps one configuration in force in both processes;
//! - [`healing`] reopens ports that no longer match their interfaces;
//! - [`neighbors`] is the table that both fill;
//! - [`recent`] keeps the last events of the daemon;
//! - [`http`] serves `/metrics` ([`metrics`]) and `/healthz`, and [`live`] a page that shows the
//!   node's activity;
//! - [`grpc`] streams metrics and events on `telemetry.sock`;
//! - [`answers`] serves the CLI on `control.sock`; [`clients`] admits clients of both sockets and
//!   limits their number.
//!
//! [`control::Control`] holds them together. The dataplane does not depend on this process: control
//! may stop, crash and restart while frames flow. Control waits for the daemon whenever it is gone.

pub mod agreement;
pub mod answers;
pub mod channel;
pub mod clients;
pub mod control;
mod counters;
pub mod daemon;
pub mod greeting;
pub mod grpc;
pub mod healing;
pub mod http;
pub mod interfaces;
pub mod live;
pub mod metrics;
pub mod neighbors;
pub mod privilege;
pub mod recent;
pub mod sandbox;
