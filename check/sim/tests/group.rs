//! Groups under many seeds, or under the one in `COVALENT_SIM_SEED`; a death at every step of a
//! change; and mutants, to verify that checkers find them.

use std::{
    ops::{ControlFlow, Range},
    time::Instant,
};

use covalent_sim::{
    group::{
        Mutant, Options, Report, World,
        figures::{Cause, measure_all},
        options::{Fault, Faults},
        run, run_seeds,
        steps::{Case, walk},
    },
    harness::Simulator,
    shape::Shape,
};

/// Seeds of an ordinary run. `COVALENT_SIM_SEEDS` sets another number.
const SEEDS: u64 = 2_000;
/// Seeds of worlds that have a stranger, and every other fault.
const FORGERY_SEEDS: u64 = 400;
/// Seeds within which a mutant must be found.
const MUTANT_SEEDS: u64 = 100;
/// Round trips from the first evidence to the last view, at most.
const CHANGE_ROUND_TRIPS: f64 = 3.0;

/// Each with the nodes and the faults that it needs to show, and the checkers that may find it.
const MUTANTS: [(Mutant, usize, &[Fault], &[&str]); 17] = [
    (Mutant::AcksBeforeHeld, 5, &[], &["all-or-none"]),
    (Mutant::SkipsNull, 5, &[], &["total-order"]),
    (
        Mutant::DeliversWhenReceived,
        5,
        &[Fault::Crash],
        &["total-order", "all-or-none"],
    ),
    (
        Mutant::TrimsByQuorum,
        5,
        &[Fault::Crash, Fault::Late],
        &["total-order", "all-or-none"],
    ),
    (
        Mutant::TakesMaxTrim,
        5,
        &[Fault::Crash, Fault::Late],
        &["total-order", "all-or-none"],
    ),
    (
        Mutant::KeepsDeliveringWedged,
        5,
        &[Fault::Crash, Fault::Late],
        &["minority"],
    ),
    (
        Mutant::UnfreezesReceived,
        5,
        &[Fault::Crash, Fault::Late],
        &["grows"],
    ),
    (
        Mutant::AnyMajority,
        2,
        &[Fault::Partition],
        &["view-agreement"],
    ),
    (
        Mutant::BreaksPromise,
        5,
        &[Fault::Midway, Fault::Accuse],
        &["grows"],
    ),
    (
        Mutant::NoDecidedFirst,
        5,
        &[Fault::Kill, Fault::Accuse],
        &["convergence", "reported"],
    ),
    (
        Mutant::ResendsDelivered,
        5,
        &[Fault::Kill],
        &["exactly-once", "reported"],
    ),
    (
        Mutant::FollowsFirstClaim,
        5,
        &[Fault::Accuse, Fault::Flap, Fault::Partition],
        &["convergence", "reported"],
    ),
    (
        Mutant::JoinerVotes,
        4,
        &[Fault::Join, Fault::Kill],
        &["state"],
    ),
    (
        Mutant::RejoinsWithOldLife,
        3,
        &[Fault::Join, Fault::Kill],
        &["exactly-once", "convergence"],
    ),
    (Mutant::NoCredit, 5, &[Fault::Full], &["bounded"]),
    (Mutant::TrustsStrangers, 4, &[Fault::Forge], &["unmoved"]),
    (Mutant::TakesCopiedLives, 4, &[Fault::Forge], &["unmoved"]),
];

/// Seeds within which a rare one must be found.
const RARE_SEEDS: u64 = 20;

/// One that few seeds come by.
struct Rare {
    mutant: Mutant,
    /// Nodes and faults; without them the seed picks both.
    world: Option<(usize, [Fault; 3])>,
    /// The first of [`RARE_SEEDS`].
    first: u64,
    checker: &'static str,
}

const RARE_MUTANTS: [Rare; 4] = [
    Rare {
        mutant: Mutant::FoundsNameless,
        world: Some((3, [Fault::Partition, Fault::Kill, Fault::Join])),
        first: 2_905,
        checker: "convergence",
    },
    Rare {
        mutant: Mutant::SilentToOtherGroups,
        world: Some((4, [Fault::Late, Fault::Partition, Fault::Join])),
        first: 600,
        checker: "convergence",
    },
    Rare {
        mutant: Mutant::WaitsForItsEnd,
        world: None,
        first: 31_337_940,
        checker: "convergence",
    },
    Rare {
        mutant: Mutant::ReportsUnknownFates,
        world: Some((6, [Fault::Late, Fault::Partition, Fault::Join])),
        first: 655,
        checker: "reported",
    },
];

