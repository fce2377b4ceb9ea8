//! The 64-byte record.

use super::{
    CONTINUATION_PAYLOAD_BYTES, FRAGMENTS_MAX, FRAME_PAYLOAD_BYTES_MAX, FRAME_RECORDS_MAX,
    RECORD_PAYLOAD_BYTES, RecordBytes, VERSION,
    slice::{self, Kind},
};

/// The `piggyback` of a record without a piggybacked slot. No slot has this number.
pub const NO_PIGGYBACK: u8 = 255;

const PAYLOAD_AT: usize = 28;
const CONTINUATION_PAYLOAD_AT: usize = 8;
const RECORDS: u8 = 0b0001_1111;
const FRAGMENT_SHIFT: u32 = 5;
const FRAGMENT: u8 = 0b11;
const MORE: u8 = 0b1000_0000;

/// Everything in the first record of a message but its payload and its check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The kind of the message.
    pub kind: Kind,
    /// The peer's mine half, reflected; 0 when nothing was received in this epoch.
    pub yours: u32,
    /// The epoch in force, or in a handshake the proposed one.
    pub epoch: u32,
    /// Counts the records of this epoch and direction from 0, wrapping. 0 in a handshake.
    pub record_sequence: u32,
    /// Counts the exchanges of the slot, wrapping. 0 where there is no slot.
    pub slot_sequence: u32,
    /// The slot. 0 where there is none.
    pub slot: u8,
    /// The other slot that the record speaks for, or [`NO_PIGGYBACK`].
    pub piggyback: u8,
    /// The sender's Lamport clock. 0 in a handshake.
    pub clock: u32,
    /// How the message lies in this frame.
    pub shape: Shape,
}

/// How a message, or a fragment of one, lies in its frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Records in this frame, 1 to 23.
    pub records: u8,
    /// Bytes of payload in the last of them: 0 to 28 if it is the only one, else 1 to 48. The
    /// others are full.
    pub last_bytes: u8,
    /// Number of the fragment, 0 to 3.
    pub fragment: u8,
    /// More fragments follow; this one fills its frame.
    pub more: bool,
}

/// Why a record cannot be read although its frame is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordError {
    /// It is of this other version.
    Version(u8),
    /// No peer of this version sends it: a field is outside its range or contradicts the others.
    Malformed,
}

impl Shape {
    /// The shape of a whole message with `payload_bytes` bytes of payload, up to
    /// [`FRAME_PAYLOAD_BYTES_MAX`].
    #[inline]
    #[must_use]
    pub const fn whole(payload_bytes: usize) -> Self {
        Self::fragment(payload_bytes, 0, false)
    }

    /// The shape of fragment number `fragment` with `payload_bytes` bytes of payload.
    #[inline]
    #[must_use]
    pub const fn fragment(payload_bytes: usize, fragment: u8, more: bool) -> Self {
        let (records, last_bytes) = match payload_bytes.checked_sub(RECORD_PAYLOAD_BYTES) {
            None | Some(0) => (1, payload_bytes),
            Some(behind) => (
                1 + behind.div_ceil(CONTINUATION_PAYLOAD_BYTES),
                (behind - 1) % CONTINUATION_PAYLOAD_BYTES + 1,
            ),
        };
        Self {
            records: records as u8,
            last_bytes: last_bytes as u8,
            fragment,
            more,
        }
    }

    /// Whether this is the whole message.
    #[inline]
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        self.fragment == 0 && !self.more
    }

    /// Bytes of payload in this frame.
    #[inline]
    #[must_use]
    pub const fn payload_bytes(&self) -> usize {
        if self.records <= 1 {
            return self.last_bytes as usize;
        }
        RECORD_PAYLOAD_BYTES
            + (self.records as usize - 2) * CONTINUATION_PAYLOAD_BYTES
            + self.last_bytes as usize
    }

    #[inline]
    const fn to_byte(self) -> u8 {
        self.records | self.fragment << FRAGMENT_SHIFT | if self.more { MORE } else { 0 }
    }

    /// Decodes the two bytes of a shape; `None` for bytes that no node writes.
    #[inline]
    const fn read(shape: u8, last_bytes: u8) -> Option<Self> {
        // Nearly all messages are whole in one record.
        if shape == 1 && last_bytes as usize <= RECORD_PAYLOAD_BYTES {
            return Some(Self {
                records: 1,
                last_bytes,
                fragment: 0,
                more: false,
            });
        }
        Self::read_any(shape, last_bytes)
    }

    /// As [`Shape::read`], for any shape.
    const fn read_any(shape: u8, last_bytes: u8) -> Option<Self> {
        let this = Self {
            records: shape & RECORDS,
            last_bytes,
            fragment: shape >> FRAGMENT_SHIFT & FRAGMENT,
            more: shape & MORE != 0,
        };
        let is_valid = match this.records as usize {
            0 => false,
            1 => {
                last_bytes as usize <= RECORD_PAYLOAD_BYTES
                    && (this.is_whole() || !this.more && last_bytes > 0)
            }
            2..=FRAME_RECORDS_MAX => {
                last_bytes > 0
                    && last_bytes as usize <= CONTINUATION_PAYLOAD_BYTES
                    && (!this.more
                        || this.payload_bytes() == FRAME_PAYLOAD_BYTES_MAX
                            && (this.fragment as usize) < FRAGMENTS_MAX - 1)
            }
            _ => false,
        };
        if is_valid { Some(this) } else { None }
    }
}

