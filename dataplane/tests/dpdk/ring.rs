//! The suite on two rings in memory: buffers change hands, and nothing is copied.

use covalent_config::HugePages;
use covalent_dataplane::port::dpdk::ring_pair;

use crate::{
    devices::{self, number, open_all},
    pair::LivePair,
    suite,
};

const SLOTS: u32 = 512;

fn pair() -> LivePair {
    let number = number();
    let ports = [
        devices::port(&format!("net_ring_near{number}")),
        devices::port(&format!("net_ring_far{number}")),
    ];
    // The first port sets DPDK up, and the rings lie in its memory.
    drop(open_all(
        &[devices::port(&format!("net_null{number}"))],
        HugePages::Never,
    ));
    ring_pair(&ports, SLOTS).unwrap();
    devices::pair(&ports)
}

fn on_ring(test: impl FnOnce(&mut LivePair)) {
    test(&mut pair());
}

#[test]
fn frames_keep_order_and_bytes() {
    on_ring(|pair| suite::order_and_bytes(pair, 20_000));
}

#[test]
fn every_size_crosses() {
    on_ring(|pair| suite::every_size(pair));
}

#[test]
fn an_unsendable_frame_is_refused() {
    on_ring(|pair| suite::refusals(pair));
}

#[test]
fn a_full_port_pushes_back_and_recovers() {
    on_ring(suite::back_pressure);
}

#[test]
fn a_million_frames_leak_nothing() {
    on_ring(|pair| suite::nothing_leaks(pair, 1_000_000));
}

#[test]
fn counters_conserve() {
    on_ring(suite::counters_conserve);
}

#[test]
fn disabling_is_pulling_the_cable() {
    on_ring(suite::disabling);
}

#[test]
fn no_wake_up_is_lost() {
    suite::no_lost_wake_up(pair(), 2_000);
}

#[test]
fn work_forbids_sleep() {
    on_ring(suite::work_forbids_sleep);
}

#[test]
fn a_burst_stays_until_the_next() {
    on_ring(suite::a_burst_stays_until_the_next);
}
