//! Notification methods, over the load: the received rate, the dropped packets, the round-trip
//! time.

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::{
    cores::CoreShares,
    part::{NotifyMode, Rings, Script, SessionPart},
    trial::Trial,
};
use crate::{stop::Stopped, summary::Summary};

/// Pipes that receive packets in turn: enough that an application needs notifications, few enough
/// that their number does not matter.
pub const PIPES: u32 = 8;

/// The load, in percent of the maximum rate of the best method.
pub const LOADS_PERCENT: [u32; 13] = [1, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 99, 100];

/// The ways. There is no prefetching of notifications that come for each packet anyway.
pub const NOTIFY_MODES: [NotifyMode; 3] = [
    NotifyMode::ReactivePrefetch,
    NotifyMode::Reactive,
    NotifyMode::PerPacket,
];

/// Maximum number of flat-out tries. If another process takes a core for a whole trial, nothing is
/// received, and all loads would be fractions of zero.
const FLAT_OUT_TRIES: u32 = 5;

/// The method whose maximum rate is a load of 100 %.
const MEASURE_OF_LOAD: NotifyMode = NotifyMode::ReactivePrefetch;

/// The whole sweep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadSweep {
    /// Pipes that packets went to in turn.
    pub pipes: u32,
    /// Size of each pipe's ring, in KiB.
    pub ring_kib: u64,
    /// Milliseconds that each rate was counted.
    pub slice_ms: u64,
    /// Shares of the two cores.
    pub cores: Option<CoreShares>,
    /// The rate of 100 %, in million packets per second.
    pub full_mpps: f64,
    /// One for each way.
    pub lines: Vec<LoadLine>,
}

/// One notification method.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadLine {
    /// Its name.
    pub name: String,
    /// Received from a source that sends as fast as it can, in million packets per second.
    pub flat_out_mpps: Summary,
    /// At each load.
    pub points: Vec<LoadPoint>,
    /// Repetitions that failed, and why.
    pub failures: Vec<String>,
}

/// One way at one load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoadPoint {
    /// The load, in percent.
    pub load_percent: u32,
    /// Rate that the source offered, in million packets per second. Less than requested if its core
    /// had no time.
    pub offered_mpps: Summary,
    /// Rate that the application received.
    pub received_mpps: Summary,
    /// Percent of the due packets that met a full pipe.
    pub dropped_percent: Summary,
    /// Percent of the due packets that the daemon's core had no time for.
    pub late_percent: Summary,
    /// Notifications for each packet received.
    pub notifications_per_packet: Summary,
    /// Median of the round trip, in microseconds.
    pub p50_us: Option<Summary>,
    /// The 99 % quantile of the round trip.
    pub p99_us: Option<Summary>,
}

/// Runs that the sweep takes.
pub const fn runs(rounds: u32) -> u32 {
    2 * rounds * NOTIFY_MODES.len() as u32
}

/// Measures: first how much gets through each way, then each way at every load. `run` plays a part.
pub fn measure(
    base: &SessionPart,
    rounds: u32,
    run: &mut impl FnMut(&SessionPart, &str) -> Result<Vec<Trial>>,
) -> Result<LoadSweep> {
    let part = |notify_mode, script| SessionPart {
        rings: Rings::Pipes(notify_mode),
        count: PIPES,
        ring_bytes: base.ring_bytes / u64::from(PIPES),
        probes: true,
        script,
        ..base.clone()
    };
    let mut modes: Vec<ModeTrials> = NOTIFY_MODES.map(ModeTrials::new).into();
    for round in 1..=rounds {
        for mode in &mut modes {
            let what = format!(
                "round {round} of {rounds}: {}, flat out",
                mode.notify_mode.name()
            );
            let part = part(mode.notify_mode, Script::FlatOut);
            let mut trials = Vec::new();
            for _ in 0..FLAT_OUT_TRIES {
                trials = record_failure(run(&part, &what), &mut mode.failures)?;
                if trials.is_empty() || trials.iter().any(|trial| trial.received > 0) {
                    break;
                }
            }
            mode.flat_out.extend(trials);
        }
    }
    let full_mpps = modes
        .iter()
        .find(|mode| mode.notify_mode == MEASURE_OF_LOAD)
        .and_then(ModeTrials::flat_out_mpps)
        .map(|summary| summary.median)
        .with_context(|| format!("no measure of load: {}", all_failures(&modes)))?;
    let rates: Vec<f64> = LOADS_PERCENT
        .iter()
        .map(|percent| full_mpps * f64::from(*percent) / 100.0)
        .collect();
    for round in 1..=rounds {
        for mode in &mut modes {
            let what = format!(
                "round {round} of {rounds}: {}, loads",
                mode.notify_mode.name()
            );
            let part = part(mode.notify_mode, Script::Rates(rates.clone()));
            let trials = record_failure(run(&part, &what), &mut mode.failures)?;
            mode.at_loads.extend((!trials.is_empty()).then_some(trials));
        }
    }
    Ok(LoadSweep {
        pipes: PIPES,
        ring_kib: (base.ring_bytes / u64::from(PIPES)) >> 10,
        slice_ms: base.slice.as_millis() as u64,
        cores: None,
        full_mpps,
        lines: modes.iter().filter_map(ModeTrials::line).collect(),
    })
}

