//! Outgoing messages never pile up.

use std::collections::BTreeSet;

use covalent_protocol::tree::{
    Label, Trees,
    note::{CONTROL_MESSAGE_BYTES_MAX, ControlMessage, Item, Writer},
};

use crate::mesh::{config, guid};

const ROOTS: usize = 60;

/// A neighbor that does not receive gets the latest state of each tree, once.
#[test]
fn ten_thousand_changes_leave_one_item_for_each_root() {
    let mut trees = Trees::new(&config(100, 1));
    let (talks, listens) = (trees.add_neighbor().unwrap(), trees.add_neighbor().unwrap());
    let mut events = 0;
    trees.on_up(talks, &mut |_| events += 1);
    trees.on_up(listens, &mut |_| events += 1);
    let mut space = [0; CONTROL_MESSAGE_BYTES_MAX];
    let mut received = BTreeSet::new();
    for change in 0..10_000u64 {
        let root = change as usize % ROOTS;
        let mut writer = Writer::advert(&mut space);
        // Now nearer, now lost, now a later wave.
        let wave = 1 + change / 100;
        let attached = change % 7 != 0;
        writer.item(Item {
            hops: if attached { (change % 5) as u16 } else { 0 },
            incarnation: 1,
            attached,
            ..Item::bound(guid(root), Label::new(wave, change % 977))
        });
        let len = writer.finish().unwrap();
        trees
            .on_control_message(talks, &space[..len], &mut |_| events += 1)
            .unwrap();
    }
    assert!(events > ROOTS);
    let mut items = 0;
    while let Some(len) = trees.take_control_message(listens, &mut space) {
        if let Ok(ControlMessage::Advert(advertised)) = ControlMessage::read(&space[..len]) {
            for item in advertised {
                items += 1;
                let tree = trees.trees().find(|tree| tree.root == item.root).unwrap();
                assert_eq!(item.label, tree.label, "the last word");
                received.insert(item.root);
            }
        }
    }
    assert_eq!((items, received.len()), (ROOTS + 1, ROOTS + 1));
    assert_eq!(trees.next_message_bytes(listens), None);
}
