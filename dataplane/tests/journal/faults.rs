//! Journals on disks that fail: power cuts, lost and misdirected writes, zeros, errors, and disks that stand still.

use std::{env, path::Path};

use covalent_dataplane::journal::{
    AppendError, Journal, JournalOptions, Lsn, OnLoss, OpenError, Recovered, replay_on,
};

use super::{
    disk::{BATCH_BYTES, BLOCK_BYTES, FILE_BYTES, LEAD_BYTES},
    lane::{Draw, Lane, State},
    memory::{Fault, LEFT, Memory, SECTOR_BYTES, Seen},
};

/// Rounds of a life.
const ROUNDS: usize = 120;

fn options() -> JournalOptions {
    JournalOptions {
        directory: Path::new("/memory").into(),
        file_bytes: FILE_BYTES,
        batch_bytes: BATCH_BYTES,
        on_loss: OnLoss::Refuse,
    }
}

/// A fresh seed, or the one of `COVALENT_SEED`; printed with the command that begins with it again.
fn seed(test: &str) -> u64 {
    let told = env::var("COVALENT_SEED").ok();
    let told = told.and_then(|text| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok());
    let drawn = || fastrand::u64(..);
    let seed = told.unwrap_or_else(drawn);
    eprintln!(
        "COVALENT_SEED={seed:#x} cargo test -p covalent-dataplane --test journal faults::{test}"
    );
    seed
}

/// A journal on a disk, and the lane that writes it.
struct Life {
    journal: Journal<Memory>,
    lane: Lane,
    memory: Memory,
    durable: Lsn,
}

impl Life {
    fn begin(memory: &Memory, draw: &mut Draw) -> Self {
        let (mut journal, recovered) =
            Journal::open_on(&options(), memory.clone()).expect("a journal");
        let begins = recovered.regions.is_empty();
        let mut lane = Lane::new(recovered);
        if begins {
            lane.make(&mut journal, "accounts", 4000);
            lane.make(&mut journal, "counter", 8);
        }
        let mut life = Self {
            durable: journal.durable_lsn(),
            journal,
            lane,
            memory: memory.clone(),
        };
        life.memory.acknowledge(life.durable);
        life.round(draw);
        life
    }

    /// A round of the lane. Some rounds are long enough for the disk to come to rest.
    fn round(&mut self, draw: &mut Draw) {
        let durable = self.journal.poll();
        if durable > self.durable {
            self.durable = durable;
            self.memory.acknowledge(durable);
        }
        if self.journal.failure().is_some() {
            return;
        }
        for _ in 0..draw.below(5) {
            match self.lane.commit_any(&mut self.journal, draw) {
                Ok(_) | Err(AppendError::Full) => {}
                Err(error) => panic!("{error}"),
            }
        }
        if self.journal.needs_snapshot() || draw.below(30) == 0 {
            self.journal.begin_snapshot();
        }
        self.journal.snapshot_step(&self.lane, 1500);
        self.journal.submit();
        if draw.below(6) == 0 {
            self.journal.tick();
        }
    }

    fn rounds(&mut self, count: usize, draw: &mut Draw) {
        for _ in 0..count {
            self.round(draw);
        }
    }

    /// Whether what was recovered is a state of this life that has all that was acknowledged.
    fn expect(&self, recovered: Recovered, acknowledged: Option<Lsn>, how: &str) {
        let lsn = recovered.last_lsn;
        if let Some(acknowledged) = acknowledged {
            assert!(lsn >= acknowledged, "{how}: {lsn:?} of {acknowledged:?}");
        }
        assert!(
            State::of(recovered) == self.lane.after(lsn),
            "{how}: another state after {lsn:?}"
        );
    }
}

#[test]
fn a_power_cut_at_any_moment_loses_nothing_and_is_never_refused() {
    let mut draw = Draw(seed("a_power_cut_at_any_moment"));
    let mut cuts = 0;
    for _ in 0..6 {
        let mut before = Memory::new(draw.next());
        // What earlier lives acknowledged; there is nothing before the first.
        let mut kept = None;
        for _ in 0..4 {
            let memory = before.after_kill(draw.next());
            let mut life = Life::begin(&memory, &mut draw);
            // In every other life calls take chains apart.
            memory.take_parts([0, 80][draw.below(2)]);
            life.rounds(ROUNDS, &mut draw);
            if draw.below(3) == 0 {
                let durable = life.journal.finish();
                life.memory.acknowledge(durable);
            }
            let moments = memory.moments();
            let mut next = None;
            for _ in 0..150 {
                let moment = draw.below(moments);
                let (cut, acknowledged) = memory.after_cut(&before, moment, &mut draw);
                let recovered = replay_on(&cut)
                    .unwrap_or_else(|error| panic!("moment {moment} of {moments}: {error}"));
                let how = format!("moment {moment} of {moments}");
                let acknowledged = acknowledged.or(kept);
                life.expect(recovered, acknowledged, &how);
                cuts += 1;
                next = Some((cut, acknowledged));
            }
            (before, kept) = next.expect("a cut");
        }
    }
    eprintln!("{cuts} power cuts, all recovered");
}

