//! Sweeps for tests.

use super::{
    cores::CoreShares,
    counts::{CountPoint, CountSweep},
    loads::{LoadLine, LoadPoint, LoadSweep},
};
use crate::{
    report::Report,
    streams::results::{Results, Run, example},
    summary::Summary,
};

/// Returns a run with two notification methods at two loads, and three numbers of pipes.
pub fn with_sweeps() -> Results {
    let line = |name: &str, flat_out, received: [f64; 2], failures: &[&str]| LoadLine {
        name: name.to_owned(),
        flat_out_mpps: around(flat_out),
        points: vec![point(10, 2.0, received[0]), point(100, 18.0, received[1])],
        failures: failures.iter().copied().map(str::to_owned).collect(),
    };
    let Report {
        began_unix_ms,
        host,
        run,
        ..
    } = example();
    let run = Run {
        loads: Some(LoadSweep {
            pipes: 8,
            ring_kib: 256,
            slice_ms: 37,
            cores: CoreShares::of(&[[1.0, 0.96875]]),
            full_mpps: 20.0,
            lines: vec![
                line("reactive, prefetched", 20.0, [2.0, 18.0], &[]),
                line("per packet", 10.0, [2.0, 9.0], &["gone"]),
            ],
        }),
        counts: Some(CountSweep {
            slice_ms: 37,
            cores: CoreShares::of(&[[1.0, 0.96875]]),
            points: vec![
                count([1, 2048], 40.0, 0.0, Some([39.0, 50.0])),
                count([32, 64], 8.0, 0.25, Some([7.0, 20.0])),
                count([4096, 64], 3.0, 0.0001, None),
            ],
            failures: Vec::new(),
        }),
        ..run
    };
    Results::new(began_unix_ms, host, run)
}

fn point(load_percent: u32, offered: f64, received: f64) -> LoadPoint {
    LoadPoint {
        load_percent,
        offered_mpps: around(offered),
        received_mpps: around(received),
        dropped_percent: around(100.0 * (offered - received) / offered),
        late_percent: around(if load_percent == 100 { 2.0 } else { 0.0 }),
        notifications_per_packet: around(0.5),
        p50_us: Some(around(if load_percent == 100 { 9.0 } else { 0.75 })),
        p99_us: Some(around(if load_percent == 100 { 45.0 } else { 4.0 })),
    }
}

fn count(
    [pipes, ring_kib]: [u32; 2],
    flat_out: f64,
    missing: f64,
    rates: Option<[f64; 2]>,
) -> CountPoint {
    CountPoint {
        pipes,
        ring_kib: u64::from(ring_kib),
        flat_out_mpps: around(flat_out),
        flat_out_missing_percent: around(missing),
        notifications_per_packet: around(0.5),
        lossless_mpps: rates.map(|[lossless, _]| around(lossless)),
        bare_mpps: rates.map(|[_, bare]| around(bare)),
    }
}

/// Figures that JSON keeps to the last digit.
fn around(median: f64) -> Summary {
    Summary::of(vec![median * 0.75, median * 1.25, median]).expect("figures")
}
