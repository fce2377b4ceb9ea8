//! Totally ordered group messages, beside other systems that order writes across several nodes.
//!
//! ```text
//!   member ◄─► covalentd      four of each; a cable in memory per pair of daemons  [ours]
//!   etcdctl check perf ◄─ loopback ─► three members of etcd                        [etcd]
//!   redis-benchmark ◄─ loopback ─► redis-server ─ loopback ─► two replicas         [redis-stream]
//! ```
//! No process is pinned: four nodes share the available cores, and so do the processes of
//! other systems.

mod member;
mod options;
mod ours;
mod results;
mod stream;
mod task;

use anyhow::{Context, Result};

pub use self::{member::member, options::Multicast, results::Run};
use self::{
    results::{Figures, Results, Setup, Side},
    task::Mode,
};
use crate::{
    against::{self, Candidate},
    host::Host,
    kept::now_unix_ms,
    node::find_daemon,
    report::{Suite as _, without_places},
    servers::{etcd, redis},
    stage::Namespace,
    stop,
    streams::Progress,
    summary::Summary,
    watch::Watch,
};

/// Measures all sides in turn and prints the results. Returns whether every goal is met.
pub fn measure(options: &Multicast) -> Result<bool> {
    let daemon = find_daemon(options.covalentd.as_deref())?;
    let mut rows = chosen(options)?;
    let programs = rows
        .iter()
        .any(|row| row.side == Side::Etcd)
        .then(etcd::Programs::find)
        .transpose()?;
    let redis = rows
        .iter()
        .any(|row| matches!(row.side, Side::RedisStream { .. }))
        .then(redis::version)
        .transpose()?;
    let began_unix_ms = now_unix_ms();
    let (host, watch) = (Host::observed(), Watch::begin()?);
    let namespace = Namespace::with_loopback()?;
    let progress = Progress::new(rows.len() as u64 * u64::from(options.repeats.least));
    let mut rounds = 0;
    while options.repeats.continues(rounds, medians(&rows).iter()) {
        rounds += 1;
        for row in &mut rows {
            stop::check()?;
            progress.step(&format!("round {rounds}: {}", row.side.words()));
            match (row.side, &programs) {
                (Side::Covalent { way, bytes }, _) => {
                    let slice = ours::slice(options, &daemon, way, bytes)?;
                    row.take(slice.messages_per_s, slice.commands);
                    row.deliveries.push(slice.deliveries_per_s);
                    row.batch.push(slice.messages_per_batch);
                    row.round_trips.extend(slice.round_trips_ns);
                }
                (Side::Etcd, Some(programs)) => {
                    let cluster = etcd::Cluster::start(programs, &namespace)?;
                    let (rate, command) = cluster.writes_per_second()?;
                    let mut commands = cluster.commands();
                    commands.push(command);
                    row.take(rate, commands);
                }
                (Side::Etcd, None) => {}
                (Side::RedisStream { bytes }, _) => {
                    let (rate, commands) = stream::slice(&namespace, bytes, options.slice())?;
                    row.take(rate, commands);
                }
            }
        }
    }
    progress.done();
    let sides = rows.iter().map(Row::figures).collect::<Result<Vec<_>>>()?;
    let run = Run {
        setup: Setup {
            rounds,
            spread_max: options.repeats.spread_max,
            slice_ms: u64::try_from(options.slice().as_millis()).unwrap_or(u64::MAX),
            members: options.members,
            idle: options.idle.to_string(),
            etcd: programs.map(|programs| programs.version),
            redis,
        },
        sides,
    };
    Results::new(began_unix_ms, host.seen_by(watch)?, run).finish(&options.output)
}

/// One side and its measurements.
struct Row {
    side: Side,
    messages: Vec<f64>,
    deliveries: Vec<f64>,
    batch: Vec<f64>,
    round_trips: Vec<u64>,
    commands: Vec<String>,
}

/// Returns the sides that `--against` names and ours, in the order in which they take turns.
fn chosen(options: &Multicast) -> Result<Vec<Row>> {
    let ours = |way| {
        let sizes = options.sizes.iter();
        sizes
            .map(|&bytes| Side::Covalent { way, bytes })
            .collect::<Vec<_>>()
    };
    let streams = options.sizes.iter();
    let all: [(&'static str, Vec<Side>); 5] = [
        ("covalent-multicast", ours(Mode::All)),
        ("covalent-multicast-one", ours(Mode::One)),
        ("covalent-multicast-lone", ours(Mode::Lone)),
        ("etcd", vec![Side::Etcd]),
        (
            "redis-stream",
            streams.map(|&bytes| Side::RedisStream { bytes }).collect(),
        ),
    ];
    let candidates: Vec<Candidate> = all
        .iter()
        .map(|(name, _)| Candidate {
            name,
            is_ours: name.starts_with("covalent-"),
        })
        .collect();
    let names = against::chosen(&options.against.against, Run::NAME, &candidates)?;
    Ok(all
        .into_iter()
        .filter(|(name, _)| names.contains(name))
        .flat_map(|(_, sides)| sides)
        .map(Row::new)
        .collect())
}

fn medians(rows: &[Row]) -> Vec<Summary> {
    rows.iter()
        .filter_map(|row| Summary::of(row.messages.clone()))
        .collect()
}

impl Row {
    const fn new(side: Side) -> Self {
        Self {
            side,
            messages: Vec::new(),
            deliveries: Vec::new(),
            batch: Vec::new(),
            round_trips: Vec::new(),
            commands: Vec::new(),
        }
    }

    fn take(&mut self, messages_per_s: f64, commands: Vec<String>) {
        self.messages.push(messages_per_s);
        self.commands = commands
            .iter()
            .map(|command| without_places(command))
            .collect();
    }

    fn figures(&self) -> Result<Figures> {
        let mut sorted = self.round_trips.clone();
        sorted.sort_unstable();
        let at = |part: f64| {
            let index = (sorted.len() as f64 * part) as usize;
            sorted
                .get(index.min(sorted.len().saturating_sub(1)))
                .map(|&ns| ns as f64 / 1e3)
        };
        Ok(Figures {
            side: self.side,
            messages_per_s: Summary::of(self.messages.clone()).context("nothing was measured")?,
            deliveries_per_s: Summary::of(self.deliveries.clone()),
            messages_per_batch: Summary::of(self.batch.clone()).map(|batch| batch.median),
            p50_us: at(0.5),
            p99_us: at(0.99),
            commands: self.commands.clone(),
        })
    }
}