/// Acknowledged batches whose marks a power cut may take.
const UNMARKED_MAX: usize = 3;

/// How many of `batches`, which are their last records, have no mark in the file that they are in.
/// What is in no file any more is in a snapshot. No sector of the disk may be torn.
fn unmarked(memory: &Memory, batches: &[Lsn]) -> usize {
    let number =
        |bytes: &[u8], at: usize| u64::from_le_bytes(*bytes[at..].first_chunk().expect("8 bytes"));
    let mut files = Vec::new();
    for bytes in [0, 1].into_iter().filter_map(|file| memory.bytes(file)) {
        if bytes.starts_with(b"CovJrnl2") {
            let (generation, first) = (number(&bytes, 8), number(&bytes, 16));
            let marked = bytes[BLOCK_BYTES as usize..LEAD_BYTES as usize]
                .chunks(BLOCK_BYTES as usize)
                .filter(|mark| mark.starts_with(b"CovMark1") && number(mark, 8) == generation)
                .map(|mark| number(mark, 24));
            files.push((first, marked.max().unwrap_or(0)));
        }
    }
    let is_unmarked = |last: &&Lsn| {
        let holders = files.iter().filter(|(first, _)| *first <= last.0);
        holders.max().is_some_and(|(_, marked)| *marked < last.0)
    };
    batches.iter().filter(is_unmarked).count()
}

/// The moments at which most is not synced, and at which least is. The second life begins on what
/// a cut in the middle of the first one left.
#[test]
fn a_power_cut_at_every_barrier_loses_nothing_and_is_never_refused() {
    let mut draw = Draw(seed("a_power_cut_at_every_barrier"));
    let (mut cuts, mut barriers_seen, mut unmarked_max) = (0, 0, 0);
    let mut before = Memory::new(draw.next());
    let mut kept = None;
    for takes_parts in [0, 80] {
        let memory = before.after_kill(draw.next());
        let mut life = Life::begin(&memory, &mut draw);
        memory.take_parts(takes_parts);
        life.rounds(ROUNDS, &mut draw);
        let durable = life.journal.finish();
        life.memory.acknowledge(durable);
        let barriers = memory.barriers();
        for moment in barriers.iter().flat_map(|&at| [at, at + 1]) {
            for left in LEFT {
                let (cut, acknowledged) = memory.after_cut_with(&before, moment, left, &mut draw);
                let how = format!("moment {moment}, {left}/256 of what was not synced");
                let recovered = replay_on(&cut).unwrap_or_else(|error| panic!("{how}: {error}"));
                life.expect(recovered, acknowledged.or(kept), &how);
                if left == 0 {
                    let count = unmarked(&cut, &memory.acknowledged(moment));
                    assert!(count <= UNMARKED_MAX, "{how}: {count} batches have no mark");
                    unmarked_max = unmarked_max.max(count);
                }
                cuts += 1;
            }
        }
        let middle = barriers[barriers.len() / 2];
        let (cut, acknowledged) = memory.after_cut(&before, middle, &mut draw);
        (before, kept) = (cut, acknowledged.or(kept));
        barriers_seen += barriers.len();
    }
    eprintln!(
        "{cuts} power cuts at {barriers_seen} barriers, all recovered; {unmarked_max} batches at most had no mark"
    );
    assert!(barriers_seen > 50, "{barriers_seen}");
}

