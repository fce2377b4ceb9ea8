//! Marks: how far a file was acknowledged, stored apart from the acknowledged records.
//!
//! A whole batch may vanish: a disk loses it, or a process zeroes it. Replay would take that for
//! the end of the file. Therefore the journal issues a mark with the end of the batch after the
//! sync of each batch and before the acknowledgment. A file that ends before its mark has lost
//! acknowledged records. No crash causes this, because the journal issues the mark only when the
//! batch is on disk.
//!
//! No operation waits for a mark. A killed process loses no mark. A power cut may lose the marks of
//! the last three acknowledged batches, because the sync of a later batch covers them. An idle
//! journal writes a second slot too and syncs both ([`super::Journal::tick`]).
//!
//! A file has three slots for marks, a block each, used in turn. At most two marks are not synced
//! at any moment: the one in flight and the one before it. So the third is intact, whatever a torn
//! write damages.
//!
//! During a snapshot, the old file gets a mark that the next generation has *begun*, before
//! anything of that generation is acknowledged. If no file of that generation is found afterwards,
//! it is lost.

use super::{
    header::{FIRST_SECTOR, MARKS_AT},
    record::Lsn,
    sector::{BLOCK_BYTES, SECTOR_BYTES, SectorBytes},
};

/// Places for marks in a file.
pub(super) const SLOTS: usize = 3;

const MAGIC: [u8; 8] = *b"CovMark1";
const CRC_AT: usize = 504;

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark {
    /// Generation of the file.
    pub generation: u64,
    /// Counts the marks of a generation: the higher one is the later one.
    pub count: u64,
    /// The sector behind the last batch that was acknowledged.
    pub end_sector: u32,
    /// The last record that was.
    pub last: Lsn,
    /// Whether the generation after this one has begun.
    pub is_succeeded: bool,
}

/// The memory of a mark that is being written: a block, allocated once, that never moves.
#[derive(Debug)]
pub(super) struct MarkBlock {
    memory: Vec<u8>,
    skew: usize,
}

/// The place of a mark: they take turns.
pub(super) const fn slot_of(mark: Mark) -> usize {
    (mark.count % SLOTS as u64) as usize
}

/// Where in a file a place for marks is, in bytes.
pub(super) const fn slot_offset(slot: usize) -> u64 {
    (MARKS_AT + slot % SLOTS * BLOCK_BYTES) as u64
}

impl Mark {
    /// The mark of a generation without acknowledged records.
    pub const fn none(generation: u64) -> Self {
        Self {
            generation,
            count: 0,
            end_sector: FIRST_SECTOR,
            last: Lsn(0),
            is_succeeded: false,
        }
    }

    fn write(self, sector: &mut SectorBytes) {
        sector.fill(0);
        sector[..8].copy_from_slice(&MAGIC);
        sector[8..16].copy_from_slice(&self.generation.to_le_bytes());
        sector[16..24].copy_from_slice(&self.count.to_le_bytes());
        sector[24..32].copy_from_slice(&self.last.0.to_le_bytes());
        sector[32..36].copy_from_slice(&self.end_sector.to_le_bytes());
        sector[36] = u8::from(self.is_succeeded);
        let crc = crc_fast::crc64_nvme(&sector[..CRC_AT]);
        sector[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
    }

    /// Reads a place for marks. `None` if there is no whole one.
    pub fn read(sector: &SectorBytes) -> Option<Self> {
        let u64_at = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&sector[at..at + 8]);
            u64::from_le_bytes(bytes)
        };
        let is_whole =
            sector.starts_with(&MAGIC) && crc_fast::crc64_nvme(&sector[..CRC_AT]) == u64_at(CRC_AT);
        is_whole.then(|| Self {
            generation: u64_at(8),
            count: u64_at(16),
            last: Lsn(u64_at(24)),
            end_sector: (u64_at(32) & u64::from(u32::MAX)) as u32,
            is_succeeded: sector[36] != 0,
        })
    }
}

impl MarkBlock {
    pub fn new() -> Self {
        let memory = vec![0; 2 * BLOCK_BYTES];
        Self {
            skew: memory.as_ptr().align_offset(BLOCK_BYTES),
            memory,
        }
    }

    /// Puts a mark there.
    pub fn set(&mut self, mark: Mark) {
        let mut sector = [0; SECTOR_BYTES];
        mark.write(&mut sector);
        self.memory[self.skew..self.skew + SECTOR_BYTES].copy_from_slice(&sector);
    }

    /// The bytes to write.
    pub fn bytes(&self) -> &[u8] {
        &self.memory[self.skew..self.skew + BLOCK_BYTES]
    }

    /// Gives its memory up for ever.
    pub fn leak(&mut self) {
        Vec::leak(std::mem::take(&mut self.memory));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_mark_is_whole_or_none() {
        let mark = Mark {
            generation: 0x0102_0304_0506_0708,
            count: 9,
            end_sector: 32,
            last: Lsn(77),
            is_succeeded: true,
        };
        let mut block = MarkBlock::new();
        block.set(mark);
        let whole: SectorBytes = *block.bytes().first_chunk().unwrap();
        assert_eq!(Mark::read(&whole), Some(mark));
        assert!(block.bytes().as_ptr().addr().is_multiple_of(BLOCK_BYTES));
        for at in 0..SECTOR_BYTES {
            let mut changed = whole;
            changed[at] ^= 0x10;
            assert_eq!(Mark::read(&changed), None, "changed at {at}");
        }
        assert_eq!(Mark::read(&[0; SECTOR_BYTES]), None);
    }
}
