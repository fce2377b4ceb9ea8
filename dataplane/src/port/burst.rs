//! The frames that a port has received at a time.

use arrayvec::ArrayVec;
use covalent_config::BATCH_FRAMES;
use covalent_pipe::SharedBytes;

use super::{Port, PortError};

/// Most frames of one burst.
pub const BURST_FRAMES: usize = BATCH_FRAMES as usize;

/// Frames in the memory of a port, oldest first.
///
/// They borrow the port, so [`Port::release`] cannot return their memory while anything reads them.
/// A new burst writes nothing: an idle lane makes one in every round.
#[derive(Debug, Default)]
pub struct Burst<'a>(ArrayVec<&'a [u8], BURST_FRAMES>);

impl<'a> Burst<'a> {
    /// A burst without frames.
    #[must_use]
    #[inline]
    pub fn new() -> Self {
        Self::default()
    }

    /// The frames.
    #[must_use]
    #[inline]
    pub fn frames(&self) -> &[&'a [u8]] {
        &self.0
    }

    /// Adds a frame. The port adds no more than [`BURST_FRAMES`].
    #[inline]
    pub fn push(&mut self, frame: &'a [u8]) {
        let added = self.0.try_push(frame);
        debug_assert!(added.is_ok(), "a burst of more than {BURST_FRAMES} frames");
    }
}

/// Memory for copies of the frames of one burst, for a port whose frames must not be read in place.
///
/// The copies lie side by side, so a burst of short frames stays in the processor's cache.
#[derive(Debug)]
pub(super) struct Copies(Box<[u8]>);

/// The part of [`Copies`] that holds no frame of this burst.
#[derive(Debug)]
pub(super) struct Unused<'a>(&'a mut [u8]);

impl Copies {
    /// Memory for `frames` frames of up to `frame_bytes_max` bytes.
    pub(super) fn of_frames(frames: usize, frame_bytes_max: usize) -> Self {
        Self(vec![0; frames * frame_bytes_max].into_boxed_slice())
    }

    /// Begins a burst. Copies of the last one are gone.
    pub(super) const fn begin(&mut self) -> Unused<'_> {
        Unused(&mut self.0)
    }
}

impl<'a> Unused<'a> {
    /// Copies a frame. `None` if it is longer than the memory that is left.
    #[inline]
    pub(super) fn copy(&mut self, frame: SharedBytes<'_>) -> Option<&'a mut [u8]> {
        if frame.len() > self.0.len() {
            return None;
        }
        let (copy, rest) = std::mem::take(&mut self.0).split_at_mut(frame.len());
        self.0 = rest;
        frame.copy_to(copy);
        Some(copy)
    }
}

impl dyn Port + '_ {
    /// Receives up to `max` frames, passes each to `visit` and releases them. Returns their number.
    /// For callers that do not handle a burst as a whole.
    ///
    /// # Errors
    /// As [`Port::rx_burst`].
    pub fn receive(
        &mut self,
        max: usize,
        mut visit: impl FnMut(&[u8]),
    ) -> Result<usize, PortError> {
        let mut received = 0;
        loop {
            let wanted = (max - received).min(BURST_FRAMES);
            let mut burst = Burst::new();
            let count = self.rx_burst(wanted, &mut burst)?;
            burst.frames().iter().for_each(|frame| visit(frame));
            drop(burst);
            self.release();
            received += count;
            if count < wanted || received == max {
                return Ok(received);
            }
        }
    }
}