fn variable(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is `{text}`, which is not a number")),
    )
}

#[expect(clippy::print_stdout, reason = "the figures are reported")]
fn print_line(line: &str) {
    println!("{line}");
}

#[test]
fn every_promise_of_groups_holds_under_every_seed() {
    let options = Options::default();
    if let Some(seed) = variable("COVALENT_SIM_SEED") {
        let world = World::new(seed, &options, true).unwrap_or_else(|error| panic!("{error}"));
        let (result, trace) = world.run(seed);
        if let Err(failure) = result {
            for entry in &trace {
                print_line(&format!("{:8} {}", entry.when, entry.text));
            }
            panic!("{failure}");
        }
        return;
    }
    let seeds = variable("COVALENT_SIM_SEEDS").unwrap_or(SEEDS);
    let start = Instant::now();
    let report = run_seeds(0..seeds, &options, |_| ControlFlow::Continue(()))
        .unwrap_or_else(|failure| panic!("{failure}"));
    let elapsed = start.elapsed();
    print_line(&format!(
        "{seeds} seeds in {:.1} s, {:.0} seeds/s: {report:?}",
        elapsed.as_secs_f64(),
        seeds as f64 / elapsed.as_secs_f64()
    ));
    // A simulation in which nothing happens proves nothing.
    for (what, count) in report.figures() {
        let rare = what.contains("most") || what == "bad";
        assert!(rare || count >= seeds / 20, "{what}: {count} only");
    }
    assert_eq!(report.bad, 0, "an honest member was not understood");
}

/// Seeds that once broke an invariant, and its checker.
#[test]
fn seeds_that_once_broke_an_invariant_hold() {
    for (seed, checker) in [
        // A member of a group that can have no quorum any more sent queries forever, and was not
        // notified of another group of its name.
        (1201, "quiet"),
        (11_280, "quiet"),
        (900_404, "quiet"),
        // A member that had ended two views sent a lagging member the end of the second alone,
        // which that member could not take.
        (7_393, "convergence"),
        (31_337_945, "convergence"),
        // A leaving member waited forever for one that was gone, behind a full window.
        (2_003_441, "convergence"),
        // An application that two groups admitted did not reply to the one that it is not in.
        (901_779, "convergence"),
        // A joiner knew a decision that no member knew any more.
        (34_082_214_575_713, "one-chain"),
        // The outcome of an incarnation that was admitted and never sent was reported, though it
        // was in another group.
        (34_082_214_557_502, "reported"),
        // A founder of another group did not report that to applications that waited for it.
        (12_336_993_784_425, "convergence"),
        (12_336_993_785_939, "convergence"),
        (12_336_993_788_597, "convergence"),
        // A joiner was notified of the view before its members were. They died, and no one else
        // knew the decision.
        (12_336_993_814_277, "convergence"),
        // The simulator used the current tick intervals, but one had begun when paths were longer.
        (12_336_993_769_173, "quiet"),
        // A leaving member took no envelopes any more. Acknowledgments behind a gap were lost, and
        // it waited behind full windows.
        (9_595_360_043_263, "convergence"),
        // One of two members suspects the other. Both queried another group of the name at every
        // tick, forever.
        (9_595_360_047_616, "quiet"),
        (266_593_621_502_956, "quiet"),
        // Only some members knew the claim of a dead member, so they followed different leaders.
        (108_603_902_214_055, "convergence"),
        // The checker counted one that another group had taken in.
        (164_217_878_390_842, "convergence"),
        // The simulator expected calm too soon after a death that it had deferred, and provided the
        // state of an earlier view.
        (604_733_262_329, "minority"),
        (34_082_214_558_190, "state"),
        (34_082_214_558_748, "state"),
        // A searching application fills the queue of a stalled one, which refuses the rest. The
        // simulated queue took it.
        (123_823_579_186, "bounded"),
        // The only member that had decided notified a joiner first, and had not reported what it
        // had accepted.
        (183_641_813_999, "one-chain"),
        // A member joined and died. The oldest member's link layer held the path to it for lost,
        // which it had reported before and does not report twice.
        (255_891_581_165, "minority"),
    ] {
        run(seed, &Options::default())
            .unwrap_or_else(|failure| panic!("{checker} was broken before: {failure}"));
    }
}

