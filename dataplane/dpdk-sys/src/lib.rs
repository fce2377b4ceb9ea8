//! The part of DPDK that Covalent's ports use, as C sees it.
//!
//! With the feature `dpdk` this is what bindgen makes of `shim/shim.h`, whose comments say what each function does and expects. Most of DPDK's
//! packet path is inline functions and large structures that change between releases; the shims keep both on the C side, so the names here are few
//! and stay the same. Every function is unsafe to call; `covalent-dataplane`'s rooms below `port/dpdk/` are the safe side of it.
//!
//! Without the feature the crate is empty, and no part of DPDK need be on the machine.
//!
//! The floor is DPDK 22.11, Debian 12's. Tried with: 22.11.11.
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
