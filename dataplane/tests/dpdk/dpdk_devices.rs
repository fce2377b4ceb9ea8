//! The suite on two PCI devices that are joined back to back, where the environment names them:
//! `COVALENT_TEST_DEVICES=0000:00:04.0,0000:00:05.0`, both bound to vfio-pci.
//! `COVALENT_TEST_HUGE=1` puts DPDK on huge pages.
//!
//! DPDK learns its PCI devices at setup, so these tests run in a separate process: `cargo test -p
//! covalent-dataplane --features dpdk --test dpdk dpdk_devices::`. They take the two devices in
//! turn.

use std::{
    env,
    sync::{Mutex, PoisonError},
};

use covalent_config::HugePages;

use crate::{
    devices::{self, open_all},
    pair::LivePair,
    suite,
};

/// There are two devices, and every test needs both.
static TURN: Mutex<()> = Mutex::new(());

fn on_devices(test: impl FnOnce(LivePair)) {
    let Ok(addresses) = env::var("COVALENT_TEST_DEVICES") else {
        eprintln!("skipped: COVALENT_TEST_DEVICES names no two PCI devices");
        return;
    };
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let (near, far) = addresses
        .split_once(',')
        .expect("two addresses with a comma between");
    let pages = match env::var("COVALENT_TEST_HUGE").as_deref() {
        Ok("1") => HugePages::Require,
        _ => HugePages::Never,
    };
    let mut opened = open_all(&[devices::port(near), devices::port(far)], pages).unwrap();
    let (far, near) = (opened.remove(1), opened.remove(0));
    let mut pair = LivePair { near, far };
    pair.wait_for_carrier();
    test(pair);
}

#[test]
fn frames_keep_order_and_bytes() {
    on_devices(|mut pair| suite::order_and_bytes(&mut pair, 5_000));
}

#[test]
fn every_size_crosses() {
    on_devices(|mut pair| suite::every_size(&mut pair));
}

#[test]
fn an_unsendable_frame_is_refused() {
    on_devices(|mut pair| suite::refusals(&mut pair));
}

#[test]
fn a_full_port_pushes_back_and_recovers() {
    on_devices(|mut pair| suite::back_pressure(&mut pair));
}

#[test]
fn frames_leak_nothing() {
    on_devices(|mut pair| suite::nothing_leaks(&mut pair, 50_000));
}

#[test]
fn counters_conserve() {
    on_devices(|mut pair| suite::counters_conserve(&mut pair));
}

#[test]
fn disabling_is_pulling_the_cable() {
    on_devices(|mut pair| suite::disabling(&mut pair));
}

#[test]
fn no_wake_up_is_lost() {
    on_devices(|pair| suite::no_lost_wake_up(pair, 300));
}

#[test]
fn work_forbids_sleep() {
    on_devices(|mut pair| suite::work_forbids_sleep(&mut pair));
}
