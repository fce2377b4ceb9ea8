//! CRC-64/NVME over the first 56 bytes of a record.

use super::{RECORD_BYTES, RecordBytes};

/// Where the CRC starts.
pub(super) const CRC_AT: usize = RECORD_BYTES - 8;

/// Writes the CRC of a record's first 56 bytes behind them.
#[inline]
pub(super) fn seal(record: &mut RecordBytes) {
    let crc = crc_fast::crc64_nvme(&record[..CRC_AT]);
    record[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
}

/// Whether the CRC fits.
#[inline]
pub(super) fn fits(record: &RecordBytes) -> bool {
    crc_fast::crc64_nvme(&record[..CRC_AT]).to_le_bytes() == record[CRC_AT..]
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_polynomial_is_nvme() {
        // Check value of CRC-64/NVME in the CRC RevEng catalogue.
        assert_eq!(crc_fast::crc64_nvme(b"123456789"), 0xae8b_1486_0a79_9888);
    }
}
