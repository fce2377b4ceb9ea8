//! libcovalent: the verbs library for C. `include/covalent.h`, generated from this crate, is its
//! manual.
//!
//! Each C object has its own file. Handles are numbers, not addresses: they name an entry of a
//! table of the calling thread. A wrong, stale or foreign handle is therefore an error and never a
//! memory access.
//!
//! `unsafe` occurs only at the boundary: to read memory behind C pointers, to write results through
//! them, and to tie an object's lifetime to its handle ([`held`]).
#![allow(non_camel_case_types, reason = "names as C programs see them")]

mod argument;
mod calls;
mod client;
mod counters;
mod device;
mod enumerator;
mod frames;
mod framing;
mod group;
mod growing;
mod handle;
mod held;
mod json;
mod name;
mod notice;
mod pipe;
mod receive_queue;
mod region;
mod remote_region;
mod status;
mod timeout;
mod tuning;
mod verb;
mod verb_queue;

pub use calls::*;
pub use client::*;
pub use counters::*;
pub use device::*;
pub use frames::*;
pub use framing::*;
pub use group::*;
pub use name::*;
pub use notice::*;
pub use pipe::*;
pub use receive_queue::*;
pub use region::*;
pub use remote_region::*;
pub use status::*;
pub use tuning::*;
pub use verb::*;
pub use verb_queue::*;
