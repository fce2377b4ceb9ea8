//! Control as a whole: what it says, whom it follows, what it does to interfaces, how it starts and ends.

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
