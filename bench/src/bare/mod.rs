//! The baseline: AF_XDP with nothing around it.
//!
//! Rings on system calls alone, one socket, one queue, no library, no protocol, no pipe. It is
//! tuned like the dataplane's own port: the same ring sizes, bursts, `need_wakeup`, chunk size and
//! send budget, and the same XDP program in front. The difference is therefore the cost of
//! Covalent.

pub mod data_ring;
mod fetch;
pub mod packet_ring;
mod receiver;
mod ring;
mod socket;

pub use fetch::fetch;
pub use receiver::{Steered, Wanted, open_patiently};
pub use socket::BareSocket;
