//! Files that end anywhere, and files of which any byte changed.

use covalent_dataplane::journal::{Journal, JournalOptions, Lsn, OpenError, Recovered, replay};
use tempfile::TempDir;

use super::{
    disk::{
        BLOCK_BYTES, Copy, FILE_BYTES, LEAD_BYTES, Marks, file_of, in_memory, marks, small,
        with_bytes, written_bytes,
    },
    lane::{Draw, Lane, State},
};

const SECTOR_BYTES: u64 = 512;

/// A journal of some batches, and the acknowledged records for each length of its newer file.
struct Written {
    _directory: TempDir,
    options: JournalOptions,
    lane: Lane,
    /// The newer generation.
    generation: u64,
    /// How it was after each batch.
    acknowledged: Vec<Moment>,
}

/// A moment at which everything that was written was acknowledged.
#[derive(Clone)]
struct Moment {
    /// Length of the newer file.
    bytes: u64,
    /// Last record.
    lsn: Lsn,
    marks: Marks,
}

impl Moment {
    fn of(options: &JournalOptions, bytes: u64, journal: &Journal) -> Self {
        Self {
            bytes,
            lsn: journal.durable_lsn(),
            marks: marks(options),
        }
    }
}

impl Written {
    /// All in the file that the start began.
    fn in_one_file() -> Self {
        let (directory, options, mut journal, mut lane, mut draw) = begun();
        let file = file_of(&options, 1);
        let mut acknowledged = vec![Moment::of(&options, written_bytes(&file), &journal)];
        for _ in 0..3 {
            some_commits(&mut lane, &mut journal, &mut draw, 6);
            acknowledged.push(Moment::of(&options, written_bytes(&file), &journal));
        }
        drop(journal);
        Self {
            _directory: directory,
            options,
            lane,
            generation: 1,
            acknowledged,
        }
    }

    /// A snapshot is in the second file, or the beginning of one, with commits between its parts.
    fn in_two_files(whole: bool) -> Self {
        let (directory, options, mut journal, mut lane, mut draw) = begun();
        some_commits(&mut lane, &mut journal, &mut draw, 20);
        let mut acknowledged = vec![Moment::of(&options, 0, &journal)];
        assert!(journal.begin_snapshot());
        journal.submit();
        let newer = file_of(&options, 2);
        for step in 0..20 {
            some_commits(&mut lane, &mut journal, &mut draw, 2);
            acknowledged.push(Moment::of(&options, written_bytes(&newer), &journal));
            journal.snapshot_step(&lane, 400);
            journal.flush();
            acknowledged.push(Moment::of(&options, written_bytes(&newer), &journal));
            // A round more would begin to blank the first file.
            if !journal.is_in_snapshot() || !whole && step == 1 {
                break;
            }
        }
        assert_eq!(journal.is_in_snapshot(), !whole);
        drop(journal);
        Self {
            _directory: directory,
            options,
            lane,
            generation: 2,
            acknowledged,
        }
    }

    fn last(&self) -> &Moment {
        self.acknowledged.last().expect("a batch")
    }

    /// The last moment at which the newer file had no more than `length` bytes.
    fn acknowledged_at(&self, length: u64) -> Option<&Moment> {
        let mut moments = self.acknowledged.iter().rev();
        moments.find(|moment| moment.bytes <= length)
    }

    fn expect(&self, recovered: Recovered, lsn: Lsn, how: &str) {
        assert_eq!(recovered.last_lsn, lsn, "{how}");
        assert!(State::of(recovered) == self.lane.after(lsn), "{how}");
    }

    /// Cuts the newer file at each byte, by its length and by zeros, as during the write of its
    /// last batch.
    fn cut_at_every_byte(&self) {
        let copy = Copy::of(&self.options);
        let file = copy.open(self.generation);
        let length = self.last().bytes;
        let mut known = (None, State::default());
        for cut in (0..length).rev() {
            if let Some(moment) = self.acknowledged_at(cut) {
                copy.set_marks(&moment.marks);
            }
            file.set_len(cut).expect("a shorter file");
            let short = replay(&copy.options.directory);
            file.set_len(FILE_BYTES).expect("a longer file");
            let zeros = replay(&copy.options.directory);
            let Some(&Moment { lsn, .. }) = self.acknowledged_at(cut) else {
                assert!(short.is_err() && zeros.is_err(), "cut at {cut}");
                continue;
            };
            if known.0 != Some(lsn) {
                known = (Some(lsn), self.lane.after(lsn));
            }
            for (how, recovered) in [("short", short), ("zeros", zeros)] {
                let recovered = recovered.unwrap_or_else(|error| panic!("cut at {cut}: {error}"));
                assert_eq!(recovered.last_lsn, lsn, "{how}, cut at {cut}");
                if let Some(torn) = &recovered.torn {
                    assert_eq!(torn.path, file_of(&copy.options, self.generation));
                    // A sector that holds nothing but its stamp is blank without it.
                    let end = torn.offset + torn.bytes;
                    assert!(
                        end <= cut.next_multiple_of(SECTOR_BYTES) && end + SECTOR_BYTES > cut,
                        "cut at {cut}, torn up to {end}"
                    );
                } else {
                    // Nothing of a batch is there, or not even the header.
                    assert!(cut.is_multiple_of(BLOCK_BYTES) || cut < LEAD_BYTES, "{cut}");
                }
                assert!(State::of(recovered) == known.1, "{how}, cut at {cut}");
            }
        }
    }

