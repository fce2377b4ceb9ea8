//! Reachability of members, the claims about it, and which claims count.

use super::{
    Group, Phase,
    contact::{Contact, Incarnation, MEMBERS_MAX, Members},
    pair::Pair,
    row::Row,
};

/// The latest known accusations of one member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Claim {
    /// In which attempt.
    pub attempt: u32,
    /// The accused members.
    pub members: Members,
}

impl Claim {
    /// Merges: a later attempt replaces an earlier one; within one attempt, the accused members are
    /// united. Returns `true` if it changed.
    pub fn merge(&mut self, other: Self) -> bool {
        let before = *self;
        if other.attempt > self.attempt {
            *self = other;
        } else if other.attempt == self.attempt {
            self.members = self.members.union(other.members);
        }
        *self != before
    }
}

/// Members, of `n`, that an attempt excludes.
///
/// All remaining members know the claims of this attempt. Claims of an earlier attempt may come
/// from a member that died and reached only some members. They count until all remaining members
/// have sent their claims of this attempt.
pub fn left_out(claims: &[Claim; MEMBERS_MAX], attempt: u32, n: usize) -> Members {
    let current = claims.map(|claim| {
        if claim.attempt == attempt {
            claim
        } else {
            Claim::default()
        }
    });
    let out = suspects(&current, n);
    let mut left = Members::first(n).without(out).iter();
    if left.all(|rank| current[rank].attempt == attempt) {
        out
    } else {
        suspects(claims, n)
    }
}

/// Members excluded by the claims of all `n` members: the same for all members that know the same
/// claims.
///
/// Claims count in order of fewest accusers, then lowest rank. Claims of an excluded member do not
/// count. Thus one of two members whose only path broke stays. Of a majority that reach each other,
/// none is excluded by the others, which all of them accuse.
fn suspects(claims: &[Claim; MEMBERS_MAX], n: usize) -> Members {
    let mut accusers = [0u8; MEMBERS_MAX];
    for claim in &claims[..n] {
        for rank in claim.members.iter() {
            accusers[rank] += 1;
        }
    }
    let mut suspects = Members::NONE;
    let mut considered = Members::NONE;
    for _ in 0..n {
        let next = (0..n).filter(|&rank| !considered.contains(rank));
        let Some(next) = next.min_by_key(|&rank| accusers[rank]) else {
            break;
        };
        considered = considered.with(next);
        if !suspects.contains(next) {
            let accused = claims[next].members.without(Members::only(next));
            suspects = suspects.union(accused);
        }
    }
    suspects
}

impl Group {
    /// Ranks of members that are gone, unreachable, or suspected by the application.
    pub(super) fn unreached(&self) -> Members {
        self.ranks_of(|pair| !pair.is_reached() || pair.suspected)
    }

    /// Ranks of all members except those gone permanently and those suspected by the application,
    /// which is permanent too.
    pub(super) fn may_return(&self) -> Members {
        let over = self.ranks_of(|pair| pair.gone || pair.suspected);
        self.view.all_members().without(over)
    }

    /// Ranks of the members of the view whose pairs match.
    fn ranks_of(&self, is_one: impl Fn(&Pair) -> bool) -> Members {
        let pairs = self.pairs.iter().filter(|pair| is_one(pair));
        pairs
            .filter_map(|pair| pair.rank)
            .fold(Members::NONE, Members::with)
    }

    /// Whether its view can never end: the members that may return are no quorum, and all of them
    /// are reached, so none of them knows a decision.
    pub(super) fn is_over_for_good(&self) -> bool {
        let returning = self.may_return();
        self.phase == Phase::Wedged
            && !returning.is_quorum_of(self.view.voters)
            && returning.and(self.ranks_of(|pair| pair.lost)).is_empty()
    }

    /// Whether the members that it reaches know the decision, if there is one. A quorum took part
    /// in any decision, and they are a quorum.
    pub(super) fn reaches_quorum(&self) -> bool {
        let reached = self.view.all_members().without(self.unreached());
        reached.is_quorum_of(self.view.voters)
    }

