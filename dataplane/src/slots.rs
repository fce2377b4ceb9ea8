//! Things with small stable numbers.

/// Items with small stable numbers. A freed number is reused. Each call except those that visit all
/// items takes constant time, because lanes make these calls while packets wait.
#[derive(Debug)]
pub struct Slots<T> {
    items: Vec<Option<T>>,
    /// Slots that are empty.
    free: Vec<usize>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Slots<T> {
    /// None yet.
    pub const fn new() -> Self {
        Self {
            items: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Puts `item` into a free slot.
    pub fn insert(&mut self, item: T) -> usize {
        let slot = self.free.pop().unwrap_or(self.items.len());
        match self.items.get_mut(slot) {
            Some(place) => *place = Some(item),
            None => self.items.push(Some(item)),
        }
        slot
    }

    /// The item in `slot`.
    #[inline]
    pub fn get(&self, slot: usize) -> Option<&T> {
        self.items.get(slot)?.as_ref()
    }

    /// The item in `slot`.
    #[inline]
    pub fn get_mut(&mut self, slot: usize) -> Option<&mut T> {
        self.items.get_mut(slot)?.as_mut()
    }

    /// Empties `slot`.
    pub fn remove(&mut self, slot: usize) -> Option<T> {
        let item = self.items.get_mut(slot)?.take();
        if item.is_some() {
            self.free.push(slot);
        }
        item
    }

    /// Every item with its slot.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &T)> {
        self.items
            .iter()
            .enumerate()
            .filter_map(|(slot, item)| Some((slot, item.as_ref()?)))
    }

    /// Every item.
    pub fn items_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.items.iter_mut().flatten()
    }

    /// One more than the highest slot ever used.
    pub fn len(&self) -> usize {
        self.items.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freed_slots_are_reused_and_each_once() {
        let mut slots = Slots::new();
        for item in 0..4 {
            assert_eq!(slots.insert(item), item);
        }
        assert_eq!(slots.remove(1), Some(1));
        // It is empty: that frees nothing more.
        assert_eq!(slots.remove(1), None);
        assert_eq!(slots.remove(9), None);
        assert_eq!(slots.remove(3), Some(3));
        let mut reused = [slots.insert(10), slots.insert(11)];
        reused.sort_unstable();
        assert_eq!(reused, [1, 3]);
        assert_eq!(slots.insert(12), 4);
        assert_eq!(slots.len(), 5);
        let mut held: Vec<_> = slots.iter().map(|(_, &item)| item).collect();
        held.sort_unstable();
        assert_eq!(held, [0, 2, 10, 11, 12]);
    }
}
