//! The wire and its state machines: record codec, link machine, node, verbs; no I/O and no clock.
//!
//! One [`Node`] holds the links of one lane. The caller gives it whole Ethernet frames ([`Node::on_frame`]), carrier
//! changes and ticks, takes frames out of it ([`Node::poll_transmit`]) and implements [`Host`], through which requests
//! of the peers arrive and outcomes return. The same code runs in the daemon and in the simulator.
//!
//! ```text
//!  submit ─► queue of the peer ─► slot of any up link ─► record ─► frame ─► wire
//!                  ▲                    │ link fails
//!                  └── reversed ◄── resolve over any up link ──► committed, refused
//! ```
//!
//! | module | what |
//! |---|---|
//! | [`wire`] | 64-byte records, S1, CRC, frames |
//! | `link` | one end of one cable: handshake, feedback, slots |
//! | [`node`] | peers, queues, dispatch, resolution |
//! | [`verb`] | what applications ask of a region |
//! | [`region`] | regions, and verbs executed on them |
//! | [`agreement`] | how control and the dataplane come to hold one configuration |
//! | [`tree`] | who is where beyond the neighbours |
//! | [`channel`] | the way over several hops that is reserved for a path |
//! | [`group`] | one member of a group: views, and multicasts in one order |
//!
//! # Guarantees
//! No clock, no thread, no I/O, no `unsafe`. Memory is allocated in [`Node::new`] and [`Node::add_link`], and when an
//! [`region::Engine`] is made or takes a region in or gives it up, and in [`group::Group::new`], only. No input
//! panics: frames are validated before they are used, and what is wrong is a counted drop or a link fault.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
// What the macros of the property tests need.
#[cfg(test)]
extern crate std;

pub mod agreement;
pub mod channel;
mod clock;
mod counters;
mod event;
mod exchange;
pub mod group;
mod host;
mod latch;
mod link;
mod link_refusal;
mod mix;
mod name;
mod names;
pub mod node;
mod payloads;
mod peer;
mod refusal;
pub mod region;
mod reply;
mod transaction;
pub mod tree;
pub mod verb;
pub mod wire;

pub use clock::Moment;
pub use counters::{DropCounters, FailureCounters, LinkCounters};
pub use event::{DownReason, LinkEvent, NodeEvent};
pub use exchange::ExchangeId;
pub use host::{Execution, Host, Outcome};
pub use link_refusal::LinkRefusal;
pub use name::{BadName, Name};
pub use names::Answer;
pub use node::{
    AddLinkError, AskError, AskingBall, FabricConfig, LinkState, LinkView, Mode, Node, NodeConfig,
    PATH_PORTS, PathView, PeerView, SubmitError, WayView,
};
pub use refusal::Refusal;
pub use reply::Reply;
pub use wire::{DEFAULT_ETHERTYPE, FRAME_BYTES_MAX, MAX_PAYLOAD_BYTES};
