//! Every run, within small bounds, of the production state machine of groups.
//!
//! Members are joined by envelopes that arrive in any order up to a bound. A dead member sends
//! nothing more, except for its envelopes in flight. Each survivor learns of the death at any time.
//! No envelope of a live member is lost: a run in which it is never delivered covers the loss.
//!
//! | module | what |
//! |---|---|
//! | [`scenario`] | the members, their multicasts, how often each fault may happen |
//! | [`world`] | a state: members, their events, envelopes in flight |
//! | [`step`] | the possible next steps, and their effects |
//! | [`invariant`] | the invariants of every state |
//! | [`rest`] | the invariants of states in which nothing is left to happen |
//! | [`sight`] | the events that a search must reach, or it shows nothing about them |
//! | [`sent`] | the contents of an envelope, as far as these modules need them |
//! | [`mutant`] | deliberate defects, each of which must be found |
//! | [`catalog`] | the scenarios to check |

pub mod catalog;
pub mod invariant;
pub mod mutant;
pub mod rest;
pub mod scenario;
pub mod sent;
pub mod sight;
pub mod step;
pub mod world;
