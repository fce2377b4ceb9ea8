//! Many seeds, or the one that `COVALENT_SIM_SEED` names.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

use covalent_sim::{Report, World, run};

/// Seeds of an ordinary run. `COVALENT_SIM_SEEDS` asks for another number.
const SEEDS: u64 = 1000;

fn variable(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is `{text}`, which is not a number")),
    )
}

#[test]
fn every_promise_holds_under_every_seed() {
    if let Some(seed) = variable("COVALENT_SIM_SEED") {
        match World::new(seed, true).run(seed) {
            Ok(report) => return assert!(report.asked > 0, "nothing was asked"),
            Err(failure) => panic!("{failure}"),
        }
    }
    let seeds = variable("COVALENT_SIM_SEEDS").unwrap_or(SEEDS);
    let next = AtomicU64::new(0);
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let work = || {
        let mut sum = Report::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds {
                return sum;
            }
            let report = run(seed).unwrap_or_else(|failure| panic!("{failure}"));
            for (sum, more) in fields(&mut sum)
                .into_iter()
                .zip(fields(&mut report.clone()))
            {
                *sum += *more;
            }
        }
    };
    let reports: Vec<Report> = thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        workers
            .into_iter()
            .map(|worker| worker.join().expect("a seed failed, see above"))
            .collect()
    });
    let mut sum = Report::default();
    for mut report in reports {
        for (sum, more) in fields(&mut sum).into_iter().zip(fields(&mut report)) {
            *sum += *more;
        }
    }
    // A simulation in which nothing happens proves nothing.
    for (what, count) in [
        "asked",
        "committed",
        "refused",
        "restarted",
        "reversed",
        "resolved",
        "late",
        "failures",
        "frames",
        "crashes",
        "forgotten",
        "wrapped",
        "in_doubt",
    ]
    .into_iter()
    .zip(fields(&mut sum))
    {
        assert!(*count >= seeds / 20, "{what}: {count} only");
    }
    #[expect(clippy::print_stdout, reason = "shown with --nocapture")]
    {
        println!("{seeds} seeds: {sum:?}");
    }
}

fn fields(report: &mut Report) -> [&mut u64; 13] {
    let Report {
        asked,
        committed,
        refused,
        restarted,
        reversed,
        resolved,
        late,
        failures,
        frames,
        crashes,
        forgotten,
        wrapped,
        in_doubt,
    } = report;
    [
        asked, committed, refused, restarted, reversed, resolved, late, failures, frames, crashes,
        forgotten, wrapped, in_doubt,
    ]
}

#[test]
fn a_seed_is_one_run() {
    for seed in 0..20 {
        let [first, second] =
            [(); 2].map(|()| run(seed).unwrap_or_else(|failure| panic!("{failure}")));
        assert_eq!(first, second);
    }
}
