//! The gap that a client sees when a daemon restarts.
//!
//! Two nodes share one cable. A client at each node always has one addition in flight: one client
//! adds to a counter of its own node, the other adds to the same counter remotely. The benchmark
//! restarts the daemon of the node with the counter and the other daemon in turn, first by graceful
//! shutdown, then by a kill. For each restart and each client it takes the longest time between two
//! completions. It reports the two daemons separately.

mod client;
mod results;

use std::time::Duration;

use anyhow::{Context, Result};
use nix::sys::signal::Signal;

pub use self::results::Run;
use self::{
    client::{Adder, Host},
    results::{Ended, Gaps, Results, Setup},
};
use crate::{
    arguments::Restart,
    host::Host as Machine,
    kept::now_unix_ms,
    node::{Node, Plan, find_daemon},
    stage::Stage,
    stop,
    watch::Watch,
};

/// Between two restarts: the links come up again, and all clients add.
const SETTLING: Duration = Duration::from_millis(400);

/// How daemons are ended.
const ENDS: [(Ended, Signal); 2] = [
    (Ended::InOrder, Signal::SIGTERM),
    (Ended::Killed, Signal::SIGKILL),
];

/// Measures and prints the results.
pub fn measure(arguments: &Restart) -> Result<bool> {
    let began_unix_ms = now_unix_ms();
    let wire = &arguments.wire;
    let daemon = find_daemon(wire.covalentd.as_deref())?;
    let (machine, watch) = (Machine::observed(), Watch::begin()?);
    let stage = Stage::build(1, 1)?;
    let start = |name, namespace, interface| {
        let plan = Plan {
            name,
            idle: &arguments.idle,
            core: None,
            interfaces: &[interface],
            cables: &[],
            link: true,
            ring_slots: wire.ring_slots,
            link_settings: &[],
            faulty: false,
        };
        Node::start(&daemon, namespace, &plan)
    };
    let mut a = start("a", &stage.a, "a0")?;
    let mut b = start("b", &stage.b, "b0")?;
    a.wait_for_links()?;
    b.wait_for_links()?;
    let host = Host::start(b.socket())?;
    let near = Adder::start(b.socket(), "b")?;
    let far = Adder::start(a.socket(), "b")?;
    stop::sleep(SETTLING)?;
    let mode = b.status()?.ports.into_iter().next();
    let mode = mode.context("the daemon has no port")?.mode;
    let mut gaps = Vec::new();
    for (ended, signal) in ENDS {
        let [mut own, mut target, mut caller] = [const { Vec::new() }; 3];
        for _ in 0..arguments.restarts {
            near.take_longest();
            far.take_longest();
            b.restart(&stage.b, signal)?;
            b.wait_for_links()?;
            stop::sleep(SETTLING)?;
            own.push(near.take_longest());
            target.push(far.take_longest());
            a.restart(&stage.a, signal)?;
            a.wait_for_links()?;
            stop::sleep(SETTLING)?;
            caller.push(far.take_longest());
        }
        gaps.push(Gaps::new("own daemon, own counter", ended, own));
        gaps.push(Gaps::new(
            "the counter's daemon, another node's client",
            ended,
            target,
        ));
        gaps.push(Gaps::new(
            "own daemon, another node's counter",
            ended,
            caller,
        ));
    }
    let outcome = near.end()? + far.end()?;
    let counted = host.end()?;
    let run = Run {
        setup: Setup {
            restarts: arguments.restarts,
            ring_slots: wire.ring_slots,
            idle: arguments.idle.clone(),
            mode,
            commands: vec![a.command(), b.command()],
        },
        gaps,
        done: outcome.done,
        unknown: outcome.unknown,
        counted,
    };
    Results::new(began_unix_ms, machine.seen_by(watch)?, run).finish(&wire.output)
}
