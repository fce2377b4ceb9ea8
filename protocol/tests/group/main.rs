//! Groups: what members say, and machines led by hand.
#![allow(clippy::unwrap_used)]

mod change;
mod contact;
mod flow;
mod rack;
mod row;
mod wire;
