//! Making pipe memory: sizes, pages, time of allocation, and cleanup.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod huge_pages;
mod support;

use std::{fs, os::unix::fs::FileExt};

use covalent_pipe::{
    CAPACITY_BYTES_MAX, Direction, PagePolicy, PipeError, PipeMemory, PipeSpec,
    app::{RxPipe, TxPipe},
    nic::NicPipe,
    session::SessionMemory,
};
use huge_pages::Reserved;
use nix::sys::resource::{UsageWho, getrusage};
use rustix::fs::{FallocateFlags, fallocate, fstat};
use support::{memories, packet};

const HUGE: u64 = 2 << 20;

fn create(
    direction: Direction,
    capacity_bytes: u64,
    pages: PagePolicy,
) -> Result<PipeMemory, PipeError> {
    PipeMemory::create(&PipeSpec {
        direction,
        capacity_bytes,
        pages,
    })
}

#[test]
fn capacities_are_powers_of_two_in_range() {
    for capacity in [
        0,
        1,
        64,
        2048,
        4095,
        4097,
        6144,
        3 << 20,
        CAPACITY_BYTES_MAX * 2,
        u64::MAX,
    ] {
        let error = create(Direction::Rx, capacity, PagePolicy::Never).unwrap_err();
        assert!(
            matches!(error, PipeError::Size { found, .. } if found == capacity),
            "{capacity}: {error}"
        );
    }
    assert_eq!(
        create(Direction::Rx, 4096, PagePolicy::Never)
            .unwrap()
            .capacity_bytes(),
        4096
    );
}

#[test]
fn every_page_is_allocated_when_the_memory_is_made() {
    for direction in [Direction::Rx, Direction::Tx, Direction::RxTx] {
        let memory = create(direction, 1 << 20, PagePolicy::Never).unwrap();
        for fd in memory.fds() {
            let stat = fstat(fd).unwrap();
            assert!(stat.st_blocks * 512 >= stat.st_size, "a page is missing");
        }
    }
}

/// The first access to an unmapped page would wait. A lane must never cause one.
#[test]
fn every_page_is_mapped_when_the_memory_is_made() {
    const CAPACITY: u64 = 4 << 20;
    let faults = || {
        getrusage(UsageWho::RUSAGE_THREAD)
            .unwrap()
            .minor_page_faults()
    };
    for (direction, pages) in [
        (Direction::Rx, PagePolicy::Never),
        (Direction::RxTx, PagePolicy::Never),
        (Direction::RxTx, PagePolicy::Auto),
    ] {
        let mut nic = NicPipe::new(create(direction, CAPACITY, pages).unwrap());
        let packet = [7; 1024];
        // The length words and the counters are there, and so is this code.
        nic.push(&packet).unwrap();
        let before = faults();
        for _ in 2..CAPACITY / 1024 {
            nic.push(&packet).unwrap();
        }
        let more = faults() - before;
        assert!(more < 16, "{direction:?}, {pages:?}: {more} page faults");
    }
}

#[test]
fn a_pipe_on_huge_pages_works() {
    // The other tests here may take some of them.
    let _reserved = Reserved::more(16);
    for (direction, pages) in [
        (Direction::Rx, PagePolicy::Auto),
        (Direction::Rx, PagePolicy::Require),
        (Direction::Tx, PagePolicy::Auto),
        (Direction::Tx, PagePolicy::Require),
    ] {
        let memory = match create(direction, HUGE, pages) {
            Ok(memory) => memory,
            Err(error) if pages == PagePolicy::Require => {
                assert!(
                    matches!(error, PipeError::HugePages { bytes: HUGE, .. }),
                    "{error}"
                );
                assert!(error.to_string().contains("nr_hugepages"), "{error}");
                println!("skipped: {direction:?} on huge pages: {error}");
                continue;
            }
            Err(error) => panic!("{error}"),
        };
        let page_bytes = memory.page_bytes();
        println!("{direction:?} under {pages:?}: pages of {page_bytes} bytes");
        if pages == PagePolicy::Require {
            assert_eq!(page_bytes, HUGE);
        }
        assert!([4096, HUGE].contains(&page_bytes));
        if page_bytes == HUGE {
            assert!(
                huge_kib_of(&memory) >= HUGE / 1024,
                "the reported size equals the kernel's"
            );
        }
        let fds = memory.fds().map(|fd| fd.try_clone_to_owned().unwrap());
        let opened = PipeMemory::open(fds, direction, HUGE).unwrap();
        assert_eq!(opened.page_bytes(), page_bytes);
        let mut nic = NicPipe::new(memory);
        // Three laps, so that packets cross the end of the ring.
        if direction == Direction::Rx {
            let mut app = RxPipe::new(opened).unwrap();
            for number in 0..6000 {
                let packet = packet(number, 1100);
                nic.push(&packet).unwrap();
                nic.publish();
                assert_eq!(app.recv().unwrap().iter().next().unwrap(), packet);
            }
        } else {
            let mut app = TxPipe::new(opened).unwrap();
            for number in 0..6000 {
                let packet = packet(number, 1100);
                app.send(&packet).unwrap();
                app.publish();
                assert_eq!(nic.peek_tx().unwrap().unwrap().to_vec(), packet);
                nic.advance_tx();
                nic.complete_tx();
            }
        }
    }
}

