//! The header of a file: its generation, the number of its first record, and the last region key
//! that was given.

use super::{
    mark::SLOTS,
    record::Lsn,
    sector::{BLOCK_BYTES, BLOCK_SECTORS, SECTOR_BYTES, SectorBytes, Seen, Stamp, see},
};

/// Where the places for marks begin, in bytes: behind the block of the header.
pub(super) const MARKS_AT: usize = BLOCK_BYTES;
/// Bytes at the beginning of a file that hold no records: the header and the marks.
pub(super) const HEADER_BYTES: usize = MARKS_AT + SLOTS * BLOCK_BYTES;
/// The first sector that holds records.
pub(super) const FIRST_SECTOR: u32 = (HEADER_BYTES / SECTOR_BYTES) as u32;
/// The same in files of the first format, which had no marks.
const FIRST_SECTOR_1: u32 = BLOCK_SECTORS;

const MAGIC: [u8; 8] = *b"CovJrnl2";
const MAGIC_1: [u8; 8] = *b"CovJrnl1";
const CRC_AT: usize = 496;

/// How a file is laid out. A start writes the second format and reads both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    /// Records follow the header.
    First,
    /// Marks lie between.
    Second,
}

impl Format {
    /// The first sector that holds records.
    pub const fn first_sector(self) -> u32 {
        match self {
            Self::First => FIRST_SECTOR_1,
            Self::Second => FIRST_SECTOR,
        }
    }
}

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    /// Counts the starts of files. 1 for the first.
    pub generation: u64,
    /// Number of the first record.
    pub first_lsn: Lsn,
    /// The highest key of a region that was given before it, also if that region is no more.
    pub last_key: u64,
}

/// The content of the first sector of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// The file has no complete header: no record in it counts.
    None,
    /// A header.
    Header(Header, Format),
    /// Something else.
    Damaged,
}

impl Header {
    /// Writes it to a sector.
    pub fn write(self, sector: &mut SectorBytes) {
        sector.fill(0);
        sector[..8].copy_from_slice(&MAGIC);
        sector[8..16].copy_from_slice(&self.generation.to_le_bytes());
        sector[16..24].copy_from_slice(&self.first_lsn.0.to_le_bytes());
        sector[24..32].copy_from_slice(&self.last_key.to_le_bytes());
        let crc = crc_fast::crc64_nvme(&sector[..CRC_AT]);
        sector[CRC_AT..CRC_AT + 8].copy_from_slice(&crc.to_le_bytes());
        STAMP.write(self.generation, sector);
    }

    /// Reads the first sector of a file.
    pub fn read(sector: &SectorBytes) -> Found {
        let u64_at = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&sector[at..at + 8]);
            u64::from_le_bytes(bytes)
        };
        let header = Self {
            generation: u64_at(8),
            first_lsn: Lsn(u64_at(16)),
            last_key: u64_at(24),
        };
        let format = match sector.first_chunk() {
            Some(&MAGIC) => Some(Format::Second),
            Some(&MAGIC_1) => Some(Format::First),
            _ => None,
        };
        match (see(sector, header.generation), format) {
            (Seen::Blank | Seen::Unfinished, _) => Found::None,
            (Seen::Whole(STAMP), Some(format))
                if crc_fast::crc64_nvme(&sector[..CRC_AT]) == u64_at(CRC_AT) =>
            {
                Found::Header(header, format)
            }
            (Seen::Whole(_) | Seen::Damaged, _) => Found::Damaged,
        }
    }
}

const STAMP: Stamp = Stamp { first: 0, count: 1 };

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_whole_or_absent_or_damaged() {
        let header = Header {
            generation: 0x0102_0304_0506_0708,
            first_lsn: Lsn(77),
            last_key: 3,
        };
        let mut whole = [0; SECTOR_BYTES];
        header.write(&mut whole);
        assert_eq!(Header::read(&whole), Found::Header(header, Format::Second));
        for at in 0..SECTOR_BYTES {
            let mut cut = whole;
            cut[at..].fill(0);
            assert_eq!(Header::read(&cut), Found::None, "cut at {at}");
            let mut changed = whole;
            changed[at] ^= 0x10;
            assert_eq!(Header::read(&changed), Found::Damaged, "changed at {at}");
        }
    }
}
