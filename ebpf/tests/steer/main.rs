//! The program against the kernel: every test loads the committed object and lets this machine's kernel run it.
//!
//! Loading needs root. Without it a test prints why it did nothing and passes.

// Tests report what they covered; the harness keeps it for failures and --nocapture.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod attach;
mod captures;
mod changes;
mod hostile;
mod live;
mod matches;
mod object;
mod privilege;
mod speed;
mod support;
mod vlan;
