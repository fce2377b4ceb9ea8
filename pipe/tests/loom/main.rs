//! The notification protocol of pipes under the model checker.
//!
//! Run with `make loom`.
//!
//! What runs is the production code: both halves of pipes ([`covalent_pipe::nic`], [`covalent_pipe::app`]), both halves of sessions with their
//! mailboxes, sleeping flags, and owed doorbells ([`covalent_pipe::session`]). Of the model are the shared memory (the checker's atomics, and
//! bytes whose every access it watches), the event descriptors, a lane's loop, and the loop in which `covalent_verbs::Device` waits.
//!
//! A lost wake-up leaves both threads asleep, which the checker reports as a deadlock. A packet that is read before it was written, or
//! overwritten before it was read, is a data race. What an honest side writes and the other calls a [`covalent_pipe::Violation`] ends in a panic.
//!
//! # What is bounded
//! Two threads: one lane, one application. Of their interleavings those are looked at in which a thread is interrupted, where it could have gone on,
//! at most as often as the table says; switches because one sleeps or ends are not counted. Loads may return any value that the memory model
//! allows, out of the last seven stores. Fences are modelled, consume ordering is not. Nothing is said of more pipes or packets than these:
//!
//! | check | pipes | packets | interruptions |
//! |---|---|---|---|
//! | packets to the application, freed one by one | 1 | 3 | 2 |
//! | packets to the application, which owes doorbells and sleeps for every pipe | 2 | 2 and 1 | 2 |
//! | bytes to the application, which frees some and waits for more than what is left | 1 | 3 of 1 byte | 2 |
//! | packets that the application sends back | 1 | 3 | 2 |
//! | packets from the application, which waits for room | 1, with room for 1 | 3 | 2 |
//! | packets from the application in a burst, and room used again | 1, with room for 3 | 3, 2 more written | 2 |
//! | a mailbox alone | 2 | 5 posts | 3 |
//! | words that are read as a whole | – | 2 words, twice | 3 |
//!
//! # What shows that the checker would find something
//! Each test that expects a panic takes one step away: from the production code (`mutated!` there, which is nothing but the step in every other build)
//! or from the application ([`device::Fault`]).
#![cfg(loom)]
#![allow(clippy::unwrap_used)]

mod bytes;
mod device;
mod lane;
mod mailbox;
mod model;
mod published;
mod rx;
mod rx_tx;
mod tx;
