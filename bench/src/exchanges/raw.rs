//! The capacity of the cable without inspecting records: full frames in both directions at once.

use anyhow::{Context, Result};
use covalent_dataplane::port::{Port, TxRefusal};
use covalent_protocol::{
    DEFAULT_ETHERTYPE, FRAME_BYTES_MAX,
    wire::{
        RECORD_BYTES,
        frame::{FrameWriter, parse},
    },
};

use super::allocations;

/// Frames moved at a time at most, as a lane does.
const BURST: usize = 64;

/// One end.
pub struct RawEnd {
    port: Box<dyn Port>,
    frame: Box<[u8; FRAME_BYTES_MAX]>,
    /// Whether each frame is written record by record and its CRC is made and checked.
    sealed: bool,
    /// The content of each record.
    content: [u8; RECORD_BYTES],
    received: u64,
    damaged: u64,
}

/// The counters of one end.
#[derive(Debug, Clone, Copy)]
pub struct RawCount {
    /// Received records.
    pub records: u64,
    /// Frames with a wrong CRC.
    pub damaged: u64,
    /// Allocations of its thread.
    pub allocations: u64,
}

impl RawEnd {
    /// An end at `port`.
    pub fn new(port: Box<dyn Port>, sealed: bool) -> Self {
        let mut end = Self {
            port,
            frame: Box::new([0; FRAME_BYTES_MAX]),
            sealed,
            content: [0x5a; RECORD_BYTES],
            received: 0,
            damaged: 0,
        };
        end.write();
        end
    }

    /// Returns the current counters.
    pub fn count(&self) -> RawCount {
        RawCount {
            records: self.received,
            damaged: self.damaged,
            allocations: allocations::of_this_thread(),
        }
    }

    /// Receives the pending frames and sends as many as the ring has space for, at most a burst.
    pub fn round(&mut self) -> Result<()> {
        let (mut records, mut damaged) = (0, 0);
        let sealed = self.sealed;
        self.port
            .receive(BURST, |frame| {
                if !sealed {
                    records += (frame.len() / RECORD_BYTES) as u64;
                } else if let Ok(own) = parse(frame, DEFAULT_ETHERTYPE) {
                    records += own.len() as u64;
                } else {
                    damaged += 1;
                }
            })
            .context("receiving")?;
        self.received += records;
        self.damaged += damaged;
        for _ in 0..BURST.min(self.port.tx_space()) {
            if self.sealed {
                self.write();
            }
            match self.port.tx(&self.frame[..]) {
                Ok(()) => {}
                Err(TxRefusal::Full) => break,
                Err(refusal) => anyhow::bail!("a frame of records was refused: {refusal}"),
            }
        }
        self.port.flush().context("sending")
    }

    /// Writes a frame full of records.
    fn write(&mut self) {
        let Some(mut writer) = FrameWriter::new(&mut self.frame[..]) else {
            return;
        };
        while writer.room() > 0 {
            if let Some(record) = writer.next_record() {
                record.copy_from_slice(&self.content);
            }
        }
        // The frame is full, so its length is known.
        let _ = writer.finish([2; 6], [4; 6], DEFAULT_ETHERTYPE);
    }
}
