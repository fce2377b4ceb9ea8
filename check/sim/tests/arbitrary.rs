//! Worlds that begin from arbitrary registers and arbitrary records in flight, and are hit again
//! during the run.

use std::{ops::ControlFlow, time::Instant};

use covalent_sim::{
    Options, Report,
    options::{Fault, Faults},
    run_seeds,
};

/// Seeds with each set of faults. `make soak` hunts with fresh ones.
const SEEDS: u64 = 100;

fn run(faults: Faults) -> Report {
    let options = Options {
        faults: Some(faults),
        ..Options::default()
    };
    let start = Instant::now();
    let report = run_seeds(0..SEEDS, &options, |_| ControlFlow::Continue(()))
        .unwrap_or_else(|failure| panic!("{failure}"));
    assert!(report.hits > 3 * SEEDS, "{report:?}");
    #[expect(clippy::print_stdout, reason = "the figures are reported")]
    {
        println!(
            "{SEEDS} seeds with {faults} in {:.1} s: {report:?}",
            start.elapsed().as_secs_f64()
        );
    }
    report
}

/// Whatever the registers held, everything completes, and from then on every invariant holds.
#[test]
fn a_world_converges_from_arbitrary_registers() {
    let report = run(Faults::of(&[Fault::Arbitrary]));
    assert!(report.committed > 100 * SEEDS, "{report:?}");
}

#[test]
fn a_world_converges_from_arbitrary_registers_under_all_other_faults() {
    run(Faults::ALL);
}
