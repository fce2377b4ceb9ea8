//! What waits to be said never piles up.

use std::collections::BTreeSet;

use covalent_protocol::tree::{
    Label, Trees,
    note::{Item, NOTE_BYTES_MAX, Note, Writer},
};

use crate::mesh::{config, guid};

const ROOTS: usize = 60;

/// A neighbour that does not listen is told the last word of each tree, once.
#[test]
fn ten_thousand_changes_leave_one_item_for_each_root() {
    let mut trees = Trees::new(&config(100, 1));
    let (talks, listens) = (trees.add_berth().unwrap(), trees.add_berth().unwrap());
    let mut events = 0;
    trees.on_up(talks, &mut |_| events += 1);
    trees.on_up(listens, &mut |_| events += 1);
    let mut space = [0; NOTE_BYTES_MAX];
    let mut heard = BTreeSet::new();
    for change in 0..10_000u64 {
        let root = change as usize % ROOTS;
        let mut writer = Writer::advert(&mut space);
        // Now nearer, now lost, now a later wave.
        let wave = 1 + change / 100;
        let hangs = change % 7 != 0;
        writer.item(Item {
            hops: if hangs { (change % 5) as u16 } else { 0 },
            life: 1,
            hangs,
            ..Item::bound(guid(root), Label::new(wave, change % 977))
        });
        let len = writer.finish().unwrap();
        trees
            .on_note(talks, &space[..len], &mut |_| events += 1)
            .unwrap();
    }
    assert!(events > ROOTS);
    let mut items = 0;
    while let Some(len) = trees.take_note(listens, &mut space) {
        if let Ok(Note::Advert(said)) = Note::read(&space[..len]) {
            for item in said {
                items += 1;
                let tree = trees.trees().find(|tree| tree.root == item.root).unwrap();
                assert_eq!(item.label, tree.label, "the last word");
                heard.insert(item.root);
            }
        }
    }
    assert_eq!((items, heard.len()), (ROOTS + 1, ROOTS + 1));
    assert_eq!(trees.note_bytes(listens), None);
}