impl Header {
    /// The mine half of slice 1.
    #[inline]
    #[must_use]
    pub const fn mine(&self) -> u32 {
        slice::mine(self.kind, self.record_sequence, self.slot_sequence)
    }

    /// The mine half of slice 1 of the record at `index` of the message. The records of a handshake
    /// are not counted: all of them have the sequence 0.
    #[inline]
    #[must_use]
    pub const fn mine_at(&self, index: usize) -> u32 {
        let behind = match self.kind {
            Kind::Init => 0,
            _ => index as u32,
        };
        let sequence = self.record_sequence.wrapping_add(behind);
        slice::mine(self.kind, sequence, self.slot_sequence)
    }

    /// Writes the first record without its check: the header, then up to [`RECORD_PAYLOAD_BYTES`]
    /// bytes of `payload`, then zeros. The check is written when the frame is finished.
    #[expect(
        clippy::inline_always,
        reason = "a twentieth of the exchanges of a busy link: see `Header::read`"
    )]
    #[inline(always)]
    pub fn write(&self, payload: &[u8], record: &mut RecordBytes) {
        let (words, _) = record.as_chunks_mut::<8>();
        // Whole words: this is the hottest store of the crate. Byte-wise stores would cost twice as
        // much.
        words[0] = pair(self.mine(), self.yours);
        words[1] = pair(self.epoch, self.record_sequence);
        let Shape { last_bytes, .. } = self.shape;
        let place =
            u32::from_le_bytes([self.slot, last_bytes, self.shape.to_byte(), self.piggyback]);
        words[2] = pair(self.slot_sequence, place);
        words[3] = pair(self.clock, 0);
        put::<PAYLOAD_AT, RECORD_PAYLOAD_BYTES>(record, payload);
    }

    /// Decodes the header of a record that is the first of its message and whose frame is valid.
    ///
    /// Inlined into the caller, so that the fields stay in registers. A header stored byte by byte
    /// and copied as words stalls the processor until all of it is in the cache.
    ///
    /// # Errors
    /// [`RecordError::Version`] when slice 1 names another version. [`RecordError::Malformed`] when
    /// a field is outside its range or slice 1 contradicts the others.
    #[expect(
        clippy::inline_always,
        reason = "a twentieth of the exchanges of a busy link"
    )]
    #[inline(always)]
    pub fn read(record: &RecordBytes) -> Result<Self, RecordError> {
        let (words, _) = record.as_chunks::<8>();
        let pair = |at: usize| {
            let word = u64::from_le_bytes(words[at]);
            (word as u32, (word >> 32) as u32)
        };
        let (half, yours) = pair(0);
        let (epoch, record_sequence) = pair(1);
        let (slot_sequence, place) = pair(2);
        let (clock, _) = pair(3);
        let [slot, last_bytes, shape, piggyback] = place.to_le_bytes();
        let kind = slice::kind_of(half, record_sequence, slot_sequence)
            .ok_or_else(|| RecordError::of_half(half))?;
        let shape = Shape::read(shape, last_bytes).ok_or(RecordError::Malformed)?;
        if (piggyback != NO_PIGGYBACK || !shape.is_whole())
            && matches!(kind, Kind::Init | Kind::Keepalive)
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
            piggyback,
            clock,
            shape,
        })
    }

    /// Writes the record at `index` behind the first but for its check: slice 1, the first
    /// [`CONTINUATION_PAYLOAD_BYTES`] bytes of `payload` or all of it, zeros behind.
    #[inline]
    pub fn write_continuation(&self, index: usize, payload: &[u8], record: &mut RecordBytes) {
        let (words, _) = record.as_chunks_mut::<8>();
        words[0] = pair(self.mine_at(index), self.yours);
        put::<CONTINUATION_PAYLOAD_AT, CONTINUATION_PAYLOAD_BYTES>(record, payload);
    }

    /// Whether `record` is the one at `index` of this message, behind the first.
    ///
    /// # Errors
    /// As for [`Header::read`]: [`RecordError::Malformed`] when it is of another message.
    #[inline]
    pub fn check_continuation(
        &self,
        index: usize,
        record: &RecordBytes,
    ) -> Result<(), RecordError> {
        let (words, _) = record.as_chunks::<8>();
        if words[0] == pair(self.mine_at(index), self.yours) {
            return Ok(());
        }
        Err(RecordError::of_half(u64::from_le_bytes(words[0]) as u32))
    }
}

