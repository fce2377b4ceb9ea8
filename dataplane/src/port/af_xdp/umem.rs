//! The packet memory (UMEM) of one queue, cut into chunks.
//!
//! ```text
//!   chunk (2048 bytes; 4096 where a device takes only whole KiB)
//!   ├─ 256 B headroom, for the XDP program ─┼─ up to 1792 B of frame ─┤
//! ```
//! Two sockets may share one queue's fill ring only if they share its memory too. The kernel takes
//! the queue from the first socket of a UMEM. So each queue has its own UMEM, and no chunk can move
//! to another one.

use std::{io, num::NonZeroU32};

use covalent_config::{HugePages, LINK_RING_SLOTS, receive_chunks, send_chunks};
use xsk_rs::{
    config::{FrameSize, QueueSize, UmemConfig},
    umem::{Umem, frame::FrameDesc},
};

const SMALL_PAGE_BYTES: u64 = 4096;
const HUGE_PAGE_BYTES: u64 = 2 << 20;

/// The size and the purpose of a queue's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::port) struct QueuePlan {
    /// Descriptors in the rings of applications' frames.
    pub(in crate::port) ring_slots: u32,
    /// Whether frames of a link have rings beside them.
    pub(in crate::port) link: bool,
    /// Whether frames are sent on this queue.
    pub(in crate::port) sends: bool,
    /// Size of a chunk, a power of two.
    pub(in crate::port) chunk_bytes: u32,
}

impl QueuePlan {
    /// Returns the plans of a port with `queues` receive queues. Frames are sent on queue 0 only,
    /// which keeps them in order. So only that queue needs send chunks.
    pub(in crate::port) fn of_port(
        queues: u32,
        ring_slots: u32,
        link: bool,
        chunk_bytes: u32,
    ) -> impl Iterator<Item = Self> {
        (0..queues).map(move |index| Self {
            ring_slots,
            link,
            sends: index == 0,
            chunk_bytes,
        })
    }

    /// Chunks that frames of applications are sent from.
    pub(super) const fn others_send(self) -> u32 {
        if self.sends { self.ring_slots } else { 0 }
    }

    /// Chunks that frames of the link are sent from.
    pub(super) const fn link_sends(self) -> u32 {
        if self.sends && self.link {
            LINK_RING_SLOTS
        } else {
            0
        }
    }

    const fn chunks(self) -> u32 {
        receive_chunks(self.ring_slots, self.link) + self.others_send() + self.link_sends()
    }

    /// The memory in bytes.
    pub(in crate::port) fn bytes(self) -> u64 {
        u64::from(self.chunks()) * u64::from(self.chunk_bytes)
    }
}

/// The memory itself and the chunks that are not given away.
#[derive(Debug)]
pub(in crate::port) struct QueueMemory {
    plan: QueuePlan,
    umem: Umem,
    free: Vec<FrameDesc>,
    page_bytes: u64,
}

impl QueueMemory {
    /// Maps and registers the memory of `plan`.
    ///
    /// # Errors
    /// The kernel's error: `ENOBUFS` if the limit on locked memory is too low, `ENOMEM` if there is
    /// no memory of the requested page size.
    pub(in crate::port) fn new(plan: QueuePlan, pages: HugePages) -> io::Result<Self> {
        match pages {
            HugePages::Never => Self::with_pages(plan, SMALL_PAGE_BYTES),
            HugePages::Require => Self::with_pages(plan, HUGE_PAGE_BYTES),
            HugePages::Auto => Self::with_pages(plan, HUGE_PAGE_BYTES)
                .or_else(|_| Self::with_pages(plan, SMALL_PAGE_BYTES)),
        }
    }

    fn with_pages(plan: QueuePlan, page_bytes: u64) -> io::Result<Self> {
        let ring = |slots: u32| QueueSize::new(slots.next_power_of_two()).map_err(invalid);
        let config = UmemConfig::builder()
            .frame_size(FrameSize::new(plan.chunk_bytes).map_err(invalid)?)
            // The kernel publishes its fill ring progress after the received frames, so a chunk may
            // return while its old slot looks taken. Twice the chunks always fit.
            .fill_queue_size(ring(receive_chunks(plan.ring_slots, plan.link) * 2)?)
            .comp_queue_size(ring(send_chunks(plan.ring_slots, plan.link))?)
            .build()
            .map_err(invalid)?;
        // A mapping of huge pages can only be unmapped in whole pages.
        let chunks_per_page = (page_bytes / u64::from(plan.chunk_bytes.max(1))) as u32;
        let chunks = NonZeroU32::new(plan.chunks().next_multiple_of(chunks_per_page))
            .ok_or(io::ErrorKind::InvalidInput)?;
        let (umem, free) =
            Umem::new(config, chunks, page_bytes == HUGE_PAGE_BYTES).map_err(os_error)?;
        Ok(Self {
            plan,
            umem,
            free,
            page_bytes,
        })
    }

    /// The plan of this memory.
    pub(super) const fn plan(&self) -> QueuePlan {
        self.plan
    }

    /// The memory, for a socket to use.
    pub(super) const fn umem(&self) -> &Umem {
        &self.umem
    }

    /// The memory, when all chunks are given away.
    pub(super) fn into_umem(self) -> Umem {
        self.umem
    }

    /// Size of the pages that the memory lies in, in bytes.
    pub(super) const fn page_bytes(&self) -> u64 {
        self.page_bytes
    }

    /// Returns the last `count` chunks permanently, in the order of their addresses; `None` if
    /// fewer are left, and then takes none.
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
    use covalent_config::{CHUNK_BYTES, packet_memory_bytes};

    use super::*;

    fn bytes(queues: u32, ring_slots: u32, link: bool) -> u64 {
        QueuePlan::of_port(queues, ring_slots, link, CHUNK_BYTES)
            .map(QueuePlan::bytes)
            .sum()
    }

    #[test]
    fn the_mapped_memory_has_the_size_that_the_configuration_states() {
        for (queues, ring_slots) in [(1, 64), (2, 2048), (64, 32_768)] {
            assert_eq!(
                bytes(queues, ring_slots, true),
                packet_memory_bytes(queues, ring_slots)
            );
        }
        assert!(bytes(1, 64, false) < bytes(1, 64, true));
    }
}
