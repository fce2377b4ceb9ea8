//! The library as a compiler sees it: its header, its binary interface, and its names.
#![allow(clippy::unwrap_used)]

mod abi;
mod declared;
mod header;
mod names;
