//! One exchange is damaged at each of its points, in every way.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::Instant,
};

use covalent_sim::{Report, harness::Tally, sweep};

/// 14 points, three kinds of load, two lengths, three paths. Each has 9 crashes, restarts and
/// stalls and 48 cuts, and a second link adds 108 cuts of both.
const CASES: usize = 14 * 3 * 2 * (3 * 57 + 108);

#[test]
fn an_exchange_survives_damage_behind_each_of_its_steps() {
    let start = Instant::now();
    let cases: Vec<_> = sweep::all().collect();
    // Bounded and complete: no case is left out silently.
    assert_eq!(cases.len(), CASES);
    let next = AtomicUsize::new(0);
    let work = || {
        let mut sum = Report::default();
        while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            let report = sweep::walk(case).unwrap_or_else(|problem| panic!("{case}: {problem}"));
            sum.add(&report);
        }
        sum
    };
    let mut sum = Report::default();
    thread::scope(|scope| {
        let workers = thread::available_parallelism().map_or(1, usize::from);
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            sum.add(&worker.join().expect("a case failed, see above"));
        }
    });
    for what in [
        "committed",
        "restarted",
        "reversed",
        "resolved",
        "doubted",
        "late",
        "crashes",
        "restarts",
        "unwritten",
    ] {
        let count = sum.figures().find(|(figure, _)| *figure == what);
        assert!(
            count.is_some_and(|(_, count)| count > 0),
            "{what} never happened"
        );
    }
    #[expect(clippy::print_stdout, reason = "the figures are reported")]
    {
        println!(
            "{CASES} cases in {:.1} s: {sum:?}",
            start.elapsed().as_secs_f64()
        );
    }
}
