//! The result of replay: the content of the regions and the outcomes of exchanges.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use covalent_pipe::region::{REGION_BYTES_MAX, WORD_BYTES};

use super::{
    record::{Body, Exchange, LatchKey, Lsn, Redo, RegionKey},
    snapshot::{SnapshotRegion, SnapshotSource, snapshot_bytes},
};

/// A durable region as the last commit left it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecoveredRegion {
    /// Its name.
    pub name: String,
    /// Its content.
    pub bytes: Vec<u8>,
}

/// How the last exchange of a slot ended: it was executed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Latched {
    /// The exchange.
    pub exchange: Exchange,
    /// The reply.
    pub reply: Vec<u8>,
}

/// The tail of a batch that was being written when the node stopped. Nothing of it was
/// acknowledged, and it is dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TornTail {
    /// In which file.
    pub path: PathBuf,
    /// Where the batch begins, in bytes.
    pub offset: u64,
    /// From there to the last byte that was written.
    pub bytes: u64,
}

/// A loss that an operator has accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcceptedLoss {
    /// The loss that replay found.
    pub what: String,
    /// The names that the files have now.
    pub set_aside: Vec<PathBuf>,
}

/// The content of a journal at the start. Also the source of the first snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Recovered {
    /// Regions by key.
    pub regions: BTreeMap<RegionKey, RecoveredRegion>,
    /// Latched outcomes: the last one of each slot.
    pub latches: BTreeMap<LatchKey, Latched>,
    /// The last record that was read; everything up to it is in here.
    pub last_lsn: Lsn,
    /// The torn tail.
    pub torn: Option<TornTail>,
    /// The accepted loss, if the start had to accept one.
    pub accepted: Option<AcceptedLoss>,
    /// Generation that was read last; 0 if there was no journal.
    pub(super) generation: u64,
    /// The highest key ever given.
    pub(super) last_key: u64,
}

impl Recovered {
    /// The region of this name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<(RegionKey, &RecoveredRegion)> {
        self.regions
            .iter()
            .find(|(_, region)| region.name == name)
            .map(|(&key, region)| (key, region))
    }

    /// Most bytes that all regions take in a snapshot.
    pub(super) fn regions_bytes(&self) -> u64 {
        self.regions
            .values()
            .map(|region| snapshot_bytes(region.bytes.len() as u64))
            .sum()
    }

    /// Applies a record. `whole`: everything that the record may refer to precedes it. It is false
    /// only during a snapshot without known earlier state. A commit may then name a region that the
    /// snapshot reaches later. The snapshot of that region includes the commit.
    ///
    /// # Errors
    /// The record contradicts those before it.
    pub(super) fn apply(&mut self, body: &Body<'_>, whole: bool) -> Result<(), String> {
        match *body {
            Body::Commit {
                region,
                exchange,
                redo,
                reply,
            } => {
                match self.regions.get_mut(&region) {
                    Some(target) => redo
                        .iter()
                        .try_for_each(|redo| put(&mut target.bytes, redo))?,
                    None if whole => return Err(format!("region {} is not known", region.0)),
                    None => {}
                }
                if let Some(exchange) = exchange {
                    self.latch(exchange, reply);
                }
            }
            Body::Region {
                key,
                size_bytes,
                name,
            } => self.name(key, size_bytes, name)?,
            Body::Forget(key) => {
                if self.regions.remove(&key).is_none() && whole {
                    return Err(format!("region {} is not known", key.0));
                }
            }
            Body::Piece { region, piece } => {
                let target = self
                    .regions
                    .get_mut(&region)
                    .ok_or_else(|| format!("region {} is not known", region.0))?;
                put(&mut target.bytes, piece)?;
            }
            Body::Latch { exchange, reply } => self.latch(exchange, reply),
            Body::SnapshotEnd => {}
        }
        Ok(())
    }

    fn latch(&mut self, exchange: Exchange, reply: &[u8]) {
        let latched = Latched {
            exchange,
            reply: reply.to_vec(),
        };
        self.latches.insert(exchange.latch(), latched);
    }

    fn name(&mut self, key: RegionKey, size_bytes: u64, name: &str) -> Result<(), String> {
        self.last_key = self.last_key.max(key.0);
        if let Some(known) = self.regions.get(&key) {
            return if known.name == name && known.bytes.len() as u64 == size_bytes {
                Ok(())
            } else {
                Err(format!("region {} had another name or size before", key.0))
            };
        }
        if size_bytes == 0
            || !size_bytes.is_multiple_of(WORD_BYTES)
            || size_bytes > REGION_BYTES_MAX
        {
            return Err(format!(
                "region `{name}` has the invalid size of {size_bytes} bytes"
            ));
        }
        if self.find(name).is_some() {
            return Err(format!("there are two regions `{name}`"));
        }
        let region = RecoveredRegion {
            name: name.to_owned(),
            bytes: vec![0; size_bytes as usize],
        };
        self.regions.insert(key, region);
        Ok(())
    }

    /// Records the position of the torn tail that replay found.
    pub(super) fn tear(&mut self, path: &Path, offset: u64, bytes: u64) {
        self.torn = Some(TornTail {
            path: path.to_owned(),
            offset,
            bytes,
        });
    }
}

fn put(target: &mut [u8], redo: Redo<'_>) -> Result<(), String> {
    usize::try_from(redo.offset)
        .ok()
        .and_then(|start| target.get_mut(start..start.checked_add(redo.bytes.len())?))
        .ok_or_else(|| format!("a change at {} lies outside of its region", redo.offset))?
        .copy_from_slice(redo.bytes);
    Ok(())
}

impl SnapshotSource for Recovered {
    fn region_after(&self, after: Option<RegionKey>) -> Option<SnapshotRegion<'_>> {
        let from = after.map_or(0, |key| key.0 + 1);
        let (&key, region) = self.regions.range(RegionKey(from)..).next()?;
        Some(SnapshotRegion {
            key,
            name: &region.name,
            size_bytes: region.bytes.len() as u64,
        })
    }

    fn read(&self, key: RegionKey, offset: u64, target: &mut [u8]) {
        if let Some(region) = self.regions.get(&key) {
            let start = offset as usize;
            target.copy_from_slice(&region.bytes[start..start + target.len()]);
        }
    }

    fn latch_after(&self, after: Option<LatchKey>) -> Option<(Exchange, &[u8])> {
        use std::ops::Bound::{Excluded, Unbounded};
        let from = after.map_or(Unbounded, Excluded);
        let (_, latched) = self.latches.range((from, Unbounded)).next()?;
        Some((latched.exchange, &latched.reply))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::{super::record::Redos, *};

    #[test]
    fn a_change_beyond_its_region_is_not_replayed() {
        let mut recovered = Recovered::default();
        let key = RegionKey(1);
        let region = Body::Region {
            key,
            size_bytes: 16,
            name: "0/bank",
        };
        recovered.apply(&region, true).unwrap();
        let before = recovered.clone();
        for (offset, len) in [(16, 1), (9, 8), (0, 17), (u64::MAX, 8), (u64::MAX - 7, 8)] {
            let bytes = vec![7; len];
            let redo = [Redo {
                offset,
                bytes: &bytes,
            }];
            let piece = Body::Piece {
                region: key,
                piece: redo[0],
            };
            let commit = Body::Commit {
                region: key,
                exchange: None,
                redo: Redos::new(&redo),
                reply: &[],
            };
            for body in [piece, commit] {
                let why = recovered.apply(&body, true).unwrap_err();
                assert!(why.contains("outside of its region"), "{why}");
                assert_eq!(recovered, before);
            }
        }
    }
}
