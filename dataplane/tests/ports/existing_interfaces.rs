//! The suite on existing interfaces: those of real drivers.
//!
//! `COVALENT_TEST_INTERFACES=NEAR,FAR` names two interfaces of the calling namespace, joined by a
//! cable to each other only. `COVALENT_TEST_XDP` (`native`, `generic`) and `COVALENT_TEST_COPY`
//! (`zero-copy`, `copy`) set the expected mode, which the socket must confirm.
//! `COVALENT_TEST_FRAMES` bounds the longest test. Without the first variable these tests are
//! skipped.

use std::{
    env, fs,
    sync::{Mutex, PoisonError},
};

use covalent_config::{CopyMode, PortConfig, PortKind, XdpMode};
use covalent_dataplane::port::Port;

use crate::{
    af_xdp::{af_xdp, open_lane},
    pair::{FramePath, LivePair, until},
    suite,
};

const RING_SLOTS: u32 = 512;

/// There is one pair for all tests, which run beside each other.
static PAIR: Mutex<()> = Mutex::new(());

fn configured(interface: &str) -> PortConfig {
    let mut config = af_xdp(interface, 1, RING_SLOTS);
    if let PortKind::AfXdp { xdp, copy, .. } = &mut config.kind {
        *xdp = match env::var("COVALENT_TEST_XDP").as_deref() {
            Ok("native") => XdpMode::Native,
            Ok("generic") => XdpMode::Generic,
            _ => XdpMode::Auto,
        };
        *copy = match env::var("COVALENT_TEST_COPY").as_deref() {
            Ok("zero-copy") => CopyMode::ZeroCopy,
            Ok("copy") => CopyMode::Copy,
            _ => CopyMode::Auto,
        };
    }
    config
}

/// Frames of the longest test.
fn frames() -> u64 {
    env::var("COVALENT_TEST_FRAMES").map_or(100_000, |text| {
        text.parse().expect("COVALENT_TEST_FRAMES is a number")
    })
}

/// Ethernet's shortest frame, without its check sum. Many NICs fill a shorter one up with zeros.
const SHORTEST_BYTES: usize = 60;

/// A pair on real Ethernet: the padding that a NIC added is removed again, and must have been
/// zeros.
struct OnEthernet(LivePair);

impl FramePath for OnEthernet {
    fn near(&mut self) -> &mut dyn Port {
        self.0.near()
    }

    fn transfer(&mut self, frames: &[Vec<u8>], window: usize) -> Vec<Vec<u8>> {
        let mut arrived = self.0.transfer(frames, window);
        for (got, sent) in arrived.iter_mut().zip(frames) {
            if got.len() == SHORTEST_BYTES && sent.len() < SHORTEST_BYTES {
                assert!(got[sent.len()..].iter().all(|&byte| byte == 0));
                got.truncate(sent.len());
            }
        }
        arrived
    }
}

/// Runs `test` on the interfaces that were given, once their cable carries.
fn on_given(test: impl FnOnce(LivePair)) {
    let Ok(names) = env::var("COVALENT_TEST_INTERFACES") else {
        eprintln!("skipped: COVALENT_TEST_INTERFACES names no interfaces");
        return;
    };
    let (near, far) = names
        .split_once(',')
        .expect("COVALENT_TEST_INTERFACES is NEAR,FAR");
    let _alone = PAIR.lock().unwrap_or_else(PoisonError::into_inner);
    let end = |interface| open_lane(&[configured(interface)]).unwrap().remove(0);
    let mut pair = LivePair {
        near: end(near),
        far: end(far),
    };
    // Some drivers drop their link for seconds when a program is attached.
    until("both interfaces have a carrier", || {
        [near, far].iter().all(|name| {
            let state = fs::read_to_string(format!("/sys/class/net/{name}/carrier"));
            state.is_ok_and(|state| state.trim() == "1")
        })
    });
    pair.near.set_carrier(true);
    pair.far.set_carrier(true);
    test(pair);
}

#[test]
fn the_mode_is_the_requested_one() {
    on_given(|pair| {
        let mode = pair.near.info().mode.clone();
        eprintln!(
            "mode: {} {}",
            mode.xdp,
            if mode.zero_copy { "zero-copy" } else { "copy" }
        );
        if let Ok(xdp) = env::var("COVALENT_TEST_XDP") {
            assert_eq!(mode.xdp, xdp);
        }
        if let Ok(copy) = env::var("COVALENT_TEST_COPY") {
            assert_eq!(mode.zero_copy, copy == "zero-copy");
        }
    });
}

#[test]
fn frames_keep_order_and_bytes() {
    on_given(|pair| suite::order_and_bytes(&mut OnEthernet(pair), 5_000));
}

#[test]
fn every_size_crosses() {
    on_given(|pair| suite::every_size(&mut OnEthernet(pair)));
}

#[test]
fn an_unsendable_frame_is_refused() {
    on_given(|mut pair| suite::refusals(&mut pair));
}

#[test]
fn a_full_port_pushes_back_and_recovers() {
    on_given(|mut pair| suite::back_pressure(&mut pair));
}

#[test]
fn nothing_leaks() {
    on_given(|mut pair| suite::nothing_leaks(&mut pair, frames()));
}

#[test]
fn counters_conserve() {
    on_given(|mut pair| suite::counters_conserve(&mut pair));
}

#[test]
fn disabling_is_pulling_the_cable() {
    on_given(|mut pair| suite::disabling(&mut pair));
}

#[test]
fn no_wake_up_is_lost() {
    on_given(|pair| suite::no_lost_wake_up(pair, 500));
}

#[test]
fn work_forbids_sleep() {
    on_given(|mut pair| suite::work_forbids_sleep(&mut pair));
}
