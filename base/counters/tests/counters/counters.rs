//! The file of counters.

use std::{
    fs,
    mem::ManuallyDrop,
    os::unix::fs::MetadataExt,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use covalent_counters::{
    Board, CountersFile, Draft, FamilyPlan, FamilyType, FieldKind, Liveness, Number, Plan,
    ReadError, Snapshot, TablePlan, Writer, WriterPlan, create,
};

pub const FAMILIES: [FamilyPlan<'_>; 3] = [
    FamilyPlan {
        kind: FamilyType::Counter,
        name: "some_things_total",
        unit: "things",
        help: "Things, by cause.",
    },
    FamilyPlan {
        kind: FamilyType::Gauge,
        name: "some_info",
        unit: "–",
        help: "What it is.",
    },
    FamilyPlan {
        kind: FamilyType::Histogram,
        name: "some_seconds",
        unit: "seconds",
        help: "How long.",
    },
];

/// A file with two writers, each with a table of four objects and one of a single one.
pub fn made(path: &Path) -> (Board, Writer, Writer) {
    let writer = |name: &str| WriterPlan {
        name: name.to_owned(),
        fields: 16,
        tables: vec![
            TablePlan {
                name: "many",
                slots: 4,
                text_bytes: 64,
                values: 6,
            },
            TablePlan {
                name: "one",
                slots: 1,
                text_bytes: 8,
                values: 8,
            },
        ],
    };
    let plan = Plan {
        node: "a",
        interval: Duration::from_millis(100),
        families: &FAMILIES,
        writers: &[writer("lane 0"), writer("host")],
        group: None,
    };
    let (board, writers) = create(path, &plan).expect("it is made");
    let Ok([first, second]) = <[Writer; 2]>::try_from(writers) else {
        panic!("as many writers as were planned");
    };
    (board, first, second)
}

/// An object called `name` with two counts.
pub fn object(name: &str, counts: [u64; 2]) -> Draft {
    let mut draft = Draft::default();
    draft.label("name", name);
    draft.value(0, FieldKind::Count, Some(("cause", "full")), counts[0]);
    draft.value(0, FieldKind::Count, Some(("cause", "späte")), counts[1]);
    draft.info(1, [("peer", "quote \" and\nline")].into_iter());
    draft
}

fn read(path: &Path) -> Snapshot {
    CountersFile::open(path)
        .and_then(|file| file.read())
        .expect("it can be read")
}

fn numbers(snapshot: &Snapshot, family: usize) -> Vec<(String, Number)> {
    let samples = snapshot.samples().swap_remove(family);
    let family_samples = samples.into_iter();
    family_samples
        .map(|sample| {
            (
                format!("{}{{{}}}", sample.suffix, sample.labels),
                sample.number,
            )
        })
        .collect()
}

#[test]
fn written_values_are_read_back() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("counters");
    let (_board, mut lane, mut host) = made(&path);
    let empty = read(&path);
    assert_eq!(empty.node, "a");
    assert_eq!(empty.liveness, Liveness::Running);
    assert_eq!(empty.pid, u64::from(std::process::id()));
    assert_eq!(empty.interval_ns, 100_000_000);
    assert!(empty.samples().iter().all(Vec::is_empty));
    assert_eq!(
        (empty.families[0].name.as_str(), empty.families[0].kind),
        ("some_things_total", FamilyType::Counter)
    );
    assert_eq!(empty.families[1].unit, "–");

    let mut set = lane.begin();
    assert!(set.put(0, 2, 7, &object("x", [1, u64::MAX])));
    set.omitted(3);
    drop(set);
    let first = read(&path);
    let labels = |cause: &str| format!("{{name=\"x\",cause=\"{cause}\"}}");
    assert_eq!(
        numbers(&first, 0),
        [
            (labels("full"), Number::Whole(1)),
            (labels("späte"), Number::Whole(u64::MAX))
        ]
    );
    assert_eq!(
        numbers(&first, 1),
        [(
            r#"{name="x",peer="quote \" and\nline"}"#.to_owned(),
            Number::Whole(1)
        )]
    );
    assert_eq!(
        (first.writers[0].name.as_str(), first.writers[0].omitted),
        ("lane 0", 3)
    );
    assert!(first.writers[0].written_realtime_ns > first.started_realtime_ns);
    assert_eq!(first.writers[1].written_monotonic_ns, 0);

    // The same object without its labels keeps them; another one in its place is another one.
    let mut set = lane.begin();
    assert!(set.knows(0, 2, 7) && !set.knows(0, 2, 8));
    let mut bare = Draft::default();
    bare.value(0, FieldKind::Count, Some(("cause", "full")), 5);
    assert!(set.put(0, 2, 7, &bare));
    drop(set);
    let second = read(&path);
    assert_eq!(numbers(&second, 0), [(labels("full"), Number::Whole(5))]);
    let generation = |snapshot: &Snapshot| snapshot.writers[0].tables[0].objects[0].generation;
    assert_eq!(generation(&first), generation(&second));
    lane.begin().put(0, 2, 8, &object("y", [0, 0]));
    let third = read(&path);
    assert!(generation(&third) > generation(&second));
    assert!(numbers(&third, 0)[0].0.contains("name=\"y\""));

    // A cleared object is absent. An object without space is refused and changes nothing.
    let mut set = lane.begin();
    set.clear(0, 2);
    assert!(!set.put(0, 4, 1, &object("beyond", [0, 0])));
    assert!(!set.put(0, 0, 1, &object(&"long".repeat(20), [0, 0])));
    assert!(!set.put(2, 0, 1, &object("x", [0, 0])));
    drop(set);
    assert!(read(&path).samples().iter().all(Vec::is_empty));

    // Parts without labels are one object, even if several writers publish them.
    for (writer, count) in [(&mut lane, 2), (&mut host, 40)] {
        let mut part = Draft::default();
        part.value(0, FieldKind::Count, Some(("cause", "full")), count);
        part.value(2, FieldKind::Bucket, Some(("le", "0.5")), count);
        part.value(2, FieldKind::Sum, None, count * 1_000_000);
        part.value(2, FieldKind::Total, None, count);
        assert!(writer.begin().put(1, 0, 0, &part));
    }
    let parts = read(&path);
    assert_eq!(
        numbers(&parts, 0),
        [("{cause=\"full\"}".to_owned(), Number::Whole(42))]
    );
    assert_eq!(
        numbers(&parts, 2),
        [
            ("_bucket{le=\"0.5\"}".to_owned(), Number::Whole(42)),
            ("_sum{}".to_owned(), Number::Nanoseconds(42_000_000)),
            ("_count{}".to_owned(), Number::Whole(42)),
        ]
    );
}

