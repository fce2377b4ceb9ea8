//! The conformance suite on DPDK's virtual devices, and on PCI devices that the environment names.
//!
//! DPDK is set up once per process, so this is a separate test program. Every test opens devices
//! under names that no other test uses. Devices on interfaces are in network namespaces of their
//! own.

#![allow(clippy::unwrap_used, reason = "a test's failure is its report")]

mod checksums;
mod devices;
mod dpdk_devices;
mod forward;
#[path = "../ports/frames.rs"]
mod frames;
mod huge_pages;
mod memif;
#[allow(dead_code, reason = "only other suites use the rest")]
#[path = "../ports/namespace.rs"]
mod namespace;
#[allow(dead_code, reason = "only other suites use the rest")]
#[path = "../ports/pair.rs"]
mod pair;
mod refused;
#[path = "../../../pipe/tests/huge_pages/mod.rs"]
mod reserved;
mod ring;
#[allow(dead_code, reason = "only other suites use the rest")]
#[path = "../ports/suite.rs"]
mod suite;
mod veth;
