//! The suite on a cable between two lanes, and the state of one whose other lane has stopped.

use covalent_dataplane::port::{TxRefusal, lane_cable};

use crate::{
    frames::frame,
    pair::{LivePair, collect, until},
    suite,
};

fn pair() -> LivePair {
    let [near, far] = lane_cable::pair([0, 3]).unwrap();
    let mut pair = LivePair {
        near: Box::new(near),
        far: Box::new(far),
    };
    pair.wait_for_carrier();
    pair
}

#[test]
fn each_end_has_a_name_and_an_address_of_its_own() {
    let LivePair { near, far } = pair();
    assert_eq!(near.info().name, "lane-0-3");
    assert_eq!(far.info().name, "lane-3-0");
    assert_ne!(near.info().mac, far.info().mac);
}

#[test]
fn frames_keep_order_and_bytes() {
    suite::order_and_bytes(&mut pair(), 20_000);
}

#[test]
fn every_size_crosses() {
    suite::every_size(&mut pair());
}

#[test]
fn an_unsendable_frame_is_refused() {
    suite::refusals(&mut pair());
}

#[test]
fn a_full_port_pushes_back_and_recovers() {
    suite::back_pressure(&mut pair());
}

#[test]
fn many_frames_leak_nothing() {
    suite::nothing_leaks(&mut pair(), 300_000);
}

#[test]
fn counters_conserve() {
    suite::counters_conserve(&mut pair());
}

#[test]
fn disabling_is_pulling_the_cable() {
    suite::disabling(&mut pair());
}

#[test]
fn no_wake_up_is_lost() {
    suite::no_lost_wake_up(pair(), 20_000);
}

#[test]
fn work_forbids_sleep() {
    suite::work_forbids_sleep(&mut pair());
}

#[test]
fn a_burst_stays_until_the_next() {
    suite::a_burst_stays_until_the_next(&mut pair());
}

#[test]
fn an_end_whose_peer_lane_has_stopped_is_down_and_sleeps() {
    let LivePair { mut near, far } = pair();
    near.tx(&frame(1, 64)).unwrap();
    near.flush().unwrap();
    drop(far);
    until("the carrier is lost", || {
        collect(&mut *near, 8, &mut Vec::new());
        !near.carrier()
    });
    assert_eq!(near.tx(&frame(2, 64)), Err(TxRefusal::Down));
    until("nothing keeps the lane awake", || {
        let sleeps = near.prepare_sleep();
        near.finish_sleep();
        sleeps && near.wait_fds().is_empty()
    });
}