#[test]
fn a_file_is_whole_and_private_and_outlives_its_creator() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("counters");
    let (board, mut lane, host) = made(&path);
    let about = fs::metadata(&path).expect("it is there");
    assert_eq!(about.mode() & 0o777, 0o640);
    assert!(
        about.blocks() * 512 >= about.size(),
        "every page is allocated: {about:?}"
    );
    lane.begin().put(0, 0, 1, &object("x", [1, 2]));
    let old = CountersFile::open(&path).expect("it opens");
    assert_eq!(old.liveness().expect("known"), Liveness::Running);

    // Without a word at the end it died, whatever locks another reader holds.
    let other = fs::File::open(&path).expect("it opens");
    rustix::fs::flock(&other, rustix::fs::FlockOperation::NonBlockingLockExclusive)
        .expect("no process has it");
    drop((board, lane, host));
    let of_dead = old.read().expect("it is readable");
    assert_eq!(of_dead.liveness, Liveness::Died);
    assert_eq!(numbers(&of_dead, 0).len(), 2);

    // A new file takes the name, and a reader that has the old one open keeps it.
    let (board, lane, host) = made(&path);
    assert_eq!(numbers(&old.read().expect("it is readable"), 0).len(), 2);
    assert_eq!(old.liveness().expect("known"), Liveness::Died);
    let new = CountersFile::open(&path).expect("it opens");
    assert_eq!(new.liveness().expect("known"), Liveness::Running);
    board.end();
    drop((board, lane, host));
    assert_eq!(new.liveness().expect("known"), Liveness::Ended);
    let left = fs::read_dir(dir.path()).expect("a directory").count();
    assert_eq!(left, 1, "nothing is left beside it");
}

#[test]
fn no_reader_takes_a_torn_set() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("counters");
    let (_board, mut lane, _host) = made(&path);
    let ended = AtomicBool::new(false);
    let taken = thread::scope(|scope| {
        scope.spawn(|| {
            let mut count = 0;
            while !ended.load(Ordering::Relaxed) {
                count += 1;
                let mut set = lane.begin();
                for slot in 0..4 {
                    set.put(0, slot, 1, &object("x", [count, count]));
                }
                drop(set);
                // Long enough for a reader, which may run on the same core.
                thread::sleep(Duration::from_micros(count % 200));
            }
        });
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let file = CountersFile::open(&path).expect("it opens");
                    let mut taken = 0;
                    for _ in 0..2000 {
                        let snapshot = match file.try_read() {
                            Ok(snapshot) => snapshot,
                            Err(ReadError::Busy { .. }) => continue,
                            Err(error) => panic!("{error}"),
                        };
                        let objects = &snapshot.writers[0].tables[0].objects;
                        let mut counts = objects.iter().flat_map(|object| &object.values[..2]);
                        let first = counts.next();
                        assert!(counts.all(|count| Some(count) == first), "{objects:?}");
                        taken += 1;
                    }
                    taken
                })
            })
            .collect();
        let taken: Vec<u32> = readers
            .into_iter()
            .map(|reader| reader.join().expect("a reader"))
            .collect();
        ended.store(true, Ordering::Relaxed);
        taken
    });
    assert!(taken.iter().all(|&taken| taken > 50), "{taken:?}");
}

#[test]
fn an_unfinished_set_is_waited_for_and_read_once_its_writer_is_dead() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("counters");
    let (board, mut lane, host) = made(&path);
    // As if it were killed in the middle.
    let mut set = ManuallyDrop::new(lane.begin());
    set.put(0, 0, 1, &object("x", [1, 2]));
    let file = CountersFile::open(&path).expect("it opens");
    let busy = file.read().expect_err("it runs, and is not done");
    assert!(
        matches!(&busy, ReadError::Busy { writer } if writer == "lane 0"),
        "{busy}"
    );
    drop((board, lane, host));
    let snapshot = file.read().expect("it is readable");
    assert!(snapshot.writers[0].is_torn && !snapshot.writers[1].is_torn);
}
