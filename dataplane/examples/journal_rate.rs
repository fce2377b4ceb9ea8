//! Measures how many commits per second one lane's journal makes durable, and the time from append
//! to disk, by the number of commits in flight.
//!
//! ```console
//! $ cargo run --release -p covalent-dataplane --example journal_rate -- DIRECTORY [SECONDS]
//! ```
//! `DIRECTORY` is on the disk to measure. The program creates a journal in it and removes it again.
//! A commit changes one word and keeps a reply of 12 bytes, as a fetch-and-add does. The loop
//! yields its core after 64 rounds without work, as a lane does.
#![allow(clippy::print_stdout, reason = "the figures are its output")]

use std::{
    collections::VecDeque,
    env,
    path::Path,
    time::{Duration, Instant},
};

use covalent_dataplane::journal::{
    AppendError, Commit, Exchange, Journal, JournalOptions, LatchKey, Lsn, Redo, RegionKey,
    SnapshotRegion, SnapshotSource,
};

const WAITING: [usize; 6] = [1, 4, 16, 64, 256, 1024];
const REGION_BYTES: u64 = 64 * 1024;
/// Memory that a snapshot looks at in one round.
const STEP_BYTES: usize = 16 * 1024;
const ROUNDS_PER_YIELD: u32 = 64;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = env::args().skip(1);
    let directory = arguments.next().ok_or("which directory?")?;
    let seconds = arguments.next().map_or(Ok(2.0), |text| text.parse())?;
    println!("waiting   commits/s   in a batch      p50 µs      p99 µs   snapshots");
    for waiting in WAITING {
        let scratch = tempfile::tempdir_in(&directory)?;
        let figures = measure(scratch.path(), waiting, Duration::from_secs_f64(seconds))?;
        println!(
            "{waiting:>7} {:>11.0} {:>12.1} {:>11.1} {:>11.1} {:>11}",
            figures.commits as f64 / seconds,
            figures.commits as f64 / figures.batches as f64,
            quantile_us(&figures.took_ns, 0.50),
            quantile_us(&figures.took_ns, 0.99),
            figures.snapshots,
        );
    }
    Ok(())
}

#[derive(Default)]
struct Figures {
    commits: u64,
    batches: u64,
    snapshots: u64,
    /// From append to durable, sorted.
    took_ns: Vec<u64>,
}

fn measure(
    directory: &Path,
    waiting_max: usize,
    length: Duration,
) -> Result<Figures, Box<dyn std::error::Error>> {
    let (mut journal, _) = Journal::open(&JournalOptions::new(directory.join("journal")))?;
    let (key, _) = journal.append_region("words", REGION_BYTES)?;
    journal.flush();
    let mut words = Words {
        key,
        bytes: vec![0; REGION_BYTES as usize],
    };
    let mut figures = Figures::default();
    let mut waiting: VecDeque<(Lsn, Instant)> = VecDeque::with_capacity(waiting_max);
    let mut durable = journal.durable_lsn();
    let mut fruitless = 0;
    let mut number: u32 = 0;
    let begun = Instant::now();
    loop {
        let before = std::mem::replace(&mut durable, journal.poll());
        if let Some(failure) = journal.failure() {
            return Err(failure.clone().into());
        }
        let now = Instant::now();
        if durable > before {
            fruitless = 0;
            figures.batches += 1;
        } else {
            fruitless += 1;
            if fruitless % ROUNDS_PER_YIELD == 0 {
                std::thread::yield_now();
            }
        }
        while let Some((_, at)) = waiting.pop_front_if(|(lsn, _)| *lsn <= durable) {
            figures.took_ns.push((now - at).as_nanos() as u64);
            figures.commits += 1;
        }
        if now - begun > length {
            break;
        }
        while waiting.len() < waiting_max {
            match words.add(&mut journal, number) {
                Ok(lsn) => waiting.push_back((lsn, now)),
                Err(AppendError::Full) => break,
                Err(error) => return Err(error.into()),
            }
            number = number.wrapping_add(1);
        }
        if journal.needs_snapshot() && journal.begin_snapshot() {
            figures.snapshots += 1;
        }
        journal.snapshot_step(&words, STEP_BYTES);
        journal.submit();
    }
    figures.took_ns.sort_unstable();
    Ok(figures)
}

/// The region that is committed to.
struct Words {
    key: RegionKey,
    bytes: Vec<u8>,
}

impl Words {
    fn add(&mut self, journal: &mut Journal, number: u32) -> Result<Lsn, AppendError> {
        let offset = number as usize * 8 % self.bytes.len();
        let word = u64::from(number).to_le_bytes();
        let lsn = journal.append(&Commit {
            region: self.key,
            exchange: Some(Exchange {
                initiator: 1,
                incarnation: 1,
                epoch: 1,
                sequence: number,
                port: 0,
                slot: (number % 64) as u8,
                two_phase: false,
            }),
            redo: &[Redo {
                offset: offset as u64,
                bytes: &word,
            }],
            reply: &[0; 12],
        })?;
        self.bytes[offset..offset + 8].copy_from_slice(&word);
        Ok(lsn)
    }
}

impl SnapshotSource for Words {
    fn region_after(&self, after: Option<RegionKey>) -> Option<SnapshotRegion<'_>> {
        (after < Some(self.key)).then_some(SnapshotRegion {
            key: self.key,
            name: "words",
            size_bytes: REGION_BYTES,
        })
    }

    fn read(&self, _key: RegionKey, offset: u64, target: &mut [u8]) {
        let start = offset as usize;
        target.copy_from_slice(&self.bytes[start..start + target.len()]);
    }

    fn latch_after(&self, _after: Option<LatchKey>) -> Option<(Exchange, &[u8])> {
        None
    }
}

fn quantile_us(sorted_ns: &[u64], quantile: f64) -> f64 {
    let at = (sorted_ns.len() as f64 * quantile) as usize;
    sorted_ns.get(at).map_or(f64::NAN, |&ns| ns as f64 / 1e3)
}
