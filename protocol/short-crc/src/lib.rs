//! CRC-64/NVME of the shortest frame of a link: an Ethernet header and one record.
//!
//! One function and a crate of its own, because of how it is compiled: where all calls into `crc-fast` in a crate are for one length, the
//! compiler folds that length into the library's code and leaves some forty instructions. Beside calls for other lengths it
//! does not, and the same bytes take three times as long, which a verb that comes alone pays four times (decision 16 in
//! `docs/decisions.md`). So nothing else is to call the library from here.

/// Bytes that the CRC covers: a header of 14 and a record of 64, but for its last 8, where the CRC stands.
pub const COVERED_BYTES: usize = 14 + 64 - 8;

/// CRC-64/NVME (NVM Express NVM Command Set Specification 1.0, section 5.2.1.3.4) of `bytes`.
#[must_use]
#[inline(never)]
pub fn crc64_nvme(bytes: &[u8; COVERED_BYTES]) -> u64 {
    crc_fast::crc64_nvme(bytes)
}
