//! The ring.

use std::{
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use covalent_counters::ring::{Body, Record, Ring, RingFile, Sampled};

fn event(number: u64, padding: usize) -> String {
    format!(
        "{{\"number\":{number},\"text\":\"{}\"}}",
        "x".repeat(padding)
    )
}

fn number_of(record: &Record) -> u64 {
    let Body::Event(text) = &record.body else {
        panic!("{record:?} is no event");
    };
    let digits = text.trim_start_matches("{\"number\":");
    let end = digits.find(',').expect("a comma");
    digits[..end].parse().expect("a number")
}

fn opened(path: &Path) -> RingFile {
    RingFile::open(path).expect("it opens")
}

#[test]
fn records_are_read_whole_and_in_order() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("ring");
    let mut ring = Ring::create(&path, 4096, None).expect("it is made");
    let mut reader = opened(&path);
    assert_eq!(reader.next_record().expect("readable"), None);
    let mut sequence = 0;
    for number in 0..500 {
        // Lengths with all remainders, so that records meet the end of the ring at every offset.
        assert!(ring.event(event(number, number as usize % 61).as_bytes()));
        assert!(ring.sample(&Sampled {
            writer: 3,
            table: 6,
            slot: 70_000,
            generation: number,
            first: 12,
            values: &[number, u64::MAX],
        }));
        let read_record = reader.next_record().expect("readable").expect("an event");
        assert_eq!(number_of(&read_record), number);
        sequence += 1;
        assert_eq!(read_record.sequence, sequence);
        let sample = reader.next_record().expect("readable").expect("a sample");
        sequence += 1;
        assert_eq!(
            (sample.sequence, sample.body),
            (
                sequence,
                Body::Sample {
                    writer: 3,
                    table: 6,
                    slot: 70_000,
                    generation: number,
                    first: 12,
                    values: vec![number, u64::MAX],
                }
            )
        );
        assert_eq!(reader.next_record().expect("readable"), None);
    }
    assert_eq!((reader.lost(), reader.overruns()), (0, 0));
    assert!(!ring.event(&[b'x'; 600]), "more than an eighth of the ring");
}

#[test]
fn a_reader_that_is_too_slow_knows_how_many_it_lost() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("ring");
    let mut ring = Ring::create(&path, 4096, None).expect("it is made");
    ring.event(event(1, 0).as_bytes());
    let mut reader = opened(&path);
    assert_eq!(
        number_of(&reader.next_record().expect("readable").expect("one")),
        1
    );
    for number in 2..=1000 {
        ring.event(event(number, 20).as_bytes());
    }
    let next = number_of(&reader.next_record().expect("readable").expect("one"));
    assert_eq!((reader.overruns(), reader.lost()), (1, next - 2));
    assert!(next < 1000, "some remaining records are returned: {next}");
    let mut last = next;
    while let Some(record) = reader.next_record().expect("readable") {
        assert_eq!(number_of(&record), last + 1);
        last += 1;
    }
    assert_eq!(last, 1000);
    // A late reader begins with the oldest available data.
    let mut late = opened(&path);
    let first = number_of(&late.next_record().expect("readable").expect("one"));
    assert!((2..1000).contains(&first) && late.lost() == 0);
}

#[test]
fn readers_beside_a_writer_take_nothing_that_was_overwritten() {
    const WRITTEN: u64 = 200_000;
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("ring");
    let mut ring = Ring::create(&path, 4096, None).expect("it is made");
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|_| {
                let mut reader = opened(&path);
                let ended = &ended;
                scope.spawn(move || {
                    let (mut taken, mut last) = (0, 0);
                    loop {
                        let all_written = ended.load(Ordering::Acquire);
                        match reader.next_record() {
                            Ok(Some(record)) => {
                                let number = number_of(&record);
                                assert_eq!(number, record.sequence, "torn: {record:?}");
                                assert!(number > last);
                                last = number;
                                taken += 1;
                            }
                            Ok(None) if all_written => break,
                            Ok(None) | Err(covalent_counters::ReadError::Busy { .. }) => {
                                thread::yield_now();
                            }
                            Err(error) => panic!("{error}"),
                        }
                    }
                    (taken, last, reader.lost())
                })
            })
            .collect();
        for number in 1..=WRITTEN {
            ring.event(event(number, number as usize % 40).as_bytes());
        }
        ended.store(true, Ordering::Release);
        for reader in readers {
            let (taken, last, lost) = reader.join().expect("a reader");
            assert_eq!(last, WRITTEN);
            // All records before the first one that a reader took were written before it began.
            assert!(taken > 0 && taken + lost <= WRITTEN, "{taken} and {lost}");
        }
    });
}
