//! Many seeds, on every core.

use std::{
    ops::{ControlFlow, Range},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
};

use crate::{Failure, Options, Report, run};

/// Runs every seed and returns the combined report. Each run uses one thread only, so the choice of
/// the core changes nothing. `progress` is called after each run with the number of finished runs.
/// It may stop the loop: then the finished runs count.
///
/// # Errors
/// Returns the failure of the lowest seed that failed.
pub fn run_seeds(
    seeds: Range<u64>,
    options: &Options,
    progress: impl Fn(u64) -> ControlFlow<()> + Sync,
) -> Result<Report, Box<Failure>> {
    let one = |seed| run(seed, options);
    on_every_core(seeds, one, Report::add, |failure| failure.seed, progress)
}

/// Like [`run_seeds`], for any run `one`. `add` combines two reports, and `seed_of` returns the
/// seed of a failure.
pub(crate) fn on_every_core<R: Default + Send, F: Send>(
    seeds: Range<u64>,
    one: impl Fn(u64) -> Result<R, F> + Sync,
    add: impl Fn(&mut R, &R) + Sync,
    seed_of: impl Fn(&F) -> u64,
    progress: impl Fn(u64) -> ControlFlow<()> + Sync,
) -> Result<R, F> {
    let next = AtomicU64::new(seeds.start);
    let done = AtomicU64::new(0);
    let stopped = AtomicBool::new(false);
    let work = || {
        let mut sum = R::default();
        while !stopped.load(Ordering::Relaxed) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                break;
            }
            match one(seed) {
                Ok(report) => add(&mut sum, &report),
                Err(failure) => {
                    // Seeds are taken in order, so every lower one is done or in flight.
                    stopped.store(true, Ordering::Relaxed);
                    return Err(failure);
                }
            }
            if progress(done.fetch_add(1, Ordering::Relaxed) + 1).is_break() {
                stopped.store(true, Ordering::Relaxed);
            }
        }
        Ok(sum)
    };
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let results: Vec<_> = thread::scope(|scope| {
        let workers: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        workers
            .into_iter()
            .map(|worker| {
                worker
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
            .collect()
    });
    let mut sum = R::default();
    let mut worst: Option<F> = None;
    for result in results {
        match result {
            Ok(report) => add(&mut sum, &report),
            Err(failure)
                if worst
                    .as_ref()
                    .is_none_or(|worst| seed_of(&failure) < seed_of(worst)) =>
            {
                worst = Some(failure);
            }
            Err(_) => {}
        }
    }
    worst.map_or(Ok(sum), Err)
}
