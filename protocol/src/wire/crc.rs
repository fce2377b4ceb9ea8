//! One CRC-64/NVME for a whole frame, at its end: in slice 8 of the last record. Slice 8 of the
//! other records is zero.
//!
//! The CRC covers the Ethernet header too: Ethernet's own check sequence is removed before a frame
//! arrives here, and a link trusts the source address of a handshake. The CRC also depends on the
//! number of records, so a frame without some of its last records is invalid.

use super::{ETHERNET_HEADER_BYTES, RECORD_BYTES};

const CRC_BYTES: usize = 8;

/// Completes a frame of at least one record: clears slice 8 of each record and writes the CRC into
/// the last one. The frame ends with its last record.
#[inline]
pub(super) fn seal(frame: &mut [u8]) {
    let mask = length_mask(frame.len());
    let (records, _) = frame
        .get_mut(ETHERNET_HEADER_BYTES..)
        .unwrap_or_default()
        .as_chunks_mut::<RECORD_BYTES>();
    for record in records {
        if let Some(slice) = record.last_chunk_mut::<CRC_BYTES>() {
            *slice = [0; CRC_BYTES];
        }
    }
    if let Some((covered, crc)) = frame.split_last_chunk_mut::<CRC_BYTES>() {
        *crc = (crc64(covered) ^ mask).to_le_bytes();
    }
}

/// Whether a frame has one record at least, its CRC fits, and slice 8 of its other records is zero.
#[inline]
pub(super) fn fits(frame: &[u8]) -> bool {
    let Some((_, body)) = frame.split_at_checked(ETHERNET_HEADER_BYTES) else {
        return false;
    };
    let ([others @ .., _], []) = body.as_chunks::<RECORD_BYTES>() else {
        return false;
    };
    let Some((covered, crc)) = frame.split_last_chunk::<CRC_BYTES>() else {
        return false;
    };
    crc64(covered) ^ length_mask(frame.len()) == u64::from_le_bytes(*crc)
        && others
            .iter()
            .all(|record| record.ends_with(&[0; CRC_BYTES]))
}

/// The mask for the CRC of a frame of `frame_bytes` bytes: a different one for each number of
/// records.
#[inline]
const fn length_mask(frame_bytes: usize) -> u64 {
    // Multiples of an odd number with as many ones as zeros: any two differ, in about half of their
    // bits.
    ((frame_bytes / RECORD_BYTES) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// CRC-64/NVME of any bytes.
pub(crate) fn of(bytes: &[u8]) -> u64 {
    crc64(bytes)
}

/// CRC-64/NVME by carry-less multiplication, where the processor has it.
#[cfg(feature = "std")]
#[inline]
fn crc64(bytes: &[u8]) -> u64 {
    match bytes.try_into() {
        Ok(short) => covalent_short_crc::crc64_nvme(short),
        Err(_) => crc_fast::crc64_nvme(bytes),
    }
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
        // Check value of CRC-64/NVME in the CRC RevEng catalog.
        assert_eq!(crc64(b"123456789"), 0xae8b_1486_0a79_9888);
    }

    proptest! {
        #[test]
        fn both_crc_implementations_agree(bytes in vec(any::<u8>(), 0..=1500)) {
            prop_assert_eq!(crc64(&bytes), table::crc64(&bytes));
        }
    }
}
