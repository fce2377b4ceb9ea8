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
mod byte_pipe;
mod calls;
mod counters;
mod device;
mod frames;
mod framing;
mod group;
mod handle;
mod held;
mod receive_queue;
mod region;
mod remote_region;
mod rx_pipe;
mod rx_tx_pipe;
mod status;
mod timeout;
mod tuning;
mod tx_pipe;
mod verb;
mod verb_queue;

pub use byte_pipe::*;
pub use calls::*;
pub use counters::*;
pub use device::*;
pub use frames::*;
pub use framing::*;
pub use group::*;
pub use receive_queue::*;
pub use region::*;
pub use remote_region::*;
pub use rx_pipe::*;
pub use rx_tx_pipe::*;
pub use status::*;
pub use tuning::*;
pub use tx_pipe::*;
pub use verb::*;
pub use verb_queue::*;
