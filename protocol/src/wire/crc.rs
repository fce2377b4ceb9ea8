//! CRC-64/NVME over a whole frame: each record ends with the CRC of everything since the record before it ended.
//!
//! So the first record's covers the Ethernet header too: Ethernet's own check sequence is gone before a frame gets here,
//! and the source address of a handshake is believed.

use super::{ETHERNET_HEADER_BYTES, RECORD_BYTES, RecordBytes};

/// Bytes from the start of a frame to the end of its first record.
const FIRST_BYTES: usize = ETHERNET_HEADER_BYTES + RECORD_BYTES;

/// Writes the CRCs of a frame that has one record at least. What lies behind its last whole record stays as it is.
#[inline]
pub(super) fn seal(frame: &mut [u8]) {
    seal_first(frame);
    let (records, _) = frame
        .get_mut(FIRST_BYTES..)
        .unwrap_or_default()
        .as_chunks_mut();
    records.iter_mut().for_each(seal_record);
}

/// Writes the CRC of a frame's first record, if it has one.
#[inline]
pub(super) fn seal_first(frame: &mut [u8]) {
    if let Some(first) = frame.first_chunk_mut::<FIRST_BYTES>() {
        seal_part(first);
    }
}

/// Writes the CRC of a record that is not the first of its frame.
#[inline]
pub(super) fn seal_record(record: &mut RecordBytes) {
    seal_part(record);
}

/// Whether a frame has one record at least and all CRCs fit.
#[inline]
pub(super) fn fits(frame: &[u8]) -> bool {
    let Some((first, rest)) = frame.split_first_chunk::<FIRST_BYTES>() else {
        return false;
    };
    let (records, _) = rest.as_chunks::<RECORD_BYTES>();
    part_fits(first) && records.iter().all(part_fits)
}

#[inline]
fn seal_part<const BYTES: usize>(part: &mut [u8; BYTES]) {
    if let Some((covered, crc)) = part.split_last_chunk_mut::<8>() {
        *crc = crc_fast::crc64_nvme(covered).to_le_bytes();
    }
}

#[inline]
fn part_fits<const BYTES: usize>(part: &[u8; BYTES]) -> bool {
    part.split_last_chunk::<8>()
        .is_some_and(|(covered, crc)| crc_fast::crc64_nvme(covered).to_le_bytes() == *crc)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_polynomial_is_nvme() {
        // Check value of CRC-64/NVME in the CRC RevEng catalogue.
        assert_eq!(crc_fast::crc64_nvme(b"123456789"), 0xae8b_1486_0a79_9888);
    }
}
