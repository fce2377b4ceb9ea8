//! Changes to a member's state machine around its calls, for mutants.

use covalent_protocol::{
    group::{
        BadEnvelope, Group, Inside, MEMBERS_MAX, Members, Parcel,
        row::{Ballot, Proposal, Row},
    },
    verb::SEND_BYTES_MAX,
};

use super::{
    mutant::Mutant,
    sent::{Kind, SentEnvelope},
};

/// Gives a machine an input.
pub fn input<R>(
    mutant: Option<Mutant>,
    group: &mut Group,
    happens: impl FnOnce(&mut Group) -> R,
) -> R {
    if mutant.is_none() {
        return happens(group);
    }
    let saved = save(group);
    match mutant {
        Some(Mutant::UnfreezesReceived) => group.tamper(|inside| inside.wedged = false),
        Some(Mutant::BreaksPromise) => group.tamper(|inside| {
            inside.rows[inside.me].change.promised = Ballot::NONE;
        }),
        _ => {}
    }
    let result = happens(group);
    match mutant {
        Some(Mutant::UnfreezesReceived) => restore(group, &saved, |_, _| {}),
        Some(Mutant::BreaksPromise) => restore(group, &saved, |row, before| {
            row.change.promised = row.change.promised.max(before.change.promised);
        }),
        Some(Mutant::TrimsByQuorum) => group.tamper(|inside| trim(inside, false, &saved)),
        Some(Mutant::TakesMaxTrim) => group.tamper(|inside| trim(inside, true, &saved)),
        Some(Mutant::JoinerVotes) => group.tamper(|inside| {
            if let Some(proposal) = proposed(inside, &saved) {
                let all = proposal.survivors.len() + proposal.joiners.len();
                proposal.voters = Members::first(all);
            }
        }),
        Some(Mutant::FollowsFirstClaim) => group.tamper(|inside| {
            if inside.view.number == saved.view {
                for (rank, claim) in saved.claims.iter().enumerate() {
                    if rank != inside.me && !claim.is_empty() {
                        inside.claims[rank] = *claim;
                    }
                }
            }
        }),
        _ => {}
    }
    result
}

/// As [`Group::on_envelope`].
pub fn on_envelope(
    mutant: Option<Mutant>,
    group: &mut Group,
    from: u64,
    bytes: &[u8],
) -> Result<(), BadEnvelope> {
    if accepts(mutant, group, bytes) {
        input(mutant, group, |group| group.on_envelope(from, bytes))
    } else {
        Ok(())
    }
}

/// Whether a member takes an envelope at all.
fn accepts(mutant: Option<Mutant>, group: &Group, bytes: &[u8]) -> bool {
    let (Some(mutant), Some(view), Ok(sent)) = (mutant, group.view(), SentEnvelope::read(bytes))
    else {
        return true;
    };
    let is_of_group = sent.group == view.group;
    match mutant {
        Mutant::SilentToOtherGroups => {
            is_of_group || matches!(sent.kind, Kind::Hello | Kind::Known | Kind::Challenge)
        }
        Mutant::WaitsForItsEnd => !(is_of_group && sent.decided && sent.view > view.number),
        _ => true,
    }
}

/// As [`Group::poll_send`].
pub fn poll_send(
    mutant: Option<Mutant>,
    group: &mut Group,
    buffer: &mut [u8; SEND_BYTES_MAX],
) -> Option<Parcel> {
    if mutant != Some(Mutant::NoCredit) {
        return group.poll_send(buffer);
    }
    let saved = save(group);
    group.tamper(|inside| {
        for (rank, row) in inside.rows.iter_mut().enumerate() {
            if rank != inside.me {
                row.frontier.delivered = u64::MAX;
            }
        }
    });
    let parcel = group.poll_send(buffer);
    restore(group, &saved, |row, before| {
        row.frontier.delivered = before.frontier.delivered;
    });
    parcel
}

