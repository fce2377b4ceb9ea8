//! Pipes that are kept to a rate, and packets that bear the time.

use std::time::{Duration, Instant};

use covalent::{Error, Match, PipeTuning, RateLimit, RateUnit};
use nix::time::{ClockId, clock_gettime};

use crate::nodes::{Nodes, eventually, soon};

const PIPE_BYTES: u64 = 256 * 1024;

fn monotonic_ns() -> u64 {
    let now: Duration = clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap().into();
    now.as_nanos() as u64
}

fn rate(unit: RateUnit, per_second: u64, burst_us: u32) -> PipeTuning {
    PipeTuning {
        rate_limit: Some(RateLimit {
            unit,
            per_second,
            burst_us,
        }),
        stamp_at_bytes: None,
    }
}

fn stamp(at_bytes: u32) -> PipeTuning {
    PipeTuning {
        rate_limit: None,
        stamp_at_bytes: Some(at_bytes),
    }
}

#[test]
fn a_pipe_never_exceeds_its_rate_and_delays_no_other() {
    let nodes = Nodes::start(&["p0"]);
    let (a, b) = (nodes.attach("a"), nodes.attach("b"));
    let mut rx = b.rx_pipe(PIPE_BYTES).unwrap();
    rx.bind(&Match::Any).unwrap();
    for (unit, per_second) in [
        (RateUnit::Packets, 2_000),
        (RateUnit::Bits, 2_000 * 100 * 8),
    ] {
        let mut paced = a.tx_pipe(PIPE_BYTES, "p0").unwrap();
        let mut free = a.tx_pipe(PIPE_BYTES, "p0").unwrap();
        paced.tune(&rate(unit, per_second, 5_000)).unwrap();
        let start = Instant::now();
        for _ in 0..200 {
            paced.push(&[1; 100]).unwrap();
        }
        for _ in 0..200 {
            free.push(&[2; 100]).unwrap();
        }
        // Publish both together, so that nothing comes between them.
        paced.publish().unwrap();
        free.publish().unwrap();
        let mut order = Vec::new();
        let mut last = start;
        while order.len() < 400 {
            let batch = rx.recv(soon()).unwrap();
            order.extend(batch.iter().map(|packet| packet[0]));
            last = Instant::now();
        }
        // 200 packets at 2000 each second, less a burst of ten and the first.
        assert!(
            last - start >= Duration::from_micros(189 * 500),
            "{unit:?}: {:?}",
            last - start
        );
        let free_end = order.iter().rposition(|&pipe| pipe == 2).unwrap();
        assert!(free_end < 399, "{unit:?}: the free pipe was held up");
        eventually("the lane has counted", || {
            paced.counters().tx_packets == 200
        });
    }
}

#[test]
fn a_limit_is_changed_and_lifted_while_packets_wait() {
    let nodes = Nodes::start(&["p0"]);
    let (a, b) = (nodes.attach("a"), nodes.attach("b"));
    let mut rx = b.rx_pipe(PIPE_BYTES).unwrap();
    rx.bind(&Match::Any).unwrap();
    let mut tx = a.tx_pipe(PIPE_BYTES, "p0").unwrap();
    // One packet in a thousand seconds or so.
    tx.tune(&rate(RateUnit::Bits, 1, 0)).unwrap();
    for _ in 0..50 {
        tx.push(&[1; 100]).unwrap();
    }
    tx.publish().unwrap();
    assert_eq!(rx.recv(soon()).unwrap().iter().count(), 1);
    let error = rx
        .recv(Instant::now() + Duration::from_millis(20))
        .unwrap_err();
    assert!(matches!(error, Error::Deadline { .. }), "{error}");
    let pipe = format!("pipe {} on port `p0` was empty", tx.id().number());
    let error = tx.flush(Duration::ZERO).unwrap_err();
    assert!(
        matches!(&error, Error::Deadline { what }
            if what.starts_with(&pipe) && what.contains("covalent doctor")),
        "{error}"
    );
    tx.tune(&PipeTuning::default()).unwrap();
    let mut count = 0;
    while count < 49 {
        count += rx.recv(soon()).unwrap().iter().count();
    }
    tx.flush(soon()).unwrap();
}

#[test]
fn stamps_record_when_a_packet_left_and_arrived() {
    let nodes = Nodes::start(&["p0"]);
    let (a, b) = (nodes.attach("a"), nodes.attach("b"));
    let mut rx = b.rx_pipe(PIPE_BYTES).unwrap();
    rx.bind(&Match::Any).unwrap();
    rx.tune(&stamp(28)).unwrap();
    let mut tx = a.tx_pipe(PIPE_BYTES, "p0").unwrap();
    tx.tune(&stamp(20)).unwrap();
    let before = monotonic_ns();
    for length in [64, 36, 35, 27, 14] {
        tx.try_send(&vec![7; length]).unwrap();
    }
    let mut got = Vec::new();
    while got.len() < 5 {
        let batch = rx.recv(soon()).unwrap();
        got.extend(batch.iter().map(<[u8]>::to_vec));
    }
    let after = monotonic_ns();
    for packet in &got[..2] {
        let at = |at: usize| u64::from_be_bytes(packet[at..at + 8].try_into().unwrap());
        let (left, came) = (at(20), at(28));
        assert!(before <= left && left <= came && came <= after);
        // Nothing else was changed.
        assert!(
            packet[..20]
                .iter()
                .chain(&packet[36..])
                .all(|&byte| byte == 7)
        );
    }
    // Each end stamps the packets that are long enough for its own stamp.
    assert_ne!(got[2][20..28], [7; 8]);
    assert_eq!(got[2][28..], [7; 7]);
    assert_eq!(got[3], [7; 27]);
    assert_eq!(got[4], [7; 14]);
    let unstamped = |device: &covalent::Device| {
        device
            .status()
            .unwrap()
            .pipes
            .iter()
            .map(|pipe| pipe.unstamped_packets)
            .sum::<u64>()
    };
    eventually("the sender counted", || unstamped(&a) == 2);
    assert_eq!(unstamped(&b), 3);
    assert_eq!(
        (tx.counters().unstamped, rx.counters().unstamped),
        (2, 3),
        "the daemon's counts are also in memory"
    );
}

#[test]
fn impossible_tunings_are_refused() {
    let nodes = Nodes::start(&["p0"]);
    let a = nodes.attach("a");
    let mut tx = a.tx_pipe(PIPE_BYTES, "p0").unwrap();
    let at = u32::try_from(tx.frame_bytes_max()).unwrap() - 7;
    for (tuning, reason) in [
        (stamp(at), "does not fit"),
        (rate(RateUnit::Packets, 0, 0), "expected 1 to"),
        (rate(RateUnit::Packets, 1, 1_000_001), "expected at most"),
    ] {
        let error = tx.tune(&tuning).unwrap_err();
        assert!(matches!(error, Error::Refused { .. }), "{error}");
        assert!(error.to_string().contains(reason), "{error}");
    }
    tx.tune(&stamp(at - 1)).unwrap();
}
