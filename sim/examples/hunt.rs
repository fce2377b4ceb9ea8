use covalent_sim::{
    Options,
    options::{Fault, Faults},
    run,
};
use std::{
    panic,
    sync::atomic::{AtomicU64, Ordering},
    time::Instant,
};
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let (from, to): (u64, u64) = (a[1].parse().unwrap(), a[2].parse().unwrap());
    let threads: u64 = a.get(3).map_or(1, |t| t.parse().unwrap());
    let faults = a
        .get(4)
        .map(|f| f.parse::<Faults>().unwrap_or_else(|e| panic!("{e:?}")));
    let _ = Fault::Loss;
    let options = Options {
        faults,
        ..Options::default()
    };
    let next = AtomicU64::new(from);
    let fails = AtomicU64::new(0);
    let start = Instant::now();
    std::thread::scope(|s| {
        for _ in 0..threads {
            s.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= to {
                        break;
                    }
                    let r = panic::catch_unwind(|| run(seed, &options));
                    match r {
                        Ok(Ok(_)) => {}
                        Ok(Err(f)) => {
                            fails.fetch_add(1, Ordering::Relaxed);
                            println!(
                                "FAIL {seed}: {}: {} (step {})",
                                f.violation.checker, f.violation.what, f.violation.step
                            );
                        }
                        Err(_) => {
                            fails.fetch_add(1, Ordering::Relaxed);
                            println!("PANIC {seed}");
                        }
                    }
                }
            });
        }
    });
    println!(
        "range {from}..{to}: {} seeds, {} failures, {:.1} s",
        to - from,
        fails.load(Ordering::Relaxed),
        start.elapsed().as_secs_f64()
    );
}
