//! Stamped sectors, which show whether they were written.
//!
//! A power cut during a write tears the batch: any subset of its sectors may be on disk. A wrong
//! CRC of a record cannot distinguish that from a byte that changed later. So each sector of 512
//! bytes ends with a stamp of eight bytes, and unwritten parts of a file are zero. A sector without
//! a stamp was not written to its end; a sector with a stamp was. This relies on a disk that writes
//! a sector whole, or at least from its beginning to its end.
//!
//! ```text
//!   0  504 bytes of records
//! 504  first sector of the batch in the file   u32
//! 508  sectors of the batch                    u16
//! 510  XOR of the six bytes before and of the generation's eight
//! 511  0xa5
//! ```
//! The XOR detects every change of a single byte of a stamp. This matters for the last batch: only
//! its stamps give its size.

/// Bytes of a sector.
pub(super) const SECTOR_BYTES: usize = 512;
/// Bytes of a sector that carry records.
pub(super) const PAYLOAD_BYTES: usize = SECTOR_BYTES - STAMP_BYTES;
/// Batches begin and end at multiples of this many bytes. So no file system block and no physical
/// sector of a disk holds parts of two batches.
pub(super) const BLOCK_BYTES: usize = 4096;
/// Sectors of a block.
pub(super) const BLOCK_SECTORS: u32 = (BLOCK_BYTES / SECTOR_BYTES) as u32;

const STAMP_BYTES: usize = 8;
const MARK: u8 = 0xa5;

/// The bytes of a sector.
pub(super) type SectorBytes = [u8; SECTOR_BYTES];

/// Which batch a sector belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    /// First sector of the batch in its file.
    pub first: u32,
    /// How many sectors it has.
    pub count: u16,
}

/// The state of a sector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    /// Nothing was written.
    Blank,
    /// It was written to its end.
    Whole(Stamp),
    /// It was not written to its end.
    Unfinished,
    /// Its stamp was not written in this generation.
    Damaged,
}

impl Stamp {
    fn to_bytes(self, generation: u64) -> [u8; STAMP_BYTES] {
        let [a, b, c, d] = self.first.to_le_bytes();
        let [e, f] = self.count.to_le_bytes();
        let check = [a, b, c, d, e, f]
            .into_iter()
            .chain(generation.to_le_bytes())
            .fold(0, |check, byte| check ^ byte);
        [a, b, c, d, e, f, check, MARK]
    }

    /// Writes it to the end of `sector`.
    pub fn write(self, generation: u64, sector: &mut SectorBytes) {
        sector[PAYLOAD_BYTES..].copy_from_slice(&self.to_bytes(generation));
    }
}

/// Returns the state of `sector` in a file of this generation.
pub(super) fn see(sector: &SectorBytes, generation: u64) -> Seen {
    if *sector == [0; SECTOR_BYTES] {
        return Seen::Blank;
    }
    let stamp = &sector[PAYLOAD_BYTES..];
    let [a, b, c, d, e, f, _, mark] = *stamp else {
        return Seen::Damaged;
    };
    if mark == 0 {
        return Seen::Unfinished;
    }
    let read = Stamp {
        first: u32::from_le_bytes([a, b, c, d]),
        count: u16::from_le_bytes([e, f]),
    };
    if *stamp == read.to_bytes(generation) {
        Seen::Whole(read)
    } else {
        Seen::Damaged
    }
}

/// The record bytes of a sector.
pub(super) fn payload(sector: &SectorBytes) -> &[u8] {
    &sector[..PAYLOAD_BYTES]
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAMP: Stamp = Stamp { first: 8, count: 3 };

    fn sector() -> SectorBytes {
        let mut sector = [1; SECTOR_BYTES];
        STAMP.write(5, &mut sector);
        sector
    }

    #[test]
    fn a_sector_cut_at_any_byte_is_unfinished() {
        for cut in 0..SECTOR_BYTES {
            let mut sector = sector();
            sector[cut..].fill(0);
            let expected = if cut == 0 {
                Seen::Blank
            } else {
                Seen::Unfinished
            };
            assert_eq!(see(&sector, 5), expected, "cut at {cut}");
        }
        assert_eq!(see(&sector(), 5), Seen::Whole(STAMP));
        assert_eq!(see(&sector(), 6), Seen::Damaged);
    }

    #[test]
    fn a_stamp_with_a_changed_byte_is_never_taken_for_another() {
        for at in PAYLOAD_BYTES..SECTOR_BYTES {
            for change in 1..=u8::MAX {
                let mut sector = sector();
                sector[at] ^= change;
                let expected = if sector[SECTOR_BYTES - 1] == 0 {
                    Seen::Unfinished
                } else {
                    Seen::Damaged
                };
                assert_eq!(see(&sector, 5), expected, "byte {at} ^ {change}");
            }
        }
    }
}
