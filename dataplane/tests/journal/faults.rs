//! Journals on failing disks: power failures, lost and misdirected writes, zeros, errors, and disks
//! that stall.

use std::{env, path::Path};

use covalent_dataplane::journal::{
    AppendError, Journal, JournalOptions, Lsn, OnLoss, OpenError, Recovered, replay_on,
};

use super::{
    disk::{BATCH_BYTES, BLOCK_BYTES, FILE_BYTES, LEAD_BYTES},
    lane::{Draw, Lane, State},
    memory::{Fault, LEFT, Memory, SECTOR_BYTES, Seen},
};

/// Rounds of a generation.
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
    let given_seed = env::var("COVALENT_SEED").ok();
    let given_seed =
        given_seed.and_then(|text| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok());
    let drawn = || fastrand::u64(..);
    let seed = given_seed.unwrap_or_else(drawn);
    eprintln!(
        "COVALENT_SEED={seed:#x} cargo test -p covalent-dataplane --test journal faults::{test}"
    );
    seed
}

/// A journal on a disk, and the lane that writes it.
struct Incarnation {
    journal: Journal<Memory>,
    lane: Lane,
    memory: Memory,
    durable: Lsn,
}

impl Incarnation {
    fn begin(memory: &Memory, draw: &mut Draw) -> Self {
        let (mut journal, recovered) =
            Journal::open_on(&options(), memory.clone()).expect("a journal");
        let begins = recovered.regions.is_empty();
        let mut lane = Lane::new(recovered);
        if begins {
            lane.make(&mut journal, "accounts", 4000);
            lane.make(&mut journal, "counter", 8);
        }
        let mut incarnation = Self {
            durable: journal.durable_lsn(),
            journal,
            lane,
            memory: memory.clone(),
        };
        incarnation.memory.acknowledge(incarnation.durable);
        incarnation.round(draw);
        incarnation
    }

    /// Runs a round of the lane. Some rounds are long enough for the disk to become idle.
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

    /// Checks that the recovered state is a state of this generation and has all acknowledged
    /// records.
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
        // The records that earlier generations acknowledged. There is nothing before the first.
        let mut kept = None;
        for _ in 0..4 {
            let memory = before.after_kill(draw.next());
            let mut incarnation = Incarnation::begin(&memory, &mut draw);
            // In every other generation calls split chains.
            memory.take_parts([0, 80][draw.below(2)]);
            incarnation.rounds(ROUNDS, &mut draw);
            if draw.below(3) == 0 {
                let durable = incarnation.journal.finish();
                incarnation.memory.acknowledge(durable);
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
                incarnation.expect(recovered, acknowledged, &how);
                cuts += 1;
                next = Some((cut, acknowledged));
            }
            (before, kept) = next.expect("a cut");
        }
    }
    eprintln!("{cuts} power cuts, all recovered");
}

/// Acknowledged batches whose marks a power failure may take.
const UNMARKED_MAX: usize = 3;

/// Returns how many of `batches`, given by their last records, have no mark in the file that they
/// are in. Batches that are in no file any more are in a snapshot. No sector of the disk may be
/// torn.
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

