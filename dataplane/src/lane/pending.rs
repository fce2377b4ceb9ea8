//! Verbs of local applications that wait for another node.
//!
//! A node that does not answer must not block the verbs to other nodes. Therefore the table is
//! shared by dynamic thresholds (Choudhury and Hahne): a node may have as many verbs in flight as
//! entries are free. One unreachable node holds at most half of the table, two hold a third each.
//! The rest serves the nodes that answer.
//!
//! Queries about an exchange by its name wait in a table of the protocol, which is smaller: a
//! quarter. Users share it in the same way, because a query about an exchange that does not end
//! costs the user nothing.

/// A verb in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pending {
    /// Slot of the pipe for its completion on this lane.
    pub queue: usize,
    /// The application's own name for the verb.
    pub user_data: u64,
    /// The node that executes it.
    pub peer: u64,
    /// The application was notified that the outcome is in doubt.
    pub doubted: bool,
    /// The user that queries an exchange by its name; `None` for a verb.
    pub requester: Option<u32>,
}

/// The verbs in flight on one lane, by token. Allocates in [`PendingTable::new`] only.
///
/// A token is an index with the index's generation above it, so an old token never names a later
/// verb.
#[derive(Debug)]
pub struct PendingTable {
    entries: Vec<Entry>,
    free: Vec<u32>,
    /// The nodes that verbs wait for. A lane has few peers, so they are searched.
    peers: Vec<PeerShare>,
    /// Queries that still fit.
    queries_free: usize,
    /// The users with queries, and their number: never zero.
    users: Vec<(u32, usize)>,
}

/// How many verbs wait for one node: never none.
#[derive(Debug, Clone, Copy)]
struct PeerShare {
    peer: u64,
    verbs: usize,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    generation: u32,
    pending: Option<Pending>,
}

impl PendingTable {
    /// Creates a table for `entries` verbs, at most 2^32, of which `requesters` may be queries
    /// about an exchange by its name.
    pub fn new(entries: usize, requesters: usize) -> Self {
        let count = u32::try_from(entries).unwrap_or(u32::MAX);
        Self {
            entries: vec![
                Entry {
                    generation: 0,
                    pending: None
                };
                count as usize
            ],
            free: (0..count).rev().collect(),
            peers: Vec::with_capacity(count as usize),
            queries_free: requesters,
            users: Vec::with_capacity(requesters),
        }
    }

    /// Adds `pending` and returns its token; `None` if the quota for verbs to its peer, or for
    /// queries of its user, is used up.
    pub fn insert(&mut self, pending: Pending) -> Option<u64> {
        let share = self
            .peers
            .iter()
            .position(|share| share.peer == pending.peer);
        let verbs = share.map_or(0, |share| self.peers[share].verbs);
        if verbs >= self.free.len() || !self.may_query(pending.requester) {
            return None;
        }
        let index = self.free.pop()?;
        match share {
            Some(share) => self.peers[share].verbs += 1,
            None => self.peers.push(PeerShare {
                peer: pending.peer,
                verbs: 1,
            }),
        }
        if let Some(uid) = pending.requester {
            self.queries_free -= 1;
            match self.users.iter_mut().find(|(user, _)| *user == uid) {
                Some((_, requesters)) => *requesters += 1,
                None => self.users.push((uid, 1)),
            }
        }
        let entry = &mut self.entries[index as usize];
        entry.pending = Some(pending);
        Some(u64::from(entry.generation) << 32 | u64::from(index))
    }

    /// Returns whether a verb or a query waits for `peer`.
    pub fn waits_for(&self, peer: u64) -> bool {
        self.peers.iter().any(|share| share.peer == peer)
    }

    /// Returns the verb of `token`, if it is still in flight.
    pub fn get_mut(&mut self, token: u64) -> Option<&mut Pending> {
        let entry = self.entries.get_mut(token as u32 as usize)?;
        if u64::from(entry.generation) == token >> 32 {
            entry.pending.as_mut()
        } else {
            None
        }
    }

    /// Ends the verb of `token`.
    pub fn remove(&mut self, token: u64) -> Option<Pending> {
        let pending = *self.get_mut(token)?;
        let index = token as u32;
        let entry = &mut self.entries[index as usize];
        entry.pending = None;
        entry.generation = entry.generation.wrapping_add(1);
        self.free.push(index);
        self.shrink_share(pending.peer);
        if let Some(uid) = pending.requester {
            self.queries_free += 1;
            self.shrink_user(uid);
        }
        Some(pending)
    }

    /// Whether a user may add a query: as many as are still free.
    fn may_query(&self, requester: Option<u32>) -> bool {
        let Some(uid) = requester else { return true };
        let requesters = self.users.iter().find(|(user, _)| *user == uid);
        requesters.map_or(0, |(_, requesters)| *requesters) < self.queries_free
    }

