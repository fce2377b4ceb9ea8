//! A subscriber that receives the end of every session.

use std::thread;

use covalent_api::{
    event::EventKind,
    request::{Reply, Request},
};

use super::node::Node;

/// A subscriber to one node's events.
pub struct Witness {
    thread: thread::JoinHandle<Vec<Detached>>,
}

/// A session that ended.
#[derive(Debug)]
pub struct Detached {
    pub reason: String,
    pub pipes: u32,
    pub regions: u32,
}

impl Witness {
    /// Begins to listen.
    pub fn start(node: &Node) -> Self {
        let mut client = node.client();
        client.done(&Request::Subscribe);
        let thread = thread::spawn(move || {
            let mut detached = Vec::new();
            while let Some((Reply::Event(event), _)) = client.receive() {
                match event.kind {
                    EventKind::Detached {
                        reason,
                        pipes,
                        regions,
                        ..
                    } => detached.push(Detached {
                        reason,
                        pipes,
                        regions,
                    }),
                    // The sign to stop: see `Node::disable_port`.
                    EventKind::Carrier { up: false, .. } => break,
                    _ => {}
                }
            }
            detached
        });
        Self { thread }
    }

    /// Everything that ended until the port was disabled.
    pub fn detached(self) -> Vec<Detached> {
        self.thread.join().expect("events are read as they arrive")
    }
}
