//! A writer that is killed at any moment, again and again.

use std::{
    collections::BTreeMap,
    thread::sleep,
    time::{Duration, Instant},
};

use covalent_dataplane::journal::{
    AppendError, Exchange, Journal, JournalOptions, Recovered, RegionKey, replay,
};

use super::{
    child::{Writer, orders, report},
    disk::{in_memory, on_disk, small},
    lane::{Draw, Lane},
};

const WORDS: u64 = 1024;
const SLOTS: u64 = 16;
const KILLS: usize = 25;
/// Bound of one test in time.
const LONGEST: Duration = Duration::from_secs(5);

/// Work `number` writes its number to this word.
fn word_of(number: u64) -> u64 {
    Draw(number).next() % WORDS
}

fn exchange_of(number: u64) -> Exchange {
    Exchange {
        initiator: 1,
        incarnation: 2,
        epoch: 3,
        sequence: number as u32,
        port: 0,
        slot: (number % SLOTS) as u8,
        two_phase: number.is_multiple_of(2),
    }
}

/// The number of the last work that was recovered, if all before it were too and nothing else was.
fn last_work(recovered: &Recovered) -> u64 {
    let Some((_, region)) = recovered.find("words") else {
        assert!(recovered.latches.is_empty());
        return 0;
    };
    let last = recovered
        .latches
        .values()
        .map(|latched| u64::from(latched.exchange.sequence))
        .max()
        .unwrap_or(0);
    let mut words = vec![0; WORDS as usize];
    let mut latches = BTreeMap::new();
    for number in 1..=last {
        words[word_of(number) as usize] = number;
        latches.insert(exchange_of(number).latch(), number);
    }
    let found: Vec<_> = region
        .bytes
        .as_chunks()
        .0
        .iter()
        .map(|&word| u64::from_le_bytes(word))
        .collect();
    assert!(found == words, "words after {last}");
    let found: BTreeMap<_, _> = recovered
        .latches
        .iter()
        .map(|(&key, latched)| {
            let number = u64::from(latched.exchange.sequence);
            assert_eq!(latched.exchange, exchange_of(number));
            assert_eq!(latched.reply, number.to_le_bytes());
            (key, number)
        })
        .collect();
    assert_eq!(found, latches);
    last
}

/// The child: works until it is killed, and reports what is on disk.
#[test]
#[ignore = "a child of the other tests"]
fn works_until_killed() {
    let Some(directory) = orders() else { return };
    let options = JournalOptions {
        file_bytes: 256 * 1024,
        ..small(&directory)
    };
    let (mut journal, recovered) = Journal::open(&options).expect("a journal");
    let mut number = last_work(&recovered);
    report(number);
    let mut lane = Lane::new(recovered);
    let region: RegionKey = match journal.region_key("words") {
        Some(region) => region,
        None => lane.make(&mut journal, "words", WORDS as usize * 8),
    };
    let mut waiting = std::collections::VecDeque::new();
    let mut draw = Draw(number);
    loop {
        let durable = journal.poll();
        assert_eq!(journal.failure(), None);
        let mut done = None;
        while let Some((_, number)) = waiting.pop_front_if(|&mut (lsn, _)| lsn <= durable) {
            done = Some(number);
        }
        if let Some(number) = done {
            report(number);
        }
        for _ in 0..draw.below(20) {
            let next = number + 1;
            let redo = vec![(word_of(next) * 8, next.to_le_bytes().to_vec())];
            let reply = next.to_le_bytes().to_vec();
            match lane.commit(&mut journal, region, Some(exchange_of(next)), redo, reply) {
                Ok(lsn) => {
                    waiting.push_back((lsn, next));
                    number = next;
                }
                Err(AppendError::Full) => break,
                Err(error) => panic!("{error}"),
            }
        }
        if journal.needs_snapshot() {
            journal.begin_snapshot();
        }
        journal.snapshot_step(&lane, 1024);
        journal.submit();
    }
}

fn kill_repeatedly(directory: &std::path::Path) {
    let begun = Instant::now();
    let mut draw = Draw(7);
    let mut acknowledged = 0;
    let mut kills = 0;
    while kills < KILLS && begun.elapsed() < LONGEST {
        let mut writer = Writer::start("killed::works_until_killed", directory);
        // Sometimes before it is open, while the start makes new files.
        let reported = if kills % 4 == 3 {
            None
        } else {
            writer.next_report()
        };
        sleep(Duration::from_micros(draw.below(120_000) as u64));
        let reported = writer.kill().or(reported).unwrap_or(0);
        acknowledged = reported.max(acknowledged);
        let recovered = replay(&small(directory).directory).expect("a journal");
        let last = last_work(&recovered);
        assert!(
            last >= acknowledged,
            "{acknowledged} were acknowledged, {last} are there"
        );
        kills += 1;
    }
    assert!(kills > 5, "{kills} kills");
    assert!(acknowledged > 100, "{acknowledged} were acknowledged");
}

#[test]
fn a_killed_writer_loses_nothing_acknowledged_in_memory() {
    kill_repeatedly(in_memory().path());
}

#[test]
fn a_killed_writer_loses_nothing_acknowledged_on_disk() {
    kill_repeatedly(on_disk().path());
}
