//! Groups: envelopes of members, and state machines driven by hand.
#![allow(clippy::unwrap_used)]

mod change;
mod contact;
mod flow;
mod found;
mod rack;
mod row;
mod stranger;
mod wire;