/// Incarnations challenge each other while envelopes are late, duplicated, refused or unclear.
#[test]
fn an_untrusted_user_changes_nothing_under_any_faults() {
    let options = Options {
        faults: Some(Faults::of(&Fault::ALL)),
        ..Options::default()
    };
    let report = run_seeds(0..FORGERY_SEEDS, &options, |_| ControlFlow::Continue(()))
        .unwrap_or_else(|failure| panic!("{failure}"));
    print_line(&format!("{FORGERY_SEEDS} seeds: {report:?}"));
    assert!(report.forged >= FORGERY_SEEDS, "{report:?}");
    assert_eq!(report.bad, 0, "an honest member was not understood");
}

#[test]
fn a_seed_of_groups_is_one_run() {
    for seed in 0..20 {
        let options = Options::default();
        let runs: [Report; 2] =
            [(); 2].map(|()| run(seed, &options).unwrap_or_else(|failure| panic!("{failure}")));
        assert_eq!(runs[0], runs[1]);
        // Looking on changes nothing.
        let world = World::new(seed, &options, true).unwrap_or_else(|error| panic!("{error}"));
        let (recorded, trace) = world.run(seed);
        assert_eq!(
            recorded.unwrap_or_else(|failure| panic!("{failure}")),
            runs[0]
        );
        assert!(trace.len() > 20, "seed {seed}: {}", trace.len());
    }
}

#[test]
fn every_mutant_of_groups_is_found_by_the_checker_that_watches_for_it() {
    let often = MUTANTS.map(|(mutant, ..)| mutant);
    let rare = RARE_MUTANTS.map(|rare| rare.mutant);
    assert_eq!([&often[..], &rare[..]].concat(), Mutant::ALL);
    for (mutant, nodes, faults, checkers) in MUTANTS {
        let options = Options {
            nodes: Some(nodes),
            faults: Some(Faults::of(faults)),
            mutant: Some(mutant),
            ..Options::default()
        };
        assert_found(&options, 0..MUTANT_SEEDS, checkers);
    }
    for rare in RARE_MUTANTS {
        let options = Options {
            nodes: rare.world.map(|(nodes, _)| nodes),
            faults: rare.world.map(|(_, faults)| Faults::of(&faults)),
            mutant: Some(rare.mutant),
            ..Options::default()
        };
        let seeds = rare.first..rare.first + RARE_SEEDS;
        assert_found(&options, seeds, &[rare.checker]);
    }
}

fn assert_found(options: &Options, seeds: Range<u64>, checkers: &[&str]) {
    let mutant = options.mutant.expect("a mutant");
    let failure = run_seeds(seeds.clone(), options, |_| ControlFlow::Continue(()))
        .expect_err(&format!("{mutant}: not found in the seeds {seeds:?}"));
    assert!(
        checkers.contains(&failure.violation.checker),
        "{mutant}: {failure}"
    );
    assert!(failure.to_string().contains(&options.command(failure.seed)));
    // It replays, and without the mutant nothing is found.
    let rerun = run(failure.seed, options).expect_err("it failed before");
    assert_eq!(rerun.violation, failure.violation);
    let options = Options {
        mutant: None,
        ..options.clone()
    };
    run(failure.seed, &options).unwrap_or_else(|failure| panic!("without: {failure}"));
}

/// From the first evidence until the last remaining member has the view, on eight nodes.
#[test]
fn a_change_of_views_takes_three_round_trips_at_most() {
    for shape in [Shape::full(8), Shape::ring_with_chords(8, 2)] {
        for cause in Cause::ALL {
            let passages =
                measure_all(&shape, cause, 2).unwrap_or_else(|problem| panic!("{problem}"));
            print_line(&format!("{}, {}: {passages}", shape.name, cause.as_str()));
            assert!(
                passages.round_trips(100) <= CHANGE_ROUND_TRIPS,
                "{}, {cause:?}: {passages}",
                shape.name
            );
        }
    }
}

/// For each member that dies, each that dies in the change that follows, and each envelope behind
/// which it dies.
#[test]
fn a_member_may_die_at_every_step_of_a_change() {
    let mut deaths = 0;
    for members in [3, 5] {
        for first in 0..members {
            for second in (0..members).filter(|second| *second != first) {
                for envelopes in 0.. {
                    let case = Case {
                        members,
                        first,
                        second,
                        envelopes,
                        seed: u64::from(envelopes),
                    };
                    if !walk(&case).unwrap_or_else(|problem| panic!("{problem}")) {
                        break;
                    }
                    deaths += 1;
                }
            }
        }
    }
    print_line(&format!("{deaths} deaths in the midst of a change"));
    assert!(deaths > 200, "{deaths}");
}
