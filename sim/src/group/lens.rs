//! What a mutant makes of what a member says.

use std::collections::HashMap;

use super::{
    book::{StayId, ViewId},
    mutant::Mutant,
    said::{Kind, Said},
};

/// Where an envelope has the sender's rounds, and what it holds of rank 0.
const ROUNDS_AT: usize = 64;
const RECEIVED_AT: usize = 80;
/// Where it has its kind, and the flags, of which one says that the view's end is decided.
const KIND_AT: usize = 1;
const FLAGS_AT: usize = 3;
const DECIDED: u8 = 8;
const GROUP_AT: usize = 8;
/// Bytes of a welcome before its contacts, and of a contact and a fate in it.
const WELCOME_BYTES: usize = 8;
const CONTACT_BYTES: usize = 24;
const FATE_BYTES: usize = 16;

/// Stands between the members and the verbs.
#[derive(Debug, Default)]
pub struct Lens {
    mutant: Option<Mutant>,
    /// Rounds that each rank of a view has said to anybody.
    rounds: HashMap<(ViewId, u8), u64>,
    /// Rounds in the numbered envelopes of one to another, as they were changed.
    written: HashMap<(StayId, StayId, ViewId, u32), u64>,
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
    pub fn say(&mut self, by: StayId, to: StayId, bytes: &mut Vec<u8>) {
        match self.mutant {
            Some(Mutant::AcksBeforeHeld) => self.acks_before_held(bytes),
            Some(Mutant::SkipsNull) => self.skips_null(by, to, bytes),
            Some(Mutant::NoDecidedFirst) => hides_decision(bytes),
            Some(Mutant::FoundsNameless) => leaves_group_out(bytes),
            Some(Mutant::TellsUnknownFates) => tells_unknown_fates(bytes),
            _ => {}
        }
    }

    fn acks_before_held(&mut self, bytes: &mut [u8]) {
        let Ok(said) = Said::read(bytes) else { return };
        let view = (said.group, said.view);
        let own = self.rounds.entry((view, said.from)).or_default();
        *own = said.row.rounds.max(*own);
        for (rank, received) in (0..).zip(&said.row.received) {
            let said_rounds = self.rounds.get(&(view, rank)).copied().unwrap_or(0);
            if rank != said.from && said_rounds > *received {
                write(bytes, RECEIVED_AT + 8 * usize::from(rank), said_rounds);
            }
        }
    }

    /// Every second member hears of a batch behind skipped rounds that it is that of the first of them.
    fn skips_null(&mut self, by: StayId, to: StayId, bytes: &mut [u8]) {
        let Ok(said) = Said::read(bytes) else { return };
        let view = (said.group, said.view);
        if said.number == 0 || to.is_multiple_of(2) {
            return;
        }
        let before = self.written.get(&(by, to, view, said.number - 1));
        let next = before.copied().unwrap_or(0) + 1;
        let rounds = if said.batch_bytes > 0 {
            said.row.rounds.min(next)
        } else {
            said.row.rounds
        };
        self.written.insert((by, to, view, said.number), rounds);
        write(bytes, ROUNDS_AT, rounds);
        write(bytes, RECEIVED_AT + 8 * usize::from(said.from), rounds);
    }
}

/// Says the row alone where the end of a view was to be said.
fn hides_decision(bytes: &mut Vec<u8>) {
    if let Ok(said) = Said::read(bytes)
        && said.decided
    {
        bytes[KIND_AT] = Kind::Flow as u8;
        bytes[FLAGS_AT] &= !DECIDED;
        bytes.truncate(RECEIVED_AT + 8 * said.row.received.len());
    }
}

/// Names no group where a founder speaks to one who is not in it.
fn leaves_group_out(bytes: &mut [u8]) {
    if let Ok(said) = Said::read(bytes)
        && matches!(said.kind, Kind::Hello | Kind::Known)
        && said.view == 0
    {
        write(bytes, GROUP_AT, 0);
    }
}

/// Says 0 messages in a welcome where it says that their number is not known.
fn tells_unknown_fates(bytes: &mut [u8]) {
    let Ok(said) = Said::read(bytes) else { return };
    if said.kind != Kind::Welcome {
        return;
    }
    let members = said.row.received.len();
    let fates_at = RECEIVED_AT + 8 * members + WELCOME_BYTES + (CONTACT_BYTES + 8) * members;
    let fates = bytes.get_mut(fates_at..).unwrap_or_default();
    for fate in fates.as_chunks_mut::<FATE_BYTES>().0 {
        if fate[8..] == u64::MAX.to_le_bytes() {
            fate[8..].fill(0);
        }
    }
}

fn write(bytes: &mut [u8], at: usize, value: u64) {
    if let Some(field) = bytes.get_mut(at..at + 8) {
        field.copy_from_slice(&value.to_le_bytes());
    }
}
