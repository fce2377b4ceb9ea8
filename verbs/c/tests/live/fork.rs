//! A program that forks.

use std::path::Path;

use covalent::Client;

use crate::{
    examples::{Linking, Running, compile_at},
    nodes::{Nodes, eventually},
};

/// How many sessions and pipes node a has.
fn held(nodes: &Nodes) -> (usize, usize) {
    let mut client = Client::connect(nodes.socket("a"), "test").unwrap();
    let status = client.status().unwrap();
    (status.sessions as usize, status.pipes.len())
}

#[test]
fn a_child_takes_nothing_from_its_parent_and_does_not_outlive_its_session() {
    let nodes = Nodes::start(&["p0"]);
    let directory = tempfile::tempdir().unwrap();
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/live");
    let program = compile_at(&directory, &sources, "fork", Linking::Dynamic);
    let socket = nodes.socket("a");
    let socket = socket.to_str().unwrap();
    let mut exits = Running::start(&program, &[socket, "exit"]);
    assert_eq!(exits.line(), "sent");
    // The daemon reclaims the child's own session a moment after it closed.
    eventually("only the parent's", || held(&nodes) == (1, 1));
    drop(exits);
    eventually("it is gone", || held(&nodes) == (0, 0));
    let mut remaining = Running::start(&program, &[socket, "stay"]);
    assert_eq!(remaining.line(), "stays");
    // The child holds a copy of everything, and its input.
    remaining.child.kill().unwrap();
    eventually("the parent's objects are reclaimed", || {
        held(&nodes) == (0, 0)
    });
}
