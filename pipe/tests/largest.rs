//! The largest pipe. It runs in its own process, because other tests count their mapped memory.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used)]

use covalent_pipe::{
    CAPACITY_BYTES_MAX, Direction, PagePolicy, PipeMemory, PipeSpec, app::BytePipe, nic::NicPipe,
};

/// 1 GiB: every byte of it can be reached, and a packet as long as the ring goes through.
#[test]
fn the_largest_ring_works() {
    let (mut nic, mut app) = {
        let memory = PipeMemory::create(&PipeSpec {
            direction: Direction::RxBytes,
            capacity_bytes: CAPACITY_BYTES_MAX,
            pages: PagePolicy::Auto,
        })
        .unwrap();
        let fds = memory.fds().map(|fd| fd.try_clone_to_owned().unwrap());
        let opened = PipeMemory::open(fds, Direction::RxBytes, CAPACITY_BYTES_MAX).unwrap();
        (NicPipe::new(memory), BytePipe::new(opened).unwrap())
    };
    let chunk = vec![7; 64 << 20];
    for _ in 0..15 {
        nic.push(&chunk).unwrap();
    }
    nic.push(&chunk[64..]).unwrap();
    assert!(nic.push(&[7]).is_err(), "full");
    nic.publish();
    let batch = app.recv().unwrap();
    assert_eq!(batch.bytes().len() as u64, CAPACITY_BYTES_MAX - 64);
    assert!(batch.bytes().iter().step_by(4096).all(|&byte| byte == 7));
    batch.free_all();
    // Across the end.
    nic.push(&[9; 1000]).unwrap();
    nic.publish();
    assert_eq!(app.recv().unwrap().bytes(), [9; 1000]);
}
