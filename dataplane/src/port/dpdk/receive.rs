//! Frames from a device: bursts of its queues in turn, each frame shown where the device put it.

use std::{ptr, slice};

use covalent_dpdk_sys as sys;

use super::{
    pool::{Buffer, Pool, give_back},
    shown::Showing,
};

/// Frames requested from a queue at a time.
const BURST: usize = 32;

/// A pool with fewer buffers than this lends none: the device is to have them.
const LEND_ABOVE: u32 = 4 * BURST as u32;

/// A frame as it is shown.
pub(super) struct Frame<'a> {
    /// All of it, or of a chained one the first piece.
    pub(super) bytes: &'a [u8],
    /// It lies in several buffers.
    pub(super) chained: bool,
    /// The device found a checksum wrong.
    pub(super) bad_checksum: bool,
}

/// The receive side of one device on a lane.
#[derive(Debug)]
pub(super) struct Receiver {
    port: u16,
    queues: u16,
    /// The queue to poll first. It rotates, so that a busy queue does not starve the others.
    next_queue: u16,
    pool: Pool,
    buffers: Box<[*mut sys::rte_mbuf; BURST]>,
    frames: Box<[sys::covalent_frame; BURST]>,
    /// Of the burst in hand: the next frame to show, and where it ends.
    at: usize,
    end: usize,
}

// SAFETY: the buffers in hand are this receiver's alone, and no thread is bound to them.
unsafe impl Send for Receiver {}

impl Receiver {
    /// For a device that was started with `queues` and fills buffers of `pool`.
    pub(super) fn new(port: u16, queues: u16, pool: Pool) -> Self {
        Self {
            port,
            queues,
            next_queue: 0,
            pool,
            buffers: Box::new([ptr::null_mut(); BURST]),
            frames: Box::new([sys::covalent_frame::default(); BURST]),
            at: 0,
            end: 0,
        }
    }

    /// Whether there is a frame to show, asking the device if none is in hand.
    pub(super) fn has_frames(&mut self) -> bool {
        self.fetch(BURST)
    }

    fn fetch(&mut self, max: usize) -> bool {
        if self.at < self.end {
            return true;
        }
        for _ in 0..self.queues {
            let queue = self.next_queue;
            self.next_queue = (self.next_queue + 1) % self.queues;
            let max = max.min(BURST) as u16;
            // SAFETY: The device runs and has that queue. Only this receiver receives on it. Both
            // arrays have space for `max` entries.
            let count = unsafe {
                sys::covalent_rx_burst(
                    self.port,
                    queue,
                    self.buffers.as_mut_ptr(),
                    self.frames.as_mut_ptr(),
                    max,
                )
            };
            if count > 0 {
                (self.at, self.end) = (0, usize::from(count));
                return true;
            }
        }
        false
    }

    /// Shows up to `max` frames, oldest of each queue first. `visit` returns whether a frame counts
    /// as received. Returns the number of received frames.
    pub(super) fn show(&mut self, max: usize, mut visit: impl FnMut(Frame<'_>) -> bool) -> usize {
        let mut received = 0;
        let mut left = max;
        // One burst per queue, unless the queue is empty: a polling lane calls again.
        let mut bursts = usize::from(self.queues).max(max.div_ceil(BURST));
        let showing = Showing::begin();
        while left > 0 && bursts > 0 && self.fetch(left) {
            bursts -= 1;
            let lend = self.pool.idle() > LEND_ABOVE;
            let first = self.at;
            let wanted = (self.end - first).min(left);
            let mut kept = 0;
            while self.at < first + wanted {
                received += usize::from(self.show_next(&showing, lend, &mut kept, &mut visit));
            }
            left -= wanted;
            if kept < wanted {
                // SAFETY: These buffers were shown and belong to this receiver. Buffers that
                // another port keeps are null by now.
                unsafe { give_back(&mut self.buffers[first..first + wanted]) };
            }
        }
        received
    }

    fn show_next(
        &mut self,
        showing: &Showing,
        lend: bool,
        kept: &mut usize,
        visit: &mut impl FnMut(Frame<'_>) -> bool,
    ) -> bool {
        let at = self.at;
        // Advance before the visit, so that a visit that panics does not see the frame again.
        self.at += 1;
        let frame = &self.frames[at];
        let Some(buffer) = Buffer::new(self.buffers[at]) else {
            return false;
        };
        let chained = frame.flags & sys::COVALENT_FRAME_CHAINED != 0;
        // SAFETY: The device wrote that many bytes there. A chained frame counts as empty. Nothing
        // writes to the bytes while this receiver owns the buffer. The buffer is not returned
        // before the visit ends: `shown` prevents a new owner from returning it.
        let bytes = unsafe {
            slice::from_raw_parts(frame.data, if chained { 0 } else { frame.bytes as usize })
        };
        showing.show(bytes, buffer, lend);
        let received = visit(Frame {
            bytes,
            chained,
            bad_checksum: frame.flags & sys::COVALENT_FRAME_BAD_CHECKSUM != 0,
        });
        if !showing.end() {
            self.buffers[at] = ptr::null_mut();
            *kept += 1;
        }
        received
    }

    /// Discards the frames that have arrived so far, one ring at most. Returns their number.
    pub(super) fn discard(&mut self) -> u64 {
        const BURSTS_MAX: usize = 32_768 / BURST;
        let mut discarded = 0;
        for _ in 0..BURSTS_MAX {
            if !self.fetch(BURST) {
                break;
            }
            discarded += (self.end - self.at) as u64;
            // SAFETY: these are this receiver's and are forgotten here.
            unsafe { give_back(&mut self.buffers[self.at..self.end]) };
            self.at = self.end;
        }
        discarded
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        // SAFETY: Buffers that were not shown still belong to this receiver.
        unsafe { give_back(&mut self.buffers[self.at..self.end]) };
    }
}