/// Cuts power at the moments with the most and the least unsynced data. The second generation
/// begins on the disk that a cut in the middle of the first one left.
#[test]
fn a_power_cut_at_every_barrier_loses_nothing_and_is_never_refused() {
    let mut draw = Draw(seed("a_power_cut_at_every_barrier"));
    let (mut cuts, mut barriers_seen, mut unmarked_max) = (0, 0, 0);
    let mut before = Memory::new(draw.next());
    let mut kept = None;
    for takes_parts in [0, 80] {
        let memory = before.after_kill(draw.next());
        let mut incarnation = Incarnation::begin(&memory, &mut draw);
        memory.take_parts(takes_parts);
        incarnation.rounds(ROUNDS, &mut draw);
        let durable = incarnation.journal.finish();
        incarnation.memory.acknowledge(durable);
        let barriers = memory.barriers();
        for moment in barriers.iter().flat_map(|&at| [at, at + 1]) {
            for left in LEFT {
                let (cut, acknowledged) = memory.after_cut_with(&before, moment, left, &mut draw);
                let how = format!("moment {moment}, {left}/256 of the unsynced data");
                let recovered = replay_on(&cut).unwrap_or_else(|error| panic!("{how}: {error}"));
                incarnation.expect(recovered, acknowledged.or(kept), &how);
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
        "{cuts} power cuts at {barriers_seen} barriers, all recovered; {unmarked_max} batches at \
         most had no mark"
    );
    assert!(barriers_seen > 50, "{barriers_seen}");
}

/// Runs generations whose disks each suffer a fault. Counts how many later starts are refused.
fn run_incarnations(
    test: &str,
    count: usize,
    harm: impl Fn(&mut Incarnation, &mut Draw),
    after: impl Fn(&Memory, &mut Draw),
) -> (usize, usize) {
    let mut draw = Draw(seed(test));
    let (mut recovered_count, mut refused) = (0, 0);
    for incarnation in 0..count {
        let memory = Memory::new(draw.next());
        let mut current = Incarnation::begin(&memory, &mut draw);
        current.rounds(ROUNDS / 2, &mut draw);
        harm(&mut current, &mut draw);
        let more = draw.below(ROUNDS);
        current.rounds(more, &mut draw);
        if draw.below(2) == 0 {
            current.durable = current.journal.finish();
        }
        let killed = memory.after_kill(draw.next());
        after(&killed, &mut draw);
        match replay_on(&killed) {
            Ok(recovered) => {
                let acknowledged = Some(current.durable);
                current.expect(
                    recovered,
                    acknowledged,
                    &format!("generation {incarnation}"),
                );
                recovered_count += 1;
            }
            Err(error @ (OpenError::Lost(_) | OpenError::Damaged { .. })) => {
                assert!(error.to_string().contains("journal file /memory/journal."));
                refused += 1;
            }
            Err(error) => panic!("generation {incarnation}: {error}"),
        }
    }
    eprintln!("{test}: {recovered_count} recovered, {refused} refused");
    (recovered_count, refused)
}

/// Has the next of so many steps of the kind suffer `fault`.
fn one_fault(
    incarnation: &Incarnation,
    kind: Seen,
    mut ahead: usize,
    fault: impl Fn(&mut Draw) -> Fault + 'static,
) {
    incarnation.memory.fail_by(move |seen, draw| {
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
    let (recovered, refused) = run_incarnations(
        "an_acknowledged_write_that_is_lost",
        400,
        |incarnation, draw| one_fault(incarnation, Seen::Write, draw.below(12), |_| Fault::Lose),
        |_, _| {},
    );
    assert!(recovered > 20 && refused > 5, "{recovered}, {refused}");
}

#[test]
fn a_misdirected_write_is_found_out() {
    let (_, refused) = run_incarnations(
        "a_misdirected_write",
        400,
        |incarnation, draw| {
            one_fault(incarnation, Seen::Write, draw.below(12), |draw| {
                Fault::Misdirect {
                    file: draw.below(2),
                    offset: draw.below((FILE_BYTES / BLOCK_BYTES) as usize) as u64 * BLOCK_BYTES,
                }
            });
        },
        |_, _| {},
    );
    assert!(refused > 40, "{refused}");
}

#[test]
fn sectors_that_turn_to_zeros_are_found_out() {
    let (_, refused) = run_incarnations(
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

/// The original issue: the last block of the journal is zeros after a kill.
#[test]
fn the_last_block_that_turns_to_zeros_after_a_kill_is_always_found_out() {
    let mut draw = Draw(seed("the_last_block"));
    for _ in 0..200 {
        let memory = Memory::new(draw.next());
        let mut incarnation = Incarnation::begin(&memory, &mut draw);
        let rounds = draw.below(ROUNDS);
        incarnation.rounds(rounds, &mut draw);
        let durable = incarnation.journal.flush();
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
                incarnation.expect(recovered, Some(durable), "the file was needed no more");
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
            matches!(
                &error,
                OpenError::Lost(loss) if loss.expected == durable && loss.found < durable,
            ),
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
    for incarnation_number in 0..300 {
        let memory = Memory::new(draw.next());
        let mut incarnation = Incarnation::begin(&memory, &mut draw);
        incarnation.rounds(ROUNDS / 2, &mut draw);
        one_fault(&incarnation, Seen::Sync, draw.below(8), |_| {
            Fault::Drop(libc::EIO)
        });
        incarnation.rounds(ROUNDS, &mut draw);
        let Some(failure) = incarnation.journal.failure().cloned() else {
            continue;
        };
        failed += 1;
        assert!(
            failure
                .to_string()
                .contains("fdatasync: Input/output error"),
            "{failure}"
        );
        let durable = incarnation.durable;
        incarnation.rounds(10, &mut draw);
        assert_eq!(incarnation.journal.flush(), durable);
        assert_eq!(incarnation.journal.failure(), Some(&failure));
        let recovered = replay_on(&memory).expect("the acknowledged records");
        incarnation.expect(
            recovered,
            Some(durable),
            &format!("generation {incarnation_number}"),
        );
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
        let mut incarnation = Incarnation::begin(&memory, &mut draw);
        memory.fail_by(|_, draw| match draw.below(3) {
            0 => Fault::Fail([libc::EAGAIN, libc::ENOMEM, libc::EINTR][draw.below(3)]),
            _ => Fault::None,
        });
        memory.take_parts(80);
        incarnation.rounds(ROUNDS, &mut draw);
        let last = incarnation.journal.last_lsn();
        assert_eq!(incarnation.journal.flush(), last);
        assert_eq!(incarnation.journal.failure(), None);
        retried += incarnation.journal.retried();
        let recovered = replay_on(&memory).expect("all of it");
        incarnation.expect(recovered, Some(last), "after the storm");
    }
    eprintln!("{retried} times sent again");
    assert!(retried > 300, "{retried}");
}

#[test]
fn errors_that_do_not_pass_end_the_journal() {
    let mut draw = Draw(3);
    let memory = Memory::new(draw.next());
    let mut incarnation = Incarnation::begin(&memory, &mut draw);
    let durable = incarnation.journal.finish();
    memory.fail_by(|_, _| Fault::Fail(libc::ENOMEM));
    incarnation
        .lane
        .commit_any(&mut incarnation.journal, &mut draw)
        .expect("room");
    assert_eq!(incarnation.journal.flush(), durable);
    let failure = incarnation.journal.failure().expect("it ends").to_string();
    assert!(
        failure.contains("write: Cannot allocate memory") && failure.contains("50 more times"),
        "{failure}"
    );
    assert_eq!(incarnation.journal.retried(), 50);
}

#[test]
fn a_disk_that_stands_still_delays_only_work_that_waits_for_it() {
    let mut draw = Draw(seed("a_disk_that_stands_still"));
    let memory = Memory::new(draw.next());
    let mut incarnation = Incarnation::begin(&memory, &mut draw);
    let durable = incarnation.journal.finish();
    memory.set_stalled(true);
    // Each call returns. After some rounds there is no space, and nothing was acknowledged.
    incarnation.rounds(10_000, &mut draw);
    assert_eq!(incarnation.journal.poll(), durable);
    assert!(incarnation.journal.last_lsn() > durable && incarnation.journal.failure().is_none());
    assert!(incarnation.journal.is_busy());
    memory.set_stalled(false);
    let last = incarnation.journal.last_lsn();
    assert_eq!(incarnation.journal.flush(), last);
    let recovered = replay_on(&memory).expect("all of it");
    incarnation.expect(recovered, Some(last), "after it went on");
}
