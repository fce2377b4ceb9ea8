//! Tests of the whole control process: its output, the daemon that it follows, its effect on
//! interfaces, its start and shutdown.

mod agreement;
mod alerts;
mod browser;
mod client;
mod daemon;
mod dashboard;
mod exposition;
mod fake;
mod fixture;
mod grpc;
mod interfaces;
mod live;
mod metrics;
mod namespace;
mod page;
mod process;
mod promql;
mod promtool;
mod strangers;
mod units;
mod versions;
mod witness;
