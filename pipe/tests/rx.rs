//! RX pipes: what the daemon pushes is what the application receives.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used)]

use covalent_pipe::{
    Direction, PagePolicy, PipeMemory, PipeSpec,
    app::RxPipe,
    nic::{NicPipe, PushRefusal},
};

fn pair(capacity_bytes: u64) -> (NicPipe, RxPipe) {
    let spec = PipeSpec {
        direction: Direction::Rx,
        capacity_bytes,
        pages: PagePolicy::Never,
    };
    let memory = PipeMemory::create(&spec).unwrap();
    let fds = memory.fds().map(|fd| fd.try_clone_to_owned().unwrap());
    let app = RxPipe::new(PipeMemory::open(fds, Direction::Rx, capacity_bytes).unwrap()).unwrap();
    (NicPipe::new(memory), app)
}

#[test]
fn packets_arrive_in_order_at_every_offset() {
    let (mut nic, mut app) = pair(4096);
    for round in 0..200_u32 {
        let packet = vec![round as u8; 1 + (round as usize * 37) % 1500];
        nic.push(&packet).unwrap();
        nic.publish();
        let batch = app.recv().unwrap();
        assert_eq!(batch.iter().collect::<Vec<_>>(), [&packet[..]]);
        batch.free_all();
    }
}

#[test]
fn a_full_pipe_refuses_and_recovers() {
    let (mut nic, mut app) = pair(4096);
    for _ in 0..63 {
        nic.push(&[7; 64]).unwrap();
    }
    assert_eq!(nic.push(&[7]), Err(PushRefusal::Full));
    nic.publish();
    assert_eq!(app.recv().unwrap().iter().count(), 63);
    assert_eq!(nic.free_bytes(), 4096 - 64);
}
