//! A lane's counters: its own, its ports, links and verbs at each write, and its pipes a few at a
//! time.

use std::time::{Duration, Instant};

use covalent_api::{
    metrics::{GROUP, LANE, LINK, Object, PATH, PIPE, PORT, TREE, VERB},
    status::{
        FabricStatus, GroupStatus, LaneStatus, LinkStatus, PipeStatus, PortStatus, VerbStatus,
    },
};
use covalent_counters::{Draft, TablePlan, Writer, WriterPlan, Writing};

use super::{FIELDS_MAX, drawing::draw, first, table};

/// Pipes of one lane that fit in the file.
const PIPES_MAX: usize = 4096;
/// Ports of one lane that fit in the file, and the same number of links.
const PORTS_MAX: usize = 256;

/// Group incarnations of one lane that fit in the file.
const GROUPS_MAX: usize = 256;

/// Interval between system calls for counting: a few each time, so that a lane's other calls are
/// not among them.
const CALLS_EVERY: Duration = Duration::from_secs(1);

/// The lane's tables. The number of values per object is generous: releases and drivers add causes.
const TABLES: [TablePlan; 8] = [
    table("lane", 1, 256, 32),
    table("port", PORTS_MAX, 384, 160),
    table("link", PORTS_MAX, 384, 112),
    table("tree", 1, 8, 16),
    table("path", 1, 8, 24),
    table("verb", 1, 8, 64),
    table("pipe", PIPES_MAX, 64, 18),
    table("group", GROUPS_MAX, 128, 24),
];
const LANE_TABLE: usize = 0;
const PORT_TABLE: usize = 1;
const LINK_TABLE: usize = 2;
const TREE_TABLE: usize = 3;
const PATH_TABLE: usize = 4;
const VERB_TABLE: usize = 5;
const PIPE_TABLE: usize = 6;
const GROUP_TABLE: usize = 7;

/// The space that the lane `lane` needs.
pub(super) fn plan(lane: usize) -> WriterPlan {
    WriterPlan {
        name: format!("lane {lane}"),
        fields: FIELDS_MAX,
        tables: TABLES.to_vec(),
    }
}

/// A lane's part of the file.
#[derive(Debug)]
pub struct LaneCounters {
    writer: Writer,
    draft: Draft,
    interval: Duration,
    /// When everything except pipes is written next.
    due: Instant,
    /// When system calls are made for it too.
    calls_due: Instant,
    /// When the pipes are gone through again.
    pipes_due: Instant,
    /// The pipe at which an unfinished pass continues.
    next_pipe: Option<usize>,
    /// Objects that did not fit, by table.
    omitted: [u64; TABLES.len()],
}

/// The values to write now.
#[derive(Debug, Clone, Copy)]
pub struct Due {
    /// Pipes from this one on.
    pub pipes: Option<usize>,
    /// Everything else.
    pub rest: bool,
    /// Values that need system calls are queried again.
    pub calls: bool,
}

impl LaneCounters {
    pub(super) fn new(writer: Writer, interval: Duration) -> Self {
        let now = Instant::now();
        Self {
            writer,
            draft: Draft::default(),
            interval,
            due: now,
            calls_due: now,
            pipes_due: now,
            next_pipe: None,
            omitted: [0; TABLES.len()],
        }
    }

    /// Returns the values to write at `now`, if any.
    pub fn due(&mut self, now: Instant) -> Option<Due> {
        let rest = now >= self.due;
        if rest {
            self.due = now + self.interval;
        }
        let calls = rest && now >= self.calls_due;
        if calls {
            self.calls_due = now + CALLS_EVERY;
        }
        if self.next_pipe.is_none() && now >= self.pipes_due {
            self.pipes_due = now + self.interval;
            self.next_pipe = Some(0);
        }
        let pipes = self.next_pipe;
        (rest || pipes.is_some()).then_some(Due { pipes, rest, calls })
    }

    /// The pipes were written up to this one, or all of them.
    pub const fn continue_at(&mut self, next_pipe: Option<usize>) {
        self.next_pipe = next_pipe;
    }

    /// Begins a set. Readers see it when the returned value is dropped.
    pub fn begin(&mut self) -> LaneSet<'_> {
        LaneSet {
            writing: self.writer.begin(),
            draft: &mut self.draft,
            omitted: &mut self.omitted,
        }
    }
}

