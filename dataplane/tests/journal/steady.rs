//! A lane's calls allocate nothing.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    time::{Duration, Instant},
};

use covalent_dataplane::journal::{Commit, Exchange, Journal, Redo};

use super::{
    disk::{in_memory, small},
    lane::Lane,
};

/// For a disk that is as slow as it can be.
const PATIENCE: Duration = Duration::from_secs(60);

/// The system's allocator. Counts the requests of each thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: Every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

#[test]
fn append_snapshot_submit_and_poll_allocate_nothing() {
    let directory = in_memory();
    let (mut journal, recovered) = Journal::open(&small(directory.path())).expect("a journal");
    let mut lane = Lane::new(recovered);
    let region = lane.make(&mut journal, "accounts", 4096);
    journal.flush();
    let before = ALLOCATIONS.get();
    let mut appended = 0;
    let mut snapshots = 0;
    // The number that fits in a turn depends on the disk.
    let began = Instant::now();
    let mut sequence = 0;
    while appended <= 1000 || snapshots <= 2 {
        assert!(
            began.elapsed() < PATIENCE,
            "{appended} commits, {snapshots} snapshots"
        );
        sequence += 1;
        journal.poll();
        let commit = Commit {
            region,
            exchange: Some(Exchange {
                initiator: 1,
                incarnation: 2,
                epoch: 3,
                sequence,
                port: 0,
                slot: 0,
                two_phase: false,
            }),
            redo: &[Redo {
                offset: u64::from(sequence % 512) * 8,
                bytes: &u64::from(sequence).to_le_bytes(),
            }],
            reply: &[1; 12],
        };
        appended += u32::from(journal.append(&commit).is_ok());
        if journal.needs_snapshot() {
            snapshots += u32::from(journal.begin_snapshot());
        }
        journal.snapshot_step(&lane, 4096);
        journal.submit();
    }
    assert_eq!(ALLOCATIONS.get() - before, 0);
    assert!(journal.failure().is_none());
}
