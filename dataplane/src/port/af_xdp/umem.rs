//! The packet memory (UMEM) of one lane, cut into chunks that its AF_XDP ports own.
//!
//! ```text
//!   chunk (2048 bytes; 4096 where a device takes only whole KiB)
//!   ├─ 256 B headroom, for the XDP program ─┼─ up to 1792 B of frame ─┤
//! ```
//! The kernel takes one UMEM for all queues and interfaces whose sockets name the first socket (`XDP_SHARED_UMEM`), so a lane
//! registers its memory once. Chunks are handed out at start and never cross from one queue to another: who owns a chunk is
//! always told by which queue it is in.

use std::{io, num::NonZeroU32};

use covalent_api::config::HugePages;
use xsk_rs::{
    config::{FrameSize, QueueSize, UmemConfig},
    umem::{Umem, frame::FrameDesc},
};

const SMALL_PAGE_BYTES: u64 = 4096;
const HUGE_PAGE_BYTES: u64 = 2 << 20;

/// How much memory a lane needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::port) struct Plan {
    /// Chunks that all queues need together.
    pub(in crate::port) chunks: u32,
    /// Descriptors in the largest ring. The kernel sizes the fill and completion rings of all sockets of a UMEM alike.
    pub(in crate::port) ring_slots: u32,
    /// Size of a chunk: the largest that a port needs, for the memory is cut into equal ones.
    pub(in crate::port) chunk_bytes: u32,
}

impl Plan {
    /// Adds a port with `queues` receive queues, rings of `ring_slots` and chunks of `chunk_bytes`, a power of two.
    ///
    /// Every queue owns enough chunks to fill its receive ring. Frames are sent on queue 0 alone, which keeps them in order, so
    /// only that one needs chunks to send from.
    pub(in crate::port) fn add_port(&mut self, queues: u32, ring_slots: u32, chunk_bytes: u32) {
        let chunks = queues.saturating_add(1).saturating_mul(ring_slots);
        self.chunks = self.chunks.saturating_add(chunks);
        self.ring_slots = self.ring_slots.max(ring_slots);
        self.chunk_bytes = self.chunk_bytes.max(chunk_bytes);
    }

    /// The memory in bytes.
    pub(in crate::port) fn bytes(self) -> u64 {
        u64::from(self.chunks) * u64::from(self.chunk_bytes)
    }
}

/// The memory itself and the chunks that no queue owns yet.
#[derive(Debug)]
pub(in crate::port) struct PacketMemory {
    umem: Umem,
    free: Vec<FrameDesc>,
    page_bytes: u64,
}

impl PacketMemory {
    /// Maps and registers the memory of `plan`.
    ///
    /// # Errors
    /// What the kernel answered: `ENOBUFS` means that the limit on locked memory is too low, `ENOMEM` that there is no memory of
    /// the page size wanted.
    pub(in crate::port) fn new(plan: Plan, pages: HugePages) -> io::Result<Self> {
        match pages {
            HugePages::Never => Self::with_pages(plan, SMALL_PAGE_BYTES),
            HugePages::Require => Self::with_pages(plan, HUGE_PAGE_BYTES),
            HugePages::Auto => Self::with_pages(plan, HUGE_PAGE_BYTES)
                .or_else(|_| Self::with_pages(plan, SMALL_PAGE_BYTES)),
        }
    }

    fn with_pages(plan: Plan, page_bytes: u64) -> io::Result<Self> {
        let ring = |slots: u32| QueueSize::new(slots).map_err(invalid);
        let config = UmemConfig::builder()
            .frame_size(FrameSize::new(plan.chunk_bytes).map_err(invalid)?)
            // The kernel publishes what it took from the fill ring only after it has published the received frames, so a chunk
            // may come back while its old slot still looks taken. Twice the chunks of a queue always leave room.
            .fill_queue_size(ring(plan.ring_slots.saturating_mul(2))?)
            .comp_queue_size(ring(plan.ring_slots)?)
            .build()
            .map_err(invalid)?;
        // A mapping of huge pages can only be unmapped in whole pages.
        let chunks_per_page = (page_bytes / u64::from(plan.chunk_bytes.max(1))) as u32;
        let chunks = NonZeroU32::new(plan.chunks.next_multiple_of(chunks_per_page))
            .ok_or(io::ErrorKind::InvalidInput)?;
        let (umem, free) =
            Umem::new(config, chunks, page_bytes == HUGE_PAGE_BYTES).map_err(os_error)?;
        Ok(Self {
            umem,
            free,
            page_bytes,
        })
    }

    /// The memory, for a socket to use.
    pub(super) fn umem(&self) -> &Umem {
        &self.umem
    }

    /// Size of the pages that the memory lies in, in bytes.
    pub(super) fn page_bytes(&self) -> u64 {
        self.page_bytes
    }

    /// Hands `count` chunks over for good; `None` when fewer are left, and then none are taken.
    pub(super) fn take(&mut self, count: u32) -> Option<Vec<FrameDesc>> {
        let kept = self.free.len().checked_sub(count as usize)?;
        Some(self.free.split_off(kept))
    }
}

fn invalid(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, error)
}

/// The system call's own error, which the library keeps as the source of its own.
pub(super) fn os_error(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    let code = error
        .source()
        .and_then(|source| source.downcast_ref::<io::Error>())
        .and_then(io::Error::raw_os_error);
    code.map_or_else(|| io::Error::other(error), io::Error::from_raw_os_error)
}

#[cfg(test)]
mod tests {
    use covalent_api::config::CHUNK_BYTES;

    use super::*;

    #[test]
    fn two_interfaces_with_two_queues_stay_far_below_the_limit() {
        let mut plan = Plan::default();
        plan.add_port(2, 2048, CHUNK_BYTES);
        plan.add_port(2, 2048, CHUNK_BYTES);
        assert_eq!(
            plan,
            Plan {
                chunks: 12_288,
                ring_slots: 2048,
                chunk_bytes: 2048,
            }
        );
        assert_eq!(plan.bytes(), 24 << 20);
        plan.add_port(2, 2048, CHUNK_BYTES * 2);
        assert_eq!(
            plan.bytes(),
            72 << 20,
            "all chunks are as large as the largest"
        );
    }

    #[test]
    fn a_plan_too_large_to_count_saturates() {
        let mut plan = Plan::default();
        plan.add_port(u32::MAX, 32_768, CHUNK_BYTES);
        assert_eq!(plan.chunks, u32::MAX);
    }
}
