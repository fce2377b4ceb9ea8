//! The buffers whose frames a caller may be reading, so that another DPDK port can send such a
//! frame in place.
//!
//! A forwarding lane gets frames from one port's [`super::super::Port::rx_burst`], and passes them
//! to another port's `tx` before it releases the burst. A copy there would cost as much as all
//! other work, so the buffer changes owners: it *is* the port's memory. While the burst lasts, the
//! buffer must not leave the process ([`is_shown`]), because the caller may still read it.
//!
//! Each receiver has one [`Shown`]. A thread knows the receivers that it has used. Only the
//! receiver begins and ends a burst. Another thread that knows it can find no frame of a burst that
//! ended: it compares addresses, and the buffers of a burst have no other owner.

use std::{
    cell::RefCell,
    ptr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering},
    },
};

use covalent_dpdk_sys as sys;
use covalent_pipe::SharedBytes;

use super::{super::BURST_FRAMES, pool::Buffer};

/// The frames of a receiver's burst.
#[derive(Debug)]
pub(super) struct Shown {
    /// Frames of the burst; 0 when there is none.
    count: AtomicUsize,
    /// Where the next frame to send is likely to be: frames are forwarded in order.
    next: AtomicUsize,
    frames: [ShownFrame; BURST_FRAMES],
}

#[derive(Debug, Default)]
struct ShownFrame {
    /// Null if the buffer must not be kept.
    bytes: AtomicPtr<u8>,
    len: AtomicUsize,
    buffer: AtomicPtr<sys::rte_mbuf>,
    /// Another port keeps the buffer.
    taken: AtomicBool,
}

thread_local! {
    /// The receivers that this thread has used.
    static KNOWN: RefCell<Vec<Arc<Shown>>> = const { RefCell::new(Vec::new()) };
}

impl Shown {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            count: AtomicUsize::new(0),
            next: AtomicUsize::new(0),
            frames: std::array::from_fn(|_| ShownFrame::default()),
        })
    }

    /// Adds `frame` of `buffer` to the burst, which has room for it. `lend` allows another port to
    /// keep the buffer.
    pub(super) fn add(&self, frame: &[u8], buffer: Buffer, lend: bool) {
        let count = self.count.load(Ordering::Relaxed);
        let Some(shown) = self.frames.get(count) else {
            return;
        };
        let bytes = if lend {
            frame.as_ptr().cast_mut()
        } else {
            ptr::null_mut()
        };
        shown.bytes.store(bytes, Ordering::Relaxed);
        shown.len.store(frame.len(), Ordering::Relaxed);
        shown.buffer.store(buffer.raw(), Ordering::Relaxed);
        shown.taken.store(false, Ordering::Relaxed);
        // Release: a thread that finds the frame sees its buffer.
        self.count.store(count + 1, Ordering::Release);
    }

    /// Lets ports of this thread keep buffers of the burst.
    pub(super) fn make_known(self: &Arc<Self>) {
        KNOWN.with_borrow_mut(|known| {
            if !known.iter().any(|other| Arc::ptr_eq(other, self)) {
                // Those whose receiver is gone.
                known.retain(|other| Arc::strong_count(other) > 1);
                known.push(self.clone());
            }
        });
    }

    /// Ends the burst. Calls `kept` with the place in it of each buffer that another port keeps.
    pub(super) fn end(&self, mut kept: impl FnMut(usize)) {
        let count = self.count.swap(0, Ordering::AcqRel);
        self.next.store(0, Ordering::Relaxed);
        for (at, frame) in self.frames.iter().take(count).enumerate() {
            if frame.taken.load(Ordering::Acquire) {
                kept(at);
            }
        }
    }

    fn frames(&self) -> &[ShownFrame] {
        let count = self.count.load(Ordering::Acquire);
        self.frames.get(..count).unwrap_or_default()
    }

    fn take(&self, frame: SharedBytes<'_>) -> Option<Buffer> {
        let frames = self.frames();
        if frames.is_empty() {
            return None;
        }
        let next = self.next.load(Ordering::Relaxed).min(frames.len());
        let (before, behind) = frames.split_at(next);
        let at = behind
            .iter()
            .chain(before)
            .position(|shown| shown.is(frame))?;
        let at = (next + at) % frames.len();
        self.next.store(at + 1, Ordering::Relaxed);
        let shown = &frames[at];
        let is_taken = shown.taken.swap(true, Ordering::AcqRel);
        Buffer::new(shown.buffer.load(Ordering::Relaxed)).filter(|_| !is_taken)
    }
}

impl ShownFrame {
    fn is(&self, frame: SharedBytes<'_>) -> bool {
        ptr::eq(self.bytes.load(Ordering::Relaxed), frame.address())
            && self.len.load(Ordering::Relaxed) == frame.len()
    }
}

/// Takes the buffer of `frame`, if exactly that frame is in a burst and its buffer is not taken
/// yet. The caller then owns it.
pub(super) fn take(frame: SharedBytes<'_>) -> Option<Buffer> {
    KNOWN.with_borrow(|known| known.iter().find_map(|shown| shown.take(frame)))
}

/// Whether some frame is in a burst.
pub(super) fn is_anything() -> bool {
    KNOWN.with_borrow(|known| known.iter().any(|shown| !shown.frames().is_empty()))
}

/// Whether a caller may still read the frame of `buffer`.
pub(super) fn is_shown(buffer: Buffer) -> bool {
    let is_it = |frame: &ShownFrame| ptr::eq(frame.buffer.load(Ordering::Relaxed), buffer.raw());
    KNOWN.with_borrow(|known| known.iter().any(|shown| shown.frames().iter().any(is_it)))
}
