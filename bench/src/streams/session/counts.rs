//! A growing number of pipes of one session, with 64-byte packets to each in turn: the received
//! rate, and the highest rate that is sustained.

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::{
    cores::CoreShares,
    loads::{notifications_per_packet, record_failure, summary},
    part::{NotifyMode, Rings, Script, SessionPart},
    trial::Trial,
};
use crate::summary::Summary;

/// Pipes of one session.
pub const COUNTS: [u32; 13] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096];

/// The number of pipes on one core beyond which systems of this kind are known to lose packets.
pub const WEAK_SPOT: u32 = 32;

/// Rings become no smaller than this, in bytes.
const RING_BYTES_MIN: u64 = 64 << 10;

/// Steps of the search for the highest sustained rate: exact to within 2 % of the flat-out rate.
const STEPS: u32 = 6;

/// The whole sweep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CountSweep {
    /// Milliseconds that each trial was counted.
    pub slice_ms: u64,
    /// Shares of the two cores.
    pub cores: Option<CoreShares>,
    /// One for each number of pipes.
    pub points: Vec<CountPoint>,
    /// Repetitions that failed, and why.
    pub failures: Vec<String>,
}

/// So many pipes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CountPoint {
    /// How many.
    pub pipes: u32,
    /// Size of each one's ring, in KiB.
    pub ring_kib: u64,
    /// Received from a source that sends as fast as it can, in million packets per second.
    pub flat_out_mpps: Summary,
    /// Percent of that source's packets that were not received.
    pub flat_out_missing_percent: Summary,
    /// Notifications for each packet received then.
    pub notifications_per_packet: Summary,
    /// Highest rate with no pipe full and at least 99 % delivered, in million packets per second.
    /// The rest was late or in flight at the end.
    pub lossless_mpps: Option<Summary>,
    /// Flat-out rate of as many bare rings of that size: there the copy is the limit.
    pub bare_mpps: Option<Summary>,
}

impl CountSweep {
    /// So many pipes, if they were measured.
    pub fn at(&self, pipes: u32) -> Option<&CountPoint> {
        self.points.iter().find(|point| point.pipes == pipes)
    }
}

impl CountPoint {
    /// Returns the highest sustained rate as a fraction of the rate of as many bare rings.
    pub fn of_bare(&self) -> Option<f64> {
        let bare = self.bare_mpps.as_ref()?.median;
        (bare > 0.0).then_some(self.lossless_mpps.as_ref()?.median / bare)
    }
}

/// Returns the size of each of `pipes` rings, where a single ring has `total_bytes`.
///
/// As far as possible, all rings together use as much memory as a single one. Otherwise the test
/// would measure the caches.
pub fn ring_bytes(total_bytes: u64, pipes: u32) -> u64 {
    (total_bytes / u64::from(pipes)).max(RING_BYTES_MIN.min(total_bytes))
}

/// Runs that the sweep takes.
pub const fn runs(rounds: u32, with_bare: bool) -> u32 {
    let each = if with_bare { 2 } else { 1 };
    rounds * COUNTS.len() as u32 * each
}

/// Measures each number of pipes, and as many bare rings if `with_bare`. `run` plays a part.
pub fn measure(
    base: &SessionPart,
    rounds: u32,
    with_bare: bool,
    run: &mut impl FnMut(&SessionPart, &str) -> Result<Vec<Trial>>,
) -> Result<CountSweep> {
    let mut failures = Vec::new();
    let mut pipes: Vec<Vec<Vec<Trial>>> = vec![Vec::new(); COUNTS.len()];
    let mut bare: Vec<Vec<Trial>> = vec![Vec::new(); COUNTS.len()];
    for round in 1..=rounds {
        for (at, &count) in COUNTS.iter().enumerate() {
            let part = |rings, script| SessionPart {
                rings,
                count,
                ring_bytes: ring_bytes(base.ring_bytes, count),
                probes: false,
                script,
                ..base.clone()
            };
            let searched = part(
                Rings::Pipes(NotifyMode::Reactive),
                Script::Highest { steps: STEPS },
            );
            let what = format!("round {round} of {rounds}: {count} pipes");
            let trials = record_failure(run(&searched, &what), &mut failures)?;
            pipes[at].extend((!trials.is_empty()).then_some(trials));
            if with_bare {
                let what = format!("round {round} of {rounds}: {count} bare rings");
                let limit = part(Rings::Bare, Script::FlatOut);
                bare[at].extend(record_failure(run(&limit, &what), &mut failures)?);
            }
        }
    }
    let points = COUNTS.iter().zip(pipes.iter().zip(&bare));
    Ok(CountSweep {
        slice_ms: base.slice.as_millis() as u64,
        cores: None,
        points: points
            .filter_map(|(&count, (pipes, bare))| point(base.ring_bytes, count, pipes, bare))
            .collect(),
        failures,
    })
}

