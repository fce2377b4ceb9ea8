//! One conformance suite for every kind of port, and the guarantees of single kinds.
//!
//! The suite ([`suite`]) is generic over a pair of ports that face each other ([`pair::Pair`]).
//! Tests on AF_XDP need root. Each runs in its own network namespace, which has no name and thus
//! vanishes with the test's thread, however that ends. The suite also runs on existing interfaces
//! if they are named ([`existing_interfaces`]).

#![allow(clippy::unwrap_used, reason = "a test's failure is its report")]

mod absent;
mod af_xdp;
mod cable;
mod existing_interfaces;
mod faulty;
mod frames;
mod lane_cable;
mod namespace;
mod pair;
mod pcap;
mod suite;
#[cfg(not(feature = "dpdk"))]
mod without_dpdk;
