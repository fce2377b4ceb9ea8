//! The buffer whose frame this thread is being shown, so that another DPDK port of the thread can send it on as it lies.
//!
//! A lane that forwards gets a frame from one port's [`super::super::Port::rx_burst`] and gives it to another port's `tx` while it is shown. To copy it
//! there would cost as much as all the rest, so the buffer changes hands instead: it *is* the port's memory. Nothing but the thread that is
//! shown the frame can see it here. While it is shown the buffer may not leave the process's hands ([`is_shown`]), for who was shown the frame may still
//! look at it.

use std::{cell::Cell, ptr};

use covalent_pipe::SharedBytes;

use super::pool::Buffer;

/// What is being shown. Each part is a cell of its own: a whole that is written in parts and read at once stalls a processor, and every frame comes by here.
struct Shown {
    /// Null when nothing is, or when nobody may keep it.
    frame: Cell<*const u8>,
    bytes: Cell<usize>,
    /// `None` when nothing is.
    buffer: Cell<Option<Buffer>>,
    /// Somebody keeps it.
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

/// A burst that is being shown. When it is dropped, what was shown before it is shown again.
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

    /// `frame` of `buffer` is shown now; `lend` tells whether another port may keep the buffer.
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

    /// Ends the showing of one frame: whether nobody keeps its buffer.
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

/// The buffer of `frame`, if that is exactly what is being shown and nobody has the buffer yet. It belongs to the caller then.
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

/// Whether somebody may still look at the frame of `buffer`.
pub(super) fn is_shown(buffer: Buffer) -> bool {
    SHOWN.with(|shown| shown.buffer.get() == Some(buffer))
}

/// Whether a burst is shown inside of the showing of another one: then buffers that are shown further out are not known here.
pub(super) fn is_nested() -> bool {
    SHOWN.with(|shown| shown.nested.get())
}
