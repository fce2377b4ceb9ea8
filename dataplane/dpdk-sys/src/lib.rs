//! The C view of the part of DPDK that Covalent's ports use.
//!
//! With the feature `dpdk`, bindgen generates this crate from `shim/shim.h`. The comments there
//! document each function and its preconditions. Most of DPDK's packet path consists of inline
//! functions and large structures that change between releases. The shims keep both on the C side,
//! so the names here are few and stable. Every function is unsafe to call. The modules of
//! `covalent-dataplane` below `port/dpdk/` provide the safe interface.
//!
//! Without the feature the crate is empty, and the machine needs no part of DPDK.
//!
//! The minimum version is DPDK 22.11, as in Debian 12. Tested with 22.11.11.
#![cfg_attr(not(feature = "dpdk"), no_std)]

#[cfg(feature = "dpdk")]
#[allow(
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    reason = "written by bindgen from C"
)]
mod bindings {
    include!(concat!(env!("OUT_DIR"), "/dpdk.rs"));
}

#[cfg(feature = "dpdk")]
pub use bindings::*;
