//! Records laid out for one write.

use super::{
    header::{HEADER_BYTES, Header},
    record::Lsn,
    sector::{BLOCK_BYTES, BLOCK_SECTORS, PAYLOAD_BYTES, SECTOR_BYTES, SectorBytes, Stamp},
};

/// Most bytes of a batch: its sectors are counted in 16 bits, and a header may come before them.
pub(super) const BATCH_BYTES_MAX: usize = 16 << 20;

const _: () = assert!(BATCH_BYTES_MAX / SECTOR_BYTES <= u16::MAX as usize);

/// See the module. The memory is allocated once and never moves. It begins at a multiple of
/// [`BLOCK_BYTES`], which direct I/O requires.
#[derive(Debug)]
pub(super) struct Batch {
    memory: Vec<u8>,
    /// Where in the memory the aligned part begins.
    skew: usize,
    capacity_bytes: usize,
    generation: u64,
    first_sector: u32,
    /// Bytes in front of the records: a file's header, or none.
    lead_bytes: usize,
    payload_bytes: usize,
    last: Lsn,
}

impl Batch {
    /// Creates an empty batch of `capacity_bytes`, a multiple of [`BLOCK_BYTES`]. The capacity
    /// includes sectors, stamps and the header.
    pub fn new(capacity_bytes: usize) -> Self {
        let memory = vec![0; capacity_bytes + BLOCK_BYTES];
        let skew = memory.as_ptr().align_offset(BLOCK_BYTES);
        Self {
            memory,
            skew,
            capacity_bytes,
            generation: 0,
            first_sector: 0,
            lead_bytes: 0,
            payload_bytes: 0,
            last: Lsn(0),
        }
    }

    /// Empties it, to be written to `first_sector` of a file of `generation`.
    pub fn begin(&mut self, generation: u64, first_sector: u32) {
        self.generation = generation;
        self.first_sector = first_sector;
        self.lead_bytes = 0;
        self.payload_bytes = 0;
    }

    /// Empties it, to be the first of a file that begins with `header`.
    pub fn begin_file(&mut self, header: Header) {
        self.begin(header.generation, super::header::FIRST_SECTOR);
        self.lead_bytes = HEADER_BYTES;
        let lead = &mut self.memory[self.skew..self.skew + HEADER_BYTES];
        lead.fill(0);
        if let Some(sector) = lead.first_chunk_mut() {
            header.write(sector);
        }
    }

    /// Adds the encoded record `lsn`. Returns `false` and changes nothing if the record does not
    /// fit.
    pub fn push(&mut self, record: &[u8], lsn: Lsn) -> bool {
        if record.len() > self.room_bytes() {
            return false;
        }
        let mut rest = record;
        while !rest.is_empty() {
            let within = self.payload_bytes % PAYLOAD_BYTES;
            let count = rest.len().min(PAYLOAD_BYTES - within);
            let (now, later) = rest.split_at(count);
            let at = self.skew
                + self.lead_bytes
                + self.payload_bytes / PAYLOAD_BYTES * SECTOR_BYTES
                + within;
            self.memory[at..at + count].copy_from_slice(now);
            self.payload_bytes += count;
            rest = later;
        }
        self.last = lsn;
        true
    }

    /// Bytes of records that still fit.
    pub const fn room_bytes(&self) -> usize {
        (self.capacity_bytes - self.lead_bytes) / SECTOR_BYTES * PAYLOAD_BYTES - self.payload_bytes
    }

    /// Whether more than half of it is taken.
    pub const fn is_half_full(&self) -> bool {
        self.room_bytes() < self.payload_bytes
    }

    /// Whether it has no record.
    pub const fn is_empty(&self) -> bool {
        self.payload_bytes == 0
    }

    /// Number of its last record.
    pub const fn last(&self) -> Lsn {
        self.last
    }

    /// The sector behind it if `record_bytes` more were added, rounded up to a block.
    pub const fn end_sector_with(&self, record_bytes: usize) -> u32 {
        let sectors = (self.payload_bytes + record_bytes).div_ceil(PAYLOAD_BYTES) as u32;
        self.first_sector + sectors.next_multiple_of(BLOCK_SECTORS)
    }

