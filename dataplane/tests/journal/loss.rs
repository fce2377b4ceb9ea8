//! Losses that an operator accepts.

use std::fs;

use covalent_dataplane::journal::{Journal, JournalOptions, OnLoss, OpenError, replay};

use super::{
    disk::{BLOCK_BYTES, FILE_BYTES, file_of, in_memory, small, written_bytes},
    lane::{Draw, Lane, State},
};

fn accepting(options: &JournalOptions) -> JournalOptions {
    JournalOptions {
        on_loss: OnLoss::SetAside,
        ..options.clone()
    }
}

/// A journal of five batches behind its snapshot, all acknowledged, in the file of generation 1.
fn five_batches(options: &JournalOptions) -> Lane {
    let (mut journal, recovered) = Journal::open(options).expect("a journal");
    let mut lane = Lane::new(recovered);
    lane.make(&mut journal, "accounts", 1000);
    for _ in 0..5 {
        lane.commit_any(&mut journal, &mut Draw(5)).expect("room");
        let last = journal.last_lsn();
        assert_eq!(journal.flush(), last);
    }
    lane
}

fn zero(options: &JournalOptions, generation: u64, from: u64, bytes: u64) {
    let path = file_of(options, generation);
    let mut content = fs::read(&path).expect("a file");
    content[from as usize..(from + bytes) as usize].fill(0);
    fs::write(path, content).expect("it can be written");
}

#[test]
fn an_accepted_loss_sets_files_aside_and_keeps_whole_records() {
    let directory = in_memory();
    let options = small(directory.path());
    let lane = five_batches(&options);
    let end = written_bytes(&file_of(&options, 1));
    zero(&options, 1, end - BLOCK_BYTES, BLOCK_BYTES);
    let evidence = [0, 1].map(|file| fs::read(file_of(&options, file)).expect("a file"));
    let error = Journal::open(&options).expect_err("a loss");
    let OpenError::Lost(loss) = &error else {
        panic!("{error}");
    };
    assert_eq!(
        (loss.expected_bytes, loss.found_bytes),
        (end, end - BLOCK_BYTES)
    );
    assert_eq!(loss.expected.0, loss.found.0 + 1);
    let loss = loss.clone();

    let (mut journal, recovered) = Journal::open(&accepting(&options)).expect("it was accepted");
    let accepted = recovered.accepted.clone().expect("a loss");
    assert_eq!(accepted.what, loss.to_string());
    let names = ["journal.0.lost-2", "journal.1.lost-2"].map(|name| options.directory.join(name));
    assert_eq!(accepted.set_aside, names);
    for (name, evidence) in names.iter().zip(&evidence) {
        assert!(
            fs::read(name).expect("it is there") == *evidence,
            "{name:?}"
        );
    }
    // No number of a record is given twice.
    assert_eq!(recovered.last_lsn, loss.expected);
    assert!(State::of(recovered.clone()) == lane.after(loss.found));
    let mut lane = Lane::new(recovered);
    lane.commit_any(&mut journal, &mut Draw(9)).expect("room");
    let last = journal.last_lsn();
    assert_eq!(journal.flush(), last);
    drop(journal);
    // Nothing is to be accepted any more, and a start that would accept it finds nothing to do.
    for options in [options.clone(), accepting(&options)] {
        let (journal, recovered) = Journal::open(&options).expect("it is whole");
        assert_eq!(recovered.accepted, None);
        assert!(State::of(recovered) == lane.state);
        drop(journal);
    }
}

#[test]
fn a_newer_file_without_a_header_does_not_select_the_older_one() {
    let directory = in_memory();
    let options = small(directory.path());
    let mut lane = five_batches(&options);
    let (mut journal, recovered) = Journal::open(&options).expect("a journal");
    let older = Lane::new(recovered.clone());
    assert!(State::of(recovered) == lane.state);
    // Generation 2 is active. A snapshot that is not complete begins generation 3.
    assert!(journal.begin_snapshot());
    journal.submit();
    lane.commit_any(&mut journal, &mut Draw(7)).expect("room");
    journal.flush();
    assert!(journal.is_in_snapshot());
    drop(journal);
    assert!(State::of(replay(&options.directory).expect("whole")) == lane.state);
    // The header alone, all that is not a record, and all.
    for bytes in [BLOCK_BYTES, 4 * BLOCK_BYTES, FILE_BYTES] {
        zero(&options, 3, 0, bytes);
        let error = Journal::open(&options).expect_err("a loss").to_string();
        assert!(
            error.contains("journal.1 is damaged at byte 0: generation 3 was acknowledged"),
            "{error}"
        );
    }
    fs::remove_file(file_of(&options, 3)).expect("it was there");
    let error = Journal::open(&options).expect_err("a loss").to_string();
    assert!(error.contains("generation 3 was acknowledged"), "{error}");
    let (journal, recovered) = Journal::open(&accepting(&options)).expect("it was accepted");
    assert!(recovered.accepted.is_some());
    assert!(State::of(recovered) == older.state);
    drop(journal);
    Journal::open(&options).expect("it is whole");
}

#[test]
fn a_file_whose_first_batch_is_not_on_disk_is_no_loss() {
    let directory = in_memory();
    let options = small(directory.path());
    let lane = five_batches(&options);
    let (mut journal, _) = Journal::open(&options).expect("a journal");
    let older = fs::read(file_of(&options, 2)).expect("a file");
    assert!(journal.begin_snapshot());
    journal.submit();
    journal.snapshot_step(&lane, 8);
    journal.flush();
    drop(journal);
    // As if the power had failed in the middle of the first batch: the old file has no trace of the
    // new one.
    fs::write(file_of(&options, 2), older).expect("it can be written");
    zero(&options, 3, 0, BLOCK_BYTES);
    let (_, recovered) = Journal::open(&options).expect("a journal");
    assert!(State::of(recovered) == lane.state);
}

#[test]
fn a_damaged_middle_is_accepted_up_to_the_damage() {
    let directory = in_memory();
    let options = small(directory.path());
    let lane = five_batches(&options);
    let end = written_bytes(&file_of(&options, 1));
    zero(&options, 1, end - 3 * BLOCK_BYTES, BLOCK_BYTES);
    assert!(matches!(
        Journal::open(&options),
        Err(OpenError::Damaged { .. })
    ));
    let (_, recovered) = Journal::open(&accepting(&options)).expect("it was accepted");
    let what = recovered.accepted.clone().expect("a loss").what;
    assert!(what.contains("a batch is incomplete"), "{what}");
    let last = lane.last();
    assert_eq!(recovered.last_lsn, last);
    let lost = 3;
    assert!(State::of(recovered) == lane.after(covalent_dataplane::journal::Lsn(last.0 - lost)));
}
