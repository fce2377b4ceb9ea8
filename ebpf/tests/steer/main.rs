//! Tests of the program against the kernel: every test loads the committed object and this
//! machine's kernel runs it.
//!
//! Loading needs root. Without root a test prints why it did nothing and passes.

// Tests print their coverage. The harness shows it for failures and with --nocapture.
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
