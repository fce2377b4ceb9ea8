//! Pairs of halves over real shared memory, and packets that know themselves.
#![allow(dead_code, clippy::unwrap_used)]

use covalent_pipe::{
    Direction, PagePolicy, PipeMemory, PipeSpec,
    app::{RxPipe, RxTxPipe, TxPipe},
    nic::NicPipe,
    session::{AppSession, NicSession, SessionMemory},
};

/// Creates a pipe and opens it a second time, as the other process would.
pub fn memories(direction: Direction, capacity_bytes: u64) -> (PipeMemory, PipeMemory) {
    let spec = PipeSpec {
        direction,
        capacity_bytes,
        pages: PagePolicy::Never,
    };
    let memory = PipeMemory::create(&spec).unwrap();
    let fds = memory.fds().map(|fd| fd.try_clone_to_owned().unwrap());
    let opened = PipeMemory::open(fds, direction, capacity_bytes).unwrap();
    (memory, opened)
}

pub fn rx(capacity_bytes: u64) -> (NicPipe, RxPipe) {
    let (ours, theirs) = memories(Direction::Rx, capacity_bytes);
    (NicPipe::new(ours), RxPipe::new(theirs).unwrap())
}

pub fn tx(capacity_bytes: u64) -> (NicPipe, TxPipe) {
    let (ours, theirs) = memories(Direction::Tx, capacity_bytes);
    (NicPipe::new(ours), TxPipe::new(theirs).unwrap())
}

pub fn rx_tx(capacity_bytes: u64) -> (NicPipe, RxTxPipe) {
    let (ours, theirs) = memories(Direction::RxTx, capacity_bytes);
    (NicPipe::new(ours), RxTxPipe::new(theirs).unwrap())
}

pub fn session(slots: u32) -> (NicSession, AppSession) {
    let memory = SessionMemory::create(slots).unwrap();
    let fd = memory.fd().try_clone_to_owned().unwrap();
    let opened = SessionMemory::open(fd, slots).unwrap();
    (NicSession::new(memory), AppSession::new(opened))
}

/// Returns a packet in which every byte is a function of its number and its length.
pub fn packet(number: u64, len: usize) -> Vec<u8> {
    (0..len as u64)
        .map(|index| mix(number.wrapping_mul(0x1_0000).wrapping_add(index)) as u8)
        .collect()
}

/// A permutation that scatters its input (splitmix64's finaliser).
pub fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// A seeded stream of numbers.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(1);
        mix(self.0)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}
