//! A journal whose disk works only on request: admitted requests have space, and requests without
//! space are refused or wait.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use covalent_api::request::Rights;
use covalent_pipe::region::RegionMemory;
use covalent_protocol::{Reply, verb::MultiCommit, verb::Word};

use super::*;
use crate::{
    journal::{JournalOptions, replay},
    lane::command::NewRegion,
};

const RKEY: u32 = 9;
const REGION_BYTES: u64 = 16 << 10;
/// More than any journal here can hold.
const MANY: usize = 100_000;
/// Regions that come and go.
const GUESTS: u32 = 150;

struct Node {
    durable: Durable,
    engine: VerbEngine,
    options: JournalOptions,
    executed: u32,
}

impl Node {
    fn new(directory: &Path) -> Self {
        Self::with_files(directory, 256 << 10)
    }

    fn with_files(directory: &Path, file_bytes: u64) -> Self {
        let options = JournalOptions {
            file_bytes,
            batch_bytes: 64 << 10,
            ..JournalOptions::new(directory.join("journal"))
        };
        let (journal, recovered) = Journal::open(&options).unwrap();
        let mut node = Self {
            durable: Durable::new(journal, recovered),
            engine: VerbEngine::new(),
            options,
            executed: 0,
        };
        let (memory, _fd) = RegionMemory::create(REGION_BYTES).unwrap();
        let region = NewRegion {
            session: 1,
            name: "bank".into(),
            rkey: RKEY,
            rights: Rights::ALL,
            durable: true,
            memory,
        };
        node.engine.insert(region, 0).unwrap();
        node.durable
            .serve("bank", 7, true, REGION_BYTES, 1, RKEY)
            .unwrap();
        node.sync();
        node
    }

    /// The disk completes all submitted work in one round.
    fn sync(&mut self) {
        self.durable.poll(&self.engine);
        self.durable.submit();
        self.durable.flush();
        self.durable.poll(&self.engine);
    }

    /// As many rounds as it takes until nothing is left to do.
    fn settle(&mut self) {
        for _ in 0..MANY {
            self.sync();
            let journal = &self.durable.journal;
            if !journal.needs_snapshot()
                && !journal.is_in_snapshot()
                && journal.last_lsn() == journal.durable_lsn()
            {
                return;
            }
        }
        panic!("the journal does not become idle");
    }

    fn admit(&mut self, mode: Mode, request: &[u8]) -> Option<ExchangeId> {
        self.executed += 1;
        let id = ExchangeId {
            peer: 5,
            port: 0,
            epoch: 1,
            slot: 0,
            sequence: self.executed,
        };
        self.durable.admit(mode, request).ok()?;
        self.durable.admitted(&id, mode, request);
        Some(id)
    }

    fn execute(&mut self, id: &ExchangeId, request: &[u8]) {
        let mut reply = Reply::with_room(REPLY_BYTES_MAX);
        self.engine.run(request, &mut reply).unwrap();
        let execution = self.durable.executed(id, request, &self.engine);
        assert_eq!(execution, Execution::DurableAt(self.durable.last().0));
        assert!(!self.durable.has_failed(), "it was admitted");
    }

    /// Registers one of [`GUESTS`] regions. Returns `false` if all exist, or there is no space.
    fn come(&mut self) -> bool {
        let absent =
            (0..GUESTS).find(|guest| !self.durable.names.contains_key(&format!("guest-{guest}")));
        absent.is_some_and(|guest| {
            let name = format!("guest-{guest}");
            let rkey = RKEY + 1 + guest;
            was_done(&self.durable.serve(&name, 8, true, 8, 2, rkey))
        })
    }

    /// Deletes one of them. Returns `false` if there is none, or no space.
    fn go(&mut self) -> bool {
        let name = (0..GUESTS)
            .map(|guest| format!("guest-{guest}"))
            .find(|name| self.durable.names.contains_key(name));
        name.is_some_and(|name| was_done(&self.durable.delete(&name, 0)))
    }

