//! CRC-64/NVME of the shortest frame of a link: an Ethernet header and one record.
//!
//! This is a separate crate with one function because of how it is compiled. If all calls into
//! `crc-fast` in a crate use one length, the compiler folds that length into the library's code and
//! leaves about forty instructions. If the crate has calls for other lengths, the compiler does not
//! fold, and the same bytes take three times as long. An isolated verb pays that cost four times
//! (decision 16 in `docs/decisions.md`). Do not add other calls to the library here.

/// Bytes that the CRC covers: a header of 14 bytes and a record of 64 bytes, except its last 8
/// bytes, which hold the CRC.
pub const COVERED_BYTES: usize = 14 + 64 - 8;

/// CRC-64/NVME (NVM Express NVM Command Set Specification 1.0, section 5.2.1.3.4) of `bytes`.
#[must_use]
#[inline(never)]
pub fn crc64_nvme(bytes: &[u8; COVERED_BYTES]) -> u64 {
    crc_fast::crc64_nvme(bytes)
}
