//! Messages of one or several records.
//!
//! A message lies in one frame, its records one after the other, so it arrives whole or not at all too.

use super::{
    FRAME_RECORDS_MAX, MESSAGE_PAYLOAD_BYTES_MAX, RECORD_PAYLOAD_BYTES, RecordBytes,
    record::{self, Header, RecordError},
    slice::Kind,
};

/// A message in a frame.
#[derive(Debug, Clone, Copy)]
pub struct Message<'a> {
    /// The header of its first record.
    pub header: Header,
    records: &'a [RecordBytes],
    payload_bytes: usize,
}

impl<'a> Message<'a> {
    /// The message at the start of `records`, and the records behind it.
    ///
    /// # Errors
    /// [`RecordError::Malformed`] when the records do not make a message: one is missing, out of order or of another
    /// message, or one before the last is not full. [`RecordError::Version`] when one is of another version.
    #[inline]
    pub fn split(records: &'a [RecordBytes]) -> Result<(Self, &'a [RecordBytes]), RecordError> {
        let first = records.first().ok_or(RecordError::Malformed)?;
        let header = Header::read(first)?;
        let (own, rest) = records
            .split_at_checked(usize::from(header.records))
            .ok_or(RecordError::Malformed)?;
        if header.index != 0 {
            return Err(RecordError::Malformed);
        }
        let mut payload_bytes = usize::from(header.payload_bytes);
        let mut expected = header;
        for bytes in &own[1..] {
            // Every record before this one must have been full, or the payload would have holes.
            if usize::from(expected.payload_bytes) != RECORD_PAYLOAD_BYTES {
                return Err(RecordError::Malformed);
            }
            let next = Header::read(bytes)?;
            expected.index += 1;
            expected.payload_bytes = next.payload_bytes;
            // A handshake's records are not counted: all of them have the sequence 0.
            if header.kind != Kind::Init {
                expected.record_sequence = expected.record_sequence.wrapping_add(1);
            }
            if next != expected {
                return Err(RecordError::Malformed);
            }
            payload_bytes += usize::from(next.payload_bytes);
        }
        Ok((
            Self {
                header,
                records: own,
                payload_bytes,
            },
            rest,
        ))
    }

    /// How many records it has.
    #[inline]
    #[must_use]
    pub const fn records(&self) -> usize {
        self.records.len()
    }

    /// Its records, as they lie in the frame.
    #[inline]
    #[must_use]
    pub const fn record_bytes(&self) -> &'a [RecordBytes] {
        self.records
    }

    /// Length of its payload, in bytes.
    #[inline]
    #[must_use]
    pub const fn payload_bytes(&self) -> usize {
        self.payload_bytes
    }

    /// Its payload: borrowed from the frame where it lies in one piece, else gathered in `scratch`.
    #[inline]
    #[must_use]
    pub fn payload<'b>(&self, scratch: &'b mut [u8; MESSAGE_PAYLOAD_BYTES_MAX]) -> &'b [u8]
    where
        'a: 'b,
    {
        if let [only] = self.records {
            return &record::payload(only)[..self.payload_bytes];
        }
        self.gather(scratch)
    }

    #[cold]
    fn gather<'b>(&self, scratch: &'b mut [u8; MESSAGE_PAYLOAD_BYTES_MAX]) -> &'b [u8] {
        for (bytes, space) in self
            .records
            .iter()
            .zip(scratch.chunks_exact_mut(RECORD_PAYLOAD_BYTES))
        {
            space.copy_from_slice(record::payload(bytes));
        }
        &scratch[..self.payload_bytes]
    }
}

/// Records that a payload of `payload_bytes` needs, 1 at least.
#[inline]
#[must_use]
pub const fn records_for(payload_bytes: usize) -> usize {
    if payload_bytes <= RECORD_PAYLOAD_BYTES {
        1
    } else {
        payload_bytes.div_ceil(RECORD_PAYLOAD_BYTES)
    }
}

const _: () = assert!(records_for(MESSAGE_PAYLOAD_BYTES_MAX) == FRAME_RECORDS_MAX);