    /// Returns the content that a start would recover.
    fn recovered(&self) -> Vec<u8> {
        let recovered = replay(&self.options.directory).unwrap();
        recovered.find("7/bank").unwrap().1.bytes.clone()
    }

    fn memory(&self) -> Vec<u8> {
        let mut bytes = vec![0; REGION_BYTES as usize];
        self.engine
            .memory(RKEY)
            .unwrap()
            .read(0, &mut bytes)
            .unwrap();
        bytes
    }
}

/// Whether the operation succeeded. It may only fail for lack of space.
fn was_done(result: &Result<(), String>) -> bool {
    if let Err(why) = result {
        assert!(why.contains("no room now"), "{why}");
    }
    result.is_ok()
}

fn encoded(offset: u32, verb: Verb<'_>) -> Vec<u8> {
    let request = Request {
        rkey: RKEY,
        offset,
        verb,
    };
    let mut bytes = vec![0; request.encoded_bytes()];
    request.encode(&mut bytes).unwrap();
    bytes
}

/// Verbs that make short records, long ones, and ones of many changes.
fn verbs() -> [Vec<u8>; 3] {
    let words: Vec<Word> = (0..MULTI_COMMIT_WORDS_MAX as u32)
        .map(|at| Word {
            offset: 8192 + at * 64,
            expected: 0,
            new: 0,
        })
        .collect();
    [
        encoded(0, Verb::FetchAdd { delta: 1 }),
        encoded(
            64,
            Verb::Write {
                data: &[7; WRITE_BYTES_MAX],
            },
        ),
        encoded(0, Verb::MultiCommit(MultiCommit::new(&words).unwrap())),
    ]
}

#[test]
fn records_found_at_a_start_are_reported_in_the_first_round() {
    let directory = tempfile::tempdir().unwrap();
    let node = Node::new(directory.path());
    let options = node.options.clone();
    drop(node);
    let (journal, recovered) = Journal::open(&options).unwrap();
    let found = journal.durable_lsn();
    assert!(found > Lsn::default(), "the region is on disk");
    let mut durable = Durable::new(journal, recovered);
    let engine = VerbEngine::new();
    assert_eq!(durable.poll(&engine), Some(found));
    assert_eq!(durable.poll(&engine), None);
}

#[test]
fn every_exchange_admitted_while_the_disk_stalls_has_space() {
    for request in verbs() {
        for mode in [Mode::OnePhase, Mode::TwoPhase] {
            let directory = tempfile::tempdir().unwrap();
            let mut node = Node::new(directory.path());
            let mut total = 0;
            // Over and over, through a change of files.
            for _ in 0..8 {
                let mut open = Vec::new();
                let mut count = 0;
                while let Some(id) = node.admit(mode, &request) {
                    count += 1;
                    assert!(count < MANY, "there is no end");
                    match mode {
                        Mode::OnePhase => node.execute(&id, &request),
                        Mode::TwoPhase => open.push(id),
                    }
                }
                assert_eq!(
                    node.durable.admit(mode, &request),
                    Err(Refusal::NoResources)
                );
                // Refusals are for lack of space only. Open exchanges are executed all the same.
                open.iter().for_each(|id| node.execute(id, &request));
                if mode == Mode::OnePhase {
                    assert_eq!(node.durable.may_execute_here(&request), Local::Later);
                }
                assert!(node.durable.status().refused > 0);
                total += count;
                node.settle();
                assert!(
                    node.durable.kept.batch_bytes == 0,
                    "no room is kept for nothing"
                );
                assert_eq!(node.recovered(), node.memory());
            }
            assert!(total >= 8 * 10, "{total} in all");
        }
    }
}

