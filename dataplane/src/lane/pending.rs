//! Verbs of local applications that wait for another node.
//!
//! A node that does not answer must not keep the others' verbs out. So the room is shared by dynamic thresholds (Choudhury and Hahne): a
//! node may have as many verbs under way as are still free. One that is cut off holds half of the room at most, two hold a third each,
//! and what is left serves the nodes that answer.
//!
//! Those who ask for an exchange by its name wait in a table of the protocol's, which has less room: a quarter. It is shared by users in the same way, for
//! the name of an exchange that does not end costs whoever asks for it nothing.

/// A verb under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pending {
    /// Slot of the session on this lane.
    pub session: usize,
    /// The application's own name for the verb.
    pub user_data: u64,
    /// The node that was asked.
    pub peer: u64,
    /// The application was told that the outcome is in doubt.
    pub doubted: bool,
    /// The user who asks for an exchange by its name; `None` for a verb.
    pub asker: Option<u32>,
}

/// The verbs under way on one lane, by token. Allocates in [`PendingTable::new`] only.
///
/// A token is an index with the index's generation above it, so a token that has ended never names a later verb.
#[derive(Debug)]
pub struct PendingTable {
    entries: Vec<Entry>,
    free: Vec<u32>,
    /// The nodes that verbs wait for. A lane has few peers, so they are searched.
    peers: Vec<PeerShare>,
    /// Askers that there is room for still.
    askers_free: usize,
    /// The users who ask, and how often: never zero times.
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
    /// Room for `entries` verbs, at most 2^32, of which `askers` ask for an exchange by its name.
    pub fn new(entries: usize, askers: usize) -> Self {
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
            askers_free: askers,
            users: Vec::with_capacity(askers),
        }
    }

    /// Notes `pending` and gives its token; `None` if there is no room for another verb to its peer, or for another
    /// question of its user.
    pub fn insert(&mut self, pending: Pending) -> Option<u64> {
        let share = self
            .peers
            .iter()
            .position(|share| share.peer == pending.peer);
        let verbs = share.map_or(0, |share| self.peers[share].verbs);
        if verbs >= self.free.len() || !self.may_ask(pending.asker) {
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
        if let Some(uid) = pending.asker {
            self.askers_free -= 1;
            match self.users.iter_mut().find(|(user, _)| *user == uid) {
                Some((_, askers)) => *askers += 1,
                None => self.users.push((uid, 1)),
            }
        }
        let entry = &mut self.entries[index as usize];
        entry.pending = Some(pending);
        Some(u64::from(entry.generation) << 32 | u64::from(index))
    }

    /// The verb of `token`, if it is still under way.
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
        if let Some(uid) = pending.asker {
            self.askers_free += 1;
            self.shrink_user(uid);
        }
        Some(pending)
    }

    /// Whether a user may ask once more: as often as there is room left.
    fn may_ask(&self, asker: Option<u32>) -> bool {
        let Some(uid) = asker else { return true };
        let askers = self.users.iter().find(|(user, _)| *user == uid);
        askers.map_or(0, |(_, askers)| *askers) < self.askers_free
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

    /// Ends every verb of `session` and returns how many there were.
    pub fn remove_session(&mut self, session: usize) -> usize {
        let mut removed = 0;
        for index in 0..self.entries.len() {
            let entry = &self.entries[index];
            if entry
                .pending
                .is_some_and(|pending| pending.session == session)
            {
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

    fn verb(session: usize, user_data: u64) -> Pending {
        verb_to(7, session, user_data)
    }

    fn verb_to(peer: u64, session: usize, user_data: u64) -> Pending {
        Pending {
            session,
            user_data,
            peer,
            doubted: false,
            asker: None,
        }
    }

    fn question(uid: u32, session: usize) -> Pending {
        Pending {
            asker: Some(uid),
            ..verb(session, 0)
        }
    }

    #[test]
    fn a_user_who_asks_all_the_time_leaves_room_for_the_others() {
        let mut table = PendingTable::new(64, 12);
        // Over two sessions, which makes no difference.
        let first: Vec<u64> = (0..)
            .map_while(|at| table.insert(question(1, at % 2)))
            .collect();
        assert_eq!(first.len(), 6);
        let ask_all = |table: &mut PendingTable, uid| {
            (0..).map_while(|_| table.insert(question(uid, 3))).count()
        };
        assert_eq!(ask_all(&mut table, 2), 3);
        assert_eq!(ask_all(&mut table, 3), 2);
        assert_eq!(ask_all(&mut table, 1), 0);
        // Verbs have room still, also of who asks no more.
        table.insert(verb(0, 1)).unwrap();
        // What one has back is there for all, whether it was answered or its session went.
        table.remove(first[0]).unwrap();
        assert_eq!(table.remove_session(0) + table.remove_session(1), 6);
        assert_eq!(ask_all(&mut table, 2), 2);
        assert_eq!(ask_all(&mut table, 1), 3);
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
        assert_eq!(table.remove_session(2), 3);
        assert_eq!(table.get_mut(kept), Some(&mut verb(1, 1)));
        table.insert(verb(2, 9)).unwrap();
    }

    #[test]
    fn peers_that_do_not_answer_leave_room_for_those_that_do() {
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
        // Room that one gives back is there for all.
        for token in first {
            table.remove(token).unwrap();
        }
        assert_eq!(take_all(&mut table, 2).len(), 3);
        let third = take_all(&mut table, 3);
        assert_eq!(third.len(), 3);
        // A peer that answers goes on for ever beside those that do not.
        for token in third {
            table.remove(token).unwrap();
            table.insert(verb_to(3, 0, 0)).unwrap();
        }
    }
}
