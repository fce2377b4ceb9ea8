//! Deliberate defects: a lens on received control messages. The search must find each.

use covalent_protocol::tree::{
    Label, Trees,
    note::{CONTROL_MESSAGE_BYTES_MAX, ControlMessage, Item, Writer},
};

/// The deliberate defect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mutant {
    /// Nothing.
    None,
    /// The label that a neighbor sends appears nearer than it is.
    AcceptsAnyParent,
    /// The label that a neighbor sends appears nearer than it is, if the neighbor is attached to
    /// the receiver.
    TakesChildren,
    /// A node ignores a repeated advert of a neighbor: it was denied and may request again.
    NeverResends,
    /// A node ignores that a neighbor cannot come nearer.
    DeafToDenied,
    /// A node ignores that a neighbor is now attached to another one.
    KeepsChildren,
    /// No node compares the sent state with the recorded state.
    NoDigest,
}

impl Mutant {
    /// Returns a control message as a node receives it that received `last` of the same neighbor
    /// before. Empty: the node does not receive it.
    #[must_use]
    pub fn receive(self, node: &Trees, last: Option<Item>, bytes: &[u8]) -> Vec<u8> {
        let Ok(note) = ControlMessage::read(bytes) else {
            return bytes.to_vec();
        };
        let vanishes = match (self, note) {
            (Self::DeafToDenied, ControlMessage::Denied(_))
            | (Self::NoDigest, ControlMessage::Digest(_)) => true,
            (Self::NeverResends, ControlMessage::Advert(mut items)) => {
                items.all(|item| last == Some(item))
            }
            _ => false,
        };
        if vanishes {
            return Vec::new();
        }
        let was_child = last.is_some_and(|last| last.child);
        match ControlMessage::read(bytes) {
            Ok(ControlMessage::Advert(items))
                if matches!(
                    self,
                    Self::AcceptsAnyParent | Self::TakesChildren | Self::KeepsChildren
                ) =>
            {
                let mut space = [0; CONTROL_MESSAGE_BYTES_MAX];
                let mut writer = Writer::advert(&mut space);
                items.for_each(|item| {
                    writer.item(match self {
                        Self::AcceptsAnyParent => nearer(node, item),
                        Self::TakesChildren if item.child || was_child => nearer(node, item),
                        Self::TakesChildren => item,
                        _ => Item {
                            child: item.attached && (item.child || was_child),
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

/// Returns an item of a tree as if its sender were nearer than the receiver.
fn nearer(node: &Trees, item: Item) -> Item {
    let label = node.tree(item.root).map(|tree| tree.label);
    let label = label.filter(|label| item.attached && label.rank() > 1 && label.is_credible());
    label.map_or(item, |label| Item {
        label: Label::new(label.wave(), label.rank() / 2),
        child: false,
        ..item
    })
}
