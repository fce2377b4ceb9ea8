//! The daemon as its own process, among applications that lie, die and dawdle in processes of theirs.
//!
//! Each test has the machine to itself: see [`turn`]. How long they last, and from which seeds, is read from the environment:
//!
//! | variable | meaning |
//! |---|---|
//! | `SOAK_SECONDS` | how long each lasting test goes on, with fresh seeds (`make soak`); without it some seconds, with fixed ones |
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
