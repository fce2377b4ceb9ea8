//! A first-in, first-out set of pipe numbers.

use std::collections::VecDeque;

/// Pipes to see to, each at most once, oldest first. Numbers beyond the limit are ignored.
#[derive(Debug)]
pub(crate) struct PipeSet {
    order: VecDeque<u32>,
    is_member: Box<[bool]>,
}

impl PipeSet {
    /// An empty set of numbers below `limit`.
    pub(crate) fn new(limit: u32) -> Self {
        Self {
            order: VecDeque::new(),
            is_member: vec![false; limit as usize].into_boxed_slice(),
        }
    }

    /// Adds a pipe behind all others, if it is not there yet.
    pub(crate) fn insert(&mut self, pipe: u32) {
        if let Some(is_member) = self.is_member.get_mut(pipe as usize)
            && !*is_member
        {
            *is_member = true;
            self.order.push_back(pipe);
        }
    }

    /// Takes the oldest.
    pub(crate) fn pop(&mut self) -> Option<u32> {
        let pipe = self.order.pop_front()?;
        self.is_member[pipe as usize] = false;
        Some(pipe)
    }

    /// Removes a pipe, at any position.
    pub(crate) fn remove(&mut self, pipe: u32) {
        if let Some(is_member) = self.is_member.get_mut(pipe as usize)
            && *is_member
        {
            *is_member = false;
            self.order.retain(|member| *member != pipe);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pipe_once_and_oldest_first() {
        let mut set = PipeSet::new(4);
        for pipe in [2, 0, 2, 9, 3] {
            set.insert(pipe);
        }
        set.remove(0);
        set.remove(1);
        assert_eq!(set.pop(), Some(2));
        set.insert(2);
        assert_eq!((set.pop(), set.pop(), set.pop()), (Some(3), Some(2), None));
    }
}
