//! Many seeds, or the one that `COVALENT_SIM_SEED` names.

use std::{ops::ControlFlow, time::Instant};

use covalent_sim::{
    Mutant, Options, Report, World,
    options::{Fault, Faults},
    run, run_seeds,
};

/// Seeds of an ordinary run. `COVALENT_SIM_SEEDS` sets another number. `make fresh` and `make soak`
/// hunt with fresh ones.
const SEEDS: u64 = 1000;
/// Events so rare that they need not happen in every twentieth run.
const SELDOM: [&str; 1] = ["late"];

fn variable(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is `{text}`, which is not a number")),
    )
}

#[test]
fn every_promise_holds_under_every_seed() {
    let options = Options::default();
    if let Some(seed) = variable("COVALENT_SIM_SEED") {
        let (result, trace) = World::new(seed, &options, true).run(seed);
        match result {
            Ok(report) => return assert!(report.asked > 0, "no exchange was requested"),
            Err(failure) => {
                let lines: Vec<_> = trace
                    .iter()
                    .map(|entry| format!("{:6} {}", entry.when, entry.text))
                    .collect();
                panic!("{failure}\n{}", lines.join("\n"));
            }
        }
    }
    let seeds = variable("COVALENT_SIM_SEEDS").unwrap_or(SEEDS);
    let start = Instant::now();
    let report = run_seeds(0..seeds, &options, |_| ControlFlow::Continue(()))
        .unwrap_or_else(|failure| panic!("{failure}"));
    let elapsed = start.elapsed();
    // A simulation in which nothing happens proves nothing.
    for (what, count) in report
        .figures()
        .filter(|(what, _)| !what.starts_with("paces"))
    {
        let least = if SELDOM.contains(&what) { 200 } else { 20 };
        assert!(count >= seeds / least, "{what}: {count} only");
    }
    #[expect(clippy::print_stdout, reason = "the figures are reported")]
    {
        println!(
            "{seeds} seeds in {:.1} s, {:.0} seeds/s: {report:?}",
            elapsed.as_secs_f64(),
            seeds as f64 / elapsed.as_secs_f64()
        );
    }
}

/// Seeds that once broke an invariant, each with the defect.
const NAMED: [(u64, &str); 5] = [
    (
        9_004_639,
        "outcomes kept by name, for a peer whose cable was moved, counted as left over",
    ),
    (123_460_329, "the same"),
    (
        764_209_932_299,
        "a cable holds handshakes of an earlier incarnation for longer than a peer may reply to \
         them",
    ),
    (
        764_209_935_925,
        "a cut loses the handshake of an epoch that is in force at neither end yet",
    ),
    (
        COPY_OF_AN_EARLIER_LIFE,
        "a copy of a frame arrived after both ends lost their memory and met in the same epoch: \
         the first epochs were not drawn, as a daemon draws them",
    ),
];

const COPY_OF_AN_EARLIER_LIFE: u64 = 24_238_795_426;

/// Random first epochs keep the frames of an earlier life out. This shows that they are needed.
#[test]
fn without_drawn_epochs_a_copy_from_an_earlier_life_is_executed() {
    let options = Options {
        mutant: Some(Mutant::GuessableEpochs),
        ..Options::default()
    };
    let failure = run(COPY_OF_AN_EARLIER_LIFE, &options).expect_err("the epochs are the same");
    assert_eq!(
        failure.violation.checker, "reported-truthfully",
        "{failure}"
    );
}

#[test]
fn seeds_that_once_failed_hold() {
    for (seed, why) in NAMED {
        let failure = run(seed, &Options::default()).err();
        assert!(failure.is_none(), "{failure:?}: {why}");
    }
}

/// First epochs were drawn from their whole circle. A cable that was moved twice came to an epoch
/// more than half a circle ahead, where serial numbers have no order. Its latches were taken for
/// later ones and forgotten, and the running peer was reported as restarted.
#[test]
fn drawn_epochs_stay_in_order_when_cables_move() {
    let faults = [
        Fault::CutBoth,
        Fault::Carrier,
        Fault::Crash,
        Fault::Move,
        Fault::Forge,
    ];
    let options = Options {
        faults: Some(Faults::of(&faults)),
        ..Options::default()
    };
    run(112, &options).unwrap_or_else(|failure| panic!("{failure}"));
    run_seeds(0..300, &options, |_| ControlFlow::Continue(()))
        .unwrap_or_else(|failure| panic!("{failure}"));
}

/// A sender that receives nothing puts frames on cables.
#[test]
fn a_blind_forger_breaks_nothing() {
    let options = Options {
        faults: Some(Faults::of(&[Fault::Forge])),
        ..Options::default()
    };
    run_seeds(0..300, &options, |_| ControlFlow::Continue(()))
        .unwrap_or_else(|failure| panic!("{failure}"));
}

/// A neighbor sends any request in any name, replies without a query, and sends any other message.
#[test]
fn a_neighbor_that_lies_breaks_nothing() {
    for others in [&[][..], &Fault::ALL] {
        let arbitrary = [Fault::Arbitrary, Fault::Forge];
        let others = others.iter().filter(|fault| !arbitrary.contains(fault));
        let faults: Vec<Fault> = others.copied().chain([Fault::Lie]).collect();
        let options = Options {
            faults: Some(Faults::of(&faults)),
            ..Options::default()
        };
        run_seeds(0..600, &options, |_| ControlFlow::Continue(()))
            .unwrap_or_else(|failure| panic!("{failure}"));
    }
    // The neighbor had committed, in another node's name, a request that was admitted a moment
    // before.
    let options = Options {
        faults: Some(Faults::of(&[Fault::Lie])),
        ..Options::default()
    };
    run(594_443_009_872, &options).unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn a_seed_is_one_run() {
    for seed in 0..40 {
        let runs: [Report; 2] = [(); 2]
            .map(|()| run(seed, &Options::default()).unwrap_or_else(|failure| panic!("{failure}")));
        assert_eq!(runs[0], runs[1]);
        // Looking on changes nothing.
        let (recorded, trace) = World::new(seed, &Options::default(), true).run(seed);
        assert_eq!(
            recorded.unwrap_or_else(|failure| panic!("{failure}")),
            runs[0]
        );
        assert!(trace.len() > 100, "seed {seed}: {}", trace.len());
    }
}