#[test]
fn churning_regions_leave_space_for_admitted_exchanges() {
    let [_, write, _] = verbs();
    for is_first in [true, false] {
        let directory = tempfile::tempdir().unwrap();
        // A file holds more than a batch, so the batch is the limit.
        let mut node = Node::with_files(directory.path(), 2 << 20);
        if !is_first {
            while node.come() {}
            assert!(node.durable.names.len() > 100);
            node.settle();
        }
        let mut open = Vec::new();
        while let Some(id) = node.admit(Mode::TwoPhase, &write) {
            open.push(id);
        }
        assert!(open.len() > 20, "{}", open.len());
        if is_first {
            while node.come() {}
        } else {
            while node.go() {}
        }
        open.iter().for_each(|id| node.execute(id, &write));
        node.settle();
        assert!(node.come() || node.go(), "there is room again");
        node.settle();
        while let Some((_, deleted)) = node.durable.next_deleted() {
            assert_eq!(deleted, Ok(()));
        }
        assert_eq!(node.recovered(), node.memory());
    }
}

#[test]
fn open_exchanges_leave_journal_space_for_others() {
    let directory = tempfile::tempdir().unwrap();
    let mut node = Node::new(directory.path());
    let [add, ..] = verbs();
    let mut open = Vec::new();
    while let Some(id) = node.admit(Mode::TwoPhase, &add) {
        open.push(id);
    }
    assert!(open.len() > 20, "{}", open.len());
    // A reversed exchange releases its space.
    let half = open.len() / 2;
    for _ in 0..half {
        node.durable.let_go(&add);
    }
    let admitted_again = std::iter::from_fn(|| node.admit(Mode::TwoPhase, &add)).count();
    assert_eq!(admitted_again, half);
}

#[test]
fn an_open_exchange_on_a_deleted_region_reserves_no_space() {
    let directory = tempfile::tempdir().unwrap();
    let mut node = Node::new(directory.path());
    let [add, ..] = verbs();
    let open: Vec<_> = std::iter::from_fn(|| node.admit(Mode::TwoPhase, &add)).collect();
    node.durable.delete("bank", 3).unwrap();
    assert_eq!(node.durable.kept.batch_bytes, 0);
    assert_eq!(node.durable.next_deleted(), None, "it is not on disk");
    let before = node.durable.journal.last_lsn();
    for id in &open {
        assert!(
            node.admit(Mode::TwoPhase, &add).is_some(),
            "it needs no room"
        );
        let execution = node.durable.executed(id, &add, &node.engine);
        assert_eq!(execution, Execution::Done, "it is in no journal");
    }
    assert_eq!(node.durable.kept.batch_bytes, 0);
    assert_eq!(node.durable.journal.last_lsn(), before);
    node.settle();
    assert_eq!(node.durable.next_deleted(), Some((3, Ok(()))));
    assert_eq!(node.durable.next_deleted(), None);
    assert!(
        replay(&node.options.directory)
            .unwrap()
            .find("7/bank")
            .is_none()
    );
}

#[test]
fn local_verbs_wait_for_space_and_complete_in_order() {
    let directory = tempfile::tempdir().unwrap();
    let mut node = Node::new(directory.path());
    let [add, ..] = verbs();
    let mut number = 0;
    for _ in 0..3 {
        let first = number;
        while node.durable.may_execute_here(&add) == Local::Go {
            let mut reply = Reply::with_room(REPLY_BYTES_MAX);
            node.engine.run(&add, &mut reply).unwrap();
            let reply = reply.as_bytes();
            let engine = &node.engine;
            assert!(node.durable.executed_here(3, number, &add, reply, engine));
            number += 1;
        }
        assert_eq!(node.durable.may_execute_here(&add), Local::Later);
        assert!(number > first + 100, "{number}");
        node.durable.poll(&node.engine);
        assert!(
            node.durable.next_completed().is_none(),
            "nothing is on disk"
        );
        node.sync();
        let reported: Vec<u64> = std::iter::from_fn(|| node.durable.next_completed())
            .map(|held| held.user_data)
            .collect();
        assert_eq!(reported, (first..number).collect::<Vec<_>>());
    }
    let sum = u64::from_le_bytes(node.recovered()[..8].try_into().unwrap());
    assert_eq!(sum, number);
}

