//! The daemon as its own process, among applications that write false values, die and stall in
//! processes of their own.
//!
//! Each test has the machine to itself: see [`turn`]. The environment sets their durations and
//! seeds:
//!
//! | variable | meaning |
//! |---|---|
//! | `SOAK_SECONDS` | time per lasting test, new seeds (`make soak`); unset: seconds, fixed seeds |
//! | `COVALENT_SEED` | the one seed to begin with, to replay what failed |

#[path = "../daemon/client.rs"]
#[allow(dead_code, reason = "the daemon's own tests use all of it")]
mod client;
#[path = "../daemon/seeds.rs"]
#[allow(dead_code, reason = "tests with one seed use the rest")]
mod environment;
#[path = "../daemon/namespace.rs"]
mod namespace;
#[path = "../daemon/noise.rs"]
mod noise;

mod child;
mod holdings;
mod honest;
mod node;
mod offender;
mod seeds;
mod shared;
mod turn;
mod witness;

mod bindings;
mod counters;
mod hangup;
mod holes;
mod hostile;
mod killed;
mod mappings;
mod slow;
mod unread;
