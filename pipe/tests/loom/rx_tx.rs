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

/// Sends three packets back one at a time, sleeping whenever there is none.
fn echo(device: &mut Device, memory: Vec<PipeMemory>) {
    let mut pipes = memory
        .into_iter()
        .map(|memory| RxTxPipe::new(memory).unwrap());
    let mut pipe = pipes.next().unwrap();
    for expected in 1..=3 {
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