#[test]
fn a_failed_journal_reports_its_own_reason_once() {
    let directory = tempfile::tempdir().unwrap();
    let mut node = Node::new(directory.path());
    let [add, ..] = verbs();
    let id = node.admit(Mode::TwoPhase, &add).unwrap();
    assert_eq!(node.durable.new_failure(), None);
    node.durable
        .end_journal("/x/journal.0".into(), "was removed".into());
    assert!(node.durable.new_failure().unwrap().contains("was removed"));
    assert_eq!(node.durable.new_failure(), None);
    // A verb that can no longer be refused is executed, and its outcome is never reported.
    let reported = node.durable.reported;
    node.engine
        .run(&add, &mut Reply::with_room(REPLY_BYTES_MAX))
        .unwrap();
    let execution = node.durable.executed(&id, &add, &node.engine);
    assert_eq!(execution, Execution::DurableAt(u64::MAX));
    for mode in [Mode::OnePhase, Mode::TwoPhase] {
        assert_eq!(node.durable.admit(mode, &add), Err(Refusal::JournalFailed));
    }
    assert_eq!(node.durable.may_execute_here(&add), Local::Refused);
    let why = node.durable.delete("bank", 1).unwrap_err();
    assert!(why.contains("was removed") && why.contains("bank"), "{why}");
    node.sync();
    assert_eq!(node.durable.reported, reported);
}

#[test]
fn regions_of_a_user_count_after_a_start_until_they_are_deleted() {
    let directory = tempfile::tempdir().unwrap();
    let mut node = Node::new(directory.path());
    let size_bytes = node.durable.journal.regions_bytes_max() / 2 - REGION_BYTES;
    let serve = |durable: &mut Durable, uid, is_bounded| {
        durable.serve("more", uid, is_bounded, size_bytes, 1, RKEY + 1)
    };
    let why = serve(&mut node.durable, 7, true).unwrap_err();
    assert!(why.contains("`more`") && why.contains("user 7"), "{why}");
    let options = node.options.clone();
    drop(node);
    let (journal, recovered) = Journal::open(&options).unwrap();
    let mut durable = Durable::new(journal, recovered);
    assert_eq!(serve(&mut durable, 7, true), Err(why));
    assert_eq!(serve(&mut durable, 8, true), Ok(()));
    durable.delete("more", 1).unwrap();
    assert_eq!(serve(&mut durable, 7, false), Ok(()));
    durable.delete("more", 2).unwrap();
    durable.delete("bank", 3).unwrap();
    assert_eq!(serve(&mut durable, 7, true), Ok(()));
}

#[test]
fn a_deletion_on_disk_is_done_although_a_verb_was_lost() {
    let directory = tempfile::tempdir().unwrap();
    let mut node = Node::new(directory.path());
    node.durable.delete("bank", 3).unwrap();
    node.durable.lost = true;
    assert_eq!(node.durable.next_deleted(), None, "it is not on disk");
    for why in [
        node.durable
            .serve("bank", 7, true, REGION_BYTES, 1, RKEY)
            .unwrap_err(),
        node.durable.delete("bank", 4).unwrap_err(),
    ] {
        assert!(why.contains("the journal has failed"), "{why}");
    }
    node.sync();
    assert_eq!(node.durable.next_deleted(), Some((3, Ok(()))));
    let recovered = replay(&node.options.directory).unwrap();
    assert!(recovered.find("7/bank").is_none());
}

#[test]
fn a_deletion_is_in_doubt_if_the_journal_fails_before_it_is_on_disk() {
    let directory = tempfile::tempdir().unwrap();
    let mut node = Node::new(directory.path());
    node.durable.delete("bank", 3).unwrap();
    node.durable
        .end_journal("/x/journal.0".into(), "was removed".into());
    let (ticket, result) = node.durable.next_deleted().unwrap();
    assert_eq!(ticket, 3);
    assert!(result.unwrap_err().contains("was removed"));
    let admitted_again = node.durable.serve("bank", 7, true, REGION_BYTES, 1, RKEY);
    assert!(admitted_again.is_err(), "nothing of it is left");
}