    fn shrink_user(&mut self, uid: u32) {
        let Some(at) = self.users.iter().position(|(user, _)| *user == uid) else {
            return;
        };
        self.users[at].1 -= 1;
        if self.users[at].1 == 0 {
            self.users.swap_remove(at);
        }
    }

    fn shrink_share(&mut self, peer: u64) {
        let Some(at) = self.peers.iter().position(|share| share.peer == peer) else {
            return;
        };
        self.peers[at].verbs -= 1;
        if self.peers[at].verbs == 0 {
            self.peers.swap_remove(at);
        }
    }

    /// Ends every verb that completes in `queue` and returns how many there were.
    pub fn remove_queue(&mut self, queue: usize) -> usize {
        let mut removed = 0;
        for index in 0..self.entries.len() {
            let entry = &self.entries[index];
            if entry.pending.is_some_and(|pending| pending.queue == queue) {
                let token = u64::from(entry.generation) << 32 | index as u64;
                self.remove(token);
                removed += 1;
            }
        }
        removed
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn verb(queue: usize, user_data: u64) -> Pending {
        verb_to(7, queue, user_data)
    }

    fn verb_to(peer: u64, queue: usize, user_data: u64) -> Pending {
        Pending {
            queue,
            user_data,
            peer,
            doubted: false,
            requester: None,
        }
    }

    fn query(uid: u32, queue: usize) -> Pending {
        Pending {
            requester: Some(uid),
            ..verb(queue, 0)
        }
    }

    #[test]
    fn a_user_with_many_queries_leaves_space_for_others() {
        let mut table = PendingTable::new(64, 12);
        // Over two sessions, which makes no difference.
        let first: Vec<u64> = (0..)
            .map_while(|at| table.insert(query(1, at % 2)))
            .collect();
        assert_eq!(first.len(), 6);
        let insert_queries = |table: &mut PendingTable, uid| {
            (0..).map_while(|_| table.insert(query(uid, 3))).count()
        };
        assert_eq!(insert_queries(&mut table, 2), 3);
        assert_eq!(insert_queries(&mut table, 3), 2);
        assert_eq!(insert_queries(&mut table, 1), 0);
        // Verbs still fit, also verbs of a user without further queries.
        table.insert(verb(0, 1)).unwrap();
        // Freed entries are available to all, after an answer as after the end of a session.
        table.remove(first[0]).unwrap();
        assert_eq!(table.remove_queue(0) + table.remove_queue(1), 6);
        assert_eq!(insert_queries(&mut table, 2), 2);
        assert_eq!(insert_queries(&mut table, 1), 3);
    }

    #[test]
    fn a_token_never_names_a_later_verb() {
        let mut table = PendingTable::new(1, 1);
        let first = table.insert(verb(0, 1)).unwrap();
        assert_eq!(table.insert(verb(0, 2)), None);
        assert_eq!(table.remove(first), Some(verb(0, 1)));
        let second = table.insert(verb(0, 3)).unwrap();
        assert_eq!(table.remove(first), None);
        assert_eq!(table.remove(second), Some(verb(0, 3)));
    }

    #[test]
    fn a_session_takes_only_its_own_verbs_along() {
        let mut table = PendingTable::new(8, 1);
        let kept = table.insert(verb(1, 1)).unwrap();
        for _ in 0..3 {
            table.insert(verb(2, 9)).unwrap();
        }
        assert_eq!(table.insert(verb(2, 9)), None);
        assert_eq!(table.remove_queue(2), 3);
        assert_eq!(table.get_mut(kept), Some(&mut verb(1, 1)));
        table.insert(verb(2, 9)).unwrap();
    }

    #[test]
    fn silent_peers_leave_space_for_responsive_ones() {
        let mut table = PendingTable::new(12, 1);
        let take_all = |table: &mut PendingTable, peer| {
            let mut tokens = Vec::new();
            while let Some(token) = table.insert(verb_to(peer, 0, 0)) {
                tokens.push(token);
            }
            tokens
        };
        let first = take_all(&mut table, 1);
        assert_eq!(first.len(), 6);
        assert_eq!(take_all(&mut table, 2).len(), 3);
        // Freed entries are available to all peers.
        for token in first {
            table.remove(token).unwrap();
        }
        assert_eq!(take_all(&mut table, 2).len(), 3);
        let third = take_all(&mut table, 3);
        assert_eq!(third.len(), 3);
        // A peer that answers continues forever beside those that do not.
        for token in third {
            table.remove(token).unwrap();
            table.insert(verb_to(3, 0, 0)).unwrap();
        }
    }
}
