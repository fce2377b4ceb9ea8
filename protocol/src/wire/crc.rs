//! CRC-64/NVME over a whole frame: each record ends with the CRC of everything since the record before it ended.
//!
//! So the first record's covers the Ethernet header too: Ethernet's own check sequence is gone before a frame gets here,
//! and the source address of a handshake is believed. It also depends on the number of records, so that a frame of which
//! whole records are missing at the end is none.

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
    let mask = length_mask(frame.len());
    if let Some(first) = frame.first_chunk_mut::<FIRST_BYTES>() {
        seal_part(first, mask);
    }
}

/// Writes the CRC of a record that is not the first of its frame.
#[inline]
pub(super) fn seal_record(record: &mut RecordBytes) {
    seal_part(record, 0);
}

/// Whether a frame has one record at least and all CRCs fit.
#[inline]
pub(super) fn fits(frame: &[u8]) -> bool {
    let Some((first, rest)) = frame.split_first_chunk::<FIRST_BYTES>() else {
        return false;
    };
    let (records, _) = rest.as_chunks::<RECORD_BYTES>();
    part_fits(first, length_mask(frame.len())) && records.iter().all(|record| part_fits(record, 0))
}

/// What the first CRC of a frame of `frame_bytes` bytes is mixed with: something else for each number of records.
#[inline]
const fn length_mask(frame_bytes: usize) -> u64 {
    // Multiples of an odd number with as many ones as zeros: any two of them differ, and in about half of the bits.
    ((frame_bytes / RECORD_BYTES) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[inline]
fn seal_part<const BYTES: usize>(part: &mut [u8; BYTES], mask: u64) {
    if let Some((covered, crc)) = part.split_last_chunk_mut::<8>() {
        *crc = (crc64(covered) ^ mask).to_le_bytes();
    }
}

#[inline]
fn part_fits<const BYTES: usize>(part: &[u8; BYTES], mask: u64) -> bool {
    part.split_last_chunk::<8>()
        .is_some_and(|(covered, crc)| crc64(covered) ^ mask == u64::from_le_bytes(*crc))
}

/// CRC-64/NVME by carry-less multiplication, where the processor has it.
#[cfg(feature = "std")]
#[inline]
fn crc64(bytes: &[u8]) -> u64 {
    crc_fast::crc64_nvme(bytes)
}

/// CRC-64/NVME by a table.
#[cfg(any(test, not(feature = "std")))]
mod table {
    const CRC: crc::Crc<u64> = crc::Crc::<u64>::new(&crc::CRC_64_NVME);

    pub(super) const fn crc64(bytes: &[u8]) -> u64 {
        CRC.checksum(bytes)
    }
}
#[cfg(not(feature = "std"))]
use table::crc64;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::vec, prelude::*};

    #[test]
    fn the_polynomial_is_nvme() {
        // Check value of CRC-64/NVME in the CRC RevEng catalogue.
        assert_eq!(crc64(b"123456789"), 0xae8b_1486_0a79_9888);
    }

    proptest! {
        #[test]
        fn both_ways_to_compute_it_agree(bytes in vec(any::<u8>(), 0..=1500)) {
            prop_assert_eq!(crc64(&bytes), table::crc64(&bytes));
        }
    }
}
