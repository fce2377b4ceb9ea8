//! Additions to a counter at another node, and INCR of Redis, both with many requests in flight,
//! over the same virtual cable.
//!
//! ```text
//!   redis-benchmark (near core) ◄─ TCP ══ veth ══ TCP ─► redis-server (far core)
//!   application ◄─► a's lane (near core) ◄══ veth ══► b's lane (far core) ─► region         [ours]
//!   node, verbs, port: one thread (near core) ◄══ veth ══► the same (far core) ─► region [in_lane]
//! ```
//! A third side measures what the same ports carry without inspecting records. This is the limit:
//! an exchange needs at least one record each way.
//!
//! Each side of the comparison gets two cores, one for the client and one for the server. Redis
//! runs with one connection and with the default number of its own benchmark; the comparison uses
//! the faster one. Both are also measured with one request in flight per connection, as in a
//! program without pipelining. All additions go to one key or one word.

mod in_lane;
mod incr;
mod ours;
mod results;

use anyhow::{Context, Result};

pub use self::results::Run;
use self::{
    incr::Load,
    results::{Figures, Results, Setup, SideName},
};
use crate::{
    against::{self, Candidate},
    arguments::Atomics,
    cores::Cores,
    host::Host,
    kept::now_unix_ms,
    latency::give_addresses,
    node::find_daemon,
    report::{Suite as _, without_places},
    servers::redis,
    stage::Stage,
    summary::Summary,
    watch::Watch,
};

/// Requests that are on their way at a time on one connection of Redis.
const PIPELINE: u32 = 64;

/// Connections: one, and the default of `redis-benchmark`.
const CONNECTIONS: [u32; 2] = [1, 50];

/// Measures all sides in turn and prints the results. Returns whether every goal is met.
pub fn measure(options: &Atomics) -> Result<bool> {
    let arguments = &options.wire;
    let daemon = find_daemon(arguments.covalentd.as_deref())?;
    let mut rows = chosen(&options.against.against)?;
    let needs_redis = rows
        .iter()
        .any(|row| matches!(row.method, Method::Redis(_)));
    let redis = if needs_redis {
        redis::version()?
    } else {
        String::new()
    };
    let began_unix_ms = now_unix_ms();
    let (host, watch, cores) = (Host::observed(), Watch::begin()?, Cores::choose()?);
    let stage = Stage::build(1, 1)?;
    give_addresses(&stage)?;
    let mut mode = None;
    let mut rounds = 0;
    while arguments.repeats.continues(rounds, medians(&rows).iter()) {
        rounds += 1;
        for row in &mut rows {
            let found = match &mut row.method {
                Method::Redis(load) => load.slice(&stage, cores, arguments)?,
                Method::Application => {
                    let (rate, how) = ours::slice(&stage, cores, arguments, &daemon)?;
                    row.commands = how
                        .commands
                        .iter()
                        .map(|command| without_places(&command.join(" ")))
                        .collect();
                    mode = Some(how.mode);
                    row.per_frame.push(how.records_per_frame);
                    rate
                }
                Method::Lane => {
                    let slice = in_lane::slice(&stage, cores, arguments)?;
                    row.per_frame.push(slice.records_per_frame);
                    slice.exchanges_per_s / 1e6
                }
                Method::Records => {
                    let slice = in_lane::bare_slice(&stage, cores, arguments)?;
                    row.per_frame.push(slice.records_per_frame);
                    slice.records_per_s / 2.0 / 1e6
                }
            };
            row.mops.push(found);
        }
    }
    let sides = rows.iter().map(Row::figures).collect::<Result<Vec<_>>>()?;
    let (application_core, application_shares) = cores.application_beside(cores.near);
    let run = Run {
        setup: Setup {
            rounds,
            spread_max: arguments.repeats.spread_max,
            slice_ms: u64::try_from(arguments.slice().as_millis()).unwrap_or(u64::MAX),
            ring_slots: arguments.ring_slots,
            slots: ours::SLOTS,
            depth: ours::DEPTH,
            pipeline: PIPELINE,
            idle: "poll".to_owned(),
            mode,
            near_core: cores.near,
            far_core: cores.far,
            application_core,
            application_shares,
            redis,
        },
        sides,
    };
    Results::new(began_unix_ms, host.seen_by(watch)?, run).finish(&arguments.output)
}

/// One way of adding.
enum Method {
    Redis(Load),
    Application,
    Lane,
    Records,
}

/// One side and its measurements.
struct Row {
    method: Method,
    mops: Vec<f64>,
    per_frame: Vec<f64>,
    commands: Vec<String>,
}

/// Returns the sides that `--against` names and ours, in the order in which they take turns.
fn chosen(wanted: &[String]) -> Result<Vec<Row>> {
    let redis =
        |pipeline| CONNECTIONS.map(|connections| Method::Redis(Load::new(connections, pipeline)));
    let all: [(&'static str, Vec<Method>); 5] = [
        ("redis", redis(1).into()),
        ("redis-pipelined", redis(PIPELINE).into()),
        ("covalent-add", vec![Method::Application]),
        ("covalent-lane-add", vec![Method::Lane]),
        ("records", vec![Method::Records]),
    ];
    let candidates: Vec<Candidate> = all
        .iter()
        .map(|(name, _)| Candidate {
            name,
            is_ours: name.starts_with("covalent-"),
        })
        .collect();
    let names = against::chosen(wanted, Run::NAME, &candidates)?;
    Ok(all
        .into_iter()
        .filter(|(name, _)| names.contains(name))
        .flat_map(|(_, methods)| methods)
        .map(|method| Row {
            method,
            mops: Vec::new(),
            per_frame: Vec::new(),
            commands: Vec::new(),
        })
        .collect())
}

/// The median of each.
fn medians(rows: &[Row]) -> Vec<Summary> {
    rows.iter()
        .filter_map(|row| Summary::of(row.mops.clone()))
        .collect()
}

impl Row {
    fn figures(&self) -> Result<Figures> {
        let per_frame = self.per_frame.iter().sum::<f64>() / self.per_frame.len().max(1) as f64;
        Ok(Figures {
            side: match &self.method {
                Method::Redis(load) => load.side(),
                Method::Application => SideName::Application,
                Method::Lane => SideName::Lane,
                Method::Records => SideName::Bare,
            },
            mops: Summary::of(self.mops.clone()).context("nothing was measured")?,
            records_per_frame: (!self.per_frame.is_empty()).then_some(per_frame),
            commands: match &self.method {
                Method::Redis(load) => load.commands().to_vec(),
                _ => self.commands.clone(),
            },
        })
    }
}
