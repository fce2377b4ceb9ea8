//! Measures a cut: from the moment a cable fails until the first exchange that was open on it
//! completes over another cable.
//!
//! Time counts in units here. A frame takes one unit, so a round trip of a link takes two, and a
//! tick interval takes [`TICK_UNITS`]. A node replies in the unit in which it receives. Everything
//! else is the world that the checkers watch.

use std::fmt;

use covalent_protocol::{DownReason, Mode};
use fastrand::Rng;

use crate::{book::Book, harness::quantile, operation::Operation, plan::Plan, world::World};

/// Units of one round trip of a link.
pub const ROUND_TRIP_UNITS: u32 = 2;
/// Units of one tick interval: 100 round trips.
pub const TICK_UNITS: u32 = 100 * ROUND_TRIP_UNITS;
/// Round trips of the other link after which an unresponsive link is dead.
const EVENT_RATIO: u32 = 3;
/// Units without a frame after which a lane reports silence to its node.
const QUIET_UNITS: u32 = ROUND_TRIP_UNITS;
/// Units after which a measurement gives up.
const UNITS_MAX: u32 = 40 * TICK_UNITS;

/// The initiator and the responder.
const A: usize = 0;
const B: usize = 1;

/// How a cable fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CutKind {
    /// Both ports lose their carrier.
    Carrier,
    /// Everything is lost in both directions, and no port notices.
    Silent,
    /// Everything is lost towards the initiator, and no port notices.
    SilentTowardsInitiator,
    /// Everything is lost towards the responder, and no port notices.
    SilentTowardsResponder,
}

impl CutKind {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::Carrier,
        Self::Silent,
        Self::SilentTowardsInitiator,
        Self::SilentTowardsResponder,
    ];
}

/// Measurements of one cut, in units from the cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// The initiator's link failed.
    pub noticed_units: u32,
    /// By this evidence.
    pub reason: DownReason,
    /// The first exchange that was open on it ended for its initiator.
    pub first_units: u32,
    /// The last one did.
    pub last_units: u32,
}

/// Cuts one of two links under load, at a moment that the seed picks.
///
/// # Errors
/// Returns the broken invariant, or the event that did not happen.
pub fn measure(seed: u64, kind: CutKind) -> Result<Gap, String> {
    let mut rng = Rng::with_seed(seed);
    let mut plan = Plan::led(2, vec![[A, B], [A, B]]);
    plan.slots = 8;
    plan.event_ratio = EVENT_RATIO;
    plan.keepalive_misses_max = 10;
    let mut world = World::led(plan, seed);
    world.follow();
    // Both links have slots for all exchanges, so none waits for a slot.
    let load = rng.usize(2..=8);
    let phases = [rng.u32(..TICK_UNITS), rng.u32(..TICK_UNITS)];
    let mut clock = Clock {
        world,
        now: 0,
        phases,
        silent_units: [0; 2],
        load,
        open: Vec::new(),
    };
    let cut_at = TICK_UNITS + rng.u32(..2 * TICK_UNITS);
    // A cable without anything open on it shows nothing: then the cut comes a little later.
    while clock.now < cut_at || clock.open_on_first().is_empty() {
        clock.pass(&mut rng);
        if clock.now > UNITS_MAX {
            return Err("nothing was ever open on the first link".into());
        }
    }
    let cut_at = clock.now;
    let open = clock.open_on_first();
    let towards = match kind {
        CutKind::Carrier | CutKind::Silent => [true, true],
        CutKind::SilentTowardsInitiator => [true, false],
        CutKind::SilentTowardsResponder => [false, true],
    };
    clock.world.cut(0, towards, true);
    if kind == CutKind::Carrier {
        clock.world.set_carrier(0, A, false);
        clock.world.set_carrier(0, B, false);
    }
    let (mut noticed, mut first, mut last) = (None, None, None);
    while last.is_none() {
        if clock.now - cut_at > UNITS_MAX {
            return Err(format!("{kind:?}: no end {UNITS_MAX} units after the cut"));
        }
        let since = clock.now - cut_at;
        if noticed.is_none() {
            noticed = clock.world.failed(A, 0).map(|reason| (since, reason));
        }
        let book = &clock.world.witness().book;
        let waited = open.iter().filter(|token| is_open(book, **token)).count();
        if waited < open.len() {
            first.get_or_insert(since);
        }
        if waited == 0 {
            last = Some(since);
        }
        clock.pass(&mut rng);
    }
    clock
        .world
        .conclude()
        .map_err(|violation| format!("{}: {}", violation.checker, violation.what))?;
    match (noticed, first, last) {
        (Some((noticed_units, reason)), Some(first_units), Some(last_units)) => Ok(Gap {
            noticed_units,
            reason,
            first_units,
            last_units,
        }),
        _ => Err(format!("{kind:?}: it ended without the link's failure")),
    }
}

