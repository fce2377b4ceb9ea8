//! A snapshot in bounded steps, while commits go on.
//!
//! It is fuzzy: each part tells what was there when it was copied. A part holds what all records before it did, because a verb is executed and
//! appended by the same thread that copies; so replay, which does everything in the order of the journal, ends with what was there.

use super::{
    error::AppendError,
    record::{
        Body, Exchange, LatchKey, Lsn, PIECE_BYTES_MAX, PIECE_OVERHEAD_BYTES,
        REGION_RECORD_BYTES_MAX, Redo, RegionKey,
    },
};

/// The most that a region of this size takes in a snapshot, in bytes: a record that names it, and one for each piece.
#[must_use]
pub const fn snapshot_bytes(size_bytes: u64) -> u64 {
    let pieces = size_bytes.div_ceil(PIECE_BYTES_MAX as u64);
    REGION_RECORD_BYTES_MAX as u64 + pieces * PIECE_OVERHEAD_BYTES as u64 + size_bytes
}

/// A durable region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotRegion<'a> {
    /// Its key.
    pub key: RegionKey,
    /// Its name.
    pub name: &'a str,
    /// Its size in bytes.
    pub size_bytes: u64,
}

/// Where snapshots come from: what the lane holds now. Regions that were recovered and that no application has asked for again belong to it.
pub trait SnapshotSource {
    /// The durable region with the lowest key above `after`.
    fn region_after(&self, after: Option<RegionKey>) -> Option<SnapshotRegion<'_>>;

    /// Copies what the region `key` holds from `offset` on. It is one that [`SnapshotSource::region_after`] told just now, and `target` lies within.
    fn read(&self, key: RegionKey, offset: u64, target: &mut [u8]);

    /// The latched outcome with the lowest key above `after`, of the executed exchanges that changed or read durable regions, with its reply.
    fn latch_after(&self, after: Option<LatchKey>) -> Option<(Exchange, &[u8])>;
}

/// How far a snapshot is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Cursor {
    /// The region before the one at hand.
    after: Option<RegionKey>,
    /// The region at hand, and how much of it is done.
    current: Option<(RegionKey, u64)>,
    regions_done: bool,
    latch_after: Option<LatchKey>,
}

impl Cursor {
    /// Appends parts until `budget_bytes` of memory are looked at. `Some` with the record that ends the snapshot if that was appended.
    ///
    /// # Errors
    /// What `append` answered; what was appended before counts, and the next step goes on there.
    pub fn step(
        &mut self,
        source: &impl SnapshotSource,
        budget_bytes: usize,
        mut append: impl FnMut(&Body<'_>) -> Result<Lsn, AppendError>,
    ) -> Result<Option<Lsn>, AppendError> {
        let mut looked_bytes = 0;
        while looked_bytes < budget_bytes {
            if self.regions_done {
                let Some((exchange, reply)) = source.latch_after(self.latch_after) else {
                    return append(&Body::SnapshotEnd).map(Some);
                };
                append(&Body::Latch { exchange, reply })?;
                self.latch_after = Some(exchange.latch());
                looked_bytes += reply.len() + size_of::<Exchange>();
            } else if let Some(region) = source.region_after(self.after) {
                looked_bytes += self.step_region(source, region, &mut append)?;
            } else {
                self.regions_done = true;
            }
        }
        Ok(None)
    }

    /// Appends the next part of a region and returns how much was looked at.
    fn step_region(
        &mut self,
        source: &impl SnapshotSource,
        region: SnapshotRegion<'_>,
        append: &mut impl FnMut(&Body<'_>) -> Result<Lsn, AppendError>,
    ) -> Result<usize, AppendError> {
        let key = region.key;
        // Another one than before if that was given back meanwhile.
        let Some((_, offset)) = self.current.filter(|&(current, _)| current == key) else {
            append(&Body::Region {
                key,
                size_bytes: region.size_bytes,
                name: region.name,
            })?;
            self.current = Some((key, 0));
            return Ok(size_of::<SnapshotRegion<'_>>());
        };
        let mut copy = [0; PIECE_BYTES_MAX];
        let left_bytes = region.size_bytes.saturating_sub(offset);
        let copy = &mut copy[..left_bytes.min(PIECE_BYTES_MAX as u64) as usize];
        source.read(key, offset, copy);
        // Zero is what a region holds that nobody wrote to. If somebody wrote and then wrote zeros, records say so.
        if copy.iter().any(|&byte| byte != 0) {
            append(&Body::Piece {
                region: key,
                piece: Redo {
                    offset,
                    bytes: copy,
                },
            })?;
        }
        let end = offset + copy.len() as u64;
        if end >= region.size_bytes {
            (self.after, self.current) = (Some(key), None);
        } else {
            self.current = Some((key, end));
        }
        Ok(copy.len())
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::record::{NAME_BYTES_MAX, RECORD_BYTES_MAX, encode},
        *,
    };

    /// One region, none of it zero.
    struct One<'a>(SnapshotRegion<'a>);

    impl SnapshotSource for One<'_> {
        fn region_after(&self, after: Option<RegionKey>) -> Option<SnapshotRegion<'_>> {
            after.is_none().then_some(self.0)
        }

        fn read(&self, _key: RegionKey, _offset: u64, target: &mut [u8]) {
            target.fill(1);
        }

        fn latch_after(&self, _after: Option<LatchKey>) -> Option<(Exchange, &[u8])> {
            None
        }
    }

    #[test]
    fn a_region_takes_what_it_is_charged() {
        let name = "n".repeat(NAME_BYTES_MAX);
        let piece_bytes = PIECE_BYTES_MAX as u64;
        for size_bytes in [8, piece_bytes - 8, piece_bytes, piece_bytes + 8, 1 << 20] {
            let source = One(SnapshotRegion {
                key: RegionKey(1),
                name: &name,
                size_bytes,
            });
            let mut taken_bytes = 0;
            let mut scratch = Box::new([0; RECORD_BYTES_MAX]);
            let end = Cursor::default().step(&source, usize::MAX, |body| {
                if *body != Body::SnapshotEnd {
                    let bytes = encode(body, 1, Lsn(1), &mut scratch);
                    taken_bytes += bytes.map_err(|_| AppendError::TooLong)? as u64;
                }
                Ok(Lsn(1))
            });
            assert_eq!(end, Ok(Some(Lsn(1))));
            assert_eq!(taken_bytes, snapshot_bytes(size_bytes));
        }
    }
}
