//! One conformance suite for every kind of port, and what only one kind promises.
//!
//! The suite ([`suite`]) is generic over a pair of ports that face each other ([`pair::Pair`]). Tests on AF_XDP need root: each runs in
//! a network namespace of its own that no name keeps alive, so it vanishes with the test's thread however that ends. On interfaces that are
//! there already the suite runs when they are named ([`given`]).

#![allow(clippy::unwrap_used, reason = "a test's failure is its report")]

mod absent;
mod af_xdp;
mod cable;
mod faulty;
mod frames;
mod given;
mod lane_cable;
mod namespace;
mod pair;
mod pcap;
mod suite;
#[cfg(not(feature = "dpdk"))]
mod without_dpdk;
