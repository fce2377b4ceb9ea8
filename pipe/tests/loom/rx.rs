//! Packets to the application.

use covalent_pipe::{
    Direction, PipeMemory,
    app::{RxBatch, RxPipe},
};

use super::{
    device::{Device, Fault, Stage},
    model::{Traffic, Without, check},
};

const ONE_PIPE: Traffic = Traffic {
    directions: &[Direction::Rx],
    capacity_bytes: 256,
    arrivals: &[(0, &[1]), (0, &[2]), (0, &[3])],
};

fn recv_blocking<'p>(device: &mut Device, pipe: &'p mut RxPipe) -> RxBatch<'p> {
    device.wait(|device, stage| {
        let has_packets = pipe.peek().is_some();
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
    pipe.recv().unwrap()
}

/// Receives three packets in one pipe, one at a time, sleeping whenever there is none.
fn one_pipe(device: &mut Device, memory: Vec<PipeMemory>) {
    let mut pipes = memory
        .into_iter()
        .map(|memory| RxPipe::new(memory).unwrap());
    let mut pipe = pipes.next().unwrap();
    for expected in 1..=3 {
        let batch = recv_blocking(device, &mut pipe);
        assert_eq!(batch.iter().next(), Some(&[expected][..]));
        if batch.free(1) {
            device.owe_doorbell(0);
        }
    }
}

#[test]
fn no_wake_up_is_lost_of_one_pipe() {
    check(Without::Nothing, 2, ONE_PIPE, one_pipe);
}

const TWO_PIPES: Traffic = Traffic {
    directions: &[Direction::Rx, Direction::Rx],
    capacity_bytes: 256,
    arrivals: &[(0, &[1]), (1, &[1]), (0, &[2])],
};

/// Receives from each pipe with a notification until it is empty. Owes doorbells meanwhile.
fn two_pipes(device: &mut Device, memory: Vec<PipeMemory>) {
    let mut pipes: Vec<_> = memory
        .into_iter()
        .map(|memory| RxPipe::new(memory).unwrap())
        .collect();
    let mut received = [0; 2];
    while received != [2, 1] {
        let id = device.next_rx_pipe();
        let (pipe, received) = (&mut pipes[id as usize], &mut received[id as usize]);
        while let Some(batch) = pipe.recv() {
            for packet in &batch {
                *received += 1;
                assert_eq!(packet, [*received]);
            }
            if batch.free_all() {
                device.owe_doorbell(id);
            }
        }
        assert_eq!(pipe.violation(), None);
    }
}

#[test]
fn no_wake_up_is_lost_of_two_pipes() {
    check(Without::Nothing, 2, TWO_PIPES, two_pipes);
}

/// Takes everything from both pipes after each announcement. Each pipe that is found empty
/// requests its notification.
fn event_loop(device: &mut Device, memory: Vec<PipeMemory>) {
    let mut pipes: Vec<_> = memory
        .into_iter()
        .map(|memory| RxPipe::new(memory).unwrap())
        .collect();
    let mut received = [0; 2];
    while received != [2, 1] {
        device.arm_look_sleep(|device| {
            for ((id, pipe), received) in (0..).zip(&mut pipes).zip(&mut received) {
                while let Some(batch) = pipe.recv() {
                    for packet in &batch {
                        *received += 1;
                        assert_eq!(packet, [*received]);
                    }
                    if batch.free_all() {
                        device.owe_doorbell(id);
                    }
                }
                assert_eq!(pipe.violation(), None);
                if pipe.wait_for_more() && device.fault != Some(Fault::NeverRings) {
                    device.ring(id);
                }
            }
            received != [2, 1]
        });
    }
}

#[test]
fn no_wake_up_of_an_event_loop_is_lost() {
    check(Without::Nothing, 2, TWO_PIPES, event_loop);
}

/// Every step whose absence loses a wake-up.
mod without {
    use super::*;

    #[test]
    #[should_panic(expected = "deadlock")]
    fn the_look_of_an_event_loop_after_the_announcement() {
        let without = Without::Sense(Fault::ChecksBeforeAnnouncing);
        check(without, 2, TWO_PIPES, event_loop);
    }

    #[test]
    #[should_panic(expected = "deadlock")]
    fn the_request_of_an_event_loop_that_finds_nothing() {
        check(Without::Sense(Fault::NeverRings), 2, TWO_PIPES, event_loop);
    }

    #[test]
    #[should_panic(expected = "deadlock")]
    fn the_check_after_the_announcement() {
        let without = Without::Sense(Fault::ChecksBeforeAnnouncing);
        check(without, 2, ONE_PIPE, one_pipe);
    }

    #[test]
    #[should_panic(expected = "deadlock")]
    fn doorbells() {
        check(Without::Sense(Fault::NeverRings), 2, ONE_PIPE, one_pipe);
    }

    #[test]
    #[should_panic(expected = "deadlock")]
    fn owed_doorbells() {
        check(Without::Sense(Fault::NeverPays), 2, TWO_PIPES, two_pipes);
    }

    #[test]
    #[should_panic(expected = "deadlock")]
    fn the_notification_check_after_the_announcement() {
        let without = Without::Sense(Fault::ChecksBeforeAnnouncing);
        check(without, 2, TWO_PIPES, two_pipes);
    }

    #[test]
    #[should_panic(expected = "deadlock")]
    fn the_fence_of_the_announcement() {
        let without = Without::Step("AnnounceWithoutFence");
        check(without, 2, ONE_PIPE, one_pipe);
    }

    #[test]
    #[should_panic(expected = "deadlock")]
    fn the_fence_of_the_wake_up() {
        let without = Without::Step("WakeWithoutFence");
        check(without, 2, ONE_PIPE, one_pipe);
    }

    #[test]
    #[should_panic(expected = "deadlock")]
    fn the_order_of_doorbell_and_wake_up() {
        let without = Without::Step("WakeBeforePost");
        check(without, 2, ONE_PIPE, one_pipe);
    }

    #[test]
    #[should_panic(expected = "deadlock")]
    fn the_status_bit_while_more_has_arrived() {
        check(Without::Step("ClearAlways"), 2, ONE_PIPE, one_pipe);
    }

    #[test]
    #[should_panic(expected = "called a liar")]
    fn the_seen_cursor_before_the_head() {
        let without = Without::Step("HeadBeforeSeen");
        check(without, 2, ONE_PIPE, one_pipe);
    }

    #[test]
    #[should_panic(expected = "Causality violation")]
    fn the_order_of_packet_and_tail() {
        let without = Without::Step("PublishRelaxed");
        check(without, 2, ONE_PIPE, one_pipe);
    }
}
