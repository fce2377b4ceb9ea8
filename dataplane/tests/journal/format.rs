//! Journals that earlier versions wrote.

use std::{collections::BTreeMap, fs, path::Path};

use covalent_dataplane::journal::{Journal, Recovered, RegionKey, replay};

use super::disk::{in_memory, small};

/// Checks the contents of the first format's files (`format_1`). A snapshot is in progress, so both
/// files are needed. They end where their zeros begin.
fn expect_first(recovered: &Recovered) {
    let mut accounts = vec![0; 1000];
    for number in [1, 2, 3, 4, 5, 6, 8] {
        accounts[number * 100..number * 100 + 50].fill(number as u8);
    }
    let regions: BTreeMap<_, _> = recovered
        .regions
        .iter()
        .map(|(&key, region)| (key, (region.name.as_str(), region.bytes.as_slice())))
        .collect();
    let expected = [
        (RegionKey(1), ("0/accounts", accounts.as_slice())),
        (RegionKey(2), ("0/counter", &[7, 0, 0, 0, 0, 0, 0, 0])),
    ];
    assert_eq!(regions, expected.into());
    let latched = recovered.latches.values();
    let latched: Vec<_> = latched
        .map(|it| (it.exchange.sequence, it.reply.clone()))
        .collect();
    let expected = [8, 5, 6, 7].map(|number: u8| (u32::from(number), vec![number; 12]));
    assert_eq!(latched, expected);
}

#[test]
fn a_journal_of_the_first_format_is_read_and_becomes_one_of_the_second() {
    let directory = in_memory();
    let options = small(directory.path());
    fs::create_dir(&options.directory).expect("a directory");
    let format_1 = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/journal/format_1");
    for name in ["journal.0", "journal.1"] {
        fs::copy(format_1.join(name), options.directory.join(name)).expect("a file");
        let magic = fs::read(options.directory.join(name)).expect("a file");
        assert!(magic.starts_with(b"CovJrnl1"), "{name}");
    }
    let recovered = replay(&options.directory).expect("a journal");
    expect_first(&recovered);
    assert_eq!(recovered.last_lsn.0, 21);
    let (mut journal, recovered) = Journal::open(&options).expect("a journal");
    expect_first(&recovered);
    // A key that was given before is not given again.
    let (key, _) = journal.append_region("9/new", 8).expect("room");
    assert_eq!(key, RegionKey(4));
    drop(journal);
    let magics = ["journal.0", "journal.1"]
        .map(|name| fs::read(options.directory.join(name)).expect("a file")[..8].to_vec());
    assert!(magics.contains(&b"CovJrnl2".to_vec()) && magics.contains(&vec![0; 8]));
    expect_first(&replay(&options.directory).expect("a journal"));
}
