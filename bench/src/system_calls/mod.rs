//! Counts the system calls that lanes make for an application's verbs, with `strace -c` on the
//! lanes' threads.
//!
//! A traced thread is slow, so nothing is timed here. There are two loads over AF_XDP: one addition
//! at a time, and many in flight. The only call for verbs is the port's doorbell, once per round
//! that sends. Under `poll`, as measured here, the lane also yields its core (`sched_yield`), both
//! idle and under load. The number of these calls depends on time, not on verbs.

mod load;
mod results;
mod strace;

use std::{fs, path::Path, thread};

use anyhow::{Context, Result, ensure};
use covalent::{Device, Rights};

pub use self::results::Run;
use self::{
    load::REGION,
    results::{Figures, LaneCalls, Results, Setup},
    strace::{Calls, Trace},
};
use crate::{
    arguments::Wire,
    beside::join,
    cores::Cores,
    host::Host,
    kept::now_unix_ms,
    node::{Node, Plan, find_daemon},
    stage::Stage,
    watch::Watch,
};

/// The thread of a daemon's only lane.
const LANE_THREAD: &str = "covalent-lane0";

/// The loads: additions in flight, and the total number.
const LOADS: [(u32, u64); 2] = [(1, 20_000), (512, 200_000)];

/// Counts for both loads and prints the results. Returns whether the goal is met.
pub fn measure(arguments: &Wire) -> Result<bool> {
    let daemon = find_daemon(arguments.covalentd.as_deref())?;
    let began_unix_ms = now_unix_ms();
    let (host, watch, cores) = (Host::observed(), Watch::begin()?, Cores::choose()?);
    let stage = Stage::build(1, 1)?;
    let start = |name, namespace, core, interface| {
        let plan = Plan {
            name,
            idle: "poll",
            core: Some(core),
            interfaces: &[interface],
            cables: &[],
            link: true,
            ring_slots: arguments.ring_slots,
            link_settings: &[],
            faulty: false,
        };
        Node::start(&daemon, namespace, &plan)
    };
    let a = start("a", &stage.a, cores.near, "a0")?;
    let b = start("b", &stage.b, cores.far, "b0")?;
    a.wait_for_links()?;
    b.wait_for_links()?;
    let owner = Device::attach(b.socket(), "bench-region").context("attaching to covalentd b")?;
    let word = owner
        .register_region(REGION, 64, Rights::ALL)
        .context("registering a region")?;
    let mut loads = Vec::new();
    let mut expected = 0;
    for (depth, verbs) in LOADS {
        loads.push(count(&a, &b, cores, depth, verbs)?);
        expected += verbs;
        let found = word.load(0).context("reading the word")?;
        ensure!(
            found == expected,
            "the word is {found} after {expected} additions"
        );
    }
    let port = a.status()?.ports.into_iter().next();
    let run = Run {
        setup: Setup {
            idle: "poll".to_owned(),
            ring_slots: arguments.ring_slots,
            mode: port.context("the daemon has no port")?.mode,
            application_shares: cores.application_beside(cores.near).1,
            daemons: vec![a.command(), b.command()],
        },
        loads,
    };
    Results::new(began_unix_ms, host.seen_by(watch)?, run).finish(&arguments.output)
}

/// Counts the calls of both lanes for one load.
fn count(a: &Node, b: &Node, cores: Cores, depth: u32, verbs: u64) -> Result<Figures> {
    let place = tempfile::tempdir().context("making a directory for the counts of strace")?;
    let mut traces = Vec::new();
    let mut before = [0; 2];
    let nodes = [a, b];
    thread::scope(|scope| {
        let traced = || {
            for (node, before) in nodes.into_iter().zip(&mut before) {
                *before = frames(node)?;
                traces.push(Trace::attach(
                    node.pid(),
                    lane_thread(node.pid())?,
                    place.path(),
                )?);
            }
            Ok(())
        };
        join(scope.spawn(|| load::add(&a.socket(), cores, verbs, depth, traced)))
    })?;
    let mut calls = traces
        .into_iter()
        .map(Trace::finish)
        .collect::<Result<Vec<Calls>>>()?
        .into_iter();
    let mut lane = |lane_name: &str, node, before| -> Result<LaneCalls> {
        Ok(LaneCalls {
            lane: lane_name.to_owned(),
            frames: frames(node)? - before,
            calls: calls.next().context("a lane was not traced")?,
        })
    };
    Ok(Figures {
        depth,
        verbs,
        lanes: vec![
            lane("asking", a, before[0])?,
            lane("answering", b, before[1])?,
        ],
    })
}

/// Frames that the node's port sent so far.
fn frames(node: &Node) -> Result<u64> {
    let port = node.status()?.ports.into_iter().next();
    Ok(port.context("the daemon has no port")?.tx_packets)
}

fn lane_thread(process: u32) -> Result<u32> {
    let tasks = Path::new("/proc").join(process.to_string()).join("task");
    for task in fs::read_dir(&tasks).with_context(|| format!("reading {}", tasks.display()))? {
        let task = task.context("reading a daemon's threads")?;
        let name = fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        if name.trim() == LANE_THREAD {
            return task
                .file_name()
                .to_string_lossy()
                .parse()
                .context("a thread's number");
        }
    }
    anyhow::bail!("the daemon has no thread {LANE_THREAD}")
}