impl RecordError {
    /// Why a record with this mine half, which is not the one that was expected, cannot be read.
    #[cold]
    const fn of_half(half: u32) -> Self {
        match slice::version_of(half) {
            VERSION => Self::Malformed,
            version => Self::Version(version),
        }
    }
}

/// The payload field of the first record of a message, all 28 bytes of it.
#[inline]
#[must_use]
pub fn payload(record: &RecordBytes) -> &[u8; RECORD_PAYLOAD_BYTES] {
    field::<PAYLOAD_AT, RECORD_PAYLOAD_BYTES>(record)
}

/// The payload field of a record behind the first, all 48 bytes of it.
#[inline]
#[must_use]
pub fn continuation_payload(record: &RecordBytes) -> &[u8; CONTINUATION_PAYLOAD_BYTES] {
    field::<CONTINUATION_PAYLOAD_AT, CONTINUATION_PAYLOAD_BYTES>(record)
}

#[inline]
fn field<const AT: usize, const BYTES: usize>(record: &RecordBytes) -> &[u8; BYTES] {
    const { assert!(AT + BYTES + 8 == super::RECORD_BYTES) };
    match record[AT..].first_chunk() {
        Some(field) => field,
        None => &[0; BYTES],
    }
}

#[inline]
fn pair(low: u32, high: u32) -> [u8; 8] {
    (u64::from(low) | u64::from(high) << 32).to_le_bytes()
}

/// Copies up to `BYTES` bytes of `payload` to the field at `AT` and fills the rest with zeros.
#[expect(
    clippy::inline_always,
    reason = "a twentieth of the exchanges of a busy link"
)]
#[inline(always)]
fn put<const AT: usize, const BYTES: usize>(record: &mut RecordBytes, payload: &[u8]) {
    const { assert!(AT + BYTES + 8 == super::RECORD_BYTES) };
    let Some(field) = record[AT..].first_chunk_mut::<BYTES>() else {
        return;
    };
    if let Some(full) = payload.first_chunk::<BYTES>() {
        *field = *full;
        return;
    }
    *field = [0; BYTES];
    // The usual lengths: a copy of known length is a few moves, any other a call.
    match payload.len() {
        0 => {}
        20 => put_some::<20>(field, payload),
        24 => put_some::<24>(field, payload),
        len => field[..len].copy_from_slice(payload),
    }
}

#[inline]
fn put_some<const SOME: usize>(field: &mut [u8], payload: &[u8]) {
    if let (Some(target), Some(some)) = (
        field.first_chunk_mut::<SOME>(),
        payload.first_chunk::<SOME>(),
    ) {
        *target = *some;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each length has one shape, each shape one length, and nothing else is read.
    #[test]
    fn a_length_has_one_shape() {
        let mut valid = 0;
        for fragment in 0..FRAGMENTS_MAX as u8 {
            for more in [false, true] {
                for bytes in 0..=FRAME_PAYLOAD_BYTES_MAX {
                    let shape = Shape::fragment(bytes, fragment, more);
                    let is_valid = if more {
                        bytes == FRAME_PAYLOAD_BYTES_MAX
                            && usize::from(fragment) < FRAGMENTS_MAX - 1
                    } else {
                        fragment == 0 || bytes > 0
                    };
                    assert_eq!(shape.payload_bytes(), bytes);
                    assert_eq!(
                        Shape::read(shape.to_byte(), shape.last_bytes),
                        is_valid.then_some(shape),
                        "{bytes} bytes of fragment {fragment}"
                    );
                    valid += usize::from(is_valid);
                }
            }
        }
        let read = (0..=u16::MAX)
            .filter(|bytes| {
                let [shape, last_bytes] = bytes.to_le_bytes();
                Shape::read(shape, last_bytes).is_some()
            })
            .count();
        assert_eq!(read, valid);
    }
}
