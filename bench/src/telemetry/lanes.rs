//! The frame rate of a lane with and without counters in shared memory.
//!
//! One polling lane carries frames from an application's pipe over an in-memory cable into another
//! pipe of the same application, at the maximum rate. Idle pipes exist beside them. Both sides take
//! turns and alternate who begins. Several turns of each give one ratio.

use std::{
    path::Path,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use covalent::{Device, Error, Match};
use serde::{Deserialize, Serialize};

use super::{Counters, idle_pipes, toml};
use crate::{
    beside::join,
    cores::{Cores, pin},
    host::Host,
    host::printed_command,
    kept::now_unix_ms,
    node::{Node, find_daemon},
    repeats::Settled,
    report::{Block, Goal, Limit, Report, Sides, Suite, Table},
    stage::Namespace,
    stop,
    summary::Summary,
    watch::Watch,
};

/// The least ratio that meets the goal.
const RATIO_MIN: f64 = 0.99;

/// Turns of each side per repeat. Two identical daemons differ by some hundredths, depending on
/// their memory placement. This is more than the effect to be measured.
pub const PAIRS: u32 = 6;

/// Maximum number of frames in flight: less than the capacity of either pipe, so that none is lost.
const WINDOW: u64 = 8192;
/// Frames published at a time.
const BURST: usize = 32;
/// Bytes of a frame.
const FRAME_BYTES: usize = 64;
/// Bytes of each of the two pipes.
const PIPE_BYTES: u64 = 4 << 20;
/// How long each side runs before it is measured.
const WARMING: Duration = Duration::from_millis(200);
/// Time without arrivals after which the measurement fails.
const STALLED: Duration = Duration::from_secs(5);

/// A whole run.
pub type Results = Report<Run>;

/// The setup and the figures of a run.
///
/// The names of these fields are stable: other programs read them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Pipes beside those that carry the traffic.
    pub pipes: u32,
    /// `dataplane.counters_ms` of the side that writes counters.
    pub counters_ms: u32,
    /// Milliseconds of one turn.
    pub slice_ms: u64,
    /// Bound on the spread, if there was one.
    pub spread_max: Option<f64>,
    /// The daemon's command line with counters.
    pub command: Vec<String>,
    /// Millions of frames in a second with counters.
    pub on: Summary,
    /// The same without.
    pub off: Summary,
    /// With, divided by without, of each repeat.
    pub ratio: Summary,
}

/// Measures both sides in turn and prints the results. Returns whether the goal is met.
pub fn measure(arguments: &Counters) -> Result<bool> {
    let began_unix_ms = now_unix_ms();
    let daemon = find_daemon(arguments.covalentd.as_deref())?;
    let (host, watch, cores) = (Host::observed(), Watch::begin()?, Cores::choose()?);
    let span = arguments.slice();
    let (mut on, mut off, mut ratios, mut command) = (vec![], vec![], vec![], vec![]);
    let mut rounds = 0;
    while arguments
        .repeats
        .continues(rounds, Summary::of(ratios.clone()).iter())
    {
        let (mut with, mut without) = (0.0, 0.0);
        for pair in 0..PAIRS {
            // The second run finds a warmer machine, so the sides alternate.
            let order = if pair % 2 == 0 {
                [true, false]
            } else {
                [false, true]
            };
            for counts in order {
                let counters_ms = if counts { arguments.counters_ms } else { 0 };
                let (mpps, line) = turn(&daemon, cores, counters_ms, arguments.pipes, span)?;
                if counts {
                    with += mpps;
                    command = line;
                } else {
                    without += mpps;
                }
            }
        }
        on.push(with / f64::from(PAIRS));
        off.push(without / f64::from(PAIRS));
        ratios.push(with / without);
        rounds += 1;
    }
    let summary = |figures| Summary::of(figures).context("nothing was measured");
    let ratio = summary(ratios)?;
    let run = Run {
        pipes: arguments.pipes,
        counters_ms: arguments.counters_ms,
        slice_ms: u64::try_from(span.as_millis()).unwrap_or(u64::MAX),
        spread_max: arguments.repeats.spread_max,
        command,
        on: summary(on)?,
        off: summary(off)?,
        ratio,
    };
    Results::new(began_unix_ms, host.seen_by(watch)?, run).finish(&arguments.output)
}

/// Millions of frames in a second of one daemon, and its command line.
fn turn(
    daemon: &Path,
    cores: Cores,
    counters_ms: u32,
    pipes: u32,
    span: Duration,
) -> Result<(f64, Vec<String>)> {
    let node = Node::start_from(daemon, &Namespace::current()?, "a", |place| {
        let dataplane = format!("idle = \"poll\"\ncounters_ms = {counters_ms}\n");
        toml(place, &dataplane, Some(cores.far), "")
    })?;
    // Use a separate thread: the next daemon would inherit this thread's affinity.
    let mpps = thread::scope(|scope| join(scope.spawn(|| drive(&node, cores, pipes, span))))?;
    Ok((mpps, node.command()))
}