/// KiB of a pipe's data that this process has mapped by huge pages, reserved or transparent.
fn huge_kib_of(memory: &PipeMemory) -> u64 {
    let inode = fstat(memory.fds()[1]).unwrap().st_ino.to_string();
    let maps = fs::read_to_string("/proc/self/smaps").unwrap();
    let mut ours = false;
    let mut kib = 0;
    for line in maps.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words[0].contains('-') {
            ours = words.get(4) == Some(&inode.as_str());
        } else if ours
            && ["ShmemPmdMapped:", "Shared_Hugetlb:", "Private_Hugetlb:"].contains(&words[0])
        {
            kib += words[1].parse::<u64>().unwrap();
        }
    }
    kib
}

/// A process that may write the data may punch a hole into it. The daemon must continue without a
/// SIGBUS, for any kind of pages.
#[test]
fn a_hole_in_writable_data_harms_only_its_bytes() {
    for direction in [Direction::Tx, Direction::RxTx] {
        let memory = create(direction, HUGE, PagePolicy::Auto).unwrap();
        let [_, data] = memory.fds();
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(data, punch, 0, HUGE).unwrap();
        let data = data.try_clone_to_owned().unwrap();
        let fds = memory.fds().map(|fd| fd.try_clone_to_owned().unwrap());
        let opened = PipeMemory::open(fds, direction, HUGE).unwrap();
        let mut nic = NicPipe::new(memory);
        if direction == Direction::Tx {
            let mut app = TxPipe::new(opened).unwrap();
            app.send(&[7; 1000]).unwrap();
            app.publish();
            fallocate(&data, punch, 0, 4096).unwrap();
            assert_eq!(nic.peek_tx().unwrap().unwrap().to_vec(), [0; 1000]);
        } else {
            nic.push(&[7; 1000]).unwrap();
            fallocate(&data, punch, 4096, HUGE - 4096).unwrap();
            nic.push(&[7; 10_000]).unwrap();
        }
        assert_eq!(nic.violation(), None);
    }
}

#[test]
fn a_ring_below_a_huge_page_has_small_ones_under_every_policy() {
    for direction in [Direction::Rx, Direction::Tx] {
        for pages in [PagePolicy::Require, PagePolicy::Auto, PagePolicy::Never] {
            let memory = create(direction, HUGE / 2, pages).unwrap();
            assert_eq!(memory.page_bytes(), 4096, "{direction:?} under {pages:?}");
            let fds = memory.fds().map(|fd| fd.try_clone_to_owned().unwrap());
            let opened = PipeMemory::open(fds, direction, HUGE / 2).unwrap();
            assert_eq!(opened.page_bytes(), 4096);
        }
    }
}

#[test]
fn a_half_takes_only_memory_of_its_direction() {
    let (_, theirs) = memories(Direction::Tx, 4096);
    let error = RxPipe::new(theirs).unwrap_err();
    assert_eq!(error.to_string(), "the pipe is Tx, expected Rx");
}

#[test]
fn dropped_pipes_leave_no_mapping_and_no_descriptor() {
    let mapped_kib = || -> u64 {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let line = status
            .lines()
            .find(|line| line.starts_with("VmSize:"))
            .unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    let open = || fs::read_dir("/proc/self/fd").unwrap().count();
    let before = (mapped_kib(), open());
    for _ in 0..500 {
        let (ours, theirs) = memories(Direction::Rx, 1 << 20);
        drop((NicPipe::new(ours), RxPipe::new(theirs).unwrap()));
    }
    // Leaking would have mapped 2 GiB and opened 2000 descriptors; other tests run beside this one.
    assert!(mapped_kib() < before.0 + 200 * 1024, "mappings were left");
    assert!(open() < before.1 + 50, "descriptors were left");
}

#[test]
fn memory_of_another_layout_is_refused_with_both_versions() {
    for (digit, program) in [(b'1', "covalentd"), (b'3', "this program")] {
        let memory = create(Direction::Rx, 4096, PagePolicy::Never).unwrap();
        let fds = memory.fds().map(|fd| fd.try_clone_to_owned().unwrap());
        let control = fs::File::from(fds[0].try_clone().unwrap());
        control.write_at(&[digit], 7).unwrap();
        let error = PipeMemory::open(fds, Direction::Rx, 4096).unwrap_err();
        let text = error.to_string();
        assert!(
            matches!(error, PipeError::Layout { known: 2, .. }),
            "{text}"
        );
        assert!(text.contains(program), "{text}");

        let memory = SessionMemory::create(16).unwrap();
        let fd = memory.fd().try_clone_to_owned().unwrap();
        fs::File::from(fd.try_clone().unwrap())
            .write_at(&[digit], 7)
            .unwrap();
        let error = SessionMemory::open(fd, 16).unwrap_err();
        assert!(matches!(error, PipeError::Layout { .. }), "{error}");
    }
}
