//! The buffer whose frame this thread is being shown, so that another DPDK port of the thread can send it on as it lies.
//!
//! A lane that forwards gets a frame from one port's [`super::super::Port::rx_burst`] and gives it to another port's `tx` while it is shown. To copy it
//! there would cost as much as all the rest, so the buffer changes hands instead: it *is* the port's memory. Nothing but the thread that is
//! shown the frame can see it here. While it is shown the buffer may not leave the process's hands ([`is_shown`]), for who was shown the frame may still
//! look at it.

use std::{cell::Cell, ptr};

use super::pool::Buffer;

/// What is being shown.
#[derive(Clone, Copy)]
struct Shown {
    /// Null when nothing is.
    frame: *const u8,
    bytes: usize,
    buffer: Option<Buffer>,
    taken: bool,
    /// Whether another port may keep the buffer.
    lend: bool,
    /// Another port received while a frame was shown.
    nested: bool,
}

const NOTHING: Shown = Shown {
    frame: ptr::null(),
    bytes: 0,
    buffer: None,
    taken: false,
    lend: false,
    nested: false,
};

thread_local! {
    static SHOWN: Cell<Shown> = const { Cell::new(NOTHING) };
}

/// A burst that is being shown. When it is dropped, what was shown before it is shown again.
pub(super) struct Showing {
    before: Shown,
}

impl Showing {
    /// Begins a burst.
    pub(super) fn begin() -> Self {
        let before = SHOWN.replace(NOTHING);
        Self { before }
    }

    /// `frame` of `buffer` is shown now; `lend` tells whether another port may keep the buffer.
    pub(super) fn show(&self, frame: &[u8], buffer: Buffer, lend: bool) {
        SHOWN.set(Shown {
            frame: frame.as_ptr(),
            bytes: frame.len(),
            buffer: Some(buffer),
            taken: false,
            lend,
            nested: self.before.buffer.is_some(),
        });
    }

    /// Ends the showing of one frame: whether nobody keeps its buffer.
    pub(super) fn end(&self) -> bool {
        let shown = SHOWN.replace(NOTHING);
        !shown.taken
    }
}

impl Drop for Showing {
    fn drop(&mut self) {
        SHOWN.set(self.before);
    }
}

/// The buffer of `frame`, if that is exactly what is being shown and nobody has the buffer yet. It belongs to the caller then.
pub(super) fn take(frame: &[u8]) -> Option<Buffer> {
    let shown = SHOWN.get();
    let whole = ptr::eq(shown.frame, frame.as_ptr()) && shown.bytes == frame.len();
    if !whole || !shown.lend || shown.taken || shown.nested {
        return None;
    }
    SHOWN.set(Shown {
        taken: true,
        ..shown
    });
    shown.buffer
}

/// Whether somebody may still look at the frame of `buffer`.
pub(super) fn is_shown(buffer: Buffer) -> bool {
    SHOWN.get().buffer == Some(buffer)
}

/// Whether a burst is shown inside of the showing of another one: then buffers that are shown further out are not known here.
pub(super) fn is_nested() -> bool {
    SHOWN.get().nested
}
