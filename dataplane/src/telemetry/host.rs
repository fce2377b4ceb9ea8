//! The host thread's counters: the node and its regions. Once per second it also puts all changed
//! values into the ring.

use std::{
    collections::HashMap,
    hash::BuildHasher,
    time::{Duration, Instant},
};

use covalent_api::{
    event::Event,
    metrics::{DURABLE_REGION, NODE, REGION},
    status::NodeStatus,
};
use covalent_counters::{
    CountersFile, Draft, Writer, WriterPlan,
    ring::{Ring, Sampled},
};
use rustc_hash::FxBuildHasher;

use super::{FIELDS_MAX, drawing::draw, first, table};

/// Registered regions that fit in the file, and the same number of durable ones.
const REGIONS_MAX: usize = 1024;
const NODE_TABLE: usize = 0;
const REGION_TABLE: usize = 1;
const DURABLE_TABLE: usize = 2;

/// Interval at which changed values are put into the ring. On an idle node the host thread wakes
/// for nothing else.
const SAMPLE_EVERY: Duration = Duration::from_secs(1);

/// Writer, table and slot of an object.
type Place = (u16, u16, u32);

/// Generation, first field and values of an object.
type Seen = (u64, usize, Vec<u64>);

/// The space that the host thread needs.
pub(super) fn plan() -> WriterPlan {
    WriterPlan {
        name: "host".to_owned(),
        fields: FIELDS_MAX,
        tables: vec![
            table("node", 1, 128, 96),
            table("region", REGIONS_MAX, 352, 4),
            table("durable_region", REGIONS_MAX, 352, 4),
        ],
    }
}

/// The host thread's part of the file, and the ring.
#[derive(Debug)]
pub struct HostCounters {
    writer: Writer,
    draft: Draft,
    ring: Ring,
    reader: CountersFile,
    interval: Duration,
    /// When it wrote last.
    written: Option<Instant>,
    sample_at: Instant,
    /// Something happened since it wrote last.
    stale: bool,
    /// The values put into the ring last, by writer, table and slot.
    sampled: HashMap<Place, Seen>,
    /// Objects that did not fit in the whole file.
    omitted: u64,
}

impl HostCounters {
    pub(super) fn new(
        writer: Writer,
        ring: Ring,
        reader: CountersFile,
        interval: Duration,
    ) -> Self {
        Self {
            writer,
            draft: Draft::default(),
            ring,
            reader,
            interval,
            written: None,
            sample_at: Instant::now(),
            stale: true,
            sampled: HashMap::new(),
            omitted: 0,
        }
    }

    /// When to run next even if nothing happens.
    #[must_use]
    pub fn due_at(&self) -> Instant {
        match self.written {
            Some(written) if self.stale => self.sample_at.min(written + self.interval),
            _ => self.sample_at,
        }
    }

    /// Something may have happened. Returns whether the node is to be written now.
    pub fn touch(&mut self, now: Instant) -> bool {
        self.stale = true;
        now >= self.due_at()
    }

    /// Objects that did not fit in the whole file, as of the last sample.
    #[must_use]
    pub const fn omitted(&self) -> u64 {
        self.omitted
    }

    /// Writes the node, and the ring's samples if they are due.
    pub fn write(&mut self, now: Instant, status: &NodeStatus) {
        self.write_node(status);
        self.written = Some(now);
        self.stale = false;
        if now >= self.sample_at {
            let pause = if self.sample() {
                SAMPLE_EVERY
            } else {
                self.interval
            };
            self.sample_at = now + pause;
        }
    }

    fn write_node(&mut self, status: &NodeStatus) {
        let mut writing = self.writer.begin();
        let draft = &mut self.draft;
        let mut omitted = 0;
        let mut put = |table, slot, key, draft: &Draft| {
            omitted += u64::from(!writing.put(table, slot, key, draft));
        };
        draw(&NODE, first::NODE_METRICS, status, true, draft);
        put(NODE_TABLE, 0, 0, draft);
        for (slot, region) in status.regions.iter().enumerate() {
            draw(&REGION, first::REGION_METRICS, region, true, draft);
            put(
                REGION_TABLE,
                slot,
                // Anyone reads it, and it can be turned back: no key of a region.
                FxBuildHasher.hash_one((&region.name, region.session)),
                draft,
            );
        }
        for (slot, region) in status.durable_regions.iter().enumerate() {
            draw(&DURABLE_REGION, first::DURABLE_METRICS, region, true, draft);
            put(
                DURABLE_TABLE,
                slot,
                FxBuildHasher.hash_one(&region.name),
                draft,
            );
        }
        writing.clear_from(REGION_TABLE, status.regions.len());
        writing.clear_from(DURABLE_TABLE, status.durable_regions.len());
        writing.omitted(omitted);
    }

    /// Puts the values that changed since the last sample into the ring, unless a writer is active
    /// at this moment. Returns whether it did.
    fn sample(&mut self) -> bool {
        let Ok(snapshot) = self.reader.try_read() else {
            return false;
        };
        self.omitted = snapshot.writers.iter().map(|writer| writer.omitted).sum();
        let mut seen = HashMap::with_capacity(self.sampled.len());
        for (writer, set) in (0..).zip(snapshot.writers) {
            for (table, table_set) in (0..).zip(set.tables) {
                for object in table_set.objects {
                    let place = (writer, table, object.slot as u32);
                    let now = (object.generation, object.first, object.values);
                    if self.sampled.get(&place) != Some(&now) {
                        self.ring.sample(&Sampled {
                            writer,
                            table,
                            slot: place.2,
                            generation: now.0,
                            first: now.1 as u32,
                            values: &now.2,
                        });
                    }
                    seen.insert(place, now);
                }
            }
        }
        self.sampled = seen;
        true
    }

    /// Puts an event into the ring.
    pub fn event(&mut self, event: &Event) {
        if let Ok(json) = serde_json::to_vec(event) {
            self.ring.event(&json);
        }
    }

    /// Writes for the last time.
    pub fn end(&mut self, status: &NodeStatus) {
        self.write_node(status);
        self.sample();
        self.ring.end();
    }
}
