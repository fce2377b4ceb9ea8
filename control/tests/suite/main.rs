//! Control as a whole: what it says, whom it follows, what it does to interfaces, how it starts and ends.

mod agreement;
mod client;
mod daemon;
mod exposition;
mod fake;
mod fixture;
mod interfaces;
mod metrics;
mod namespace;
mod page;
mod process;
mod units;
mod witness;