/// Prepares a state machine before the application polls its events.
pub fn before_events(mutant: Option<Mutant>, group: &mut Group) -> Saved {
    let saved = save(group);
    match mutant {
        Some(Mutant::DeliversWhenReceived) => group.tamper(|inside| {
            let own = inside.rows.get(inside.me).map(|row| row.frontier.received);
            for row in &mut *inside.rows {
                row.frontier.received = own.unwrap_or_default();
            }
        }),
        Some(Mutant::KeepsDeliveringWedged) => group.tamper(|inside| inside.wedged = false),
        _ => {}
    }
    saved
}

/// Behind that.
pub fn after_events(mutant: Option<Mutant>, group: &mut Group, saved: &Saved) {
    match mutant {
        Some(Mutant::DeliversWhenReceived) => restore(group, saved, |row, before| {
            row.frontier.received = before.frontier.received;
        }),
        Some(Mutant::KeepsDeliveringWedged) => restore(group, saved, |_, _| {}),
        Some(Mutant::AnyMajority) => group.tamper(|inside| {
            // If the number of voters is even, every member but the oldest excludes the oldest from
            // its count.
            let voters = inside.view.voters;
            if voters.len().is_multiple_of(2)
                && let Some(oldest) = voters.lowest().filter(|oldest| *oldest != inside.me)
            {
                let others = voters.iter().filter(|rank| *rank != oldest);
                inside.view.voters = others.fold(Members::NONE, Members::with);
            }
        }),
        _ => {}
    }
}

/// A member's view and rows as they were.
pub struct Saved {
    view: u64,
    wedged: bool,
    rows: Vec<Row>,
    claims: [Members; MEMBERS_MAX],
}

fn save(group: &mut Group) -> Saved {
    let mut saved = Saved {
        view: 0,
        wedged: false,
        rows: Vec::new(),
        claims: [Members::NONE; MEMBERS_MAX],
    };
    group.tamper(|inside| {
        saved.view = inside.view.number;
        saved.wedged = inside.wedged;
        saved.rows.extend_from_slice(inside.rows);
        saved.claims = inside.claims;
    });
    saved
}

/// Restores each row with `put_back`, unless the view has changed.
fn restore(group: &mut Group, saved: &Saved, put_back: impl Fn(&mut Row, &Row)) {
    group.tamper(|inside| {
        if inside.view.number == saved.view {
            inside.wedged |= saved.wedged;
            for (row, before) in inside.rows.iter_mut().zip(&saved.rows) {
                put_back(row, before);
            }
        }
    });
}

/// Returns what this member proposed in this call on its own, not because it was accepted before.
fn proposed<'a>(inside: &'a mut Inside<'_>, saved: &Saved) -> Option<&'a mut Proposal> {
    let me = inside.me;
    let change = &mut inside.rows.get_mut(me)?.change;
    let before = saved.rows.get(me).map(|row| row.change.accepted);
    let fresh = (saved.rows.iter()).all(|row| row.change.accepted == Ballot::NONE);
    let leads = change.accepted.leader() == me && before != Some(change.accepted);
    change.proposal.as_mut().filter(|_| leads && fresh)
}

/// Changes the trim of a proposal of this call to the rounds that most staying members hold, or
/// that one of them holds.
fn trim(inside: &mut Inside<'_>, greatest: bool, saved: &Saved) {
    let received: Vec<_> = (inside.rows.iter())
        .map(|row| row.frontier.received)
        .collect();
    let Some(proposal) = proposed(inside, saved) else {
        return;
    };
    for (sender, trim) in proposal.trim[..received.len()].iter_mut().enumerate() {
        let survivors = proposal.survivors.iter();
        let mut held: Vec<u64> = survivors.map(|rank| received[rank][sender]).collect();
        held.sort_unstable();
        let place = if greatest {
            held.len().saturating_sub(1)
        } else {
            held.len().saturating_sub(1) / 2
        };
        *trim = held.get(place).copied().unwrap_or(0);
    }
}
