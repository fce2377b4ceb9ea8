//! The next note.
//!
//! What waits is a bit for each tree and kind, and what is written is what stands in the table then. So a neighbour that is slow to listen costs
//! nothing, and is told the last word only. Any order of the kinds is right; adverts come first because they settle most.

use super::{
    Standing, Trees,
    note::{CALLED_BYTES_MIN, Item, NOTE_BYTES_MIN, Writer},
};

impl Trees {
    /// Bytes that [`Trees::take_note`] needs for the next note to the neighbour at a berth, if one waits.
    #[must_use]
    pub fn note_bytes(&self, berth: u8) -> Option<usize> {
        let place = self.berths.get(usize::from(berth))?;
        if !(place.adverts.is_empty() && place.denials.is_empty()) {
            Some(NOTE_BYTES_MIN)
        } else if !place.names.is_empty() {
            Some(CALLED_BYTES_MIN)
        } else if !place.seeks.is_empty() {
            Some(NOTE_BYTES_MIN)
        } else {
            None
        }
    }

    /// Writes the next note to the neighbour at a berth to the start of `space`, of as many bytes as [`Trees::note_bytes`] says or more, and returns its
    /// length. It must be sent then, before any that is taken later. May return `None` although something waited: it was no longer so.
    pub fn take_note(&mut self, berth: u8, space: &mut [u8]) -> Option<usize> {
        let len = self.take_adverts(berth, space);
        let len = len.or_else(|| self.take_denials(berth, space));
        let len = len.or_else(|| self.take_names(berth, space));
        len.or_else(|| self.take_seeks(berth, space))
    }

    fn take_adverts(&mut self, berth: u8, space: &mut [u8]) -> Option<usize> {
        let mut writer = Writer::advert(space);
        while writer.has_room()
            && let Some(at) = self.berths.get_mut(usize::from(berth))?.adverts.take()
        {
            writer.item(self.advert_of(at, berth));
        }
        writer.finish()
    }

    /// What this node says of itself to a neighbour.
    pub(super) fn advert_of(&self, at: usize, berth: u8) -> Item {
        let tree = &self.table[at];
        // Whoever seeks says what it said while it hung.
        let hangs = tree.standing != Standing::Lost;
        let child = hangs && tree.parent == Some(berth);
        Item {
            root: tree.root,
            label: tree.label,
            hops: if hangs { tree.hops } else { 0 },
            life: tree.life,
            hangs,
            child,
            nameless: child && tree.name.is_none(),
        }
    }

    fn take_denials(&mut self, berth: u8, space: &mut [u8]) -> Option<usize> {
        let mut writer = Writer::denied(space);
        while writer.has_room()
            && let Some(at) = self.berths.get_mut(usize::from(berth))?.denials.take()
        {
            writer.root(self.table[at].root);
        }
        writer.finish()
    }

    fn take_names(&mut self, berth: u8, space: &mut [u8]) -> Option<usize> {
        let mut writer = Writer::called(space);
        while writer.has_room_for_name()
            && let Some(at) = self.berths.get_mut(usize::from(berth))?.names.take()
        {
            let tree = &self.table[at];
            if let Some(name) = tree.name.filter(|_| self.said(at, berth).child) {
                writer.name(tree.root, &name);
            }
        }
        writer.finish()
    }

    fn take_seeks(&mut self, berth: u8, space: &mut [u8]) -> Option<usize> {
        let mut writer = Writer::seek(space);
        while writer.has_room()
            && let Some(at) = self.berths.get_mut(usize::from(berth))?.seeks.take()
        {
            if let Some(bound) = self.bound_for(at, berth) {
                writer.item(Item::bound(self.table[at].root, bound));
            }
        }
        writer.finish()
    }
}
