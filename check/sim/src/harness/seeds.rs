//! Many seeds, on every core.

use std::{
    ops::{ControlFlow, Range},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
};

use super::{Failure, Simulator, Tally};

/// Runs every seed and returns the combined report. Each run uses one thread only, so the choice of
/// the core changes nothing. `progress` is called after each run with the number of finished runs.
/// It may stop the loop: then the finished runs count.
///
/// # Errors
/// Returns the failure of the lowest seed that failed.
pub fn run_seeds<S: Simulator>(
    seeds: Range<u64>,
    options: &S,
    progress: impl Fn(u64) -> ControlFlow<()> + Sync,
) -> Result<S::Report, Box<Failure>> {
    run_all(seeds, |seed| options.run(seed), progress)
}

/// Like [`run_seeds`], for any runs with numbers.
pub(crate) fn run_all<R: Tally>(
    numbers: Range<u64>,
    one: impl Fn(u64) -> Result<R, Box<Failure>> + Sync,
    progress: impl Fn(u64) -> ControlFlow<()> + Sync,
) -> Result<R, Box<Failure>> {
    let next = AtomicU64::new(numbers.start);
    let done = AtomicU64::new(0);
    let stopped = AtomicBool::new(false);
    let work = || {
        let mut sum = R::default();
        while !stopped.load(Ordering::Relaxed) {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= numbers.end {
                break;
            }
            match one(number) {
                Ok(report) => sum.add(&report),
                Err(failure) => {
                    // Numbers are taken in order, so every lower one is done or in flight.
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
    let mut worst: Option<Box<Failure>> = None;
    for result in results {
        match result {
            Ok(report) => sum.add(&report),
            Err(failure) if worst.as_ref().is_none_or(|worst| failure.seed < worst.seed) => {
                worst = Some(failure);
            }
            Err(_) => {}
        }
    }
    worst.map_or(Ok(sum), Err)
}
