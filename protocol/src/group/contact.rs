//! Contacts, members and views of a group.

use core::{fmt, ops::Deref};

use crate::mix::mix;

/// Most members of a group.
pub const MEMBERS_MAX: usize = 32;

/// One incarnation of an application in a group. It is drawn at random for each join, so messages
/// of an earlier incarnation are not accepted.
///
/// Its upper half is a hash of the incarnation's queue, so no sender can claim the incarnation of
/// another queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Incarnation(
    /// A value from [`Incarnation::of`]; 0 for none.
    pub u64,
);

impl Incarnation {
    /// The incarnation whose queue has the key `rkey` on the node `guid`. `random` is the lower
    /// half.
    #[must_use]
    pub const fn of(guid: u64, rkey: u32, random: u32) -> Self {
        let queue = hash_of_queue(guid, rkey);
        let random = if queue == 0 && random == 0 { 1 } else { random };
        Self((queue as u64) << 32 | random as u64)
    }

    /// Whether an incarnation with this queue can have this value.
    #[must_use]
    pub const fn is_of(self, guid: u64, rkey: u32) -> bool {
        self.0 != 0 && (self.0 >> 32) as u32 == hash_of_queue(guid, rkey)
    }
}

/// An application chooses neither its node nor its key: the daemon draws each key once. With each
/// queue that it opens, it has one chance in 2^32 of the same hash as another queue.
const fn hash_of_queue(guid: u64, rkey: u32) -> u32 {
    (mix(mix(guid) ^ rkey as u64) >> 32) as u32
}

/// Where a member is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Contact {
    /// Its node.
    pub guid: u64,
    /// The incarnation.
    pub incarnation: Incarnation,
    /// Key of its receive queue there.
    pub rkey: u32,
}

impl Contact {
    /// Whether the incarnation matches the queue. Returns `false` for an unknown incarnation.
    #[must_use]
    pub const fn owns_incarnation(&self) -> bool {
        self.incarnation.is_of(self.guid, self.rkey)
    }
}

/// Some of the members of a view, by rank: bit 0 is rank 0.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Members(u32);

impl Members {
    /// The empty set.
    pub const NONE: Self = Self(0);

    /// The members whose bits are set.
    #[must_use]
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// A bit for each rank.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// The ranks below `count`, which is 0 to [`MEMBERS_MAX`].
    #[must_use]
    pub const fn first(count: usize) -> Self {
        if count >= MEMBERS_MAX {
            Self(u32::MAX)
        } else {
            Self((1 << count) - 1)
        }
    }

    /// The member of rank `rank`, below [`MEMBERS_MAX`], alone.
    #[must_use]
    pub const fn only(rank: usize) -> Self {
        Self(1 << rank)
    }

    /// Whether the member of rank `rank` is among them; of a rank that no member has, no.
    #[must_use]
    pub const fn contains(self, rank: usize) -> bool {
        rank < MEMBERS_MAX && self.0 & (1 << rank) != 0
    }

    /// These and the member of rank `rank`, below [`MEMBERS_MAX`].
    #[must_use]
    pub const fn with(self, rank: usize) -> Self {
        Self(self.0 | 1 << rank)
    }

    /// The members of either set.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The members of both sets.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Those that are not in `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// How many they are.
    #[must_use]
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether the set is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The lowest rank, which is the oldest member.
    #[must_use]
    pub const fn lowest(self) -> Option<usize> {
        if self.0 == 0 {
            None
        } else {
            Some(self.0.trailing_zeros() as usize)
        }
    }

    /// The ranks, lowest first.
    pub fn iter(self) -> impl Iterator<Item = usize> + use<> {
        (0..MEMBERS_MAX).filter(move |&rank| self.contains(rank))
    }

