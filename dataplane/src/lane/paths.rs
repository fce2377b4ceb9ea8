//! Applications that wait for a path to appear or disappear.
//!
//! Each watch counts as a verb in flight of its queue, so its completion has reserved space. The
//! watches are in a table of fixed size that one session cannot fill.

/// Watches that wait on one lane.
const WATCHES_MAX: usize = 256;
/// Of which one session may have so many.
const WATCHES_PER_SESSION: usize = 64;

/// One that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watcher {
    /// Slot of the session on this lane.
    pub session: usize,
    /// Slot of the pipe for its completion.
    pub queue: usize,
    /// The application's own name for it.
    pub user_data: u64,
    /// The node.
    pub guid: u64,
    /// The state that the application knows: whether the node is reachable.
    pub known_up: bool,
}

/// The watches of one lane. Allocates in [`Watchers::new`] only.
#[derive(Debug)]
pub struct Watchers(Vec<Watcher>);

impl Watchers {
    /// Creates an empty table.
    pub fn new() -> Self {
        Self(Vec::with_capacity(WATCHES_MAX))
    }

    /// Adds a watch; `false` if the table or the session's quota is full.
    pub fn insert(&mut self, watcher: Watcher) -> bool {
        let of_session = self
            .0
            .iter()
            .filter(|other| other.session == watcher.session);
        if self.0.len() >= WATCHES_MAX || of_session.count() >= WATCHES_PER_SESSION {
            return false;
        }
        self.0.push(watcher);
        true
    }

    /// Takes out one that knows another standing of the node than `up`.
    pub fn take(&mut self, guid: u64, up: bool) -> Option<Watcher> {
        let is_news = |watcher: &Watcher| watcher.guid == guid && watcher.known_up != up;
        let at = self.0.iter().position(is_news)?;
        Some(self.0.swap_remove(at))
    }

    /// Removes the watches that complete in the pipe in slot `queue` and returns their number.
    pub fn remove_queue(&mut self, queue: usize) -> usize {
        let before = self.0.len();
        self.0.retain(|watcher| watcher.queue != queue);
        before - self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn watcher(session: usize, guid: u64, known_up: bool) -> Watcher {
        Watcher {
            session,
            queue: 10 * session,
            user_data: 1,
            guid,
            known_up,
        }
    }

    #[test]
    fn watches_are_bounded_per_session_and_in_total() {
        let mut watchers = Watchers::new();
        for session in 0..WATCHES_MAX / WATCHES_PER_SESSION {
            for _ in 0..WATCHES_PER_SESSION {
                assert!(watchers.insert(watcher(session, 7, true)));
            }
            assert!(!watchers.insert(watcher(session, 7, true)));
        }
        assert!(!watchers.insert(watcher(99, 7, true)), "the lane's room");
        assert_eq!(watchers.remove_queue(20), WATCHES_PER_SESSION);
        assert!(watchers.insert(watcher(99, 7, true)));
        assert_eq!(watchers.remove_queue(20), 0);
    }

    #[test]
    fn watchers_are_completed_if_they_know_another_state() {
        let mut watchers = Watchers::new();
        for watcher in [
            watcher(1, 7, true),
            watcher(1, 8, true),
            watcher(2, 7, false),
        ] {
            assert!(watchers.insert(watcher));
        }
        assert_eq!(watchers.take(7, false), Some(watcher(1, 7, true)));
        assert_eq!(watchers.take(7, false), None);
        assert_eq!(watchers.take(7, true), Some(watcher(2, 7, false)));
        assert_eq!(watchers.take(8, false), Some(watcher(1, 8, true)));
    }
}
