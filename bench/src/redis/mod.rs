//! Additions to a counter at another node: verbs of an application, and INCR of Redis, both pipelined, over the same virtual cable.
//!
//! ```text
//!   redis-benchmark (near core) ◄─ TCP ══ veth ══ TCP ─► redis-server (far core)
//!   application ◄─► covalentd a's lane (near core) ◄══ veth ══► covalentd b's lane (far core) ─► region
//! ```
//! Two cores on either side of the comparison, one for who asks and one for who answers. Redis is asked by one connection and by as many as
//! its own benchmark takes unless told otherwise; the faster of the two is what is compared with. One key, one word.

mod incr;
mod ours;
mod process;

use anyhow::{Context, Result};
use serde_json::json;

use self::incr::Load;
use crate::{
    arguments::Wire,
    bare_echo::{BURST, FRAME_BYTES},
    cores::Cores,
    host::Host,
    node::find_daemon,
    report::{Report, Setup},
    stage::Stage,
    summary::Summary,
    udp_echo,
};

const GOAL: f64 = 5.0;

/// Requests that are on their way at a time on one connection of Redis.
const PIPELINE: u32 = 64;

/// Connections: one, and what `redis-benchmark` takes by itself.
const CONNECTIONS: [u32; 2] = [1, 50];

/// Measures both sides in turn.
pub fn measure(arguments: &Wire) -> Result<Report> {
    let daemon = find_daemon(arguments.covalentd.as_deref())?;
    let version = process::version()?;
    let (host, cores) = (Host::look(), Cores::choose()?);
    let stage = Stage::build(1, 1)?;
    udp_echo::prepare(&stage)?;
    let mut loads = CONNECTIONS.map(|connections| Load::new(connections, PIPELINE));
    let mut ours = Vec::new();
    let mut running = None;
    for _ in 0..arguments.repeats {
        for load in &mut loads {
            load.slice(&stage, cores, arguments)?;
        }
        let (rate, how) = ours::slice(&stage, cores, arguments, &daemon)?;
        ours.push(rate);
        running = Some(how);
    }
    let running = running.context("nothing was measured")?;
    let ours = Summary::of(ours).context("nothing was measured")?;
    let theirs = loads
        .iter()
        .map(|load| Ok((load, load.rate()?)))
        .collect::<Result<Vec<_>>>()?;
    let (_, best) = theirs
        .iter()
        .max_by(|(_, one), (_, other)| one.median.total_cmp(&other.median))
        .context("nothing was measured")?;
    let ratio = ours.median / best.median;
    let (application, shared) = cores.application_beside(cores.near);
    Ok(Report {
        name: "redis",
        goal: "redis",
        target: "an application adds to a counter at another node at 5 or more times the rate of Redis' INCR with -P 64",
        bare: best.median,
        peer_name: "redis",
        covalent: ours.median,
        unit: "Mops",
        ratio,
        margin: ratio / GOAL,
        met: ratio >= GOAL,
        ours: json!({"mops": ours, "depth": ours::DEPTH, "verb": "fetch_add of 8 bytes, one phase"}),
        peer: json!({
            "mops": best,
            "version": version,
            "loads": theirs
                .iter()
                .map(|(load, rate)| json!({
                    "connections": load.connections(),
                    "pipeline": PIPELINE,
                    "mops": rate,
                    "commands": load.commands(),
                }))
                .collect::<Vec<_>>(),
        }),
        setup: Setup {
            ring_slots: arguments.ring_slots,
            burst: BURST,
            frame_bytes: FRAME_BYTES,
            idle: "poll",
            mode: Some(running.mode),
            slice_seconds: arguments.slice().as_secs_f64(),
            cores: format!(
                "two cores each: redis-benchmark or asking lane on core {}, redis-server or answering lane on core {}, application on core {application}{}",
                cores.near,
                cores.far,
                if shared {
                    " (shared with the asking lane)"
                } else {
                    " (a third core, which Redis does not have)"
                }
            ),
            daemons: running.commands,
        },
        host,
    })
}