/// Returns the trials of a run, or none if it failed; then the reason is recorded. A stop request
/// is passed on as an error.
pub fn record_failure(run: Result<Vec<Trial>>, failures: &mut Vec<String>) -> Result<Vec<Trial>> {
    match run {
        Err(problem) if problem.is::<Stopped>() => Err(problem),
        Err(problem) => {
            failures.push(format!("{problem:#}"));
            Ok(Vec::new())
        }
        trials => trials,
    }
}

/// Of trials, something each.
pub fn summary<'t>(
    trials: impl IntoIterator<Item = &'t Trial>,
    figure: impl Fn(&Trial) -> Option<f64>,
) -> Option<Summary> {
    Summary::of(trials.into_iter().filter_map(figure).collect())
}

/// Notifications for each packet.
pub fn notifications_per_packet(trial: &Trial) -> f64 {
    trial.notifications as f64 / trial.received.max(1) as f64
}

struct ModeTrials {
    notify_mode: NotifyMode,
    flat_out: Vec<Trial>,
    /// A trial for each load, of each round.
    at_loads: Vec<Vec<Trial>>,
    failures: Vec<String>,
}

impl ModeTrials {
    const fn new(notify_mode: NotifyMode) -> Self {
        Self {
            notify_mode,
            flat_out: Vec::new(),
            at_loads: Vec::new(),
            failures: Vec::new(),
        }
    }

    fn flat_out_mpps(&self) -> Option<Summary> {
        summary(&self.flat_out, |trial| Some(trial.received_mpps()))
    }

    fn line(&self) -> Option<LoadLine> {
        Some(LoadLine {
            name: self.notify_mode.name().to_owned(),
            flat_out_mpps: self.flat_out_mpps()?,
            points: LOADS_PERCENT
                .iter()
                .enumerate()
                .filter_map(|(at, &load_percent)| self.point(at, load_percent))
                .collect(),
            failures: self.failures.clone(),
        })
    }

    fn point(&self, at: usize, load_percent: u32) -> Option<LoadPoint> {
        let of = |figure: &dyn Fn(&Trial) -> Option<f64>| {
            let trials = self.at_loads.iter().filter_map(|trials| trials.get(at));
            summary(trials, figure)
        };
        Some(LoadPoint {
            load_percent,
            offered_mpps: of(&|trial| Some(trial.offered_mpps()))?,
            received_mpps: of(&|trial| Some(trial.received_mpps()))?,
            dropped_percent: of(&|trial| Some(trial.dropped_percent()))?,
            late_percent: of(&|trial| Some(trial.late_percent()))?,
            notifications_per_packet: of(&|trial| Some(notifications_per_packet(trial)))?,
            p50_us: of(&|trial| trial.round_trips.map(|trips| trips.p50_us)),
            p99_us: of(&|trial| trial.round_trips.map(|trips| trips.p99_us)),
        })
    }
}

