//! The control process: brings links up, keeps the neighbour table, exports metrics.
//!
//! One tokio thread that sleeps until something happens:
//! - [`interfaces`] sets the network interfaces of AF_XDP ports up and watches them;
//! - [`daemon`] keeps a connection to `covalentd`, follows its events and fetches its status;
//! - [`agreement`] has one configuration in force in both processes;
//! - [`healing`] has ports opened again that are not what their interfaces are any more;
//! - [`neighbours`] is the table that both fill;
//! - [`http`] serves `/metrics` ([`metrics`]) and `/healthz`, and [`live`] a page that shows what the node does;
//! - [`grpc`] streams metrics and events on `telemetry.sock`;
//! - [`answers`] speaks to the CLI on `control.sock`; [`clients`] lets clients of both sockets in, and says how many.
//!
//! [`control::Control`] holds them together. The dataplane neither needs nor notices this process: it may stop, crash and
//! restart while frames flow, and it waits for the daemon whenever that is gone.

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
pub mod neighbours;
pub mod privilege;
pub mod sandbox;
