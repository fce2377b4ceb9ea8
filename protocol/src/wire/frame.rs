//! Records in an Ethernet frame.
//!
//! A frame arrives whole or not at all: one flipped bit discards it.

use super::{
    ETHERNET_HEADER_BYTES, FRAME_BYTES_MAX, FRAME_RECORDS_MAX, RECORD_BYTES, RecordBytes, crc,
};

/// The broadcast address of the cable. Handshakes use it, because the address of the peer is not
/// known before.
pub const BROADCAST: [u8; 6] = [0xff; 6];

/// Why a frame was discarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameError {
    /// Shorter than a header and one record.
    Short,
    /// Of another EtherType.
    EtherType,
    /// Not a whole number of records, or more than [`FRAME_RECORDS_MAX`].
    Length,
    /// The CRC does not fit, or slice 8 of a record that is not the last is not zero.
    Crc,
}

/// The records of `frame`, whose CRC is valid: 1 to [`FRAME_RECORDS_MAX`] of them.
///
/// # Errors
/// [`FrameError`]: no part of the frame may be used.
#[inline]
pub fn parse(frame: &[u8], ethertype: u16) -> Result<&[RecordBytes], FrameError> {
    if frame.len() < ETHERNET_HEADER_BYTES + RECORD_BYTES {
        return Err(FrameError::Short);
    }
    let (header, body) = frame.split_at(ETHERNET_HEADER_BYTES);
    if header[12..] != ethertype.to_be_bytes() {
        return Err(FrameError::EtherType);
    }
    let (records, rest) = body.as_chunks::<RECORD_BYTES>();
    if !rest.is_empty() || records.len() > FRAME_RECORDS_MAX {
        return Err(FrameError::Length);
    }
    if !crc::fits(frame) {
        return Err(FrameError::Crc);
    }
    Ok(records)
}

/// The source address of a frame that [`parse`] accepted, unless it is a group's.
#[must_use]
pub fn source(frame: &[u8]) -> Option<[u8; 6]> {
    let (address, _) = frame
        .get(6..ETHERNET_HEADER_BYTES)?
        .split_first_chunk::<6>()?;
    (address[0] & 1 == 0 && *address != [0; 6]).then_some(*address)
}

/// Writes one frame, record by record.
#[derive(Debug)]
pub struct FrameWriter<'a> {
    frame: &'a mut [u8; FRAME_BYTES_MAX],
    records: usize,
}

impl<'a> FrameWriter<'a> {
    /// Starts a frame in `buffer`; `None` when it is shorter than [`FRAME_BYTES_MAX`].
    #[inline]
    pub fn new(buffer: &'a mut [u8]) -> Option<Self> {
        Some(Self {
            frame: buffer.first_chunk_mut()?,
            records: 0,
        })
    }

    /// Records that still fit.
    #[inline]
    #[must_use]
    pub const fn room(&self) -> usize {
        FRAME_RECORDS_MAX - self.records
    }

    /// Records written.
    #[inline]
    #[must_use]
    pub const fn records(&self) -> usize {
        self.records
    }

    /// The bytes of the next record; `None` when the frame is full. The caller must not use slice
    /// 8.
    #[inline]
    pub fn next_record(&mut self) -> Option<&mut RecordBytes> {
        let (records, _) = self.frame[ETHERNET_HEADER_BYTES..].as_chunks_mut::<RECORD_BYTES>();
        let record = records.get_mut(self.records)?;
        self.records += 1;
        Some(record)
    }

    /// Writes the Ethernet header and the CRC and returns the frame's length in bytes.
    #[inline]
    #[must_use]
    pub fn finish(self, destination: [u8; 6], source: [u8; 6], ethertype: u16) -> usize {
        self.frame[0..6].copy_from_slice(&destination);
        self.frame[6..12].copy_from_slice(&source);
        self.frame[12..14].copy_from_slice(&ethertype.to_be_bytes());
        let frame_bytes = ETHERNET_HEADER_BYTES + self.records * RECORD_BYTES;
        crc::seal(&mut self.frame[..frame_bytes]);
        frame_bytes
    }
}

/// Computes the CRC over the present content of a frame. [`FrameWriter`] does that by itself.
/// Intended for programs that build or mutate frames on purpose.
pub fn seal(frame: &mut [u8]) {
    crc::seal(frame);
}
