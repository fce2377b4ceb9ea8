//! Packets to the application, which sends them back from where they lie.

use covalent_pipe::{Direction, PipeMemory, app::RxTxPipe};

use super::{
    device::{Device, Fault, Stage},
    model::{Traffic, Without, check},
};

const TRAFFIC: Traffic = Traffic {
    directions: &[Direction::RxTx],
    capacity_bytes: 256,
    arrivals: &[(0, &[1]), (0, &[2]), (0, &[3])],
};

/// All are sent back and nothing follows: no other notification can end the flush.
const FLUSHED: Traffic = Traffic {
    arrivals: &[(0, &[1]), (0, &[2])],
    ..TRAFFIC
};

/// Sends three packets back one at a time, sleeping whenever there is none.
fn echo(device: &mut Device, memory: Vec<PipeMemory>) {
    send_back(device, memory, 3);
}

/// Sends two packets back, then sleeps until the lane has taken them.
fn echo_and_flush(device: &mut Device, memory: Vec<PipeMemory>) {
    let mut pipe = send_back(device, memory, 2);
    device.wait(|device, stage| {
        assert_eq!(pipe.violation(), None);
        let is_taken = pipe.all_taken();
        if !is_taken
            && stage == Stage::BeforeSleep
            && pipe.want_taken()
            && device.fault != Some(Fault::NeverAsks)
        {
            device.ring(0);
        }
        is_taken
    });
}

fn send_back(device: &mut Device, memory: Vec<PipeMemory>, packets: u8) -> RxTxPipe {
    let mut pipes = memory
        .into_iter()
        .map(|memory| RxTxPipe::new(memory).unwrap());
    let mut pipe = pipes.next().unwrap();
    for expected in 1..=packets {
        device.wait(|device, stage| {
            let has_packets = pipe.recv_mut().is_some();
            assert_eq!(pipe.violation(), None);
            if !has_packets
                && stage == Stage::BeforeSleep
                && pipe.wait_for_more()
                && device.fault != Some(Fault::NeverRings)
            {
                device.ring(0);
            }
            has_packets
        });
        let mut batch = pipe.recv_mut().unwrap();
        let mut packet = batch.next_packet().unwrap();
        assert_eq!(packet[..], [expected]);
        packet[0] = 0;
        if batch.send_taken() && device.fault != Some(Fault::NeverRings) {
            device.ring(0);
        }
    }
    pipe
}

#[test]
fn no_wake_up_is_lost() {
    check(Without::Nothing, 2, TRAFFIC, echo);
}

#[test]
#[should_panic(expected = "deadlock")]
fn the_checker_finds_a_doorbell_that_is_never_rung() {
    check(Without::Sense(Fault::NeverRings), 2, TRAFFIC, echo);
}

#[test]
#[should_panic(expected = "deadlock")]
fn the_checker_finds_a_bit_cleared_too_soon() {
    check(Without::Step("ClearAlways"), 2, TRAFFIC, echo);
}

#[test]
fn no_wake_up_of_a_flush_is_lost() {
    check(Without::Nothing, 2, FLUSHED, echo_and_flush);
}

#[test]
#[should_panic(expected = "deadlock")]
fn the_checker_finds_a_flush_that_never_asks() {
    check(Without::Sense(Fault::NeverAsks), 2, FLUSHED, echo_and_flush);
}

#[test]
#[should_panic(expected = "deadlock")]
fn the_checker_finds_a_late_request_that_its_doorbell_does_not_answer() {
    let without = Without::Step("AnswerOnlyCompletions");
    check(without, 2, FLUSHED, echo_and_flush);
}

#[test]
#[should_panic(expected = "deadlock")]
fn the_checker_finds_an_early_request_that_no_completion_answers() {
    let without = Without::Step("AnswerOnlyDoorbells");
    check(without, 2, FLUSHED, echo_and_flush);
}