fn all_failures(modes: &[ModeTrials]) -> String {
    let failures: Vec<&str> = modes
        .iter()
        .flat_map(|mode| mode.failures.iter().map(String::as_str))
        .collect();
    failures.join("; ")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use anyhow::bail;

    use super::*;
    use crate::streams::{part::Side, session::trial::RoundTrips};

    fn base() -> SessionPart {
        SessionPart {
            side: Side::Near,
            core: None,
            rings: Rings::Bare,
            count: 1,
            ring_bytes: 2 << 20,
            huge_pages: false,
            probes: false,
            script: Script::FlatOut,
            settle: Duration::ZERO,
            slice: Duration::from_millis(37),
            folder: "/nowhere".into(),
        }
    }

    /// Simulates a source that keeps the rate and an application that receives up to `most` million
    /// packets per second.
    fn trial(mpps: f64, most: f64) -> Trial {
        let offered = (mpps * 1e6) as u64;
        let received = (mpps.min(most) * 1e6) as u64;
        Trial {
            seconds: 1.0,
            offered,
            dropped: (offered - received) / 2,
            late: 0,
            received,
            notifications: received / 4,
            round_trips: Some(RoundTrips {
                p50_us: mpps,
                p99_us: 2.0 * mpps,
            }),
        }
    }

    #[test]
    fn a_trial_without_packets_is_no_measure_of_load() {
        let mut idle = 3;
        let sweep = measure(&base(), 1, &mut |part, _| {
            Ok(match &part.script {
                Script::Rates(rates) => rates.iter().map(|rate| trial(*rate, 9.0)).collect(),
                _ if idle > 0 => {
                    idle -= 1;
                    vec![trial(9.0, 0.0)]
                }
                _ => vec![trial(9.0, 9.0)],
            })
        });
        assert_eq!(sweep.expect("no stop was requested").full_mpps, 9.0);
    }

    #[test]
    fn every_mode_runs_at_the_same_rates() {
        let sweep = measure(&base(), 3, &mut |part, _| {
            assert_eq!(
                (part.count, part.ring_bytes, part.probes),
                (8, 256 << 10, true)
            );
            let most = match part.rings {
                Rings::Pipes(NotifyMode::PerPacket) => 8.0,
                _ => 20.0,
            };
            Ok(match &part.script {
                Script::Rates(rates) => rates.iter().map(|rate| trial(*rate, most)).collect(),
                _ => vec![trial(most, most)],
            })
        });
        let sweep = sweep.expect("no stop was requested");
        assert_eq!((sweep.full_mpps, sweep.ring_kib), (20.0, 256));
        let names: Vec<&str> = sweep.lines.iter().map(|line| line.name.as_str()).collect();
        assert_eq!(names, ["reactive, prefetched", "reactive", "per packet"]);
        for line in &sweep.lines {
            let loads: Vec<u32> = line.points.iter().map(|point| point.load_percent).collect();
            assert_eq!(loads, LOADS_PERCENT);
            assert_eq!(line.points[5].offered_mpps.median, 10.0);
        }
        let per_packet = &sweep.lines[2];
        assert_eq!(per_packet.flat_out_mpps.median, 8.0);
        let half = &per_packet.points[5];
        assert_eq!(half.load_percent, 50);
        assert_eq!(
            (half.received_mpps.median, half.dropped_percent.median),
            (8.0, 10.0)
        );
        assert_eq!(half.notifications_per_packet.median, 0.25);
        assert_eq!(half.p99_us.as_ref().map(|p99| p99.median), Some(20.0));
    }

    #[test]
    fn a_failed_mode_is_reported_and_the_others_are_measured() {
        let sweep = measure(
            &base(),
            2,
            &mut |part, _| match (part.rings, &part.script) {
                (Rings::Pipes(NotifyMode::Reactive), Script::Rates(_)) => bail!("lost"),
                (_, Script::Rates(rates)) => {
                    Ok(rates.iter().map(|rate| trial(*rate, 9.0)).collect())
                }
                _ => Ok(vec![trial(9.0, 9.0)]),
            },
        );
        let sweep = sweep.expect("the others were measured");
        assert_eq!(sweep.lines[1].failures, ["lost", "lost"]);
        assert_eq!(
            (sweep.lines[1].points.len(), sweep.lines[0].points.len()),
            (0, 13)
        );
    }

    #[test]
    fn a_requested_end_ends_the_sweep() {
        let ended = measure(&base(), 1, &mut |_, _| Err(Stopped(2).into()));
        assert!(ended.expect_err("the end").is::<Stopped>());
    }

    #[test]
    fn without_a_measure_of_load_there_is_no_sweep() {
        let problem = measure(&base(), 1, &mut |_, _| bail!("no memory")).expect_err("no load");
        assert!(problem.to_string().contains("no memory"), "{problem}");
    }
}
