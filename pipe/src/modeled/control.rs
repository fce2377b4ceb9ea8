//! The words of a pipe's control memory, for the model checker.
//!
//! The cursors are the checker's atomics. Words that only describe data before a cursor, or on
//! which no decision depends, are real atomics. The cursors order the lengths, and
//! [`super::ring::Ring`] has this order checked.

use core::sync::atomic::{AtomicU32 as MachineU32, AtomicU64 as MachineU64};
use std::sync::Arc;

use covalent_ipc::sync::{AtomicU32, AtomicU64};

use crate::{QUANTUM_BYTES, counters};

/// Bit of a length word: the application requests that the packet is not sent.
pub(crate) const DO_NOT_SEND: u32 = 1 << 31;

/// The control words of one pipe. Its clones are the other side's view of them.
#[derive(Debug, Clone)]
pub(crate) struct Control(Arc<Words>);

#[derive(Debug)]
struct Words {
    tail: AtomicU64,
    head: AtomicU64,
    seen: AtomicU64,
    tx_tail: AtomicU64,
    space_wanted: AtomicU32,
    refused: [MachineU64; 4],
    counters: [MachineU64; counters::WORDS],
    lengths: Box<[MachineU32]>,
}

impl Control {
    /// Control words for a ring of `capacity_bytes`.
    pub(crate) fn new(capacity_bytes: usize) -> Self {
        Self(Arc::new(Words {
            tail: AtomicU64::new(0),
            head: AtomicU64::new(0),
            seen: AtomicU64::new(0),
            tx_tail: AtomicU64::new(0),
            space_wanted: AtomicU32::new(0),
            refused: Default::default(),
            counters: Default::default(),
            lengths: (0..capacity_bytes / QUANTUM_BYTES)
                .map(|_| MachineU32::new(0))
                .collect(),
        }))
    }

    pub(crate) fn tail(&self) -> &AtomicU64 {
        &self.0.tail
    }

    pub(crate) fn head(&self) -> &AtomicU64 {
        &self.0.head
    }

    pub(crate) fn seen(&self) -> &AtomicU64 {
        &self.0.seen
    }

    pub(crate) fn tx_tail(&self) -> &AtomicU64 {
        &self.0.tx_tail
    }

    pub(crate) fn space_wanted(&self) -> &AtomicU32 {
        &self.0.space_wanted
    }

    pub(crate) fn refused(&self) -> [&MachineU64; 4] {
        self.0.refused.each_ref()
    }

    pub(crate) fn counters(&self) -> &[MachineU64] {
        &self.0.counters
    }

    pub(crate) fn length(&self, cursor: u64) -> &MachineU32 {
        &self.0.lengths[cursor as usize / QUANTUM_BYTES % self.0.lengths.len()]
    }
}
