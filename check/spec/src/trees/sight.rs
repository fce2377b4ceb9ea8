//! The events that a search must reach. Otherwise it shows nothing about them.

use covalent_protocol::tree::{Standing, note::ControlMessage};

use super::world::World;
use crate::check::{Sight, sight};

/// All of them.
pub const ALL: &[Sight<World>] = &[
    sight("a neighbor was taken at once", |world| {
        let mut nodes = world.nodes.iter();
        nodes.any(|node| node.counters().repaired_at_once > 0)
    }),
    sight("a neighbor moved nearer because of a search", |world| {
        let mut nodes = world.nodes.iter();
        nodes.any(|node| node.counters().repaired_by_search > 0)
    }),
    sight("a search was denied", |world| {
        let mut messages = world.links.iter().flatten().flat_map(|end| &end.coming);
        messages.any(|note| matches!(ControlMessage::read(note), Ok(ControlMessage::Denied(_))))
    }),
    sight("a node was disconnected and knows it", |world| {
        let mut views = (0..world.nodes.len()).filter_map(|node| world.view(node));
        views.any(|view| view.standing == Standing::Lost)
    }),
    sight("an unreachable node came back", |world| {
        let mut nodes = world.nodes.iter();
        nodes.any(|node| node.counters().found_again > 0)
    }),
    sight("a cable failed at one end alone", |world| {
        let mut links = world.links.iter();
        links.any(|[a, b]| a.up.is_some() != b.up.is_some())
    }),
    sight("a node was requested to send everything again", |world| {
        let mut messages = world.links.iter().flatten().flat_map(|end| &end.coming);
        messages.any(|note| matches!(ControlMessage::read(note), Ok(ControlMessage::Resync(_))))
    }),
];
