//! All counters in shared memory: the file of counters, and the ring of samples and events.
//!
//! Each lane writes its own part, and so does the host thread. They write at ticks and never per
//! packet. `covalent_api::metrics` declares the values and their names. `docs/counters.md`
//! describes the layout.

mod drawing;
mod host;
mod lane;

use std::{fs, io, path::Path, time::Duration};

use covalent_api::{
    former,
    metrics::{
        DURABLE_REGION, Declared, GROUP, Kind, LANE, LINK, NODE, PATH, PIPE, PORT, REGION, TREE,
        of_daemon,
    },
};
use covalent_config::Config;
use covalent_counters::{
    Board, CountersFile, FamilyPlan, FamilyType, Plan, ReadError, TablePlan, WriterPlan, create,
    ring::Ring,
};

pub use self::{
    host::HostCounters,
    lane::{Due, LaneCounters, LaneSet},
};

/// Bytes of the ring: with a thousand busy pipes the last twenty seconds, with a few objects an
/// hour.
const RING_BYTES: usize = 4 << 20;

/// Most different meanings of values that one writer may have.
const FIELDS_MAX: usize = 2048;

/// The files and their writers.
#[derive(Debug)]
pub struct Telemetry {
    /// To be notified when all writers have stopped.
    pub board: Board,
    /// For the lanes, by index.
    pub lanes: Vec<LaneCounters>,
    /// For the host thread.
    pub host: HostCounters,
}

/// Why there are no counters in shared memory.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// A file could not be made.
    #[error(transparent)]
    System(#[from] io::Error),
    /// It was made and cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl Telemetry {
    /// Creates the files of a node in `node.runtime_dir`, readable by `group`. Returns `None` if
    /// the configuration disables them. Files of an earlier daemon are [kept](former::kept).
    ///
    /// # Errors
    /// [`TelemetryError`]. No file is left then.
    pub fn open(config: &Config, group: Option<u32>) -> Result<Option<Self>, TelemetryError> {
        let (counters, ring) = (config.counters_path(), config.counters_ring_path());
        for file in [&counters, &ring] {
            former::keep(file)?;
        }
        let made = if config.dataplane.counters_ms == 0 {
            Ok(None)
        } else {
            Self::make(config, group, &counters, &ring).map(Some)
        };
        if !matches!(made, Ok(Some(_))) {
            for file in [counters, ring] {
                let _ = fs::remove_file(file);
            }
        }
        made
    }

    fn make(
        config: &Config,
        group: Option<u32>,
        counters: &Path,
        ring: &Path,
    ) -> Result<Self, TelemetryError> {
        let declared: Vec<Declared> = of_daemon()
            .into_iter()
            .flat_map(|section| section.metrics)
            .collect();
        let families: Vec<FamilyPlan<'_>> = declared.iter().map(family).collect();
        let lanes = config.lane.len();
        let mut writers: Vec<WriterPlan> = (0..lanes).map(lane::plan).collect();
        writers.push(host::plan());
        let interval = Duration::from_millis(config.dataplane.counters_ms.into());
        let plan = Plan {
            node: &config.node.name,
            interval,
            families: &families,
            writers: &writers,
            group,
        };
        let (board, mut made) = create(counters, &plan)?;
        let host = made.split_off(lanes);
        let ring = Ring::create(ring, RING_BYTES, group)?;
        let reader = CountersFile::open(counters)?;
        let host = host.into_iter().next().ok_or(ReadError::Foreign)?;
        Ok(Self {
            board,
            lanes: made
                .into_iter()
                .map(|writer| LaneCounters::new(writer, interval))
                .collect(),
            host: HostCounters::new(host, ring, reader, interval),
        })
    }
}

fn family(declared: &Declared) -> FamilyPlan<'_> {
    FamilyPlan {
        kind: match declared.kind {
            Kind::Counter => FamilyType::Counter,
            Kind::Gauge => FamilyType::Gauge,
            Kind::Histogram => FamilyType::Histogram,
        },
        name: declared.family.name,
        unit: declared.family.unit,
        help: declared.family.meaning,
    }
}

const fn table(name: &'static str, slots: usize, text_bytes: usize, values: usize) -> TablePlan {
    TablePlan {
        name,
        slots,
        text_bytes,
        values,
    }
}

/// The number of each kind's first metric, in the order of [`of_daemon`].
mod first {
    use super::*;

    pub const NODE_METRICS: u32 = 0;
    pub const LANE_METRICS: u32 = NODE_METRICS + NODE.series.len() as u32;
    pub const PORT_METRICS: u32 = LANE_METRICS + LANE.series.len() as u32;
    pub const LINK_METRICS: u32 = PORT_METRICS + PORT.series.len() as u32;
    pub const TREE_METRICS: u32 = LINK_METRICS + LINK.series.len() as u32;
    pub const PATH_METRICS: u32 = TREE_METRICS + TREE.series.len() as u32;
    pub const GROUP_METRICS: u32 = PATH_METRICS + PATH.series.len() as u32;
    pub const PIPE_METRICS: u32 = GROUP_METRICS + GROUP.series.len() as u32;
    pub const REGION_METRICS: u32 = PIPE_METRICS + PIPE.series.len() as u32;
    pub const DURABLE_METRICS: u32 = REGION_METRICS + REGION.series.len() as u32;
    pub const VERB_METRICS: u32 = DURABLE_METRICS + DURABLE_REGION.series.len() as u32;
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use covalent_api::metrics::VERB;

    use super::*;

    #[test]
    fn the_numbers_of_metrics_are_their_places_among_the_declared() {
        let names: Vec<&str> = of_daemon()
            .iter()
            .flat_map(|section| &section.metrics)
            .map(|declared| declared.family.name)
            .collect();
        let at = |number: u32| names[number as usize];
        assert_eq!(at(first::NODE_METRICS), NODE.series[0].family.name);
        assert_eq!(at(first::LANE_METRICS), LANE.series[0].family.name);
        assert_eq!(at(first::PORT_METRICS), PORT.series[0].family.name);
        assert_eq!(at(first::LINK_METRICS), LINK.series[0].family.name);
        assert_eq!(at(first::TREE_METRICS), TREE.series[0].family.name);
        assert_eq!(at(first::PATH_METRICS), PATH.series[0].family.name);
        assert_eq!(at(first::GROUP_METRICS), GROUP.series[0].family.name);
        assert_eq!(at(first::PIPE_METRICS), PIPE.series[0].family.name);
        assert_eq!(at(first::REGION_METRICS), REGION.series[0].family.name);
        assert_eq!(
            at(first::DURABLE_METRICS),
            DURABLE_REGION.series[0].family.name
        );
        assert_eq!(at(first::VERB_METRICS), VERB.series[0].family.name);
        assert_eq!(
            names.len(),
            first::VERB_METRICS as usize + VERB.series.len()
        );
    }

    #[test]
    fn every_metric_fits_its_words() {
        for declared in of_daemon().iter().flat_map(|section| &section.metrics) {
            let words = &declared.family;
            assert!(
                words.name.len() <= 96 && words.unit.len() <= 24 && words.meaning.len() <= 512,
                "{} is cut in the file of counters: leave its words shorter, or give them more \
                 room and the file another version",
                words.name
            );
        }
    }
}
