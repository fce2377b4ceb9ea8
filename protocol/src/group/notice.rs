//! The status that a member reports to its own node as words, for monitoring. Other members do not
//! read it.
//!
//! | word | content |
//! |---|---|
//! | 0 | standing, from 1 (8 bits); members (8); length of the name (8); the rest 0. No status: 0 |
//! | 1 | incarnation |
//! | 2 | the group |
//! | 3 | number of the view, 0 without one |
//! | 4 | voters, a bit for each rank |
//! | 5 to 8 | the name, padded with zeros |
//! | 9 to 16 | multicasts, deliveries, views, envelopes sent, resent, taken, duplicates, dropped |
//! | 17 to 48 | GUIDs of the members, by rank |
//! | 49 | dropped envelopes without a valid token |

use alloc::vec::Vec;

use super::{BadEnvelope, Group, GroupStanding, Incarnation, MEMBERS_MAX, Members};
use crate::Name;

const NAME_WORD: usize = 5;
const COUNTERS_WORD: usize = NAME_WORD + Name::BYTES_MAX / size_of::<u64>();
const COUNTERS: usize = 8;
const MEMBERS_WORD: usize = COUNTERS_WORD + COUNTERS;
const UNPROVEN_WORD: usize = MEMBERS_WORD + MEMBERS_MAX;

/// Words of a notice.
pub const NOTICE_WORDS: usize = UNPROVEN_WORD + 1;

/// Status of one incarnation in a group, as its member reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// The group's name.
    pub name: Name,
    /// Which group: two that were founded under one name have different ones. 0 without a view.
    pub group: u64,
    /// The incarnation.
    pub incarnation: Incarnation,
    /// The state of the member.
    pub standing: GroupStanding,
    /// Number of the view; 0: it has none.
    pub view: u64,
    /// Nodes of the view's members, by rank, at most [`MEMBERS_MAX`].
    pub members: Vec<u64>,
    /// Members that count towards a quorum.
    pub voters: Members,
    /// Own messages taken in.
    pub multicasts: u64,
    /// Messages delivered.
    pub deliveries: u64,
    /// Views begun.
    pub views: u64,
    /// Envelopes sent, including retransmissions.
    pub envelopes_sent: u64,
    /// Envelopes sent again.
    pub envelopes_resent: u64,
    /// Envelopes taken.
    pub envelopes_taken: u64,
    /// Envelopes received twice.
    pub duplicates: u64,
    /// Envelopes dropped for any cause.
    pub dropped: u64,
    /// Dropped envelopes without the token of the sender that they named.
    pub unproven: u64,
}

impl Notice {
    /// The status of `group`, named `name`, for the incarnation `incarnation`.
    #[must_use]
    pub fn of(group: &Group, name: Name, incarnation: Incarnation) -> Self {
        let (view, counters) = (group.view(), group.counters());
        Self {
            name,
            group: view.map_or(0, |view| view.group),
            incarnation,
            standing: group.standing(),
            view: view.map_or(0, |view| view.number),
            members: view.map_or_else(Vec::new, |view| {
                view.members.iter().map(|member| member.guid).collect()
            }),
            voters: view.map_or(Members::NONE, |view| view.voters),
            multicasts: counters.multicasts,
            deliveries: counters.deliveries,
            views: counters.views,
            envelopes_sent: counters.envelopes_sent,
            envelopes_resent: counters.envelopes_resent,
            envelopes_taken: counters.envelopes_taken,
            duplicates: counters.duplicates,
            dropped: counters.bad_envelopes.iter().sum(),
            unproven: counters.bad_envelopes[BadEnvelope::Unproven.index()],
        }
    }

    /// It as words. Members beyond [`MEMBERS_MAX`] are left out.
    #[must_use]
    pub fn to_words(&self) -> [u64; NOTICE_WORDS] {
        let mut words = [0; NOTICE_WORDS];
        let name = self.name.as_str().as_bytes();
        let members = self.members.len().min(MEMBERS_MAX);
        let standing = GroupStanding::ALL
            .iter()
            .position(|&standing| standing == self.standing)
            .unwrap_or_default() as u64;
        words[0] = (standing + 1) | (members as u64) << 8 | (name.len() as u64) << 16;
        words[1] = self.incarnation.0;
        words[2] = self.group;
        words[3] = self.view;
        words[4] = self.voters.bits().into();
        for (word, bytes) in words[NAME_WORD..].iter_mut().zip(name.chunks(8)) {
            let mut whole = [0; 8];
            whole[..bytes.len()].copy_from_slice(bytes);
            *word = u64::from_le_bytes(whole);
        }
        words[COUNTERS_WORD..MEMBERS_WORD].copy_from_slice(&[
            self.multicasts,
            self.deliveries,
            self.views,
            self.envelopes_sent,
            self.envelopes_resent,
            self.envelopes_taken,
            self.duplicates,
            self.dropped,
        ]);
        words[MEMBERS_WORD..][..members].copy_from_slice(&self.members[..members]);
        words[UNPROVEN_WORD] = self.unproven;
        words
    }

