//! The 64-byte record.

use core::cmp::Ordering;

use super::{
    FRAME_RECORDS_MAX, RECORD_PAYLOAD_BYTES, RecordBytes, VERSION,
    slice::{self, Kind},
};

const PAYLOAD_AT: usize = 24;

/// Everything in a record but its payload and its CRC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// What the record says.
    pub kind: Kind,
    /// The peer's mine half, reflected; 0 when nothing was heard in this epoch.
    pub yours: u32,
    /// The epoch in force, or in a handshake the proposed one.
    pub epoch: u32,
    /// Counts the records of this epoch and direction from 0, wrapping. 0 in a handshake.
    pub record_sequence: u32,
    /// Counts the exchanges of the slot, wrapping. 0 where there is no slot.
    pub slot_sequence: u32,
    /// The slot. 0 where there is none.
    pub slot: u8,
    /// Bytes of payload in this record, 0 to 32.
    pub payload_bytes: u8,
    /// Records in this message, 1 to 23.
    pub records: u8,
    /// Place of this record in its message, from 0.
    pub index: u8,
}

/// Why a record cannot be read although its CRC is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordError {
    /// It is of this other version.
    Version(u8),
    /// No peer of this version says it: a field is outside its range or does not fit the rest.
    Malformed,
}

impl Header {
    /// The mine half of slice 1.
    #[inline]
    #[must_use]
    pub const fn mine(&self) -> u32 {
        slice::mine(self.kind, self.record_sequence, self.slot_sequence)
    }

    /// Writes the record but for its CRC: header, the first [`Header::payload_bytes`] of `payload`, zeros behind. The CRC
    /// is written when the frame is finished.
    ///
    /// `payload` must have `payload_bytes` bytes at least; a shorter one is filled with zeros.
    #[inline]
    pub fn write(&self, payload: &[u8], record: &mut RecordBytes) {
        let (words, _) = record.as_chunks_mut::<8>();
        // Whole words: this is the hottest store of the crate, and byte-wise it would cost as much as the CRC.
        let pair = |low: u32, high: u32| (u64::from(low) | u64::from(high) << 32).to_le_bytes();
        words[0] = pair(self.mine(), self.yours);
        words[1] = pair(self.epoch, self.record_sequence);
        let place = u32::from_le_bytes([self.slot, self.payload_bytes, self.records, self.index]);
        words[2] = pair(self.slot_sequence, place);
        let payload = payload
            .get(..usize::from(self.payload_bytes))
            .unwrap_or(payload);
        let (whole, rest) = payload.as_chunks::<8>();
        let part = rest
            .iter()
            .rev()
            .fold(0, |word: u64, &byte| word << 8 | u64::from(byte))
            .to_le_bytes();
        for (at, word) in words[3..7].iter_mut().enumerate() {
            *word = match at.cmp(&whole.len()) {
                Ordering::Less => whole[at],
                Ordering::Equal => part,
                Ordering::Greater => [0; 8],
            };
        }
    }

    /// Reads the header of a record whose CRC was found valid.
    ///
    /// # Errors
    /// [`RecordError::Version`] when slice 1 names another version, [`RecordError::Malformed`] when a field is outside its
    /// range or slice 1 does not fit the rest.
    #[inline]
    pub fn read(record: &RecordBytes) -> Result<Self, RecordError> {
        let (words, _) = record.as_chunks::<8>();
        let pair = |at: usize| {
            let word = u64::from_le_bytes(words[at]);
            (word as u32, (word >> 32) as u32)
        };
        let (half, yours) = pair(0);
        let (epoch, record_sequence) = pair(1);
        let (slot_sequence, place) = pair(2);
        let [slot, payload_bytes, records, index] = place.to_le_bytes();
        let kind = slice::kind_of(half, record_sequence, slot_sequence).ok_or_else(|| {
            match slice::version_of(half) {
                VERSION => RecordError::Malformed,
                version => RecordError::Version(version),
            }
        })?;
        if usize::from(payload_bytes) > RECORD_PAYLOAD_BYTES
            || usize::from(records) > FRAME_RECORDS_MAX
            || index >= records
        {
            return Err(RecordError::Malformed);
        }
        Ok(Self {
            kind,
            yours,
            epoch,
            record_sequence,
            slot_sequence,
            slot,
            payload_bytes,
            records,
            index,
        })
    }
}

/// The payload field, all 32 bytes of it.
#[inline]
#[must_use]
pub fn payload(record: &RecordBytes) -> &[u8] {
    &record[PAYLOAD_AT..PAYLOAD_AT + RECORD_PAYLOAD_BYTES]
}
