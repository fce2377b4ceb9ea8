//! How long a cut lasts: from the moment a cable dies until the first exchange that was open on it is told over another.
//!
//! Here time counts in units. A frame takes one unit, so a round trip of a link takes two, and a pace is as long as
//! [`PACE_UNITS`]. A node answers in the unit in which it hears. Everything else is the world that the checkers watch.

use std::fmt;

use covalent_protocol::{DownReason, Mode};
use fastrand::Rng;

use crate::{ask::Ask, book::Book, plan::Plan, world::World};

/// Units of one round trip of a link.
pub const ROUND_TRIP_UNITS: u32 = 2;
/// Units of one pace: 100 round trips.
pub const PACE_UNITS: u32 = 100 * ROUND_TRIP_UNITS;
/// Round trips of the other link after which a link that does not answer is dead.
const EVENT_RATIO: u32 = 3;
/// Units without a frame after which a lane tells its node that it hears nothing.
const QUIET_UNITS: u32 = ROUND_TRIP_UNITS;
/// Units after which nobody waits any longer.
const UNITS_MAX: u32 = 40 * PACE_UNITS;

/// The initiator and the responder.
const A: usize = 0;
const B: usize = 1;

/// How a cable dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Both ports lose their carrier.
    Carrier,
    /// Everything is lost in both directions, and no port notices.
    Silent,
    /// Everything is lost towards the initiator, and no port notices.
    SilentTowardsInitiator,
    /// Everything is lost towards the responder, and no port notices.
    SilentTowardsResponder,
}

impl Way {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::Carrier,
        Self::Silent,
        Self::SilentTowardsInitiator,
        Self::SilentTowardsResponder,
    ];
}

/// What was measured after one cut, in units from the cut.
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
/// What was broken, or what did not happen.
pub fn measure(seed: u64, way: Way) -> Result<Gap, String> {
    let mut rng = Rng::with_seed(seed);
    let mut plan = Plan::led(2, vec![[A, B], [A, B]]);
    plan.slots = 8;
    plan.event_ratio = EVENT_RATIO;
    plan.silent_paces_max = 10;
    let mut world = World::led(plan, seed);
    world.follow();
    // Slots for all of them on both links, so that none waits for one.
    let load = rng.usize(2..=8);
    let phases = [rng.u32(..PACE_UNITS), rng.u32(..PACE_UNITS)];
    let mut clock = Clock {
        world,
        now: 0,
        phases,
        silent_units: [0; 2],
        load,
        open: Vec::new(),
    };
    let cut_at = PACE_UNITS + rng.u32(..2 * PACE_UNITS);
    // A cable without anything open on it shows nothing: then the cut comes a little later.
    while clock.now < cut_at || clock.open_on_first().is_empty() {
        clock.pass(&mut rng);
        if clock.now > UNITS_MAX {
            return Err("nothing was ever open on the first link".into());
        }
    }
    let cut_at = clock.now;
    let open = clock.open_on_first();
    let towards = match way {
        Way::Carrier | Way::Silent => [true, true],
        Way::SilentTowardsInitiator => [true, false],
        Way::SilentTowardsResponder => [false, true],
    };
    clock.world.cut(0, towards, true);
    if way == Way::Carrier {
        clock.world.set_carrier(0, A, false);
        clock.world.set_carrier(0, B, false);
    }
    let (mut noticed, mut first, mut last) = (None, None, None);
    while last.is_none() {
        if clock.now - cut_at > UNITS_MAX {
            return Err(format!("{way:?}: no end {UNITS_MAX} units after the cut"));
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
        _ => Err(format!("{way:?}: it ended without the link's failure")),
    }
}

/// A world in which time passes.
struct Clock {
    world: World,
    now: u32,
    /// When in a pace each node's pace passes.
    phases: [u32; 2],
    /// For how long each node has heard nothing.
    silent_units: [u32; 2],
    /// Exchanges that are kept open.
    load: usize,
    /// Those that are.
    open: Vec<u64>,
}

impl Clock {
    /// A unit passes: what was under way arrives, and every node says all that it has to say.
    fn pass(&mut self, rng: &mut Rng) {
        for node in [A, B] {
            if self.now % PACE_UNITS == self.phases[node] {
                self.world.tick(node);
            }
        }
        let heard = self.world.deliver_what_is_under_way();
        for node in [A, B] {
            let silent = &mut self.silent_units[node];
            *silent = if heard[node] { 0 } else { *silent + 1 };
            if *silent >= QUIET_UNITS {
                *silent = 0;
                self.world.quiet(node);
            }
        }
        let book = &self.world.witness().book;
        self.open.retain(|token| is_open(book, *token));
        while self.open.len() < self.load {
            let mode = [Mode::OnePhase, Mode::TwoPhase][rng.usize(..2)];
            let count = Ask::Count { delta: 1 };
            // Before the links are up for the first time nobody is known to be asked.
            let Some(token) = self.world.submit(A, B, mode, count, 0, 0) else {
                break;
            };
            self.open.push(token);
            // Which link takes it is the turn of whichever sends first.
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

    /// Round trips from the cut to the first completion, of which `hundredths` in a hundred are no longer.
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

    /// How often each evidence was what the initiator noticed it by.
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
        let mut sorted: Vec<u32> = self.0.iter().map(units).collect();
        sorted.sort_unstable();
        let place = (sorted.len() * hundredths)
            .div_ceil(100)
            .saturating_sub(1)
            .min(sorted.len().saturating_sub(1));
        let units = sorted.get(place).copied().unwrap_or_default();
        f64::from(units) / f64::from(ROUND_TRIP_UNITS)
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
            "first completion p50 {:.1}, p99 {:.1} round trips; noticed p50 {:.1}, p99 {:.1}; all p99 {:.1}; by {}",
            self.first_round_trips(50),
            self.first_round_trips(99),
            self.noticed_round_trips(50),
            self.noticed_round_trips(99),
            self.last_round_trips(99),
            reasons.join(", ")
        )
    }
}
