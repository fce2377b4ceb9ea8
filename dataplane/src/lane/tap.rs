//! Captures the frames that a port receives and sends, for a pipe of root.
//!
//! A port without a capture has no tap, and its frames are not inspected. A tap stages records in
//! its own memory and moves them to its pipe once per round. It counts records that do not fit
//! there, or in the pipe, and reports them with the next record that fits.

use covalent_api::tap::{HEAD_BYTES, TapFrames, TapHead};
use covalent_pipe::nic;

use super::{Lane, pipes::Pipes, stamp};

/// Capacity for the records of one round.
const STAGED_BYTES: usize = 1 << 20;

/// A port that is captured.
#[derive(Debug)]
pub(super) struct Tap {
    /// The slot of the pipe.
    pipe: usize,
    frames: TapFrames,
    /// Most bytes of a frame that are kept.
    snap_bytes: usize,
    /// Records one after the other.
    staged: Vec<u8>,
    /// Where in `staged` each record ends.
    ends: Vec<usize>,
    /// Frames that did not fit into the pipe since the last one that did.
    missed: u32,
    /// Frames of this round after the staged ones that did not fit.
    overflowed: u32,
}

impl Tap {
    /// Creates the tap of a port. Its frames go to the pipe in slot `pipe`. Allocates all memory in
    /// advance.
    pub fn new(pipe: usize, frames: TapFrames, snap_bytes: usize) -> Self {
        Self {
            pipe,
            frames,
            snap_bytes,
            staged: Vec::with_capacity(STAGED_BYTES),
            ends: Vec::with_capacity(STAGED_BYTES / HEAD_BYTES),
            missed: 0,
            overflowed: 0,
        }
    }

    /// The slot of its pipe.
    pub const fn pipe(&self) -> usize {
        self.pipe
    }

    /// A frame was received, or sent.
    pub fn capture(&mut self, frame: &[u8], is_link: bool, sent: bool) {
        if !self.frames.takes(is_link) {
            return;
        }
        let kept = &frame[..frame.len().min(self.snap_bytes)];
        if self.staged.len() + HEAD_BYTES + kept.len() > STAGED_BYTES {
            self.overflowed = self.overflowed.saturating_add(1);
            return;
        }
        let head = TapHead {
            at_ns: stamp::wall_ns(),
            frame_bytes: frame.len() as u32,
            missed: 0,
            sent,
        };
        self.staged.extend_from_slice(&head.to_bytes());
        self.staged.extend_from_slice(kept);
        self.ends.push(self.staged.len());
    }

    /// Moves the staged records to the pipe.
    pub fn hand_over(&mut self, pipes: &mut Pipes) {
        let mut start = 0;
        for &end in &self.ends {
            let record = &mut self.staged[start..end];
            start = end;
            if let Some((head, _)) = TapHead::split(record) {
                let head = TapHead {
                    missed: self.missed,
                    ..head
                };
                record[..HEAD_BYTES].copy_from_slice(&head.to_bytes());
            }
            if has_room(pipes, self.pipe, record.len()) && pipes.deliver(self.pipe, record) {
                self.missed = 0;
            } else {
                self.missed = self.missed.saturating_add(1);
            }
        }
        self.missed = self
            .missed
            .saturating_add(std::mem::take(&mut self.overflowed));
        self.staged.clear();
        self.ends.clear();
    }
}

impl Lane {
    /// Captures the frames that a port receives and sends, for one of its pipes.
    ///
    /// # Errors
    /// The pipe does not exist or belongs to no port, or the port already has a capture.
    pub(super) fn tap(
        &mut self,
        session: u64,
        pipe: u32,
        frames: TapFrames,
        snap_bytes: u32,
    ) -> Result<(), String> {
        let slot = self.pipes.pipe_slot(session, pipe)?;
        let index = self.pipes.slots.get(slot).and_then(|pipe| pipe.port);
        let port = self
            .ports
            .slots
            .iter_mut()
            .find(|port| Some(port.index) == index)
            .ok_or_else(|| {
                format!("pipe {pipe} names no port: a pipe that captures names its own")
            })?;
        if port.tap.is_some() {
            return Err(
                "the port is captured already: one capture at a time; stop the other \
                 one"
                .to_owned(),
            );
        }
        port.tap = Some(Box::new(Tap::new(slot, frames, snap_bytes as usize)));
        self.ports.taps += 1;
        Ok(())
    }

    /// Ends the capture into the pipe in slot `pipe`, if it is one.
    pub(super) fn untap(&mut self, pipe: usize) {
        for port in &mut self.ports.slots {
            if port.tap.as_ref().is_some_and(|tap| tap.pipe() == pipe) {
                port.tap = None;
                self.ports.taps -= 1;
            }
        }
    }
}

/// Whether a record fits. Checked in advance, so that the pipe does not count it as a drop, nor as
/// a packet that its application lost.
fn has_room(pipes: &mut Pipes, pipe: usize, bytes: usize) -> bool {
    let pipe = pipes.slots.get_mut(pipe);
    pipe.is_some_and(|pipe| pipe.nic.free_bytes() >= nic::footprint_bytes(bytes))
}
