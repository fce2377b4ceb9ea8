//! Additions to a counter at another node, and INCR of Redis, both with many under way, over the same virtual cable.
//!
//! ```text
//!   redis-benchmark (near core) ◄─ TCP ══ veth ══ TCP ─► redis-server (far core)
//!   application ◄─► covalentd a's lane (near core) ◄══ veth ══► covalentd b's lane (far core) ─► region       [ours]
//!   node, verbs and port in one thread (near core) ◄══ veth ══► the same (far core) ─► region                 [in_lane]
//! ```
//! Beside them what the same ports carry when nobody looks at the records: no exchange can be faster than a record each way.
//!
//! Two cores on either side of the comparison, one for who asks and one for who answers. Redis is asked by one connection and by as many as
//! its own benchmark takes unless told otherwise; the faster of the two is what is compared with. Both are measured with one request of
//! each connection under way too, as a program without pipelining asks. One key, one word.

mod goals;
mod in_lane;
mod incr;
mod ours;
mod process;
mod results;
mod section;
mod server;
mod table;

use std::{
    io::Write,
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::{Context, Result};

use self::{
    incr::Load,
    results::{Figures, Results, Setup, SideName},
};
pub use self::{process::version, section::section, server::Server};
use crate::{
    arguments::{Atomics, Format, Store, Wire},
    cores::Cores,
    exchanges::slice::Slice,
    host::Host,
    node::find_daemon,
    pipes::without_places,
    stage::Stage,
    summary::Summary,
    udp_echo,
    watch::Watch,
};

/// Requests that are on their way at a time on one connection of Redis.
const PIPELINE: u32 = 64;

/// Connections: one, and what `redis-benchmark` takes by itself.
const CONNECTIONS: [u32; 2] = [1, 50];

/// Measures all sides in turn and tells them. Whether every goal is met.
pub fn measure(options: &Atomics) -> Result<bool> {
    let arguments = &options.wire;
    let daemon = find_daemon(arguments.covalentd.as_deref())?;
    let mut loads = loads(&options.against);
    let redis = if loads.is_empty() {
        "not asked".to_owned()
    } else {
        process::version()?
    };
    let began_unix_ms = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |time| u64::try_from(time.as_millis()).unwrap_or(0));
    let (host, watch, cores) = (Host::look(), Watch::begin()?, Cores::choose()?);
    let stage = Stage::build(1, 1)?;
    udp_echo::prepare(&stage)?;
    let (mut ours, mut lanes, mut bare) = (Vec::new(), Vec::new(), Vec::new());
    let mut running = None;
    for _ in 0..arguments.repeats {
        for load in &mut loads {
            load.slice(&stage, cores, arguments)?;
        }
        let (rate, how) = ours::slice(&stage, cores, arguments, &daemon)?;
        ours.push(rate);
        running = Some(how);
        lanes.push(in_lane::slice(&stage, cores, arguments)?);
        bare.push(in_lane::bare_slice(&stage, cores, arguments)?);
    }
    let running = running.context("nothing was measured")?;
    let mut sides = loads
        .iter()
        .map(redis_figures)
        .collect::<Result<Vec<_>>>()?;
    sides.push(Figures {
        side: SideName::Application,
        mops: Summary::of(ours).context("nothing was measured")?,
        records_per_frame: Some(running.records_per_frame),
        commands: running
            .commands
            .iter()
            .map(|command| without_places(&command.join(" ")))
            .collect(),
    });
    let exchanges = |slice: &Slice| slice.exchanges_per_s;
    sides.push(lane_figures(SideName::Lane, &lanes, exchanges)?);
    let pairs = |slice: &Slice| slice.records_per_s / 2.0;
    sides.push(lane_figures(SideName::Bare, &bare, pairs)?);
    let (application_core, application_shares) = cores.application_beside(cores.near);
    let mut results = Results {
        name: results::NAME.to_owned(),
        began_unix_ms,
        host: host.seen_by(watch)?,
        setup: Setup {
            rounds: arguments.repeats,
            slice_ms: u64::try_from(arguments.slice().as_millis()).unwrap_or(u64::MAX),
            ring_slots: arguments.ring_slots,
            slots: ours::SLOTS,
            depth: ours::DEPTH,
            pipeline: PIPELINE,
            idle: "poll".to_owned(),
            mode: running.mode,
            near_core: cores.near,
            far_core: cores.far,
            application_core,
            application_shares,
            redis,
        },
        sides,
        goals: Vec::new(),
    };
    results.goals = goals::judge(&results);
    tell(&results, arguments)?;
    Ok(results.goals.iter().all(|verdict| verdict.met))
}

/// What Redis is asked with, in the order of the command line.
fn loads(against: &[Store]) -> Vec<Load> {
    against
        .iter()
        .filter_map(|store| match store {
            Store::Redis => Some(1),
            Store::RedisPipelined => Some(PIPELINE),
            Store::None => None,
        })
        .flat_map(|pipeline| CONNECTIONS.map(|connections| Load::new(connections, pipeline)))
        .collect()
}

fn redis_figures(load: &Load) -> Result<Figures> {
    Ok(Figures {
        side: load.side(),
        mops: load.rate()?,
        records_per_frame: None,
        commands: load.commands().to_vec(),
    })
}

fn lane_figures(
    side: SideName,
    slices: &[Slice],
    per_s: impl Fn(&Slice) -> f64,
) -> Result<Figures> {
    let rates = slices.iter().map(|slice| per_s(slice) / 1e6).collect();
    let per_frame: f64 = slices.iter().map(|slice| slice.records_per_frame).sum();
    Ok(Figures {
        side,
        mops: Summary::of(rates).context("nothing was measured")?,
        records_per_frame: Some(per_frame / slices.len() as f64),
        commands: Vec::new(),
    })
}

fn tell(results: &Results, arguments: &Wire) -> Result<()> {
    let output = &arguments.output;
    if let Some(folder) = &output.results {
        results.write_to(folder)?;
    }
    let mut out = std::io::stdout().lock();
    match output.format {
        Format::Json => writeln!(out, "{}", results.line()?),
        Format::Table => write!(out, "{}", table::table(results)),
    }
    .context("writing the result")
}
