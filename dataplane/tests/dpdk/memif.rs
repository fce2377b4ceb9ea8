//! The suite on `net_memif`, and the guarantees between its ends. The shared memory connects two
//! processes, or two ports of one process as here.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use covalent_config::{HugePages, PortConfig};
use covalent_dataplane::port::{Port, TxRefusal};
use tempfile::TempDir;

use crate::{
    devices::{self, number, open_all},
    frames::frame,
    pair::{FramePath, LivePair, collect, until},
    suite,
};

struct Place {
    directory: TempDir,
    number: u32,
}

impl Place {
    fn new() -> Self {
        Self {
            directory: TempDir::new().unwrap(),
            number: number(),
        }
    }

    /// The driver looks sockets up by their paths and would take the caller's socket for one that
    /// already listens. Within one process the path therefore needs two spellings.
    fn end(&self, role: &str) -> PortConfig {
        let spelling = if role == "server" {
            "memif.sock"
        } else {
            "./memif.sock"
        };
        devices::port(&format!(
            "net_memif_{role}{},role={role},socket={},socket-abstract=no",
            self.number,
            self.directory.path().join(spelling).display()
        ))
    }

    fn open(&self, role: &str) -> Box<dyn Port> {
        open_all(&[self.end(role)], HugePages::Never)
            .unwrap()
            .remove(0)
    }

    /// The near end calls, the far one answers.
    fn pair(&self) -> LivePair {
        let mut pair = LivePair {
            near: self.open("client"),
            far: self.open("server"),
        };
        pair.wait_for_carrier();
        pair
    }
}

fn on_memif(test: impl FnOnce(&mut LivePair)) {
    let place = Place::new();
    test(&mut place.pair());
}

fn wait_for(port: &mut dyn Port, carrier: bool) {
    until("the carrier changes", || {
        collect(port, 64, &mut Vec::new());
        port.carrier() == carrier
    });
}

#[test]
fn frames_keep_order_and_bytes() {
    on_memif(|pair| suite::order_and_bytes(pair, 20_000));
}

#[test]
fn every_size_crosses() {
    on_memif(|pair| suite::every_size(pair));
}

#[test]
fn an_unsendable_frame_is_refused() {
    on_memif(|pair| suite::refusals(pair));
}

#[test]
fn a_full_port_pushes_back_and_recovers() {
    on_memif(suite::back_pressure);
}

#[test]
fn a_million_frames_leak_nothing() {
    on_memif(|pair| suite::nothing_leaks(pair, 1_000_000));
}

#[test]
fn counters_conserve() {
    on_memif(suite::counters_conserve);
}

#[test]
fn disabling_is_pulling_the_cable() {
    on_memif(suite::disabling);
}

#[test]
fn disabling_the_end_that_answers_is_pulling_the_cable() {
    on_memif(|pair| {
        std::mem::swap(&mut pair.near, &mut pair.far);
        suite::disabling(pair);
    });
}

#[test]
fn no_wake_up_is_lost() {
    let place = Place::new();
    suite::no_lost_wake_up(place.pair(), 2_000);
}

#[test]
fn work_forbids_sleep() {
    on_memif(suite::work_forbids_sleep);
}

#[test]
fn a_burst_stays_until_the_next() {
    on_memif(suite::a_burst_stays_until_the_next);
}

#[test]
fn each_end_may_close_and_reopen() {
    let place = Place::new();
    let frames: Vec<_> = (0..500).map(|number| frame(number, 64)).collect();
    let LivePair { mut near, mut far } = place.pair();
    for round in 0..4 {
        if round % 2 == 0 {
            drop(far);
            wait_for(&mut *near, false);
            assert_eq!(near.tx(&frames[0]), Err(TxRefusal::Down));
            far = place.open("server");
        } else {
            drop(near);
            wait_for(&mut *far, false);
            near = place.open("client");
        }
        let mut pair = LivePair { near, far };
        pair.wait_for_carrier();
        assert!(pair.transfer(&frames, 64) == frames, "round {round}");
        LivePair { near, far } = pair;
    }
}

/// More threads than cores, so that some are preempted in the middle of a burst while DPDK's own
/// thread detects that the peer is gone.
#[test]
fn a_peer_that_closes_during_bursts_is_an_event() {
    const LINKS: usize = 4;
    const ROUNDS: usize = 25;
    let left = AtomicUsize::new(LINKS);
    let places: Vec<_> = (0..LINKS).map(|_| Place::new()).collect();
    thread::scope(|scope| {
        for place in &places {
            let (mut remaining, left) = (place.open("client"), &left);
            scope.spawn(move || {
                let mut frames = 0;
                let one = frame(1, 64);
                while left.load(Ordering::Relaxed) > 0 {
                    frames += remaining.receive(32, |_| {}).unwrap();
                    while remaining.tx(&one).is_ok() {}
                    let _ = remaining.flush();
                }
                assert!(frames > 0);
            });
            scope.spawn(move || {
                let one = frame(2, 64);
                for _ in 0..ROUNDS {
                    let mut leaves = place.open("server");
                    wait_for(&mut *leaves, true);
                    until("the peer's frames arrive", || {
                        while leaves.tx(&one).is_ok() {}
                        let _ = leaves.flush();
                        leaves.receive(32, |_| {}).unwrap() > 0
                    });
                }
                left.fetch_sub(1, Ordering::Relaxed);
            });
        }
    });
}

/// The driver of an answering end admits its peer again even while the device is stopped.
#[test]
fn an_answering_end_stays_disabled_and_may_then_close() {
    on_memif(|pair| {
        pair.far.set_enabled(false).unwrap();
        wait_for(&mut *pair.near, false);
        // Longer than its peer waits before it calls again.
        let end = Instant::now() + Duration::from_secs(2);
        while Instant::now() < end {
            pair.near.receive(32, |_| {}).unwrap();
            pair.far.receive(32, |_| {}).unwrap();
            assert!(!pair.far.carrier());
        }
        wait_for(&mut *pair.near, false);
        pair.far.set_enabled(true).unwrap();
        pair.wait_for_carrier();
        pair.far.set_enabled(false).unwrap();
        thread::sleep(Duration::from_secs(1));
    });
}

#[test]
fn a_disabled_end_shows_at_the_other_one() {
    on_memif(|pair| {
        pair.near.set_enabled(false).unwrap();
        wait_for(&mut *pair.far, false);
        pair.near.set_enabled(true).unwrap();
        pair.wait_for_carrier();
    });
}

#[test]
fn the_port_reports_the_counts_of_the_device() {
    on_memif(|pair| {
        let frames: Vec<_> = (0..100).map(|number| frame(number, 64)).collect();
        assert!(pair.transfer(&frames, 32) == frames);
        let counters = pair.far.counters();
        let count = |name: &str| {
            counters
                .device_counts
                .iter()
                .find(|(found, _)| found == name)
                .unwrap_or_else(|| panic!("no `{name}` in {:?}", counters.device_counts))
                .1
        };
        assert_eq!(count("rx_good_packets"), 100);
        assert_eq!(count("rx_good_bytes"), 6_400);
        assert!(counters.device_events.contains(&("removed", 0)));
    });
}

#[test]
fn an_end_without_its_peer_sleeps() {
    let place = Place::new();
    let mut near = place.open("client");
    wait_for(&mut *near, false);
    assert_eq!(near.tx(&frame(1, 64)), Err(TxRefusal::Down));
    assert!(near.prepare_sleep());
    near.finish_sleep();
    assert!(near.tx_idle());
    // Long enough for a call without an answer.
    std::thread::sleep(Duration::from_millis(50));
    wait_for(&mut *near, false);
}
