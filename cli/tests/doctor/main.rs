//! `covalent doctor` on hosts that are broken on purpose: each has its finding, and none after the
//! remedy.
#![allow(clippy::unwrap_used)]

mod broken;
mod healthy;
mod hosts;
#[path = "../support/mod.rs"]
mod support;
mod ward;
