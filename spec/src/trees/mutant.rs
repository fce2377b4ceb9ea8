//! Ways to build it wrong: a lens on what is heard. Each must be found.

use covalent_protocol::tree::{
    Label, Trees,
    note::{Item, NOTE_BYTES_MAX, Note, Writer},
};

/// What is built wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mutant {
    /// Nothing.
    None,
    /// What is heard of a neighbour is nearer than it is.
    TakesAnybody,
    /// What is heard of a neighbour that hangs on the hearer is nearer than it is.
    TakesChildren,
    /// Nobody hears what a neighbour said before: that it was denied and may ask again.
    NeverSaysAgain,
    /// Nobody hears that a neighbour cannot come nearer.
    DeafToDenied,
    /// Nobody hears that a neighbor hangs on another now.
    KeepsChildren,
    /// Nobody compares what was said with what was noted.
    NoDigest,
}

impl Mutant {
    /// A note as a node hears it that heard `last` of the same neighbour; empty if it does not.
    #[must_use]
    pub fn hear(self, node: &Trees, last: Option<Item>, bytes: &[u8]) -> Vec<u8> {
        let Ok(note) = Note::read(bytes) else {
            return bytes.to_vec();
        };
        let vanishes = match (self, note) {
            (Self::DeafToDenied, Note::Denied(_)) | (Self::NoDigest, Note::Digest(_)) => true,
            (Self::NeverSaysAgain, Note::Advert(mut items)) => items.all(|item| last == Some(item)),
            _ => false,
        };
        if vanishes {
            return Vec::new();
        }
        let was_child = last.is_some_and(|last| last.child);
        match Note::read(bytes) {
            Ok(Note::Advert(items))
                if matches!(
                    self,
                    Self::TakesAnybody | Self::TakesChildren | Self::KeepsChildren
                ) =>
            {
                let mut space = [0; NOTE_BYTES_MAX];
                let mut writer = Writer::advert(&mut space);
                items.for_each(|item| {
                    writer.item(match self {
                        Self::TakesAnybody => nearer(node, item),
                        Self::TakesChildren if item.child || was_child => nearer(node, item),
                        Self::TakesChildren => item,
                        _ => Item {
                            child: item.hangs && (item.child || was_child),
                            ..item
                        },
                    });
                });
                let len = writer.finish().unwrap_or(0);
                space[..len].to_vec()
            }
            _ => bytes.to_vec(),
        }
    }
}

/// What is said of a tree, as if it came from one that is nearer than the hearer.
fn nearer(node: &Trees, item: Item) -> Item {
    let label = node.tree(item.root).map(|tree| tree.label);
    let label = label.filter(|label| item.hangs && label.rank() > 1 && label.is_credible());
    label.map_or(item, |label| Item {
        label: Label::new(label.wave(), label.rank() / 2),
        child: false,
        ..item
    })
}