/// Runs lives of which each has something happen to its disk, and counts how many starts are refused afterwards.
fn lives(
    test: &str,
    count: usize,
    harm: impl Fn(&mut Life, &mut Draw),
    after: impl Fn(&Memory, &mut Draw),
) -> (usize, usize) {
    let mut draw = Draw(seed(test));
    let (mut recovered_count, mut refused) = (0, 0);
    for life in 0..count {
        let memory = Memory::new(draw.next());
        let mut life_there = Life::begin(&memory, &mut draw);
        life_there.rounds(ROUNDS / 2, &mut draw);
        harm(&mut life_there, &mut draw);
        let more = draw.below(ROUNDS);
        life_there.rounds(more, &mut draw);
        if draw.below(2) == 0 {
            life_there.durable = life_there.journal.finish();
        }
        let killed = memory.after_kill(draw.next());
        after(&killed, &mut draw);
        match replay_on(&killed) {
            Ok(recovered) => {
                let acknowledged = Some(life_there.durable);
                life_there.expect(recovered, acknowledged, &format!("life {life}"));
                recovered_count += 1;
            }
            Err(error @ (OpenError::Lost(_) | OpenError::Damaged { .. })) => {
                assert!(error.to_string().contains("journal file /memory/journal."));
                refused += 1;
            }
            Err(error) => panic!("life {life}: {error}"),
        }
    }
    eprintln!("{test}: {recovered_count} recovered, {refused} refused");
    (recovered_count, refused)
}

/// Has the next of so many steps of the kind suffer `fault`.
fn one_fault(
    life: &Life,
    kind: Seen,
    mut ahead: usize,
    fault: impl Fn(&mut Draw) -> Fault + 'static,
) {
    life.memory.fail_by(move |seen, draw| {
        if seen != kind {
            return Fault::None;
        }
        ahead = ahead.wrapping_sub(1);
        if ahead == usize::MAX {
            fault(draw)
        } else {
            Fault::None
        }
    });
}

#[test]
fn an_acknowledged_write_that_is_lost_is_found_out() {
    let (recovered, refused) = lives(
        "an_acknowledged_write_that_is_lost",
        400,
        |life, draw| one_fault(life, Seen::Write, draw.below(12), |_| Fault::Lose),
        |_, _| {},
    );
    assert!(recovered > 20 && refused > 5, "{recovered}, {refused}");
}

#[test]
fn a_misdirected_write_is_found_out() {
    let (_, refused) = lives(
        "a_misdirected_write",
        400,
        |life, draw| {
            one_fault(life, Seen::Write, draw.below(12), |draw| Fault::Misdirect {
                file: draw.below(2),
                offset: draw.below((FILE_BYTES / BLOCK_BYTES) as usize) as u64 * BLOCK_BYTES,
            });
        },
        |_, _| {},
    );
    assert!(refused > 40, "{refused}");
}

#[test]
fn sectors_that_turn_to_zeros_are_found_out() {
    let (_, refused) = lives(
        "sectors_that_turn_to_zeros",
        400,
        |_, _| {},
        |memory, draw| {
            let file = draw.below(2);
            let mut bytes = memory.bytes(file).expect("a file");
            let end = bytes.iter().rposition(|&byte| byte != 0).unwrap_or(0) + 1;
            let sectors = end.div_ceil(SECTOR_BYTES);
            let first = draw.below(sectors);
            let count = [1, 8, sectors][draw.below(3)].min(sectors - first);
            bytes[first * SECTOR_BYTES..(first + count) * SECTOR_BYTES].fill(0);
            memory.set_bytes(file, bytes);
        },
    );
    assert!(refused > 40, "{refused}");
}

/// What the issue was: the last block of the journal is zeros after a kill.
#[test]
fn the_last_block_that_turns_to_zeros_after_a_kill_is_always_found_out() {
    let mut draw = Draw(seed("the_last_block"));
    for _ in 0..200 {
        let memory = Memory::new(draw.next());
        let mut life = Life::begin(&memory, &mut draw);
        let rounds = draw.below(ROUNDS);
        life.rounds(rounds, &mut draw);
        let durable = life.journal.flush();
        let memory = memory.after_kill(draw.next());
        for file in 0..2 {
            let killed = memory.after_kill(draw.next());
            let mut bytes = killed.bytes(file).expect("a file");
            let Some(last) = bytes.iter().rposition(|&byte| byte != 0) else {
                continue;
            };
            let block = last / BLOCK_BYTES as usize * BLOCK_BYTES as usize;
            bytes[block..block + BLOCK_BYTES as usize].fill(0);
            killed.set_bytes(file, bytes);
            // One of the files may be needed no more.
            if let Ok(recovered) = replay_on(&killed) {
                assert_eq!(recovered.last_lsn, durable);
                life.expect(recovered, Some(durable), "the file was needed no more");
            }
        }
        let last_of = |file| {
            let bytes = memory.bytes(file).expect("a file");
            bytes.iter().rposition(|&byte| byte != 0)
        };
        // The file with the last batch is needed.
        let newest = usize::from(!newest_is_zero(&memory));
        let killed = memory.after_kill(draw.next());
        let mut bytes = killed.bytes(newest).expect("a file");
        let block = last_of(newest).expect("a batch") / BLOCK_BYTES as usize * BLOCK_BYTES as usize;
        bytes[block..block + BLOCK_BYTES as usize].fill(0);
        killed.set_bytes(newest, bytes);
        let error = replay_on(&killed).expect_err("a loss");
        assert!(
            matches!(&error, OpenError::Lost(loss) if loss.expected == durable && loss.found < durable),
            "{error}"
        );
    }
}

