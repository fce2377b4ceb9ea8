//! Who can be reached, who says so of whom, and whom to follow.

use super::{
    Group, Phase,
    contact::{Contact, Life, MEMBERS_MAX, Members},
    pair::Pair,
    row::Row,
};

/// Whom a member accused last, as far as is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Claim {
    /// In which attempt.
    pub attempt: u32,
    /// Whom.
    pub members: Members,
}

impl Claim {
    /// The later word counts; within one attempt those that were accused in either. `true` if it grew.
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

/// Who is left out of `n` members in an attempt.
///
/// Claims of this attempt are known to all who are left. Claims of an earlier one may be those of a member that died, and
/// only some received them: they count until all who are left have said theirs.
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

/// Who is left out, by the claims of all `n` members: the same for all who know the same claims.
///
/// Those who are accused by fewest are heard first, of as many the lower rank, and the word of one who is left out by then does not count. So of
/// two whose only path broke one stays; and of some who all reach each other and are more than half, none goes by the word of the others, who
/// are accused by all of them.
fn suspects(claims: &[Claim; MEMBERS_MAX], n: usize) -> Members {
    let mut accusers = [0u8; MEMBERS_MAX];
    for claim in &claims[..n] {
        for rank in claim.members.iter() {
            accusers[rank] += 1;
        }
    }
    let mut suspects = Members::NONE;
    let mut heard = Members::NONE;
    for _ in 0..n {
        let next = (0..n).filter(|&rank| !heard.contains(rank));
        let Some(next) = next.min_by_key(|&rank| accusers[rank]) else {
            break;
        };
        heard = heard.with(next);
        if !suspects.contains(next) {
            let accused = claims[next].members.without(Members::only(next));
            suspects = suspects.union(accused);
        }
    }
    suspects
}

impl Group {
    /// Ranks of those who are gone, to whom no path leads, or whom the application suspects.
    pub(super) fn unreached(&self) -> Members {
        self.ranks_of(|pair| !pair.is_reached() || pair.suspected)
    }

    /// Ranks of all but those who are gone for good, or whom the application suspects, which is for good too.
    pub(super) fn may_return(&self) -> Members {
        let over = self.ranks_of(|pair| pair.gone || pair.suspected);
        self.view.everybody().without(over)
    }

    /// Ranks of those of the view whose pairs are like that.
    fn ranks_of(&self, is_one: impl Fn(&Pair) -> bool) -> Members {
        let pairs = self.pairs.iter().filter(|pair| is_one(pair));
        pairs
            .filter_map(|pair| pair.rank)
            .fold(Members::NONE, Members::with)
    }

    /// Whether its view can never end: those who may return are no quorum, and each of them is reached, so that none of
    /// them knows a decision.
    pub(super) fn is_over_for_good(&self) -> bool {
        let returning = self.may_return();
        self.phase == Phase::Wedged
            && !returning.is_quorum_of(self.view.voters)
            && returning.and(self.ranks_of(|pair| pair.lost)).is_empty()
    }

    /// Whether those whom it reaches know a decision if there is one: a quorum took part in that, and they are a quorum.
    pub(super) fn reaches_who_decides(&self) -> bool {
        let reached = self.view.everybody().without(self.unreached());
        reached.is_quorum_of(self.view.voters)
    }

    /// Whether this member knows a reason to end the view. Somebody who leaves or has got the state is the business of the oldest voter.
    pub(super) fn must_change(&self) -> bool {
        let asked = |row: &Row| row.frontier.leaving;
        let late = |row: &Row| row.frontier.has_state;
        !self.unreached().is_empty()
            // The last ones who had the state left: nobody speaks for the group any more, and that is to be told.
            || self.view.voters.is_empty()
            || (self.view.voters.lowest() == Some(self.me)
                && (!self.table.ranks(asked).is_empty()
                    || !self.table.ranks(late).without(self.view.voters).is_empty()
                    || !self.joiners(&self.view.members).is_empty()))
    }

    /// Whether this member waits for somebody on that node, in a view or while one is founded. Whether
    /// a path leads there has to be told by [`Group::on_path`], or it may wait for ever.
    #[must_use]
    pub fn needs_path(&self, guid: u64) -> bool {
        needs_path(&self.pairs, guid)
    }

    /// The way to a node was lost or found: the link layer's word, and the only one that makes a member lost or reached again.
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
            self.try_again();
        }
        self.settle();
    }

    /// The application judges that a member holds everybody up: it is to go. It does not return under this life.
    pub fn suspect(&mut self, member: Life) {
        if let Some(at) = self.pair_of(member) {
            self.pairs[at].suspected = true;
        }
        self.settle();
    }

    /// Somebody says in which group it is, or which one it founds; 0 for none.
    pub(super) fn hear_of_its_group(&mut self, sender: Contact, group: u64) {
        if group != 0 && group != self.view.group {
            self.is_elsewhere(sender);
        }
    }

    /// A member is in another group, or founds one, by its own word: it is not in this one any more.
    pub(super) fn is_elsewhere(&mut self, sender: Contact) {
        if let Some(at) = self.pair_of(sender.life) {
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
    fn whom_the_dead_accused_before_makes_no_difference() {
        for claims in of_three() {
            for accused in 0..8 {
                let mut heard = claims;
                heard[3] = claim(1, accused);
                let out = left_out(&heard, 2, 4);
                assert_eq!(out, left_out(&claims, 2, 4), "{claims:?}, {accused:b}");
            }
        }
    }

    #[test]
    fn earlier_claims_count_until_all_who_are_left_spoke() {
        let mut claims = [Claim::default(); MEMBERS_MAX];
        (claims[0], claims[1]) = (claim(2, 0), claim(1, 0b100));
        assert_eq!(left_out(&claims, 2, 3), Members::only(2));
        // The second one reaches the third again.
        (claims[1], claims[2]) = (claim(2, 0), claim(2, 0));
        assert_eq!(left_out(&claims, 2, 3), Members::NONE);
    }
}
