//! A snapshot in bounded steps, concurrent with commits.
//!
//! The snapshot is fuzzy: each part holds the state at the time of its copy. A part includes all
//! records before it, because the thread that copies also executes and appends the verbs. Replay
//! applies everything in the order of the journal and therefore ends with the last state.

use super::{
    error::AppendError,
    record::{
        Body, Exchange, LatchKey, Lsn, PIECE_BYTES_MAX, PIECE_OVERHEAD_BYTES,
        REGION_RECORD_BYTES_MAX, Redo, RegionKey,
    },
};

/// Most bytes that a region of this size takes in a snapshot: a record with its name, and one for
/// each piece.
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

/// The source of snapshots: the present state of the lane. It includes recovered regions that no
/// application has opened again.
pub trait SnapshotSource {
    /// The durable region with the lowest key above `after`.
    fn region_after(&self, after: Option<RegionKey>) -> Option<SnapshotRegion<'_>>;

    /// Copies the content of region `key` from `offset` on. [`SnapshotSource::region_after`] has
    /// just returned this region, and `target` is within its bounds.
    fn read(&self, key: RegionKey, offset: u64, target: &mut [u8]);

    /// Returns the latched outcome with the lowest key above `after`, and its reply. Considers the
    /// executed exchanges that changed or read durable regions.
    fn latch_after(&self, after: Option<LatchKey>) -> Option<(Exchange, &[u8])>;
}

/// How far a snapshot is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Cursor {
    /// The region before the current one.
    after: Option<RegionKey>,
    /// The current region and the bytes of it that are done.
    current: Option<(RegionKey, u64)>,
    regions_done: bool,
    latch_after: Option<LatchKey>,
}

impl Cursor {
    /// Appends parts until `budget_bytes` of memory are read. Returns `Some` with the record that
    /// ends the snapshot if it was appended.
    ///
    /// # Errors
    /// The error of `append`. Earlier parts remain appended, and the next step continues there.
    pub fn step(
        &mut self,
        source: &impl SnapshotSource,
        budget_bytes: usize,
        mut append: impl FnMut(&Body<'_>) -> Result<Lsn, AppendError>,
    ) -> Result<Option<Lsn>, AppendError> {
        let mut read_bytes = 0;
        while read_bytes < budget_bytes {
            if self.regions_done {
                let Some((exchange, reply)) = source.latch_after(self.latch_after) else {
                    return append(&Body::SnapshotEnd).map(Some);
                };
                append(&Body::Latch { exchange, reply })?;
                self.latch_after = Some(exchange.latch());
                read_bytes += reply.len() + size_of::<Exchange>();
            } else if let Some(region) = source.region_after(self.after) {
                read_bytes += self.step_region(source, region, &mut append)?;
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
        // Unwritten bytes of a region are zero. If a commit wrote zeros over other bytes, its
        // record covers that.
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
    fn a_region_takes_the_space_that_it_is_charged() {
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
