//! A lane in small: durable regions and latches in memory, and everything that was done to them.

use std::{
    collections::BTreeMap,
    ops::Bound::{Excluded, Unbounded},
};

use covalent_dataplane::journal::{
    AppendError, Commit, Disk, Exchange, Journal, LatchKey, Latched, Lsn, Recovered,
    RecoveredRegion, Redo, RegionKey, SnapshotRegion, SnapshotSource,
};

/// The effect of one record.
#[derive(Debug, Clone)]
pub enum Deed {
    Region(RegionKey, String, usize),
    Forget(RegionKey),
    Commit {
        region: RegionKey,
        exchange: Option<Exchange>,
        redo: Vec<(u64, Vec<u8>)>,
        reply: Vec<u8>,
    },
}

/// Regions and latches.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct State {
    pub regions: BTreeMap<RegionKey, RecoveredRegion>,
    pub latches: BTreeMap<LatchKey, Latched>,
}

impl State {
    /// The state that a journal recovered.
    pub fn of(recovered: Recovered) -> Self {
        Self {
            regions: recovered.regions,
            latches: recovered.latches,
        }
    }

    fn apply(&mut self, deed: &Deed) {
        match deed {
            Deed::Region(key, name, size_bytes) => {
                let region = RecoveredRegion {
                    name: name.clone(),
                    bytes: vec![0; *size_bytes],
                };
                assert!(self.regions.insert(*key, region).is_none());
            }
            Deed::Forget(key) => assert!(self.regions.remove(key).is_some()),
            Deed::Commit {
                region,
                exchange,
                redo,
                reply,
            } => {
                let region = self.regions.get_mut(region).expect("a region");
                for (offset, bytes) in redo {
                    let start = *offset as usize;
                    region.bytes[start..start + bytes.len()].copy_from_slice(bytes);
                }
                if let Some(exchange) = *exchange {
                    let reply = reply.clone();
                    self.latches
                        .insert(exchange.latch(), Latched { exchange, reply });
                }
            }
        }
    }
}

/// A lane and its history.
#[derive(Debug, Default)]
pub struct Lane {
    pub state: State,
    base: State,
    deeds: Vec<(Lsn, Deed)>,
}

impl Lane {
    /// Creates a lane that begins with the state that a journal recovered.
    pub fn new(recovered: Recovered) -> Self {
        let state = State::of(recovered);
        Self {
            base: state.clone(),
            state,
            deeds: Vec::new(),
        }
    }

    /// Makes a region.
    pub fn make(
        &mut self,
        journal: &mut Journal<impl Disk>,
        name: &str,
        size_bytes: usize,
    ) -> RegionKey {
        let (key, lsn) = journal
            .append_region(name, size_bytes as u64)
            .expect("a region");
        self.did(lsn, Deed::Region(key, name.into(), size_bytes));
        key
    }

    /// Gives a region up.
    pub fn forget(&mut self, journal: &mut Journal<impl Disk>, key: RegionKey) {
        let lsn = journal.append_forget(key).expect("the region");
        self.did(lsn, Deed::Forget(key));
    }

    /// Executes a commit.
    pub fn commit(
        &mut self,
        journal: &mut Journal<impl Disk>,
        region: RegionKey,
        exchange: Option<Exchange>,
        redo: Vec<(u64, Vec<u8>)>,
        reply: Vec<u8>,
    ) -> Result<Lsn, AppendError> {
        let redo_entries: Vec<_> = redo
            .iter()
            .map(|(offset, bytes)| Redo {
                offset: *offset,
                bytes,
            })
            .collect();
        let lsn = journal.append(&Commit {
            region,
            exchange,
            redo: &redo_entries,
            reply: &reply,
        })?;
        self.did(
            lsn,
            Deed::Commit {
                region,
                exchange,
                redo,
                reply,
            },
        );
        Ok(lsn)
    }

    /// Executes a commit drawn by `draw` on any region that there is.
    pub fn commit_any(
        &mut self,
        journal: &mut Journal<impl Disk>,
        draw: &mut Draw,
    ) -> Result<Lsn, AppendError> {
        let at = draw.below(self.state.regions.len());
        let (&region, target) = self.state.regions.iter().nth(at).expect("a region");
        let size_bytes = target.bytes.len();
        let redo = (0..draw.below(4))
            .map(|_| {
                let count = draw.below(size_bytes.min(120)) + 1;
                let offset = draw.below(size_bytes - count + 1);
                // Zeros too, so that written bytes become those of a new region.
                let bytes = match draw.below(4) {
                    0 => vec![0; count],
                    _ => draw.bytes(count),
                };
                (offset as u64, bytes)
            })
            .collect();
        let exchange = (draw.below(5) > 0).then(|| exchange(draw));
        let reply_bytes = draw.below(40);
        let reply = draw.bytes(reply_bytes);
        self.commit(journal, region, exchange, redo, reply)
    }

    fn did(&mut self, lsn: Lsn, deed: Deed) {
        self.state.apply(&deed);
        self.deeds.push((lsn, deed));
    }

    /// The last record.
    pub fn last(&self) -> Lsn {
        self.deeds.last().map_or(Lsn(0), |&(lsn, _)| lsn)
    }

    /// How it was after `lsn`.
    pub fn after(&self, lsn: Lsn) -> State {
        let mut state = self.base.clone();
        self.deeds
            .iter()
            .take_while(|(at, _)| *at <= lsn)
            .for_each(|(_, deed)| state.apply(deed));
        state
    }
}

impl SnapshotSource for Lane {
    fn region_after(&self, after: Option<RegionKey>) -> Option<SnapshotRegion<'_>> {
        let from = after.map_or(Unbounded, Excluded);
        let (&key, region) = self.state.regions.range((from, Unbounded)).next()?;
        Some(SnapshotRegion {
            key,
            name: &region.name,
            size_bytes: region.bytes.len() as u64,
        })
    }

    fn read(&self, key: RegionKey, offset: u64, target: &mut [u8]) {
        let start = offset as usize;
        let bytes = &self.state.regions[&key].bytes;
        target.copy_from_slice(&bytes[start..start + target.len()]);
    }

    fn latch_after(&self, after: Option<LatchKey>) -> Option<(Exchange, &[u8])> {
        let from = after.map_or(Unbounded, Excluded);
        let (_, latched) = self.state.latches.range((from, Unbounded)).next()?;
        Some((latched.exchange, &latched.reply))
    }
}

fn exchange(draw: &mut Draw) -> Exchange {
    Exchange {
        initiator: draw.below(3) as u64 + 1,
        incarnation: 0xabcd,
        epoch: 4,
        sequence: draw.next() as u32,
        port: draw.below(2) as u16,
        slot: draw.below(8) as u8,
        two_phase: draw.below(2) == 1,
    }
}

/// Numbers that look random and are the same for the same seed (SplitMix64).
#[derive(Debug)]
pub struct Draw(pub u64);

impl Draw {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next() as u8).collect()
    }
}
