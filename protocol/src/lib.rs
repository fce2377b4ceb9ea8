//! The wire and its state machines: record codec, link, node, verbs. No I/O and no clock.
//!
//! One [`Node`] holds the links of one lane. The caller passes it whole Ethernet frames
//! ([`Node::on_frame`]), carrier changes and ticks, takes frames from it ([`Node::poll_transmit`])
//! and implements [`Host`], which receives the requests of peers and the outcomes. The same code
//! runs in the daemon and in the simulator.
//!
//! ```text
//!  submit ─► queue of the peer ─► slot of any up link ─► record ─► frame ─► wire
//!                  ▲                    │ link fails
//!                  └── reversed ◄── resolve over any up link ──► committed, refused
//! ```
//!
//! | module | content |
//! |---|---|
//! | [`wire`] | 64-byte records, S1, CRC, frames |
//! | `link` | one end of one cable: epochs, feedback, slots |
//! | [`node`] | links, exchanges, resolver, fabric, and the dispatch between them |
//! | [`verb`] | requests of applications to a region |
//! | [`region`] | regions, and verbs executed on them |
//! | [`agreement`] | agreement of control and the dataplane on one configuration |
//! | [`tree`] | routes to nodes beyond the neighbors |
//! | [`channel`] | the route over several hops that is reserved for a path |
//! | [`group`] | one member of a group: views, and multicasts in one order |
//!
//! # Guarantees
//! No clock, no thread, no I/O, no `unsafe`. Memory is allocated only in [`Node::new`],
//! [`Node::add_link`] and [`group::Group::new`], and when an [`region::Engine`] is created or adds
//! or removes a region. No input panics: frames are validated before use, and an invalid frame is a
//! counted drop or a link fault.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
// For the macros of the property tests.
#[cfg(test)]
extern crate std;

pub mod agreement;
pub mod channel;
mod clock;
mod counters;
#[cfg(feature = "arbitrary-state")]
mod draw;
mod event;
mod exchange;
pub mod group;
mod host;
mod latch;
mod link;
mod link_refusal;
mod mix;
mod mode;
mod name;
pub mod node;
mod payloads;
mod refusal;
pub mod region;
mod reply;
pub mod tree;
pub mod verb;
pub mod wire;

pub use clock::Moment;
pub use counters::{DropCounters, FailureCounters, LinkCounters};
pub use event::{DownReason, LinkEvent, NodeEvent};
pub use exchange::{ExchangeId, PATH_PORTS};
pub use host::{Answer, Execution, Host, Outcome};
pub use link_refusal::LinkRefusal;
pub use mode::Mode;
pub use name::{BadName, Name};
pub use node::{
    AddLinkError, FabricConfig, LinkState, LinkView, Node, NodeConfig, PathView, PeerView, Ping,
    QueryError, RouteView, SubmitError,
};
pub use refusal::Refusal;
pub use reply::Reply;
pub use wire::{DEFAULT_ETHERTYPE, FRAME_BYTES_MAX, MAX_PAYLOAD_BYTES};
