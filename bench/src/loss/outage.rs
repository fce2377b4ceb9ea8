//! Cutting a cable for a while, again and again, and what that came to.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use anyhow::Result;

use super::wire::{Condition, LossyWire};
use crate::latency::{Clock, Monotonic, Traced};

/// Between two looks at whether all is over.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// How a cable is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// Every frame is lost, and both ends keep their carrier.
    Silent,
    /// Both ends lose their carrier.
    Carrier,
}

impl Way {
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

/// When a cable was cut and mended, in nanoseconds of [`Monotonic`]: from just before the cut was asked for, to just before the mending was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outage {
    /// The cut.
    pub cut_ns: u64,
    /// The end of it.
    pub mended_ns: u64,
}

/// Cuts for `length` every `period`, first after one of them, until it is over. Gives the cuts that were mended; the cable is whole when it returns.
pub fn cut_again_and_again(
    wire: &LossyWire,
    way: Way,
    period: Duration,
    length: Duration,
    over: &AtomicBool,
) -> Result<Vec<Outage>> {
    let clock = Monotonic;
    let mut outages = Vec::new();
    let rest = |time: Duration| {
        let end_ns = clock.now_ns() + u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        while !over.load(Ordering::Relaxed) && clock.now_ns() < end_ns {
            thread::sleep(LOOK_AGAIN.min(time));
        }
    };
    loop {
        rest(period.saturating_sub(length));
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

/// What one outage came to for one side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recovery {
    /// From when the mending was asked for to the first answer.
    pub first_ns: u64,
    /// The longest that a request took that was due between the cut and the first answer after it.
    pub longest_ns: u64,
}

/// What `trace` says of `outage`; `None` if no answer came after it.
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

/// Those outages of which the measurement saw all: begun after the first request was due, and mended while requests still were, which they are for `slice_ns`.
/// Not while they still were answered: who never came back would be left out.
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
        // Cut from 100 to 200; what was due at 110 and 150 came at 230, at 190 at 235.
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
        let found = recovery(&trace, outage).expect("answers came");
        assert_eq!((found.first_ns, found.longest_ns), (30, 120));
        assert_eq!(recovery(&trace[..1], outage), None);
    }

    #[test]
    fn an_answer_that_was_under_way_at_the_cut_is_no_recovery() {
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
    fn an_outage_after_which_nobody_answered_counts() {
        let trace = [traced(100, 1), traced(190, 1)];
        let outage = Outage {
            cut_ns: 200,
            mended_ns: 300,
        };
        assert_eq!(within(&trace, 900, &[outage]), [outage]);
        assert_eq!(recovery(&trace, outage), None);
    }
}
