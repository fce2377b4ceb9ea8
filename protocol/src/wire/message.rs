//! Messages of one or several records.
//!
//! The records of a message, or of a fragment of one, lie in one frame, one after the other.

use super::{
    CONTINUATION_PAYLOAD_BYTES, RECORD_PAYLOAD_BYTES, RecordBytes,
    frame::FrameWriter,
    record::{self, Header, RecordError, Shape},
};

/// A message, or a fragment of one, in a frame.
#[derive(Debug, Clone, Copy)]
pub struct Message<'a> {
    /// The header in its first record.
    pub header: Header,
    records: &'a [RecordBytes],
}

impl<'a> Message<'a> {
    /// The message at the start of `records`, and the records behind it.
    ///
    /// # Errors
    /// [`RecordError::Malformed`] when the records are not a message: one is missing, out of order
    /// or of another message. [`RecordError::Version`] when one is of another version.
    #[expect(
        clippy::inline_always,
        reason = "a twentieth of the exchanges of a busy link: see `Header::read`"
    )]
    #[inline(always)]
    pub fn split(records: &'a [RecordBytes]) -> Result<(Self, &'a [RecordBytes]), RecordError> {
        let (first, behind) = records.split_first().ok_or(RecordError::Malformed)?;
        let header = Header::read(first)?;
        if header.shape.records == 1 {
            let records = core::slice::from_ref(first);
            return Ok((Self { header, records }, behind));
        }
        let (own, rest) = records
            .split_at_checked(usize::from(header.shape.records))
            .ok_or(RecordError::Malformed)?;
        for (index, record) in own.iter().enumerate().skip(1) {
            header.check_continuation(index, record)?;
        }
        Ok((
            Self {
                header,
                records: own,
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

    /// Length of its payload, in bytes.
    #[inline]
    #[must_use]
    pub const fn payload_bytes(&self) -> usize {
        self.header.shape.payload_bytes()
    }

    /// Its payload where that lies in one piece, which it does in a message of one record.
    #[inline]
    #[must_use]
    pub fn payload_in_place(&self) -> Option<&'a [u8]> {
        match self.records {
            [only] => record::payload(only).get(..self.payload_bytes()),
            _ => None,
        }
    }

    /// Copies its payload to the start of `space` and returns it; `None` if `space` is too short.
    #[must_use]
    pub fn copy_payload<'b>(&self, space: &'b mut [u8]) -> Option<&'b [u8]> {
        let space = space.get_mut(..self.payload_bytes())?;
        let (first, behind) = self.records.split_first()?;
        let head = space.len().min(RECORD_PAYLOAD_BYTES);
        let (start, rest) = space.split_at_mut(head);
        start.copy_from_slice(&record::payload(first)[..head]);
        for (part, record) in rest.chunks_mut(CONTINUATION_PAYLOAD_BYTES).zip(behind) {
            part.copy_from_slice(&record::continuation_payload(record)[..part.len()]);
        }
        Some(space)
    }
}

/// Writes a message, or a fragment of one, with `payload`, whose length is in `header`. The frame
/// must have enough space.
#[expect(
    clippy::inline_always,
    reason = "a twentieth of the exchanges of a busy link: see `Header::read`"
)]
#[inline(always)]
pub fn write(header: &Header, payload: &[u8], writer: &mut FrameWriter<'_>) {
    let Some(record) = writer.next_record() else {
        return;
    };
    header.write(payload, record);
    if header.shape.records == 1 {
        return;
    }
    write_rest(header, payload, writer);
}

/// Writes the records behind the first.
#[cold]
fn write_rest(header: &Header, payload: &[u8], writer: &mut FrameWriter<'_>) {
    let rest = payload.get(RECORD_PAYLOAD_BYTES..).unwrap_or_default();
    for (index, part) in (1..).zip(rest.chunks(CONTINUATION_PAYLOAD_BYTES)) {
        let Some(record) = writer.next_record() else {
            return;
        };
        header.write_continuation(index, part, record);
    }
}

/// Records that a payload of `payload_bytes` needs in a frame, 1 at least.
#[inline]
#[must_use]
pub const fn records_for(payload_bytes: usize) -> usize {
    Shape::whole(payload_bytes).records as usize
}