    /// Cuts the newer file at many bytes after all of it was acknowledged. The journal reports the
    /// loss and never recovers another state.
    fn lose_from_many_bytes(&self) {
        let last = self.last();
        for zeros in [false, true] {
            for cut in (0..last.bytes).step_by(56).chain([last.bytes - 1]) {
                let copy = Copy::of(&self.options);
                let file = copy.open(self.generation);
                file.set_len(cut).expect("a shorter file");
                if zeros {
                    file.set_len(FILE_BYTES).expect("a longer file");
                }
                drop(file);
                let before = Copy::of(&copy.options);
                let error = Journal::open(&copy.options).expect_err("a loss");
                match &error {
                    // The marks, or the header, are gone too.
                    OpenError::Lost(_) | OpenError::Damaged { .. } if cut < LEAD_BYTES => {}
                    OpenError::Lost(loss) => {
                        assert_eq!(loss.path, file_of(&copy.options, self.generation));
                        assert_eq!((loss.expected, loss.expected_bytes), (last.lsn, last.bytes));
                        let whole = self.acknowledged_at(cut).map(|it| it.bytes);
                        assert!(loss.found < last.lsn, "cut at {cut}");
                        assert!(whole.is_none_or(|bytes| bytes <= loss.found_bytes));
                        assert!(loss.found_bytes <= cut, "cut at {cut}");
                    }
                    _ => panic!("cut at {cut}: {error}"),
                }
                assert!(
                    error.to_string().contains("--accept-journal-loss"),
                    "{error}"
                );
                // The evidence is as it was.
                for generation in 0..2 {
                    let bytes = |copy: &Copy| std::fs::read(file_of(&copy.options, generation));
                    assert_eq!(bytes(&copy).ok(), bytes(&before).ok(), "cut at {cut}");
                }
            }
        }
    }

    /// Changes each byte of both files.
    fn change_every_byte(&self) {
        let copy = Copy::of(&self.options);
        let lsn = self.last().lsn;
        let whole = self.lane.after(lsn);
        let mut refused = 0;
        for generation in [self.generation - 1, self.generation] {
            let path = file_of(&copy.options, generation);
            let bytes = std::fs::read(&path).expect("a file");
            let file = copy.open(generation);
            let last = bytes.iter().rposition(|&byte| byte != 0).unwrap_or(0);
            for (at, byte) in bytes.iter().enumerate().take(last + 600) {
                let change = if at % 2 == 0 { 0xff } else { 1 << (at / 2 % 8) };
                let recovered = with_bytes(&file, at as u64, &[byte ^ change], || {
                    replay(&copy.options.directory)
                });
                match recovered {
                    Ok(recovered) => {
                        assert_eq!(recovered.last_lsn, lsn, "byte {at} of {path:?}");
                        assert!(State::of(recovered) == whole, "byte {at} of {path:?}");
                    }
                    Err(OpenError::Damaged { path: named, .. }) => {
                        assert_eq!(named, path, "byte {at}");
                        refused += 1;
                    }
                    Err(error) => panic!("byte {at} of {path:?}: {error}"),
                }
            }
        }
        // All that holds something, but not the rest of the headers' blocks.
        let length = self.last().bytes;
        assert!(refused >= length - LEAD_BYTES, "{refused} of {length}");
    }
}

fn begun() -> (TempDir, JournalOptions, Journal, Lane, Draw) {
    let directory = in_memory();
    let options = small(directory.path());
    let (mut journal, recovered) = Journal::open(&options).expect("a journal");
    let mut lane = Lane::new(recovered);
    lane.make(&mut journal, "accounts", 1000);
    lane.make(&mut journal, "counter", 8);
    (directory, options, journal, lane, Draw(1))
}

fn some_commits(lane: &mut Lane, journal: &mut Journal, draw: &mut Draw, count: usize) {
    for _ in 0..count {
        lane.commit_any(journal, draw).expect("room");
    }
    let last = journal.last_lsn();
    assert_eq!(journal.flush(), last);
}

#[test]
fn a_journal_cut_at_any_byte_keeps_every_earlier_batch() {
    Written::in_one_file().cut_at_every_byte();
}

#[test]
fn a_snapshot_cut_at_any_byte_keeps_every_earlier_batch() {
    Written::in_two_files(true).cut_at_every_byte();
}

#[test]
fn lost_acknowledged_records_are_named_and_the_files_left_alone() {
    Written::in_one_file().lose_from_many_bytes();
}

#[test]
fn records_lost_beside_a_snapshot_are_named_and_the_files_left_alone() {
    Written::in_two_files(false).lose_from_many_bytes();
    Written::in_two_files(true).lose_from_many_bytes();
}

