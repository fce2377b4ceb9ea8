//! Bytes to the application, which waits for more bytes than it has seen.

use covalent_pipe::{Direction, PipeMemory, app::BytePipe};

use super::{
    device::{Device, Fault, Stage},
    model::{Traffic, Without, check},
};

const TRAFFIC: Traffic = Traffic {
    directions: &[Direction::RxBytes],
    capacity_bytes: 128,
    arrivals: &[(0, &[1]), (0, &[2]), (0, &[3])],
};

/// Waits for two bytes, frees one of them, keeps the rest, and waits for the third.
fn messages(device: &mut Device, memory: Vec<PipeMemory>) {
    let mut pipes = memory
        .into_iter()
        .map(|memory| BytePipe::new(memory).unwrap());
    let mut pipe = pipes.next().unwrap();
    recv_at_least(device, &mut pipe, 2);
    let batch = pipe.recv().unwrap();
    assert_eq!(batch.bytes()[..2], [1, 2]);
    if batch.free(1) {
        device.owe_doorbell(0);
    }
    recv_at_least(device, &mut pipe, 2);
    assert_eq!(pipe.recv().unwrap().bytes(), [2, 3]);
}

fn recv_at_least(device: &mut Device, pipe: &mut BytePipe, bytes: usize) {
    device.wait(|device, stage| {
        let enough = pipe
            .recv()
            .is_some_and(|batch| batch.bytes().len() >= bytes);
        assert_eq!(pipe.violation(), None);
        if !enough
            && stage == Stage::BeforeSleep
            && pipe.wait_for_more()
            && device.fault != Some(Fault::NeverRings)
        {
            device.ring(0);
        }
        enough
    });
}

#[test]
fn no_wake_up_is_lost() {
    check(Without::Nothing, 2, TRAFFIC, messages);
}

#[test]
#[should_panic(expected = "deadlock")]
fn the_checker_finds_a_doorbell_that_is_never_rung() {
    check(Without::Sense(Fault::NeverRings), 2, TRAFFIC, messages);
}

#[test]
#[should_panic(expected = "deadlock")]
fn the_checker_finds_a_bit_cleared_too_soon() {
    check(Without::Step("ClearAlways"), 2, TRAFFIC, messages);
}

#[test]
#[should_panic(expected = "called a liar")]
fn the_checker_finds_a_head_published_before_the_seen_cursor() {
    check(Without::Step("HeadBeforeSeen"), 2, TRAFFIC, messages);
}