    /// Whether this member knows a reason to end the view. The oldest voter handles members that
    /// leave or have received the state.
    pub(super) fn must_change(&self) -> bool {
        let wants_to_leave = |row: &Row| row.frontier.leaving;
        let late = |row: &Row| row.frontier.has_state;
        !self.unreached().is_empty()
            // The last members with the state left: no voter remains, which must be reported.
            || self.view.voters.is_empty()
            || (self.view.voters.lowest() == Some(self.me)
                && (!self.table.ranks(wants_to_leave).is_empty()
                    || !self.table.ranks(late).without(self.view.voters).is_empty()
                    || !self.joiners(&self.view.members).is_empty()))
    }

    /// Whether this member waits for a member on that node, in a view or while one is founded. The
    /// caller must report with [`Group::on_path`] whether a path leads there; otherwise this member
    /// may wait forever.
    #[must_use]
    pub fn needs_path(&self, guid: u64) -> bool {
        needs_path(&self.pairs, guid)
    }

    /// A path to a node was lost or found. Only this report of the link layer makes a member
    /// unreachable or reached again.
    pub fn on_path(&mut self, guid: u64, up: bool) {
        let mut returned = false;
        for pair in &mut self.pairs {
            if !pair.is_free() && pair.contact.guid == guid && pair.lost == up {
                pair.lost = !up;
                returned |= up && !pair.gone && pair.rank.is_some();
            }
        }
        let pairs = &self.pairs;
        self.book.on_path(guid, up, |guid| needs_path(pairs, guid));
        if returned && self.phase == Phase::Wedged && self.trying.minority {
            self.retry();
        }
        self.settle();
    }

    /// The application decides that a member delays the group: the member is excluded. It does not
    /// return with this incarnation.
    pub fn suspect(&mut self, member: Incarnation) {
        if let Some(at) = self.pair_of(member) {
            self.pairs[at].suspected = true;
        }
        self.settle();
    }

    /// A sender reports the group that it is in or founds; 0 for none.
    pub(super) fn on_group_of_sender(&mut self, sender: Contact, group: u64) {
        if group != 0 && group != self.view.group {
            self.is_elsewhere(sender);
        }
    }

    /// A member reports that it is in another group, or founds one: it is no longer in this one.
    pub(super) fn is_elsewhere(&mut self, sender: Contact) {
        if let Some(at) = self.pair_of(sender.incarnation) {
            let pair = &mut self.pairs[at];
            pair.gone |= pair.rank.is_some() && pair.contact == sender;
        }
    }
}

fn needs_path(pairs: &[Pair], guid: u64) -> bool {
    let needs = |pair: &Pair| pair.rank.is_some() && pair.contact.guid == guid;
    pairs.iter().any(|pair| !pair.is_free() && needs(pair))
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn claim(attempt: u32, bits: u32) -> Claim {
        let members = Members::from_bits(bits);
        Claim { attempt, members }
    }

    /// Every accusation of three members, in an attempt in which a fourth one is dead.
    fn of_three() -> impl Iterator<Item = [Claim; MEMBERS_MAX]> {
        (0..1 << 9_u32).map(|bits| {
            let mut claims = [Claim::default(); MEMBERS_MAX];
            for (rank, place) in claims.iter_mut().enumerate().take(3) {
                *place = claim(2, (bits >> (3 * rank)) & 7 & !(1 << rank) | 8);
            }
            claims
        })
    }

    #[test]
    fn earlier_claims_of_the_dead_make_no_difference() {
        for claims in of_three() {
            for accused in 0..8 {
                let mut considered = claims;
                considered[3] = claim(1, accused);
                let out = left_out(&considered, 2, 4);
                assert_eq!(out, left_out(&claims, 2, 4), "{claims:?}, {accused:b}");
            }
        }
    }

    #[test]
    fn earlier_claims_count_until_all_remaining_members_made_theirs() {
        let mut claims = [Claim::default(); MEMBERS_MAX];
        (claims[0], claims[1]) = (claim(2, 0), claim(1, 0b100));
        assert_eq!(left_out(&claims, 2, 3), Members::only(2));
        // The second one reaches the third again.
        (claims[1], claims[2]) = (claim(2, 0), claim(2, 0));
        assert_eq!(left_out(&claims, 2, 3), Members::NONE);
    }
}
