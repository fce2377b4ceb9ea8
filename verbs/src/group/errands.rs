//! Verbs and watches that a group has in flight in the verb queue.

use covalent_protocol::group::Ticket;

/// Purpose of something in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Errand {
    /// An envelope.
    Envelope {
        /// Its identifier in the state machine.
        ticket: Ticket,
    },
    /// A look for a member.
    Lookup {
        /// On which node.
        guid: u64,
    },
    /// A watch for the path to a node.
    Watch {
        /// Which node.
        guid: u64,
    },
}

/// Everything in flight, by the user data of its completion.
#[derive(Debug, Default)]
pub(super) struct Errands {
    entries: Vec<Option<Errand>>,
    free: Vec<u64>,
}

impl Errands {
    /// Notes one and gives its user data.
    pub(super) fn insert(&mut self, errand: Errand) -> u64 {
        if let Some(at) = self.free.pop() {
            self.entries[at as usize] = Some(errand);
            return at;
        }
        self.entries.push(Some(errand));
        self.entries.len() as u64 - 1
    }

    /// Removes a completed entry.
    pub(super) fn remove(&mut self, user_data: u64) -> Option<Errand> {
        let errand = self.entries.get_mut(usize::try_from(user_data).ok()?)?;
        let errand = errand.take()?;
        self.free.push(user_data);
        Some(errand)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_errand_ends_once_and_its_place_is_reused() {
        let mut errands = Errands::default();
        let first = errands.insert(Errand::Watch { guid: 1 });
        let second = errands.insert(Errand::Watch { guid: 2 });
        assert_eq!(errands.remove(first), Some(Errand::Watch { guid: 1 }));
        assert_eq!(errands.remove(first), None);
        assert_eq!(errands.remove(7), None);
        assert_eq!(errands.insert(Errand::Watch { guid: 3 }), first);
        assert_eq!(errands.remove(second), Some(Errand::Watch { guid: 2 }));
    }
}
