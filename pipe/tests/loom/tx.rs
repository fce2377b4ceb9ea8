//! Packets from the application, which waits for space.

use covalent_pipe::{Direction, PipeMemory, app::TxPipe};

use super::{
    device::{Device, Fault, Stage},
    model::{Traffic, Without, check},
};

const SPACE_FOR_ONE: Traffic = Traffic {
    directions: &[Direction::Tx],
    capacity_bytes: 128,
    arrivals: &[],
};

const SPACE_FOR_THREE: Traffic = Traffic {
    capacity_bytes: 256,
    ..SPACE_FOR_ONE
};

/// Sends three packets through a pipe that holds one, then waits until the lane has sent the last.
fn sender(device: &mut Device, memory: Vec<PipeMemory>) {
    let mut pipes = memory
        .into_iter()
        .map(|memory| TxPipe::new(memory).unwrap());
    let mut pipe = pipes.next().unwrap();
    for packet in 0..3 {
        wait_for_space(device, &mut pipe, 64);
        pipe.send(&[packet]).unwrap();
        if pipe.publish() {
            device.ring(0);
        }
    }
    wait_for_space(device, &mut pipe, 64);
}

/// Sends three packets without waiting in between, so that doorbells reach the lane while it
/// handles earlier ones. Then waits until all are sent.
fn burst(device: &mut Device, memory: Vec<PipeMemory>) {
    let mut pipes = memory
        .into_iter()
        .map(|memory| TxPipe::new(memory).unwrap());
    let mut pipe = pipes.next().unwrap();
    for packet in 0..3 {
        pipe.send(&[packet]).unwrap();
        if pipe.publish() {
            device.ring(0);
        }
    }
    wait_for_space(device, &mut pipe, 192);
    // Over the first packet: the lane must be done with it.
    for packet in 3..5 {
        pipe.send(&[packet]).unwrap();
    }
}

fn wait_for_space(device: &mut Device, pipe: &mut TxPipe, bytes: u64) {
    device.wait(|device, stage| {
        assert_eq!(pipe.violation(), None);
        match stage {
            Stage::Spinning => pipe.free_bytes() >= bytes,
            Stage::BeforeSleep if device.fault == Some(Fault::SleepsInSpiteOfSpace) => {
                let has_space = pipe.free_bytes() >= bytes;
                let _ = pipe.want_space(bytes);
                has_space
            }
            Stage::BeforeSleep => !pipe.want_space(bytes),
        }
    });
}

#[test]
fn no_wake_up_is_lost() {
    check(Without::Nothing, 2, SPACE_FOR_ONE, sender);
}

#[test]
#[should_panic(expected = "deadlock")]
fn the_checker_finds_a_sleep_in_spite_of_space() {
    check(
        Without::Sense(Fault::SleepsInSpiteOfSpace),
        2,
        SPACE_FOR_ONE,
        sender,
    );
}

#[test]
#[should_panic(expected = "deadlock")]
fn the_checker_finds_a_wake_before_the_post() {
    check(Without::Step("WakeBeforePost"), 2, SPACE_FOR_ONE, sender);
}

#[test]
#[should_panic(expected = "deadlock")]
fn the_checker_finds_an_announcement_without_fence() {
    check(
        Without::Step("AnnounceWithoutFence"),
        2,
        SPACE_FOR_ONE,
        sender,
    );
}

#[test]
#[should_panic(expected = "deadlock")]
fn the_checker_finds_a_wake_without_fence() {
    check(Without::Step("WakeWithoutFence"), 2, SPACE_FOR_ONE, sender);
}

#[test]
fn no_wake_up_is_lost_of_a_burst() {
    check(Without::Nothing, 2, SPACE_FOR_THREE, burst);
}

#[test]
#[should_panic(expected = "deadlock")]
fn the_checker_finds_a_claim_without_fence() {
    let without = Without::Step("ClaimWithoutFence");
    check(without, 2, SPACE_FOR_THREE, burst);
}

#[test]
#[should_panic(expected = "deadlock")]
fn the_checker_finds_a_post_without_fence() {
    let without = Without::Step("PostWithoutFence");
    check(without, 2, SPACE_FOR_THREE, burst);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn the_checker_finds_a_head_shown_before_the_packet_was_read() {
    let without = Without::Step("ReleaseRelaxed");
    check(without, 2, SPACE_FOR_THREE, burst);
}
