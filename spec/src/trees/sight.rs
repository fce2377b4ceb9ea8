//! What a search must come by, or it shows nothing about it.

use covalent_protocol::tree::{Standing, note::Note};

use super::world::World;

/// Something that happens in a state, or happened on the way to it.
pub struct Sight {
    /// What.
    pub name: &'static str,
    happened: fn(&World) -> bool,
}

impl Sight {
    /// Whether it did.
    #[must_use]
    pub fn is_seen(&self, world: &World) -> bool {
        (self.happened)(world)
    }
}

/// All of them.
pub const ALL: &[Sight] = &[
    sight("a neighbour was taken at once", |world| {
        let mut nodes = world.nodes.iter();
        nodes.any(|node| node.counters().repaired_at_once > 0)
    }),
    sight("a neighbour came nearer because it was asked", |world| {
        let mut nodes = world.nodes.iter();
        nodes.any(|node| node.counters().repaired_by_seeking > 0)
    }),
    sight("somebody was denied", |world| {
        let mut notes = world.links.iter().flatten().flat_map(|end| &end.coming);
        notes.any(|note| matches!(Note::read(note), Ok(Note::Denied(_))))
    }),
    sight("somebody was cut off and knows it", |world| {
        let mut views = (0..world.nodes.len()).filter_map(|node| world.view(node));
        views.any(|view| view.standing == Standing::Lost)
    }),
    sight("somebody who was lost came back", |world| {
        let mut nodes = world.nodes.iter();
        nodes.any(|node| node.counters().found_again > 0)
    }),
    sight("a cable failed at one end alone", |world| {
        let mut links = world.links.iter();
        links.any(|[a, b]| a.up.is_some() != b.up.is_some())
    }),
    sight("somebody was asked to say everything again", |world| {
        let mut notes = world.links.iter().flatten().flat_map(|end| &end.coming);
        notes.any(|note| matches!(Note::read(note), Ok(Note::Tell(_))))
    }),
];

const fn sight(name: &'static str, happened: fn(&World) -> bool) -> Sight {
    Sight { name, happened }
}