    /// Pads the batch to whole blocks, stamps its sectors and returns the bytes to write. No record
    /// may be added afterwards.
    pub fn seal(&mut self) -> &[u8] {
        let sectors = self.end_sector_with(0) - self.first_sector;
        let start = self.skew + self.lead_bytes;
        let written =
            self.payload_bytes / PAYLOAD_BYTES * SECTOR_BYTES + self.payload_bytes % PAYLOAD_BYTES;
        let end = start + sectors as usize * SECTOR_BYTES;
        self.memory[start + written..end].fill(0);
        let stamp = Stamp {
            first: self.first_sector,
            count: sectors as u16,
        };
        let (chunks, _) = self.memory[start..end].as_chunks_mut();
        chunks
            .iter_mut()
            .for_each(|sector: &mut SectorBytes| stamp.write(self.generation, sector));
        self.sealed()
    }

    /// Returns the bytes to write again, after [`Batch::seal`].
    pub fn sealed(&self) -> &[u8] {
        let sectors = self.end_sector_with(0) - self.first_sector;
        let end = self.skew + self.lead_bytes + sectors as usize * SECTOR_BYTES;
        &self.memory[self.skew..end]
    }

    /// Generation of the file that it is for.
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// Where in its file it is to be written, in bytes.
    pub const fn file_offset(&self) -> u64 {
        self.first_sector as u64 * SECTOR_BYTES as u64 - self.lead_bytes as u64
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::{
        super::sector::{Seen, payload, see},
        *,
    };

    #[test]
    fn records_lie_one_after_the_other_in_stamped_sectors() {
        let mut batch = Batch::new(2 * BLOCK_BYTES);
        // Bytes of an earlier batch are not written.
        batch.begin(1, 8);
        assert!(batch.push(&[0xff; 6000], Lsn(1)));
        batch.seal();
        batch.begin(3, 24);
        assert!(batch.is_empty());
        let record: Vec<u8> = (0..1200).map(|at| at as u8).collect();
        assert!(batch.push(&record[..600], Lsn(5)) && batch.push(&record[600..], Lsn(6)));
        assert_eq!(
            (batch.last(), batch.file_offset(), batch.end_sector_with(0)),
            (Lsn(6), 24 * 512, 32)
        );
        let bytes = batch.seal().to_vec();
        assert!(batch.seal().as_ptr().addr().is_multiple_of(BLOCK_BYTES));
        assert_eq!(bytes.len(), BLOCK_BYTES);
        let stamp = Stamp {
            first: 24,
            count: 8,
        };
        let (sectors, _) = bytes.as_chunks::<SECTOR_BYTES>();
        assert!(
            sectors
                .iter()
                .all(|sector| see(sector, 3) == Seen::Whole(stamp))
        );
        let read: Vec<u8> = sectors.iter().flat_map(payload).copied().collect();
        assert_eq!(read[..1200], record);
        assert!(read[1200..].iter().all(|&byte| byte == 0));
    }

    #[test]
    fn a_batch_takes_records_until_it_is_full() {
        let header = Header {
            generation: 1,
            first_lsn: Lsn(1),
            last_key: 0,
        };
        let mut batch = Batch::new(HEADER_BYTES + BLOCK_BYTES);
        batch.begin_file(header);
        let room = 8 * PAYLOAD_BYTES;
        assert_eq!(batch.room_bytes(), room);
        assert!(!batch.push(&vec![1; room + 1], Lsn(1)));
        assert!(batch.is_empty());
        assert!(batch.push(&vec![1; room], Lsn(1)));
        assert!(batch.is_half_full() && !batch.push(&[1], Lsn(2)));
        assert_eq!(batch.file_offset(), 0);
        assert_eq!(batch.seal().len(), HEADER_BYTES + BLOCK_BYTES);
        batch.begin(1, 40);
        assert_eq!(batch.room_bytes(), 5 * room);
    }
}