/// The values that a lane writes at one time.
#[derive(Debug)]
pub struct LaneSet<'a> {
    writing: Writing<'a>,
    draft: &'a mut Draft,
    omitted: &'a mut [u64; TABLES.len()],
}

impl LaneSet<'_> {
    /// The lane itself.
    pub fn lane(&mut self, lane: &LaneStatus) {
        self.put(LANE_TABLE, 0, 0, &LANE, first::LANE_METRICS, lane);
    }

    /// The port in place `at`.
    pub fn port(&mut self, at: usize, port: &PortStatus) {
        self.put(
            PORT_TABLE,
            at,
            port.number.into(),
            &PORT,
            first::PORT_METRICS,
            port,
        );
    }

    /// The link of the port `number`, in that port's place.
    pub fn link(&mut self, at: usize, number: u16, link: &LinkStatus) {
        self.put(
            LINK_TABLE,
            at,
            number.into(),
            &LINK,
            first::LINK_METRICS,
            link,
        );
    }

    /// There is no port in place `at`, or none that is configured.
    pub fn no_port(&mut self, at: usize) {
        self.writing.clear(PORT_TABLE, at);
    }

    /// There is no link at the port in place `at`.
    pub fn no_link(&mut self, at: usize) {
        self.writing.clear(LINK_TABLE, at);
    }

    /// The lane's view of nodes beyond its neighbors. `roots`: this lane knows the trees.
    pub fn fabric(&mut self, fabric: &FabricStatus, roots: bool) {
        if roots {
            self.put(TREE_TABLE, 0, 0, &TREE, first::TREE_METRICS, fabric);
        }
        self.put(PATH_TABLE, 0, 0, &PATH, first::PATH_METRICS, fabric);
    }

    /// Group incarnations of the lane's applications.
    pub fn groups(&mut self, groups: &[GroupStatus]) {
        for (slot, group) in groups.iter().enumerate() {
            let key = group.stay.0;
            self.put(GROUP_TABLE, slot, key, &GROUP, first::GROUP_METRICS, group);
        }
        self.writing.clear_from(GROUP_TABLE, groups.len());
    }

    /// The lane's verbs.
    pub fn verbs(&mut self, verbs: &VerbStatus) {
        self.put(VERB_TABLE, 0, 0, &VERB, first::VERB_METRICS, verbs);
    }

    /// The pipe in the lane's slot `at`.
    pub fn pipe(&mut self, at: usize, pipe: Option<&PipeStatus>) {
        let Some(pipe) = pipe else {
            return self.writing.clear(PIPE_TABLE, at);
        };
        let key = pipe.session << 16 | u64::from(pipe.pipe);
        let with_labels = !self.writing.knows(PIPE_TABLE, at, key);
        draw(&PIPE, first::PIPE_METRICS, pipe, with_labels, self.draft);
        // Pipes in slots that do not fit are counted in `pipes_end`.
        self.writing.put(PIPE_TABLE, at, key, self.draft);
    }

    /// Ends a pass: pipes are in `slots` slots. Counts those that do not fit.
    pub fn pipes_end(&mut self, slots: usize, in_slot: impl Fn(usize) -> bool) {
        self.writing.clear_from(PIPE_TABLE, slots);
        let beyond = (PIPES_MAX..slots).filter(|&slot| in_slot(slot)).count();
        self.omitted[PIPE_TABLE] = beyond as u64;
    }

    fn put<T>(
        &mut self,
        table: usize,
        slot: usize,
        key: u64,
        kind: &Object<T>,
        first: u32,
        object: &T,
    ) {
        draw(kind, first, object, true, self.draft);
        if !self.writing.put(table, slot, key, self.draft) {
            self.omitted[table] += 1;
        }
    }

    /// Resets the counts of objects that did not fit, before these objects are written again.
    pub fn count_anew(&mut self) {
        for (table, omitted) in self.omitted.iter_mut().enumerate() {
            if table != PIPE_TABLE {
                *omitted = 0;
            }
        }
    }
}

impl Drop for LaneSet<'_> {
    fn drop(&mut self) {
        self.writing.omitted(self.omitted.iter().sum());
    }
}
