//! Holds the buffer whose frame is being shown to this thread, so that another DPDK port of the
//! thread can send it in place.
//!
//! A forwarding lane gets a frame from one port's [`super::super::Port::rx_burst`] and passes it to
//! another port's `tx` during the visit. A copy there would cost as much as all other work, so the
//! buffer changes owners: it *is* the port's memory. Only the thread that is shown the frame can
//! see it here. While the frame is shown, its buffer must not leave the process ([`is_shown`]),
//! because the visitor may still read it.

use std::{cell::Cell, ptr};

use covalent_pipe::SharedBytes;

use super::pool::Buffer;

/// The frame that is being shown. Each part is a separate cell, because this is on the path of
/// every frame. A struct that is written in parts and read whole stalls the processor.
struct Shown {
    /// Null if no frame is shown, or if its buffer must not be kept.
    frame: Cell<*const u8>,
    bytes: Cell<usize>,
    /// `None` when nothing is.
    buffer: Cell<Option<Buffer>>,
    /// Another port keeps the buffer.
    taken: Cell<bool>,
    /// Another port received while a frame was shown.
    nested: Cell<bool>,
}

thread_local! {
    static SHOWN: Shown = const {
        Shown {
            frame: Cell::new(ptr::null()),
            bytes: Cell::new(0),
            buffer: Cell::new(None),
            taken: Cell::new(false),
            nested: Cell::new(false),
        }
    };
}

/// A burst that is being shown. Dropping it restores the frame that was shown before it.
pub(super) struct Showing {
    before: Option<Buffer>,
    frame: *const u8,
    bytes: usize,
    taken: bool,
    nested: bool,
}

impl Showing {
    /// Begins a burst.
    pub(super) fn begin() -> Self {
        SHOWN.with(|shown| {
            let before = shown.buffer.take();
            Self {
                before,
                frame: shown.frame.replace(ptr::null()),
                bytes: shown.bytes.get(),
                taken: shown.taken.get(),
                nested: shown.nested.replace(before.is_some()),
            }
        })
    }

    /// Shows `frame` of `buffer`. `lend` allows another port to keep the buffer.
    pub(super) fn show(&self, frame: &[u8], buffer: Buffer, lend: bool) {
        SHOWN.with(|shown| {
            let lend = lend && self.before.is_none();
            shown
                .frame
                .set(if lend { frame.as_ptr() } else { ptr::null() });
            shown.bytes.set(frame.len());
            shown.buffer.set(Some(buffer));
            shown.taken.set(false);
        });
    }

    /// Ends the showing of one frame. Returns whether no port keeps its buffer.
    pub(super) fn end(&self) -> bool {
        SHOWN.with(|shown| {
            shown.frame.set(ptr::null());
            shown.buffer.set(None);
            !shown.taken.get()
        })
    }
}

impl Drop for Showing {
    fn drop(&mut self) {
        SHOWN.with(|shown| {
            shown.frame.set(self.frame);
            shown.bytes.set(self.bytes);
            shown.buffer.set(self.before);
            shown.taken.set(self.taken);
            shown.nested.set(self.nested);
        });
    }
}

/// Takes the buffer of `frame`, if exactly that frame is being shown and its buffer is not taken
/// yet. The caller then owns it.
pub(super) fn take(frame: SharedBytes<'_>) -> Option<Buffer> {
    SHOWN.with(|shown| {
        if !ptr::eq(shown.frame.get(), frame.address()) || shown.bytes.get() != frame.len() {
            return None;
        }
        shown.frame.set(ptr::null());
        shown.taken.set(true);
        shown.buffer.get()
    })
}

/// Whether some frame is being shown.
pub(super) fn is_anything() -> bool {
    SHOWN.with(|shown| shown.buffer.get().is_some())
}

/// Whether the visitor may still read the frame of `buffer`.
pub(super) fn is_shown(buffer: Buffer) -> bool {
    SHOWN.with(|shown| shown.buffer.get() == Some(buffer))
}

/// Whether a burst is shown within another one. Buffers that the outer bursts show are then unknown
/// here.
pub(super) fn is_nested() -> bool {
    SHOWN.with(|shown| shown.nested.get())
}
