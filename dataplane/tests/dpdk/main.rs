//! The conformance suite on DPDK's virtual devices, and on PCI devices that the environment names.
//!
//! DPDK is set up once for a process, so this is a test program of its own. Every test opens devices under names that no other test has; those on
//! interfaces lie in network namespaces of their own.

#![allow(clippy::unwrap_used, reason = "a test's failure is its report")]

mod checksums;
mod devices;
mod dpdk_devices;
mod forward;
#[path = "../ports/frames.rs"]
mod frames;
mod huge_pages;
mod memif;
#[allow(
    dead_code,
    reason = "what another suite needs of it is not needed here"
)]
#[path = "../ports/namespace.rs"]
mod namespace;
#[allow(
    dead_code,
    reason = "what another suite needs of it is not needed here"
)]
#[path = "../ports/pair.rs"]
mod pair;
mod refused;
#[path = "../../../pipe/tests/huge_pages/mod.rs"]
mod reserved;
mod ring;
#[allow(
    dead_code,
    reason = "what another suite needs of it is not needed here"
)]
#[path = "../ports/suite.rs"]
mod suite;
mod veth;
