//! The notification protocol of pipes under the model checker.
//!
//! Run with `make loom`.
//!
//! The production code runs: both halves of pipes ([`covalent_pipe::nic`], [`covalent_pipe::app`]),
//! and both halves of sessions with their mailboxes, sleeping flags, and owed doorbells
//! ([`covalent_pipe::session`]). The model provides the event descriptors, a lane's loop, and the
//! loop in which `covalent::Device` waits. It also provides the shared memory: the checker's
//! atomics, and bytes whose every access the checker observes.
//!
//! A lost wake-up leaves both threads asleep, which the checker reports as a deadlock. A packet
//! that is read before it was written, or overwritten before it was read, is a data race. A
//! [`covalent_pipe::Violation`] reported for an honest side ends in a panic.
//!
//! # Bounds
//! There are two threads: one lane, one application. The checker explores interleavings with at
//! most the number of interruptions in the table. An interruption stops a thread that could have
//! continued. Switches because a thread sleeps or stops are not counted. Loads may return any value
//! that the memory model allows, out of the last seven stores. Fences are modeled, consume ordering
//! is not. The checks cover no more pipes or packets than these:
//!
//! | check | pipes | packets | interruptions |
//! |---|---|---|---|
//! | packets to the application, freed one by one | 1 | 3 | 2 |
//! | packets to the application, which owes doorbells and sleeps for all | 2 | 2 and 1 | 2 |
//! | bytes to the application, which frees some and waits for more | 1 | 3 of 1 byte | 2 |
//! | packets that the application sends back | 1 | 3 | 2 |
//! | packets that the application sends back and flushes | 1 | 2 | 2 |
//! | packets from the application, which waits for space | 1, with space for 1 | 3 | 2 |
//! | packets from the application in a burst | 1, with space for 3 | 3, 2 more written | 2 |
//! | a mailbox alone | 2 | 5 posts | 3 |
//!
//! The bytes check waits for more bytes than are left in the pipe. The burst check also reuses
//! space.
//!
//! # Validation of the checker
//! Each test that expects a panic removes one step. It removes the step from the production code
//! (`mutated!` there, which is only the step in every other build) or from the application
//! ([`device::Fault`]).
#![cfg(loom)]
#![allow(clippy::unwrap_used)]

mod bytes;
mod device;
mod lane;
mod mailbox;
mod model;
mod rx;
mod rx_tx;
mod tx;