    /// Whether they are a quorum of `voters`: more than half of them, or exactly half including the
    /// oldest one. Any two quorums of the same voters share a member. The empty set is no quorum.
    #[must_use]
    pub const fn is_quorum_of(self, voters: Self) -> bool {
        let these = self.and(voters);
        let (have, all) = (2 * these.len(), voters.len());
        have > all
            || (have == all
                && match voters.lowest() {
                    Some(oldest) => these.contains(oldest),
                    None => false,
                })
    }
}

impl fmt::Debug for Members {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// Up to `MAX` contacts in their order, without memory of their own.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Contacts<const MAX: usize = MEMBERS_MAX> {
    /// Those from `len` on are the default one.
    contacts: [Contact; MAX],
    len: u8,
}

impl<const MAX: usize> Contacts<MAX> {
    /// Appends one. `false`, and nothing happens, if there are `MAX` already.
    pub fn push(&mut self, contact: Contact) -> bool {
        let Some(place) = self.contacts.get_mut(usize::from(self.len)) else {
            return false;
        };
        *place = contact;
        self.len += 1;
        true
    }
}

impl<const MAX: usize> Default for Contacts<MAX> {
    fn default() -> Self {
        Self {
            contacts: [Contact::default(); MAX],
            len: 0,
        }
    }
}

impl<const MAX: usize> Deref for Contacts<MAX> {
    type Target = [Contact];

    fn deref(&self) -> &[Contact] {
        &self.contacts[..usize::from(self.len)]
    }
}

impl<const MAX: usize> FromIterator<Contact> for Contacts<MAX> {
    /// The first `MAX` of them.
    fn from_iter<I: IntoIterator<Item = Contact>>(iter: I) -> Self {
        let mut contacts = Self::default();
        for contact in iter {
            if !contacts.push(contact) {
                break;
            }
        }
        contacts
    }
}

impl<const MAX: usize> fmt::Debug for Contacts<MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// A view: the members of the group. Ranks are in order of age, so rank 0 is the oldest member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub struct View {
    /// Which group: two that were founded under one name have different ones.
    pub group: u64,
    /// 1 for the first, then one more each time. There is one view of each number.
    pub number: u64,
    /// By rank.
    pub members: Contacts,
    /// Members that hold the application's state and count towards a quorum.
    pub voters: Members,
}

impl View {
    /// The first view of a group, whose members, by rank, all vote.
    #[must_use]
    pub fn first(group: u64, members: Contacts) -> Self {
        Self {
            group,
            number: 1,
            voters: Members::first(members.len()),
            members,
        }
    }

    /// The rank of an incarnation.
    #[must_use]
    pub fn rank_of(&self, incarnation: Incarnation) -> Option<usize> {
        self.members
            .iter()
            .position(|member| member.incarnation == incarnation)
    }

    /// All its members.
    #[must_use]
    pub fn all_members(&self) -> Members {
        Members::first(self.members.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_incarnation_belongs_to_one_queue() {
        for random in [0, 1, 7, u32::MAX] {
            let incarnation = Incarnation::of(0x100, 7, random);
            assert_ne!(incarnation, Incarnation(0));
            assert_eq!(incarnation.0 as u32, random);
            assert!(incarnation.is_of(0x100, 7));
            for (guid, rkey) in [(0x101, 7), (0x100, 8), (7, 0x100), (0, 7), (0x100, 0)] {
                assert!(!incarnation.is_of(guid, rkey), "{guid:#x}, {rkey}");
            }
        }
        assert!(!Incarnation(0).is_of(0x100, 7));
    }

    #[test]
    fn incarnations_of_many_queues_have_different_halves() {
        // Adjacent node GUIDs and keys, as in one rack.
        let queues = (0..64).flat_map(|guid| (0..64).map(move |rkey| (guid, rkey)));
        let mut halves: alloc::vec::Vec<u64> = queues
            .map(|(guid, rkey)| Incarnation::of(guid, rkey, 0).0 >> 32)
            .collect();
        halves.sort_unstable();
        halves.dedup();
        assert_eq!(halves.len(), 64 * 64);
    }
}