#[test]
fn a_changed_byte_is_refused_or_harmless() {
    Written::in_one_file().change_every_byte();
}

#[test]
fn a_changed_byte_under_half_a_snapshot_is_refused_or_harmless() {
    Written::in_two_files(false).change_every_byte();
}

#[test]
fn a_changed_byte_under_a_whole_snapshot_is_refused_or_harmless() {
    Written::in_two_files(true).change_every_byte();
}

/// A disk may write the sectors of one write in any order. A batch that is followed by another one
/// was on disk.
#[test]
fn any_sector_of_the_last_batch_may_be_missing_and_none_of_others() {
    let written = Written::in_one_file();
    let copy = Copy::of(&written.options);
    let file = copy.open(1);
    let [.., before, last] = &written.acknowledged[..] else {
        panic!("some batches");
    };
    let (second, third) = (before.bytes, last.bytes);
    copy.set_marks(&before.marks);
    assert_eq!(third - second, 8 * SECTOR_BYTES);
    let mut batch = vec![0; (third - second) as usize];
    std::os::unix::fs::FileExt::read_exact_at(&file, &mut batch, second).expect("it is there");
    for lacking in 0_u32..256 {
        let mut torn = batch.clone();
        for (at, sector) in torn.chunks_mut(SECTOR_BYTES as usize).enumerate() {
            if lacking >> at & 1 == 1 {
                sector.fill(0);
            }
        }
        let expected = if lacking == 0 { last.lsn } else { before.lsn };
        let recovered = with_bytes(&file, second, &torn, || replay(&copy.options.directory));
        let recovered = recovered.unwrap_or_else(|error| panic!("{lacking:08b}: {error}"));
        assert_eq!(
            recovered.torn.is_some(),
            lacking != 0 && lacking != 255,
            "{lacking:08b}"
        );
        written.expect(recovered, expected, &format!("{lacking:08b}"));
    }
    for sector in (second - 8 * SECTOR_BYTES..second).step_by(SECTOR_BYTES as usize) {
        let recovered = with_bytes(&file, sector, &[0; SECTOR_BYTES as usize], || {
            replay(&copy.options.directory)
        });
        let error = recovered.expect_err("a hole").to_string();
        assert!(error.contains("journal.1 is damaged at byte"), "{error}");
    }
}

/// The stamps of a later batch suffice to detect the loss, even if it is larger than the missing
/// batch.
#[test]
fn a_batch_that_lacks_before_another_is_refused() {
    let (_directory, options, mut journal, mut lane, mut draw) = begun();
    some_commits(&mut lane, &mut journal, &mut draw, 1);
    let newer = file_of(&options, 1);
    let small = written_bytes(&newer);
    let region = journal.region_key("counter").expect("the region");
    for _ in 0..4 {
        lane.commit(&mut journal, region, None, vec![], vec![1; 4000])
            .expect("room");
    }
    journal.flush();
    drop(journal);
    assert!(written_bytes(&newer) >= small + 4 * BLOCK_BYTES);
    let copy = Copy::of(&options);
    let file = copy.open(1);
    let hole = [0; BLOCK_BYTES as usize];
    let recovered = with_bytes(&file, small - BLOCK_BYTES, &hole, || {
        replay(&copy.options.directory)
    });
    let error = recovered.expect_err("a hole").to_string();
    assert!(
        error.contains(&format!(
            "damaged at byte {}: a batch is incomplete",
            small - BLOCK_BYTES
        )),
        "{error}"
    );
}

#[test]
fn a_start_after_a_torn_tail_continues_after_the_last_whole_batch() {
    let written = Written::in_one_file();
    let copy = Copy::of(&written.options);
    let length = written.last().bytes;
    let moment = written.acknowledged_at(length - 700).expect("a batch");
    copy.set_marks(&moment.marks);
    copy.open(1).set_len(length - 700).expect("a shorter file");
    let lsn = moment.lsn;
    let (mut journal, recovered) = Journal::open(&copy.options).expect("a journal");
    assert!(recovered.torn.is_some());
    let mut lane = Lane::new(recovered.clone());
    written.expect(recovered, lsn, "cut");
    some_commits(&mut lane, &mut journal, &mut Draw(2), 5);
    drop(journal);
    let second_replay = replay(&copy.options.directory).expect("it is whole");
    assert_eq!(second_replay.torn, None);
    assert!(State::of(second_replay) == lane.state);
}

#[test]
fn a_journal_with_no_whole_file_is_refused() {
    let written = Written::in_two_files(false);
    let copy = Copy::of(&written.options);
    std::fs::remove_file(file_of(&copy.options, 1)).expect("it was there");
    let error = replay(&copy.options.directory).expect_err("half a snapshot");
    assert!(
        error.to_string().contains("its snapshot has no end"),
        "{error}"
    );
    copy.open(2).set_len(0).expect("an empty file");
    let error = Journal::open(&copy.options).expect_err("nothing");
    assert!(
        error
            .to_string()
            .contains("no file of this journal has a header"),
        "{error}"
    );
}
