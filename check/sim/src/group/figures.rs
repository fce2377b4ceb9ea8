//! Measures a view change: from the first evidence that a member is gone until all remaining
//! members have the view without it.
//!
//! A round trip is that of the two nodes farthest from each other. An application takes an event in
//! the unit in which it arrives.

use std::fmt;

use fastrand::Rng;

use super::{
    plan::{HOP_UNITS, Plan},
    world::World,
};
use crate::{
    harness::quantile,
    shape::{BadShape, Form, Shape, VALENCE_MAX},
};

/// Round trips after which a measurement gives up.
const ROUND_TRIPS_MAX: u64 = 400;

/// Round trips in a tick interval. An idle group detects within one interval that an application
/// died.
const TICK_ROUND_TRIPS: u64 = 20;

/// How a member fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The application is killed. Its daemon reports that to every sender.
    Killed,
    /// The node crashes, and each link layer detects it at its own time.
    Crashed,
    /// The node crashes, and only one link layer detects it. All others are informed.
    CrashedUnseen,
}

impl Cause {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Killed, Self::Crashed, Self::CrashedUnseen];

    /// Its name, for people.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Killed => "application killed",
            Self::Crashed => "node dies",
            Self::CrashedUnseen => "node dies, one end notices",
        }
    }
}

/// Cost of one view change.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Passage {
    /// Round trips from the first evidence to the last view.
    pub round_trips: f64,
    /// Mean number of envelopes that each remaining member sent meanwhile.
    pub envelopes: f64,
}

/// Removes the member of `rank`, with messages in flight if `load`, and waits for the view without
/// it.
///
/// # Errors
/// Returns the broken invariant, or that no view was installed.
pub fn measure(
    seed: u64,
    shape: &Shape,
    cause: Cause,
    rank: usize,
    load: bool,
) -> Result<Passage, String> {
    let mut rng = Rng::with_seed(seed);
    let mut plan = Plan::led(shape.clone());
    // Every second time all take as long as the slowest.
    plan.hop_units = [
        if seed.is_multiple_of(2) { 1 } else { HOP_UNITS },
        HOP_UNITS,
    ];
    plan.tick_round_trips = TICK_ROUND_TRIPS;
    plan.messages_max = if load { 10_000 } else { 0 };
    plan.request_eighths = 4;
    let nodes = shape.nodes;
    let mut world = World::led(plan, seed);
    let round_trip = world.round_trip_units();
    world.run_until(rng.u64(10 * round_trip..20 * round_trip));
    match cause {
        Cause::Killed => world.kill(rank),
        Cause::Crashed => world.crash(rank),
        Cause::CrashedUnseen => world.crash_noticed_by(rank, (rank + rng.usize(1..nodes)) % nodes),
    }
    let limit = world.now() + ROUND_TRIPS_MAX * round_trip;
    let all_continue = |world: &World| {
        let mut stays = world.book().stays.iter().enumerate();
        stays.all(|(membership, known)| {
            membership == rank || known.view.is_some_and(|(_, number)| number > 1)
        })
    };
    let mut envelopes = world.report().envelopes;
    while !all_continue(&world) {
        if world.now() > limit || world.violation().is_some() {
            let what = format!(
                "{cause:?}, rank {rank} of {nodes}, load {load}: no view; {:?}",
                world.violation()
            );
            return Err(what);
        }
        if world.evidence_at().is_none() {
            envelopes = world.report().envelopes;
        }
        world.run_until(world.now() + 1);
    }
    let evidence = world.evidence_at().unwrap_or_default();
    let passage = Passage {
        round_trips: (world.now() - evidence) as f64 / round_trip as f64,
        envelopes: (world.report().envelopes - envelopes) as f64 / (nodes - 1) as f64,
    };
    match world.conclude() {
        Ok(()) => Ok(passage),
        Err(violation) => Err(format!("{}: {}", violation.checker, violation.what)),
    }
}

/// The shape of a form with so many nodes; `seed` draws a random one.
///
/// # Errors
/// There is no such shape.
pub fn shape_of(form: &Form, nodes: usize, seed: u64) -> Result<Shape, BadShape> {
    form.shape(Some(nodes), VALENCE_MAX, &mut Rng::with_seed(seed))
}

/// Removes each member in turn, once idle and once with messages in flight, `times` times each.
///
/// # Errors
/// Returns the failure with its seed.
pub fn measure_all(shape: &Shape, cause: Cause, times: u64) -> Result<Passages, String> {
    let mut passages = Passages::default();
    for rank in 0..shape.nodes {
        for seed in 0..times {
            for load in [false, true] {
                let passage = measure(seed, shape, cause, rank, load);
                passages.add(passage.map_err(|problem| format!("seed {seed}: {problem}"))?);
            }
        }
    }
    Ok(passages)
}

/// Many changes, as a distribution.
#[derive(Debug, Clone, Default)]
pub struct Passages(Vec<Passage>);

impl Passages {
    /// Adds one.
    pub fn add(&mut self, passage: Passage) {
        self.0.push(passage);
    }

    /// Round trips that so many hundredths of the changes did not exceed.
    #[must_use]
    pub fn round_trips(&self, hundredths: usize) -> f64 {
        quantile(self.0.iter().map(|passage| passage.round_trips), hundredths)
    }

    /// The same for the envelopes that each remaining member sent.
    #[must_use]
    pub fn envelopes(&self, hundredths: usize) -> f64 {
        quantile(self.0.iter().map(|passage| passage.envelopes), hundredths)
    }
}

impl fmt::Display for Passages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "evidence to view p50 {:.2}, most {:.2} round trips; envelopes of each member p50 \
             {:.1}, most {:.1}",
            self.round_trips(50),
            self.round_trips(100),
            self.envelopes(50),
            self.envelopes(100)
        )
    }
}
