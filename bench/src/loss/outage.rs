//! Cuts a cable repeatedly and evaluates the outages.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use anyhow::Result;

use super::wire::{Condition, LossyWire};
use crate::latency::{Clock, Monotonic, Traced};

/// Between two looks at whether all is over.
const RECHECK_INTERVAL: Duration = Duration::from_millis(5);

/// How a cable is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Method {
    /// Every frame is lost, and both ends keep their carrier.
    Silent,
    /// Both ends lose their carrier.
    Carrier,
}

impl Method {
    /// For people.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Silent => "silent",
            Self::Carrier => "carrier lost",
        }
    }

    fn cut(self, wire: &LossyWire, cut: bool) -> Result<()> {
        match self {
            Self::Silent if cut => wire.set(Condition::Silent),
            Self::Silent => wire.set(Condition::Loses(0)),
            Self::Carrier => wire.set_carrier(!cut),
        }
    }
}

/// The times of a cut and its end, in nanoseconds of [`Monotonic`]: from just before the call that
/// cuts to just before the call that restores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outage {
    /// The cut.
    pub cut_ns: u64,
    /// The end of it.
    pub mended_ns: u64,
}

/// Cuts for `length` once every `period`, starting after the first period, until `over`. Returns
/// the completed cuts. The cable is restored on return.
pub fn cut_repeatedly(
    wire: &LossyWire,
    way: Method,
    period: Duration,
    length: Duration,
    over: &AtomicBool,
) -> Result<Vec<Outage>> {
    let clock = Monotonic;
    let mut outages = Vec::new();
    let wait = |time: Duration| {
        let end_ns = clock.now_ns() + u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        while !over.load(Ordering::Relaxed) && clock.now_ns() < end_ns {
            thread::sleep(RECHECK_INTERVAL.min(time));
        }
    };
    loop {
        wait(period.saturating_sub(length));
        if over.load(Ordering::Relaxed) {
            return Ok(outages);
        }
        let cut_ns = clock.now_ns();
        way.cut(wire, true)?;
        thread::sleep(length);
        let mended_ns = clock.now_ns();
        way.cut(wire, false)?;
        outages.push(Outage { cut_ns, mended_ns });
    }
}

/// The effect of one outage on one side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recovery {
    /// From the call that restores the cable to the first reply.
    pub first_ns: u64,
    /// The longest that a request took that was due between the cut and the first answer after it.
    pub longest_ns: u64,
}

/// Evaluates `outage` from `trace`. Returns `None` if no reply arrived after it.
pub fn recovery(trace: &[Traced], outage: Outage) -> Option<Recovery> {
    let answered_ns = |one: &Traced| one.due_ns + one.took_ns;
    let first_ns = trace
        .iter()
        .map(answered_ns)
        .filter(|&at| at >= outage.mended_ns)
        .min()?;
    let longest_ns = trace
        .iter()
        .filter(|one| (outage.cut_ns..first_ns).contains(&one.due_ns))
        .map(|one| one.took_ns)
        .max()
        .unwrap_or(0);
    Some(Recovery {
        first_ns: first_ns - outage.mended_ns,
        longest_ns,
    })
}

/// Returns the outages that lie completely within the measurement: they began after the first
/// request was due and ended while requests were still due, which is for `slice_ns`. The limit is
/// not the last reply: a side that never recovers would be omitted.
pub fn within(trace: &[Traced], slice_ns: u64, outages: &[Outage]) -> Vec<Outage> {
    let first_ns = trace.iter().map(|one| one.due_ns).min().unwrap_or(u64::MAX);
    let last_ns = first_ns.saturating_add(slice_ns);
    outages
        .iter()
        .copied()
        .filter(|outage| outage.cut_ns > first_ns && outage.mended_ns < last_ns)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn traced(due_ns: u64, took_ns: u64) -> Traced {
        Traced { due_ns, took_ns }
    }

    #[test]
    fn recovery_is_from_the_mending_to_the_first_answer() {
        // Cut from 100 to 200. Requests due at 110 and 150 complete at 230, the one due at 190 at
        // 235.
        let trace = [
            traced(90, 5),
            traced(110, 120),
            traced(150, 80),
            traced(190, 45),
            traced(240, 5),
        ];
        let outage = Outage {
            cut_ns: 100,
            mended_ns: 200,
        };
        let found = recovery(&trace, outage).expect("replies arrived");
        assert_eq!((found.first_ns, found.longest_ns), (30, 120));
        assert_eq!(recovery(&trace[..1], outage), None);
    }

    #[test]
    fn an_answer_in_flight_at_the_cut_is_no_recovery() {
        let trace = [traced(95, 10), traced(120, 300)];
        let outage = Outage {
            cut_ns: 100,
            mended_ns: 200,
        };
        assert_eq!(
            recovery(&trace, outage).map(|found| found.first_ns),
            Some(220)
        );
    }

    #[test]
    fn outages_outside_of_the_measurement_do_not_count() {
        let trace = [traced(100, 1), traced(1000, 1)];
        let outage = |cut_ns, mended_ns| Outage { cut_ns, mended_ns };
        let seen = within(
            &trace,
            900,
            &[outage(50, 120), outage(200, 300), outage(950, 1050)],
        );
        assert_eq!(seen, [outage(200, 300)]);
    }

    #[test]
    fn an_outage_without_a_later_answer_counts() {
        let trace = [traced(100, 1), traced(190, 1)];
        let outage = Outage {
            cut_ns: 200,
            mended_ns: 300,
        };
        assert_eq!(within(&trace, 900, &[outage]), [outage]);
        assert_eq!(recovery(&trace, outage), None);
    }
}
