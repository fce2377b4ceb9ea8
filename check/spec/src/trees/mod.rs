//! Every run, within small bounds, of the production trees.
//!
//! Nodes are joined by links that carry control messages once and in order. A link fails at one end
//! first and at the other end later. Control messages in flight to the first end are lost; those to
//! the other end arrive. The link comes up again in the same way. One root is followed. Ticks pass
//! only in scenarios that are about ticks, so no end that is found depends on a tick.
//!
//! | module | what |
//! |---|---|
//! | [`scenario`] | the cables, how often each fault may happen |
//! | [`world`] | a state: nodes, links, control messages in flight |
//! | [`step`] | the possible next steps, and their effects |
//! | [`invariant`] | the invariants of every state |
//! | [`sight`] | the events that a search must reach, or it shows nothing about them |
//! | [`mutant`] | deliberate defects, each of which must be found |
//! | [`catalog`] | the scenarios to check |

pub mod catalog;
pub mod invariant;
pub mod mutant;
pub mod scenario;
pub mod sight;
pub mod step;
pub mod world;
