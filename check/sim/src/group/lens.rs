//! Changes to the envelopes of members, for mutants.

use std::collections::HashMap;

use super::{
    book::{MembershipId, ViewId},
    mutant::Mutant,
    sent::{Kind, SentEnvelope},
};

/// Offset of the sender's rounds in an envelope, and of what it holds of rank 0.
const ROUNDS_AT: usize = 64;
const RECEIVED_AT: usize = 80;
/// Offset of the kind, and of the flags. One flag marks the end of the view as decided.
const KIND_AT: usize = 1;
const FLAGS_AT: usize = 3;
const DECIDED: u8 = 8;
const GROUP_AT: usize = 8;
/// Bytes of a welcome before its contacts, and of a contact and a fate in it.
const WELCOME_BYTES: usize = 8;
const CONTACT_BYTES: usize = 24;
const OUTCOME_BYTES: usize = 16;

/// Stands between the members and the verbs.
#[derive(Debug, Default)]
pub struct Lens {
    mutant: Option<Mutant>,
    /// Rounds that each rank of a view has reported to any member.
    rounds: HashMap<(ViewId, u8), u64>,
    /// Rounds in the numbered envelopes of one to another, as they were changed.
    written: HashMap<(MembershipId, MembershipId, ViewId, u32), u64>,
}

impl Lens {
    /// For a mutant.
    #[must_use]
    pub fn new(mutant: Option<Mutant>) -> Self {
        Self {
            mutant,
            ..Self::default()
        }
    }

    /// Changes an envelope on its way out, if the mutant does.
    pub fn on_send(&mut self, by: MembershipId, to: MembershipId, bytes: &mut Vec<u8>) {
        match self.mutant {
            Some(Mutant::AcksBeforeHeld) => self.acks_before_held(bytes),
            Some(Mutant::SkipsNull) => self.skips_null(by, to, bytes),
            Some(Mutant::NoDecidedFirst) => hides_decision(bytes),
            Some(Mutant::FoundsNameless) => leaves_group_out(bytes),
            Some(Mutant::ReportsUnknownFates) => reports_unknown_outcomes(bytes),
            _ => {}
        }
    }

    fn acks_before_held(&mut self, bytes: &mut [u8]) {
        let Ok(sent) = SentEnvelope::read(bytes) else {
            return;
        };
        let view = (sent.group, sent.view);
        let own = self.rounds.entry((view, sent.from)).or_default();
        *own = sent.row.rounds.max(*own);
        for (rank, received) in (0..).zip(&sent.row.received) {
            let sent_rounds = self.rounds.get(&(view, rank)).copied().unwrap_or(0);
            if rank != sent.from && sent_rounds > *received {
                write(bytes, RECEIVED_AT + 8 * usize::from(rank), sent_rounds);
            }
        }
    }

    /// Sends a batch behind skipped rounds as the batch of the first skipped round, to every second
    /// member.
    fn skips_null(&mut self, by: MembershipId, to: MembershipId, bytes: &mut [u8]) {
        let Ok(sent) = SentEnvelope::read(bytes) else {
            return;
        };
        let view = (sent.group, sent.view);
        if sent.number == 0 || to.is_multiple_of(2) {
            return;
        }
        let before = self.written.get(&(by, to, view, sent.number - 1));
        let next = before.copied().unwrap_or(0) + 1;
        let rounds = if sent.batch_bytes > 0 {
            sent.row.rounds.min(next)
        } else {
            sent.row.rounds
        };
        self.written.insert((by, to, view, sent.number), rounds);
        write(bytes, ROUNDS_AT, rounds);
        write(bytes, RECEIVED_AT + 8 * usize::from(sent.from), rounds);
    }
}

/// Sends the row alone instead of the end of a view.
fn hides_decision(bytes: &mut Vec<u8>) {
    if let Ok(sent) = SentEnvelope::read(bytes)
        && sent.decided
    {
        bytes[KIND_AT] = Kind::Flow as u8;
        bytes[FLAGS_AT] &= !DECIDED;
        bytes.truncate(RECEIVED_AT + 8 * sent.row.received.len());
    }
}

/// Omits the group when a founder sends to an application outside it.
fn leaves_group_out(bytes: &mut [u8]) {
    if let Ok(sent) = SentEnvelope::read(bytes)
        && matches!(sent.kind, Kind::Hello | Kind::Known)
        && sent.view == 0
    {
        write(bytes, GROUP_AT, 0);
    }
}

/// Sends 0 messages in a welcome where their number is unknown.
fn reports_unknown_outcomes(bytes: &mut [u8]) {
    let Ok(sent) = SentEnvelope::read(bytes) else {
        return;
    };
    if sent.kind != Kind::Welcome {
        return;
    }
    let members = sent.row.received.len();
    let outcomes_at = RECEIVED_AT + 8 * members + WELCOME_BYTES + (CONTACT_BYTES + 8) * members;
    let outcomes = bytes.get_mut(outcomes_at..).unwrap_or_default();
    for outcome in outcomes.as_chunks_mut::<OUTCOME_BYTES>().0 {
        if outcome[8..] == u64::MAX.to_le_bytes() {
            outcome[8..].fill(0);
        }
    }
}

fn write(bytes: &mut [u8], at: usize, value: u64) {
    if let Some(field) = bytes.get_mut(at..at + 8) {
        field.copy_from_slice(&value.to_le_bytes());
    }
}