    /// Decodes `words`, which come from an untrusted writer. Returns `None` for words that no
    /// member writes, and for no status.
    #[must_use]
    pub fn from_words(words: &[u64; NOTICE_WORDS]) -> Option<Self> {
        let [standing, members, name_len, rest @ ..] = words[0].to_le_bytes();
        if rest != [0; 5] {
            return None;
        }
        let standing = GroupStanding::ALL.get(usize::from(standing).checked_sub(1)?)?;
        let members = words[MEMBERS_WORD..UNPROVEN_WORD].get(..usize::from(members))?;
        let mut name = [0; Name::BYTES_MAX];
        for (bytes, word) in name.chunks_mut(8).zip(&words[NAME_WORD..COUNTERS_WORD]) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        let name = Name::from_bytes(name.get(..usize::from(name_len))?).ok()?;
        let &[
            multicasts,
            deliveries,
            views,
            envelopes_sent,
            envelopes_resent,
            envelopes_taken,
            duplicates,
            dropped,
        ] = words[COUNTERS_WORD..].first_chunk::<COUNTERS>()?;
        Some(Self {
            name,
            group: words[2],
            incarnation: Incarnation(words[1]),
            standing: *standing,
            view: words[3],
            members: members.to_vec(),
            voters: Members::from_bits(u32::try_from(words[4]).ok()?),
            multicasts,
            deliveries,
            views,
            envelopes_sent,
            envelopes_resent,
            envelopes_taken,
            duplicates,
            dropped,
            unproven: words[UNPROVEN_WORD],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(name: &str, members: usize) -> Notice {
        Notice {
            name: Name::new(name).expect("a name"),
            group: 3,
            incarnation: Incarnation(u64::MAX),
            standing: GroupStanding::Minority,
            view: 12,
            members: (0..members as u64).map(|rank| (rank << 40) | 7).collect(),
            voters: Members::first(members.min(2)),
            multicasts: 1,
            deliveries: 2,
            views: 4,
            envelopes_sent: 5,
            envelopes_resent: 6,
            envelopes_taken: 7,
            duplicates: 8,
            dropped: 9,
            unproven: 10,
        }
    }

    #[test]
    fn a_notice_reads_as_it_was_written() {
        let longest = "x".repeat(Name::BYTES_MAX);
        for (name, members) in [("a", 0), ("orders", 3), (longest.as_str(), MEMBERS_MAX)] {
            for standing in GroupStanding::ALL {
                let notice = Notice {
                    standing,
                    ..sample(name, members)
                };
                assert_eq!(Notice::from_words(&notice.to_words()), Some(notice));
            }
        }
    }

    #[test]
    fn words_that_no_member_writes_are_refused() {
        assert_eq!(Notice::from_words(&[0; NOTICE_WORDS]), None);
        assert_eq!(Notice::from_words(&[u64::MAX; NOTICE_WORDS]), None);
        let good = sample("orders", 2).to_words();
        for (at, word) in [
            // A nonexistent standing, too many members, a name that is too long, no name, data
            // after the name.
            (0, (good[0] & !0xff) | (GroupStanding::ALL.len() as u64 + 1)),
            (0, good[0] | (0xff << 8)),
            (0, good[0] | (0xff << 16)),
            (0, good[0] & !(0xff << 16)),
            (0, good[0] | (1 << 24)),
            // A byte that names do not have, voters of ranks that there are none of.
            (NAME_WORD, good[NAME_WORD] | 0x80),
            (4, 1 << 32),
        ] {
            let mut words = good;
            words[at] = word;
            assert_eq!(Notice::from_words(&words), None, "word {at}: {word:#x}");
        }
    }
}
