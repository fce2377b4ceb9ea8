//! Groups are a layer on the library: their source compiles as a part of this program, which sees
//! only what every program sees. So does each method that it calls. `check/guide/tests/arrows.rs`
//! checks what it imports.
#![allow(clippy::unwrap_used)]
#![allow(
    dead_code,
    unused_imports,
    reason = "the library calls and exports them"
)]

/// Under the names by which the source imports it.
use covalent::*;

#[path = "../src/group/mod.rs"]
mod group;

#[test]
fn the_source_of_groups_makes_the_same_options_here() {
    let (ours, theirs) = (group::GroupOptions::new(), covalent::GroupOptions::new());
    assert_eq!(format!("{ours:?}"), format!("{theirs:?}"));
    assert_eq!(group::GROUPS_MAX, covalent::GROUPS_MAX);
}
