//! The 64-byte record.

use super::{
    FRAME_RECORDS_MAX, RECORD_PAYLOAD_BYTES, RecordBytes, crc,
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

/// The record has a valid CRC but cannot come from a peer of this version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

impl Header {
    /// The mine half of slice 1.
    #[inline]
    #[must_use]
    pub const fn mine(&self) -> u32 {
        slice::mine(self.kind, self.record_sequence, self.slot_sequence)
    }

    /// Writes the whole record: header, the first [`Header::payload_bytes`] of `payload`, zeros behind, CRC.
    ///
    /// `payload` must have `payload_bytes` bytes at least; a shorter one is filled with zeros.
    #[inline]
    pub fn write(&self, payload: &[u8], record: &mut RecordBytes) {
        record[0..4].copy_from_slice(&self.mine().to_le_bytes());
        record[4..8].copy_from_slice(&self.yours.to_le_bytes());
        record[8..12].copy_from_slice(&self.epoch.to_le_bytes());
        record[12..16].copy_from_slice(&self.record_sequence.to_le_bytes());
        record[16..20].copy_from_slice(&self.slot_sequence.to_le_bytes());
        record[20..24].copy_from_slice(&[self.slot, self.payload_bytes, self.records, self.index]);
        let mut field = [0; RECORD_PAYLOAD_BYTES];
        let len = usize::from(self.payload_bytes)
            .min(RECORD_PAYLOAD_BYTES)
            .min(payload.len());
        field[..len].copy_from_slice(&payload[..len]);
        record[PAYLOAD_AT..PAYLOAD_AT + RECORD_PAYLOAD_BYTES].copy_from_slice(&field);
        crc::seal(record);
    }

    /// Reads the header of a record whose CRC was found valid.
    ///
    /// # Errors
    /// [`Malformed`] when a field is outside its range or slice 1 does not fit the rest.
    #[inline]
    pub fn read(record: &RecordBytes) -> Result<Self, Malformed> {
        let [slot, payload_bytes, records, index] = word(record, 20);
        let record_sequence = u32::from_le_bytes(word(record, 12));
        let slot_sequence = u32::from_le_bytes(word(record, 16));
        let half = u32::from_le_bytes(word(record, 0));
        let kind = slice::kind_of(half, record_sequence, slot_sequence).ok_or(Malformed)?;
        if usize::from(payload_bytes) > RECORD_PAYLOAD_BYTES
            || usize::from(records) > FRAME_RECORDS_MAX
            || index >= records
        {
            return Err(Malformed);
        }
        Ok(Self {
            kind,
            yours: u32::from_le_bytes(word(record, 4)),
            epoch: u32::from_le_bytes(word(record, 8)),
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

/// Whether the CRC of a record fits its content.
#[inline]
#[must_use]
pub fn crc_fits(record: &RecordBytes) -> bool {
    crc::fits(record)
}

/// Writes the CRC that fits the content. For programs that make or mutate records on purpose.
pub fn seal(record: &mut RecordBytes) {
    crc::seal(record);
}

#[inline]
const fn word(record: &RecordBytes, at: usize) -> [u8; 4] {
    [record[at], record[at + 1], record[at + 2], record[at + 3]]
}