/// A world in which time passes.
struct Clock {
    world: World,
    now: u32,
    /// Offset of each node's tick within the tick interval.
    phases: [u32; 2],
    /// Units for which each node has received nothing.
    silent_units: [u32; 2],
    /// Exchanges that are kept open.
    load: usize,
    /// Those that are.
    open: Vec<u64>,
}

impl Clock {
    /// Advances time by one unit: frames in flight arrive, and every node sends everything that it
    /// has.
    fn pass(&mut self, rng: &mut Rng) {
        for node in [A, B] {
            if self.now % TICK_UNITS == self.phases[node] {
                self.world.tick(node);
            }
        }
        let received = self.world.deliver_in_flight();
        for node in [A, B] {
            let silent = &mut self.silent_units[node];
            *silent = if received[node] { 0 } else { *silent + 1 };
            if *silent >= QUIET_UNITS {
                *silent = 0;
                self.world.quiet(node);
            }
        }
        let book = &self.world.witness().book;
        self.open.retain(|token| is_open(book, *token));
        while self.open.len() < self.load {
            let mode = [Mode::OnePhase, Mode::TwoPhase][rng.usize(..2)];
            let count = Operation::Count { delta: 1 };
            // No peer is known before the links are up for the first time.
            let Some(token) = self.world.submit(A, B, mode, count, 0, 0) else {
                break;
            };
            self.open.push(token);
            // The link that transmits first takes the exchange.
            let first = rng.usize(..2);
            self.world.transmit(first, A);
            self.world.transmit(1 - first, A);
        }
        self.world.transmit_everything();
        self.now += 1;
    }

    /// Exchanges that are open on the first cable.
    fn open_on_first(&self) -> Vec<u64> {
        let book = &self.world.witness().book;
        let on_first = |token: &u64| {
            let exchange = book.exchange(*token);
            exchange.is_some_and(|exchange| exchange.sent_on == Some(0)) && is_open(book, *token)
        };
        self.open.iter().copied().filter(on_first).collect()
    }
}

fn is_open(book: &Book, token: u64) -> bool {
    book.exchange(token)
        .is_some_and(|exchange| exchange.ended.is_none())
}

/// Many gaps, as a distribution.
#[derive(Debug, Clone, Default)]
pub struct Gaps(Vec<Gap>);

impl Gaps {
    /// Adds one.
    pub fn add(&mut self, gap: Gap) {
        self.0.push(gap);
    }

    /// Round trips from the cut to the first completion that `hundredths` percent of the cuts do
    /// not exceed.
    #[must_use]
    pub fn first_round_trips(&self, hundredths: usize) -> f64 {
        self.quantile(hundredths, |gap| gap.first_units)
    }

    /// The same to the initiator's notice.
    #[must_use]
    pub fn noticed_round_trips(&self, hundredths: usize) -> f64 {
        self.quantile(hundredths, |gap| gap.noticed_units)
    }

    /// The same to the last completion.
    #[must_use]
    pub fn last_round_trips(&self, hundredths: usize) -> f64 {
        self.quantile(hundredths, |gap| gap.last_units)
    }

    /// Number of cuts that the initiator noticed by each kind of evidence.
    #[must_use]
    pub fn reasons(&self) -> Vec<(DownReason, usize)> {
        let count = |reason| self.0.iter().filter(|gap| gap.reason == reason).count();
        DownReason::ALL
            .into_iter()
            .map(|reason| (reason, count(reason)))
            .filter(|(_, count)| *count > 0)
            .collect()
    }

    fn quantile(&self, hundredths: usize, units: impl Fn(&Gap) -> u32) -> f64 {
        let round_trips = |gap: &Gap| f64::from(units(gap)) / f64::from(ROUND_TRIP_UNITS);
        quantile(self.0.iter().map(round_trips), hundredths)
    }
}

impl fmt::Display for Gaps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reasons: Vec<_> = self
            .reasons()
            .iter()
            .map(|(reason, count)| format!("{} {count}", reason.as_str()))
            .collect();
        write!(
            f,
            "first completion p50 {:.1}, p99 {:.1} round trips; noticed p50 {:.1}, p99 {:.1}; all \
             p99 {:.1}; by {}",
            self.first_round_trips(50),
            self.first_round_trips(99),
            self.noticed_round_trips(50),
            self.noticed_round_trips(99),
            self.last_round_trips(99),
            reasons.join(", ")
        )
    }
}
