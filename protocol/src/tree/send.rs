//! Selection of the next control message.
//!
//! The queue is one bit for each tree and kind. A message is encoded from the table at the moment
//! of sending. A slow neighbor therefore costs nothing and receives the latest state only. Any
//! order of the kinds is correct. Adverts come first because they settle most.

use super::{
    Standing, Trees,
    note::{self, CALLED_BYTES_MIN, CONTROL_MESSAGE_BYTES_MIN, Item, Writer},
};

impl Trees {
    /// Bytes that [`Trees::take_control_message`] needs for the next control message to this
    /// neighbor, if one waits.
    #[must_use]
    pub fn next_message_bytes(&self, neighbor: u8) -> Option<usize> {
        let place = self.neighbors.get(usize::from(neighbor))?;
        if !(place.adverts.is_empty() && place.denials.is_empty()) {
            Some(CONTROL_MESSAGE_BYTES_MIN)
        } else if !place.names.is_empty() {
            Some(CALLED_BYTES_MIN)
        } else if !place.searches.is_empty() || place.audit.resync_due || place.audit.digest_due {
            Some(CONTROL_MESSAGE_BYTES_MIN)
        } else {
            None
        }
    }

    /// Writes the next control message to this neighbor to the start of `space` and returns its
    /// length. `space` must have at least [`Trees::next_message_bytes`] bytes. The caller must send
    /// it before any message taken later. May return `None` although a message waited, if it is
    /// obsolete by now.
    pub fn take_control_message(&mut self, neighbor: u8, space: &mut [u8]) -> Option<usize> {
        let len = self.take_adverts(neighbor, space);
        let len = len.or_else(|| self.take_denials(neighbor, space));
        let len = len.or_else(|| self.take_names(neighbor, space));
        let len = len.or_else(|| self.take_searches(neighbor, space));
        let len = len.or_else(|| self.take_resync(neighbor, space));
        // The last one, because it covers everything that was sent.
        len.or_else(|| self.take_digest(neighbor)?.write(space))
    }

    fn take_adverts(&mut self, neighbor: u8, space: &mut [u8]) -> Option<usize> {
        let mut writer = Writer::advert(space);
        while writer.has_room()
            && let Some(at) = self
                .neighbors
                .get_mut(usize::from(neighbor))?
                .adverts
                .take()
        {
            writer.item(self.advert_of(at, neighbor));
        }
        writer.finish()
    }

    /// The advert of this node to a neighbor.
    pub(super) fn advert_of(&self, at: usize, neighbor: u8) -> Item {
        let tree = &self.table[at];
        // A searching node advertises the same as while it was attached.
        let attached = tree.standing != Standing::Lost;
        let child = attached && tree.parent == Some(neighbor);
        Item {
            root: tree.root,
            label: tree.label,
            hops: if attached { tree.advertised_hops } else { 0 },
            incarnation: tree.incarnation,
            attached,
            child,
            nameless: child && tree.name.is_none(),
        }
    }

    fn take_denials(&mut self, neighbor: u8, space: &mut [u8]) -> Option<usize> {
        let mut writer = Writer::denied(space);
        while writer.has_room()
            && let Some(at) = self
                .neighbors
                .get_mut(usize::from(neighbor))?
                .denials
                .take()
        {
            writer.root(self.table[at].root);
        }
        writer.finish()
    }

    fn take_names(&mut self, neighbor: u8, space: &mut [u8]) -> Option<usize> {
        let mut writer = Writer::called(space);
        while writer.has_room_for_name()
            && let Some(at) = self.neighbors.get_mut(usize::from(neighbor))?.names.take()
        {
            let tree = &self.table[at];
            if let Some(name) = tree.name.filter(|_| self.advertised(at, neighbor).child) {
                writer.name(tree.root, &name);
            }
        }
        writer.finish()
    }

    fn take_searches(&mut self, neighbor: u8, space: &mut [u8]) -> Option<usize> {
        let mut writer = Writer::search(space);
        while writer.has_room()
            && let Some(at) = self
                .neighbors
                .get_mut(usize::from(neighbor))?
                .searches
                .take()
        {
            if let Some(bound) = self.bound_for(at, neighbor) {
                writer.item(Item::bound(self.table[at].root, bound));
            }
        }
        writer.finish()
    }

    fn take_resync(&mut self, neighbor: u8, space: &mut [u8]) -> Option<usize> {
        let audit = &mut self.neighbors.get_mut(usize::from(neighbor))?.audit;
        // If the registers show it as answered already, the next tick sends it.
        let due = core::mem::take(&mut audit.resync_due) && audit.requested != 0;
        due.then(|| note::write_resync(audit.requested, space))
            .flatten()
    }
}
