//! What a mutant makes of a member's machine around its calls.

use covalent_protocol::{
    group::{
        BadEnvelope, Group, Inside, MEMBERS_MAX, Members, Parcel,
        row::{Ballot, Proposal, Row},
    },
    verb::SEND_BYTES_MAX,
};

use super::{
    mutant::Mutant,
    said::{Kind, Said},
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
                let all = proposal.stay.len() + proposal.joiners.len();
                proposal.voters = Members::first(all);
            }
        }),
        Some(Mutant::FollowsFirstClaim) => group.tamper(|inside| {
            if inside.view.number == saved.view {
                for (rank, heard) in saved.claims.iter().enumerate() {
                    if rank != inside.me && !heard.is_empty() {
                        inside.claims[rank] = *heard;
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
    if hears(mutant, group, bytes) {
        input(mutant, group, |group| group.on_envelope(from, bytes))
    } else {
        Ok(())
    }
}

/// Whether a member takes an envelope at all.
fn hears(mutant: Option<Mutant>, group: &Group, bytes: &[u8]) -> bool {
    let (Some(mutant), Some(view), Ok(said)) = (mutant, group.view(), Said::read(bytes)) else {
        return true;
    };
    let is_of_group = said.group == view.group;
    match mutant {
        Mutant::SilentToOtherGroups => {
            is_of_group || matches!(said.kind, Kind::Hello | Kind::Known | Kind::Challenge)
        }
        Mutant::WaitsForItsEnd => !(is_of_group && said.decided && said.view > view.number),
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

/// Before a machine is asked for its events.
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
            // Whoever is not the oldest does not count it where the voters are even in number.
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

/// Puts back into each row what it had, unless the view is another one.
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

/// What this member proposed in this call, of itself and not because it was accepted before.
fn proposed<'a>(inside: &'a mut Inside<'_>, saved: &Saved) -> Option<&'a mut Proposal> {
    let me = inside.me;
    let change = &mut inside.rows.get_mut(me)?.change;
    let before = saved.rows.get(me).map(|row| row.change.accepted);
    let fresh = (saved.rows.iter()).all(|row| row.change.accepted == Ballot::NONE);
    let leads = change.accepted.leader() == me && before != Some(change.accepted);
    change.proposal.as_mut().filter(|_| leads && fresh)
}

/// Changes what was proposed in this call by whoever it is: rounds that the most of those who stay hold, or one of them.
fn trim(inside: &mut Inside<'_>, greatest: bool, saved: &Saved) {
    let received: Vec<_> = (inside.rows.iter())
        .map(|row| row.frontier.received)
        .collect();
    let Some(proposal) = proposed(inside, saved) else {
        return;
    };
    for (sender, trim) in proposal.trim[..received.len()].iter_mut().enumerate() {
        let stay = proposal.stay.iter();
        let mut held: Vec<u64> = stay.map(|rank| received[rank][sender]).collect();
        held.sort_unstable();
        let place = if greatest {
            held.len().saturating_sub(1)
        } else {
            held.len().saturating_sub(1) / 2
        };
        *trim = held.get(place).copied().unwrap_or(0);
    }
}
