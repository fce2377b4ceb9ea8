//! Frames from a device: bursts of its queues in turn, each frame where the device put it.
//!
//! A buffer is with the device, in the burst of the caller, behind it (arrived, and of no burst
//! yet), or with a port that forwards its frame. It leaves the burst in [`Receiver::release`].

use std::{ptr, slice, sync::Arc};

use covalent_dpdk_sys as sys;

use super::{
    super::BURST_FRAMES,
    pool::{Buffer, Pool, give_back},
    shown::Shown,
};

/// Frames requested from a queue at a time.
const REQUESTED: usize = 32;

/// A pool with fewer buffers than this lends none: the device is to have them.
const LEND_ABOVE: u32 = 4 * REQUESTED as u32;

/// A frame of a burst.
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
    buffers: Box<[*mut sys::rte_mbuf; BURST_FRAMES]>,
    frames: Box<[sys::covalent_frame; BURST_FRAMES]>,
    /// The end of the burst.
    at: usize,
    /// The end of the frames behind it.
    end: usize,
    /// The frames of the burst, for ports that forward them.
    shown: Arc<Shown>,
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
            buffers: Box::new([ptr::null_mut(); BURST_FRAMES]),
            frames: Box::new([sys::covalent_frame::default(); BURST_FRAMES]),
            at: 0,
            end: 0,
            shown: Shown::new(),
        }
    }

    /// Whether a frame has arrived, asking the device if none is behind the burst.
    pub(super) fn has_frames(&mut self) -> bool {
        self.at < self.end || self.fetch(REQUESTED)
    }

    /// Receives up to `max` frames of the first queue that has some, as far as there are places.
    fn fetch(&mut self, max: usize) -> bool {
        let (buffers, frames) = (&mut self.buffers[self.end..], &mut self.frames[self.end..]);
        let max = max.min(REQUESTED).min(buffers.len()) as u16;
        for _ in 0..self.queues {
            let queue = self.next_queue;
            self.next_queue = (self.next_queue + 1) % self.queues;
            // SAFETY: The device runs and has that queue. Only this receiver receives on it. Both
            // arrays have space for `max` entries.
            let count = unsafe {
                sys::covalent_rx_burst(
                    self.port,
                    queue,
                    buffers.as_mut_ptr(),
                    frames.as_mut_ptr(),
                    max,
                )
            };
            if count > 0 {
                self.end += usize::from(count);
                return true;
            }
        }
        false
    }

    /// Begins a burst of up to `max` frames, oldest of each queue first.
    pub(super) fn burst(&mut self, max: usize) -> impl Iterator<Item = Frame<'_>> {
        self.release();
        let max = max.min(BURST_FRAMES);
        // One request per queue, unless the queue is empty: a polling lane calls again.
        let mut requests = usize::from(self.queues).max(max.div_ceil(REQUESTED));
        while self.end < max && requests > 0 && self.fetch(max - self.end) {
            requests -= 1;
        }
        self.at = self.end.min(max);
        let lend = self.at > 0 && self.pool.idle() > LEND_ABOVE;
        if self.at > 0 {
            self.shown.make_known();
        }
        let this = &*self;
        let burst = this.buffers[..this.at].iter().zip(&this.frames[..this.at]);
        burst.filter_map(move |(&buffer, frame)| {
            let buffer = Buffer::new(buffer)?;
            let chained = frame.flags & sys::COVALENT_FRAME_CHAINED != 0;
            // SAFETY: The device wrote that many bytes there. A chained frame counts as empty.
            // Nothing writes to the bytes while this receiver owns the buffer. It returns the
            // buffer in `release`, which cannot be called while the frame borrows the receiver. A
            // port that takes the buffer returns it no earlier (`shown`).
            let bytes = unsafe {
                slice::from_raw_parts(frame.data, if chained { 0 } else { frame.bytes as usize })
            };
            this.shown.add(bytes, buffer, lend);
            Some(Frame {
                bytes,
                chained,
                bad_checksum: frame.flags & sys::COVALENT_FRAME_BAD_CHECKSUM != 0,
            })
        })
    }

    /// Ends the burst: returns its buffers to the pool, except those that other ports keep.
    pub(super) fn release(&mut self) {
        if self.at == 0 {
            return;
        }
        let Self {
            buffers,
            frames,
            shown,
            at,
            end,
            ..
        } = self;
        shown.end(|kept| buffers[kept] = ptr::null_mut());
        // SAFETY: These buffers belong to this receiver, which forgets them. Buffers that another
        // port keeps are null by now.
        unsafe { give_back(&mut buffers[..*at]) };
        buffers.copy_within(*at..*end, 0);
        frames.copy_within(*at..*end, 0);
        (*at, *end) = (0, *end - *at);
    }

    /// Discards the frames that have arrived so far, one ring at most. Returns their number.
    pub(super) fn discard(&mut self) -> u64 {
        const REQUESTS_MAX: usize = 32_768 / REQUESTED;
        let mut discarded = 0;
        self.release();
        for _ in 0..REQUESTS_MAX {
            if self.end == 0 && !self.fetch(REQUESTED) {
                break;
            }
            discarded += self.end as u64;
            // SAFETY: these are this receiver's and are forgotten here.
            unsafe { give_back(&mut self.buffers[..self.end]) };
            self.end = 0;
        }
        discarded
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.release();
        // SAFETY: buffers behind the burst still belong to this receiver.
        unsafe { give_back(&mut self.buffers[..self.end]) };
    }
}
