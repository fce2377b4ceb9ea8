//! A lens between a cable and a node: it changes the tree messages that a node receives. Only
//! mutants use it.

use std::collections::HashMap;

use covalent_protocol::{
    DEFAULT_ETHERTYPE, FRAME_BYTES_MAX, Node,
    tree::{
        Label, Standing,
        note::{CONTROL_MESSAGE_BYTES_MAX, ControlMessage, Item, Writer},
    },
    wire::{
        ETHERNET_HEADER_BYTES,
        frame::{self, FrameWriter},
        message::{self, Message},
        slice::Kind,
    },
};

use super::mutant::MeshMutant;
use crate::shape::Spot;

/// State of the lens at each end of each cable.
#[derive(Debug, Default)]
pub(super) struct Lens {
    /// Last item about each root, by receiving end.
    last_items: HashMap<(Spot, u64), Item>,
}

impl Lens {
    /// Handles a link that came up or failed: items sent over it are sent again.
    pub fn forget(&mut self, at: Spot) {
        self.last_items.retain(|(spot, _), _| *spot != at);
    }

    /// Changes a frame before a node receives it. An item to drop becomes one about the receiver's
    /// own root, which the receiver ignores. So lengths and records stay the same.
    pub fn show(
        &mut self,
        mutant: MeshMutant,
        at: Spot,
        own: u64,
        node: &Node,
        bytes: &mut Vec<u8>,
    ) {
        let Ok(records) = frame::parse(bytes, DEFAULT_ETHERTYPE) else {
            return;
        };
        let mut buffer = [0; FRAME_BYTES_MAX];
        let Some(mut writer) = FrameWriter::new(&mut buffer) else {
            return;
        };
        let mut rest = records;
        while !rest.is_empty()
            && let Ok((message, behind)) = Message::split(rest)
        {
            let mut space = vec![0; message.payload_bytes()];
            let payload = message.copy_payload(&mut space).unwrap_or_default();
            let mut shown = [0; CONTROL_MESSAGE_BYTES_MAX];
            let payload = match message.header.kind {
                Kind::ControlMessage => match self.note(mutant, at, own, node, payload, &mut shown)
                {
                    Some(len) => &shown[..len],
                    None => payload,
                },
                _ => payload,
            };
            message::write(&message.header, payload, &mut writer);
            rest = behind;
        }
        let (to, from) = bytes[..ETHERNET_HEADER_BYTES].split_at(6);
        if let (Some(to), Some(from)) = (to.first_chunk(), from.first_chunk()) {
            let len = writer.finish(*to, *from, DEFAULT_ETHERTYPE);
            *bytes = buffer[..len].to_vec();
        }
    }

    /// Returns a control message as the node receives it, if it differs. Its length stays the same.
    fn note(
        &mut self,
        mutant: MeshMutant,
        at: Spot,
        own: u64,
        node: &Node,
        payload: &[u8],
        shown: &mut [u8; CONTROL_MESSAGE_BYTES_MAX],
    ) -> Option<usize> {
        let nothing = Item {
            label: Label::of_root(1),
            ..Item::bound(own, Label::of_root(1))
        };
        match (mutant, ControlMessage::read(payload).ok()?) {
            (MeshMutant::DeafToDenied, ControlMessage::Denied(roots)) => {
                let mut writer = Writer::denied(&mut shown[..payload.len()]);
                roots.for_each(|_| writer.root(own));
                writer.finish()
            }
            (_, ControlMessage::Advert(items)) => {
                let mut writer = Writer::advert(&mut shown[..payload.len()]);
                for mut item in items {
                    let tree = node.tree(item.root);
                    let last = self.last_items.get(&(at, item.root)).copied();
                    if mutant == MeshMutant::KeepsChildren
                        && tree.is_some_and(|tree| tree.standing == Standing::Attached)
                        && last.is_some_and(|last| last.child)
                    {
                        item.child = item.attached;
                    }
                    self.last_items.insert((at, item.root), item);
                    let vanishes = match mutant {
                        MeshMutant::DeafToLost => !item.attached,
                        MeshMutant::NeverRepeats => last == Some(item),
                        _ => false,
                    };
                    let label = tree.map(|tree| tree.label);
                    let nearer = label
                        .filter(|_| mutant == MeshMutant::TakesAnybody && item.attached)
                        .filter(|label| label.rank() > 1 && label.is_credible())
                        .map(|label| Label::new(label.wave(), label.rank() / 2));
                    writer.item(match nearer {
                        _ if vanishes => nothing,
                        Some(label) => Item {
                            label,
                            child: false,
                            ..item
                        },
                        None => item,
                    });
                }
                writer.finish()
            }
            _ => None,
        }
    }
}