/// Aggregates the repetitions with pipes: the flat-out trial of each and, if there is one, the best
/// sustained trial.
fn point(total_bytes: u64, count: u32, pipes: &[Vec<Trial>], bare: &[Trial]) -> Option<CountPoint> {
    let flat_out = |figure: fn(&Trial) -> f64| {
        let trials = pipes.iter().filter_map(|trials| trials.first());
        summary(trials, |trial| Some(figure(trial)))
    };
    // Where one repetition found no such rate at all, it counts as none.
    let lossless = pipes
        .iter()
        .map(|trials| trials.get(1).map_or(0.0, Trial::received_mpps));
    Some(CountPoint {
        pipes: count,
        ring_kib: ring_bytes(total_bytes, count) >> 10,
        flat_out_mpps: flat_out(Trial::received_mpps)?,
        flat_out_missing_percent: flat_out(Trial::missing_percent)?,
        notifications_per_packet: flat_out(notifications_per_packet)?,
        lossless_mpps: Summary::of(lossless.collect()),
        bare_mpps: summary(bare, |trial| Some(trial.received_mpps())),
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use anyhow::bail;

    use super::*;
    use crate::streams::part::Side;

    fn base() -> SessionPart {
        SessionPart {
            side: Side::Near,
            core: None,
            rings: Rings::Bare,
            count: 1,
            ring_bytes: 2 << 20,
            huge_pages: false,
            probes: true,
            script: Script::FlatOut,
            settle: Duration::ZERO,
            slice: Duration::from_millis(37),
            folder: "/nowhere".into(),
        }
    }

    fn trial(offered: u64, received: u64) -> Trial {
        Trial {
            seconds: 1.0,
            offered,
            dropped: 0,
            late: 0,
            received,
            notifications: received / 2,
            round_trips: None,
        }
    }

    #[test]
    fn rings_share_the_memory_of_one_until_they_are_small() {
        let sizes = [1, 2, 32, 64, 4096].map(|pipes| ring_bytes(2 << 20, pipes) >> 10);
        assert_eq!(sizes, [2048, 1024, 64, 64, 64]);
        assert_eq!(ring_bytes(16 << 10, 4), 16 << 10);
    }

    #[test]
    fn each_number_of_pipes_is_searched_and_put_beside_bare_rings() {
        let mut round = 0;
        let sweep = measure(&base(), 3, true, &mut |part, _| {
            round += u64::from(part.count == 1 && part.rings != Rings::Bare);
            assert_eq!(part.ring_bytes, ring_bytes(2 << 20, part.count));
            Ok(match (&part.script, part.count) {
                (Script::FlatOut, _) => vec![trial(20_000_000, 20_000_000)],
                // In one repetition of three no rate is kept up with.
                (_, 32) if round == 2 => vec![trial(8_000_000, 4_000_000)],
                (_, 32) => vec![
                    trial(8_000_000 + round, 6_000_000),
                    trial(5_000_000, 5_000_000 + round),
                ],
                (_, 4096) => bail!("no memory"),
                _ => vec![trial(9_000_000, 9_000_000); 2],
            })
        });
        let sweep = sweep.expect("no stop was requested");
        assert_eq!(sweep.points.len(), COUNTS.len() - 1);
        assert_eq!(sweep.failures, ["no memory"; 3]);
        let point = sweep.at(WEAK_SPOT).expect("measured");
        assert_eq!((point.ring_kib, point.flat_out_mpps.median), (64, 6.0));
        assert!((24.9..50.1).contains(&point.flat_out_missing_percent.median));
        let lossless = point.lossless_mpps.as_ref().expect("searched");
        assert_eq!((lossless.min, lossless.median), (0.0, 5.000_001));
        assert_eq!(point.of_bare(), Some(5.000_001 / 20.0));
    }

    #[test]
    fn without_bare_rings_there_is_no_comparison() {
        let sweep = measure(&base(), 1, false, &mut |part, _| {
            assert_ne!(part.rings, Rings::Bare);
            Ok(vec![trial(9, 9); 2])
        });
        let sweep = sweep.expect("no stop was requested");
        assert_eq!(sweep.points[0].of_bare(), None);
    }
}