/// Whether the newer generation is in the first file.
fn newest_is_zero(memory: &Memory) -> bool {
    let generation = |file| {
        let bytes = memory.bytes(file).expect("a file");
        let mut number = [0; 8];
        number.copy_from_slice(&bytes[8..16]);
        u64::from_le_bytes(number)
    };
    generation(0) > generation(1)
}

#[test]
fn a_sync_that_failed_once_is_never_trusted_again() {
    let mut draw = Draw(seed("a_sync_that_failed_once"));
    let mut failed = 0;
    for life_number in 0..300 {
        let memory = Memory::new(draw.next());
        let mut life = Life::begin(&memory, &mut draw);
        life.rounds(ROUNDS / 2, &mut draw);
        one_fault(&life, Seen::Sync, draw.below(8), |_| Fault::Drop(libc::EIO));
        life.rounds(ROUNDS, &mut draw);
        let Some(failure) = life.journal.failure().cloned() else {
            continue;
        };
        failed += 1;
        assert!(
            failure
                .to_string()
                .contains("fdatasync: Input/output error"),
            "{failure}"
        );
        let durable = life.durable;
        life.rounds(10, &mut draw);
        assert_eq!(life.journal.flush(), durable);
        assert_eq!(life.journal.failure(), Some(&failure));
        let recovered = replay_on(&memory).expect("what was acknowledged");
        life.expect(recovered, Some(durable), &format!("life {life_number}"));
    }
    eprintln!("{failed} journals failed, all acknowledged was there");
    assert!(failed > 40, "{failed}");
}

#[test]
fn a_storm_of_passing_errors_ends_nothing() {
    let mut draw = Draw(seed("a_storm_of_passing_errors"));
    let mut retried = 0;
    for _ in 0..60 {
        let memory = Memory::new(draw.next());
        let mut life = Life::begin(&memory, &mut draw);
        memory.fail_by(|_, draw| match draw.below(3) {
            0 => Fault::Fail([libc::EAGAIN, libc::ENOMEM, libc::EINTR][draw.below(3)]),
            _ => Fault::None,
        });
        memory.take_parts(80);
        life.rounds(ROUNDS, &mut draw);
        let last = life.journal.last_lsn();
        assert_eq!(life.journal.flush(), last);
        assert_eq!(life.journal.failure(), None);
        retried += life.journal.retried();
        let recovered = replay_on(&memory).expect("all of it");
        life.expect(recovered, Some(last), "after the storm");
    }
    eprintln!("{retried} times sent again");
    assert!(retried > 300, "{retried}");
}

#[test]
fn errors_that_do_not_pass_end_the_journal() {
    let mut draw = Draw(3);
    let memory = Memory::new(draw.next());
    let mut life = Life::begin(&memory, &mut draw);
    let durable = life.journal.finish();
    memory.fail_by(|_, _| Fault::Fail(libc::ENOMEM));
    life.lane
        .commit_any(&mut life.journal, &mut draw)
        .expect("room");
    assert_eq!(life.journal.flush(), durable);
    let failure = life.journal.failure().expect("it ends").to_string();
    assert!(
        failure.contains("write: Cannot allocate memory") && failure.contains("50 more times"),
        "{failure}"
    );
    assert_eq!(life.journal.retried(), 50);
}

#[test]
fn a_disk_that_stands_still_holds_up_nothing_but_what_waits_for_it() {
    let mut draw = Draw(seed("a_disk_that_stands_still"));
    let memory = Memory::new(draw.next());
    let mut life = Life::begin(&memory, &mut draw);
    let durable = life.journal.finish();
    memory.set_stalled(true);
    // Each call returns; after some rounds there is no room, and nothing was acknowledged.
    life.rounds(10_000, &mut draw);
    assert_eq!(life.journal.poll(), durable);
    assert!(life.journal.last_lsn() > durable && life.journal.failure().is_none());
    assert!(life.journal.is_busy());
    memory.set_stalled(false);
    let last = life.journal.last_lsn();
    assert_eq!(life.journal.flush(), last);
    let recovered = replay_on(&memory).expect("all of it");
    life.expect(recovered, Some(last), "after it went on");
}
