//! Sends frames to a device: copied into buffers of the port's own pool, or kept in the buffer in
//! which another DPDK port received them.
//!
//! ```text
//!   pool ──► spare ──► staged ──► device ──► pool
//!                        ▲
//!                        └── a buffer of another port's pool, which goes back there
//! ```
//! The pool and this module account for all of the port's own buffers except those in the device.
//! The number of buffers in the device thus follows without a count per frame.

use std::collections::VecDeque;

use covalent_dpdk_sys as sys;
use covalent_pipe::SharedBytes;

use super::{
    pool::{Buffer, Pool, STRAY_BUFFERS, TAKEN_MAX, give_back, raw},
    shown,
};

/// The queue that sends.
const QUEUE: u16 = 0;

/// Frames given to the device at a time.
const BURST: usize = 32;

/// The transmit side of one device on a lane.
#[derive(Debug)]
pub(super) struct Sender {
    port: u16,
    /// Frames that may be staged, and buffers that are there for them.
    slots: usize,
    pool: Pool,
    spare: Vec<Buffer>,
    staged: VecDeque<Buffer>,
    /// Whether the device computes checksums.
    checksums: bool,
    /// Whether the device returns buffers on request.
    reclaims: bool,
    /// Whether the driver keeps sent buffers until the next frames come, so that the time of
    /// sending is unknown.
    keeps_sent: bool,
    /// Whether the device may hold buffers of this pool.
    lent: bool,
}

// SAFETY: the spare and staged buffers are this sender's alone, and no thread is bound to them.
unsafe impl Send for Sender {}

/// Buffers that the pool of a sender with `slots` slots needs. Some may stray into caches of other
/// threads. Some drivers (`net_virtio`) keep up to a ring of `device_slots` sent buffers until the
/// next frames come.
pub(super) const fn pool_buffers(slots: u32, device_slots: u32) -> u32 {
    slots + device_slots + 2 * STRAY_BUFFERS
}

impl Sender {
    /// For a device that was started, with a pool of [`pool_buffers`].
    pub(super) fn new(
        port: u16,
        slots: u32,
        pool: Pool,
        checksums: bool,
        keeps_sent: bool,
    ) -> Self {
        Self {
            port,
            slots: slots as usize,
            pool,
            spare: Vec::with_capacity(TAKEN_MAX),
            staged: VecDeque::with_capacity(slots as usize),
            checksums,
            reclaims: true,
            keeps_sent,
            lent: false,
        }
    }

    /// Takes a frame of at most [`super::pool::FRAME_BYTES_MAX`] bytes. Returns `false` if there is
    /// no space.
    pub(super) fn stage(&mut self, frame: SharedBytes<'_>) -> bool {
        if self.staged.len() >= self.slots {
            return false;
        }
        // A device that computes checksums gets zeros written into the checksum fields, which must
        // not happen while a caller reads the frame.
        let kept = if self.checksums {
            None
        } else {
            shown::take(frame)
        };
        let Some(buffer) = kept.or_else(|| self.copied(frame)) else {
            return false;
        };
        self.staged.push_back(buffer);
        true
    }

    fn copied(&mut self, frame: SharedBytes<'_>) -> Option<Buffer> {
        if self.spare.is_empty() {
            self.refill();
        }
        let buffer = self.spare.pop()?;
        // SAFETY: A spare buffer is empty and belongs to this sender alone. It has space for the
        // longest frame, a bound that the caller keeps. The frame's bytes are readable. C code
        // copies them, which is opaque to the Rust compiler.
        unsafe {
            sys::covalent_fill(buffer.raw(), frame.address(), frame.len() as u16);
            if self.checksums {
                sys::covalent_ask_checksums(buffer.raw());
            }
        }
        Some(buffer)
    }

    fn refill(&mut self) {
        if self.pool.take(&mut self.spare, TAKEN_MAX) {
            return;
        }
        self.reclaim();
        let mut wanted = TAKEN_MAX;
        while wanted > 0 && !self.pool.take(&mut self.spare, wanted) {
            wanted /= 2;
        }
    }

    /// Gives staged frames to the device, as many as it takes. Returns whether any went.
    pub(super) fn flush(&mut self) -> bool {
        let mut went = false;
        loop {
            let count = self.sendable().min(BURST);
            if count == 0 {
                break;
            }
            // One contiguous run of the ring at a time: the device needs the buffers side by side.
            let (run, _) = self.staged.as_mut_slices();
            let count = count.min(run.len());
            let send = if self.checksums {
                sys::covalent_tx_prepared_burst
            } else {
                sys::covalent_tx_burst
            };
            // SAFETY: The device runs, and only this sender sends on its queue. The buffers belong
            // to this sender, and no caller reads their frames any more (`sendable`). The buffers
            // that the device takes are forgotten here.
            let taken = unsafe { send(self.port, QUEUE, raw(run), count as u16) };
            let taken = usize::from(taken).min(count);
            self.staged.drain(..taken);
            self.lent |= taken > 0;
            went |= taken > 0;
            if taken < count {
                break;
            }
        }
        went
    }

    /// Staged frames that may leave now: those before the first that a caller may be reading.
    fn sendable(&self) -> usize {
        if !shown::is_anything() {
            return self.staged.len();
        }
        self.staged
            .iter()
            .position(|&buffer| shown::is_shown(buffer))
            .unwrap_or(self.staged.len())
    }

    /// Whether frames wait for the device.
    pub(super) fn has_staged(&self) -> bool {
        !self.staged.is_empty()
    }

    /// Frames that [`Sender::stage`] would take.
    pub(super) fn room(&mut self) -> usize {
        let slots = self.slots - self.staged.len();
        slots.min(self.spare.len() + self.pool.idle() as usize)
    }

    /// Whether every buffer of this port is back, or the driver keeps them in any case.
    pub(super) fn is_idle(&mut self) -> bool {
        if !self.staged.is_empty() {
            return false;
        }
        if self.lent {
            if !self.is_complete() {
                self.reclaim();
            }
            self.lent = !self.is_complete();
        }
        !self.lent || self.keeps_sent
    }

    fn is_complete(&self) -> bool {
        self.pool.idle() as usize + self.spare.len() == self.pool.buffers() as usize
    }

    /// Requests the device to return sent buffers.
    fn reclaim(&mut self) {
        if !self.reclaims {
            return;
        }
        // SAFETY: the device runs, and only this sender sends on its queue.
        let answer = unsafe { sys::covalent_tx_reclaim(self.port, QUEUE) };
        self.reclaims = answer >= 0;
    }

    /// Discards the staged frames. Returns their number.
    pub(super) fn discard(&mut self) -> u64 {
        let count = self.sendable();
        let discarded: Vec<Buffer> = self.staged.drain(..count).collect();
        give_up(&discarded);
        count as u64
    }
}

fn give_up(buffers: &[Buffer]) {
    let mut raw: Vec<_> = buffers.iter().map(|buffer| buffer.raw()).collect();
    // SAFETY: The buffers belonged to this sender, which forgets them.
    unsafe { give_back(&mut raw) };
}

impl Drop for Sender {
    fn drop(&mut self) {
        // A buffer of an unfinished burst stays out of the pool for good: a caller reads it.
        self.discard();
        give_up(&self.spare);
    }
}