/// Sends and receives as fast as it can, and returns the millions of frames in a second.
fn drive(node: &Node, cores: Cores, pipes: u32, span: Duration) -> Result<f64> {
    pin(cores.near)?;
    let device = Device::attach(node.socket(), "bench").context("attaching to covalentd")?;
    let _idle = idle_pipes(&device, pipes as usize)?;
    let mut rx = device
        .rx_pipe_on(PIPE_BYTES, "p1")
        .context("opening a pipe")?;
    rx.bind(&Match::Any).context("binding a pipe")?;
    let mut tx = device.tx_pipe(PIPE_BYTES, "p0").context("opening a pipe")?;
    let mut frame = [0; FRAME_BYTES];
    frame[12..14].copy_from_slice(&[0x88, 0xb5]);

    let (mut sent, mut received) = (0_u64, 0_u64);
    let mut begun: Option<(Instant, u64)> = None;
    let start = Instant::now();
    let (mut last_received, mut now) = (start, start);
    loop {
        let room = WINDOW - (sent - received);
        for _ in 0..BURST.min(room as usize) {
            match tx.push(&frame) {
                Ok(()) => sent += 1,
                Err(Error::PipeFull { .. }) => break,
                Err(error) => return Err(error).context("sending"),
            }
        }
        tx.publish().context("sending")?;
        while let Some(batch) = rx.try_recv().context("receiving")? {
            received += batch.iter().count() as u64;
            batch.free_all();
            last_received = now;
        }
        now = Instant::now();
        match begun {
            None if now - start >= WARMING => begun = Some((now, received)),
            Some((from, before)) if now - from >= span => {
                let mpps = (received - before) as f64 / (now - from).as_secs_f64() / 1e6;
                return Ok(mpps);
            }
            _ => {}
        }
        ensure!(
            now - last_received < STALLED,
            "{sent} frames were sent, and {received} returned"
        );
        stop::check()?;
    }
}

impl Suite for Run {
    const NAME: &'static str = "counters";
    const TITLE: &'static str = "What telemetry costs";
    const MISSING: &'static str =
        "Lanes were not measured: `covalent-bench counters --results bench/results` does.";

    fn judge(&self) -> Vec<Goal> {
        let sides = Sides {
            covalent: self.on.median,
            beside: self.off.median,
            peer: "without counters".to_owned(),
            unit: "M frames/s".to_owned(),
            at: None,
        };
        let target = format!("with counters at least {RATIO_MIN} of the rate without");
        let ratio = self.ratio.median;
        vec![Goal {
            sides: Some(sides),
            ..Goal::of("counters", target, ratio, Limit::AtLeast(RATIO_MIN))
        }]
    }

    fn settled(&self) -> Option<Settled> {
        let repeats = self.ratio.repeats.len() as u32;
        Some(Settled::of(
            repeats,
            self.spread_max,
            [&self.ratio].into_iter(),
        ))
    }

    fn blocks(report: &Results) -> Vec<Block> {
        let host = &report.host;
        let mut table = Table::new(&["", ">M frames/s", ">least", ">most"]);
        for (name, side) in [("with counters", &report.on), ("without", &report.off)] {
            let [median, min, max] =
                [side.median, side.min, side.max].map(|rate| format!("{rate:.3}"));
            table.row([name.to_owned(), median, min, max]);
        }
        let ratio = &report.ratio;
        vec![
            prose(report),
            Block::Table(table),
            Block::goals(
                &report.goals,
                &[(">measured", &|goal| {
                    format!(
                        "{:.4} ({:.4}–{:.4}; median of the ratios of {} repeats)",
                        goal.measured,
                        ratio.min,
                        ratio.max,
                        ratio.repeats.len()
                    )
                })],
            ),
            Block::Text(format!("`{}`", printed_command(&report.command))),
            Block::Text(format!(
                "Measured on {} by {}.",
                host.words(),
                host.measured()
            )),
        ]
    }
}

/// What is measured, and how.
fn prose(report: &Results) -> Block {
    Block::Text(format!(
        "A polling lane carries frames of {FRAME_BYTES} bytes from a pipe over an in-memory cable \
         into\n\
         another pipe, as fast as it can, beside {} idle pipes: with counters in shared memory\n\
         every {} ms, and without. Both take turns of {} ms, {PAIRS} in a repeat, and alternate \
         in\n\
         which begins.",
        report.pipes, report.counters_ms, report.slice_ms
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kept::Kept as _;

    #[test]
    fn people_see_the_verdict_and_programs_the_same() {
        let summary = |figures: &[f64]| Summary::of(figures.to_vec()).expect("figures");
        let run = Run {
            pipes: 256,
            counters_ms: 100,
            slice_ms: 2000,
            spread_max: None,
            command: Vec::new(),
            on: summary(&[9.75, 9.25]),
            off: summary(&[10.0, 10.0]),
            ratio: summary(&[0.99, 0.98]),
        };
        let results = Results::new(7, Host::observed(), run);
        let table = results.table();
        assert!(
            table.contains("of the rate without: measured 0.9850 (0.9800–0.9900"),
            "{table}"
        );
        let place = tempfile::tempdir().expect("a directory");
        results.write_to(place.path()).expect("written");
        let read = Results::read_from(place.path()).expect("read");
        assert_eq!(read.expect("there").run, results.run);
    }
}
