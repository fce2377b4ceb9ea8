//! The queue of one worker: in order for each user, users in turn.

use std::collections::VecDeque;

/// A queue in which a user with many items waits behind its own items and delays each other user by
/// one item at most.
///
/// The queue has no bound. The producers are bounded.
#[derive(Debug)]
pub struct Turns<T> {
    /// Users and their items, never an empty list. The first user is next.
    users: VecDeque<(u32, VecDeque<T>)>,
}

impl<T> Turns<T> {
    /// Nothing waits.
    pub const fn new() -> Self {
        Self {
            users: VecDeque::new(),
        }
    }

    /// Appends `item` to the items of user `uid`.
    pub fn push(&mut self, uid: u32, item: T) {
        match self.users.iter_mut().find(|(user, _)| *user == uid) {
            Some((_, items)) => items.push_back(item),
            None => self.users.push_back((uid, VecDeque::from([item]))),
        }
    }

    /// Removes and returns the next item, of the user whose turn it is.
    pub fn pop(&mut self) -> Option<T> {
        let (uid, mut items) = self.users.pop_front()?;
        let item = items.pop_front();
        if !items.is_empty() {
            self.users.push_back((uid, items));
        }
        item
    }

    /// Removes the first item of user `uid` that `wanted` accepts.
    pub fn take(&mut self, uid: u32, wanted: impl Fn(&T) -> bool) -> Option<T> {
        let at = self.users.iter().position(|(user, _)| *user == uid)?;
        let items = &mut self.users[at].1;
        let found = items.iter().position(wanted)?;
        let item = items.remove(found);
        if items.is_empty() {
            self.users.remove(at);
        }
        item
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(turns: &mut Turns<u32>) -> Vec<u32> {
        std::iter::from_fn(|| turns.pop()).collect()
    }

    #[test]
    fn users_take_turns_and_each_keeps_its_order() {
        let mut turns = Turns::new();
        for item in 0..4 {
            turns.push(1000, item);
        }
        turns.push(1001, 10);
        turns.push(1002, 20);
        turns.push(1001, 11);
        assert_eq!(all(&mut turns), [0, 10, 20, 1, 11, 2, 3]);
    }

    #[test]
    fn a_returning_user_waits_for_the_others() {
        let mut turns = Turns::new();
        turns.push(1000, 0);
        turns.push(1001, 10);
        assert_eq!(turns.pop(), Some(0));
        turns.push(1000, 1);
        assert_eq!(all(&mut turns), [10, 1]);
    }

    #[test]
    fn removed_entries_belong_to_the_user() {
        let mut turns = Turns::new();
        turns.push(1000, 7);
        turns.push(1001, 7);
        turns.push(1001, 8);
        assert_eq!(turns.take(1001, |&item| item == 7), Some(7));
        assert_eq!(turns.take(1001, |&item| item == 7), None);
        assert_eq!(turns.take(1000, |&item| item == 7), Some(7));
        assert_eq!(all(&mut turns), [8]);
    }
}
