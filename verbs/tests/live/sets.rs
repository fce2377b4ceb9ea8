//! Pipes of several applications that share a match.

use std::{collections::BTreeMap, sync::mpsc, thread};

use covalent::{Error, Match, Spread};

use crate::nodes::{Nodes, eventually, soon};

const PIPE_BYTES: u64 = 256 * 1024;
const FLOWS: u8 = 64;

/// A frame of a flow of its own: it comes from another MAC address.
fn frame(flow: u8, number: u8) -> Vec<u8> {
    let mut frame = vec![2; 60];
    frame[11] = flow;
    frame[12..14].copy_from_slice(&[0x88, 0xb6]);
    frame[14] = number;
    frame
}

#[test]
fn two_threads_share_unclaimed_frames_with_each_flow_in_one_pipe() {
    let nodes = Nodes::start(&["p0"]);
    let a = nodes.attach("a");
    let mut tx = a.tx_pipe(PIPE_BYTES, "p0").unwrap();
    let (ready, bound) = mpsc::channel();
    let (come, came) = mpsc::channel();
    thread::scope(|scope| {
        for worker in 0..2 {
            let (nodes, ready, come) = (&nodes, ready.clone(), come.clone());
            scope.spawn(move || {
                let device = nodes.attach("b");
                let mut rx = device.rx_pipe(PIPE_BYTES).unwrap();
                rx.bind_spread(&Match::Any, Spread::Hash).unwrap();
                ready.send(()).unwrap();
                while let Ok(batch) = rx.recv(soon()) {
                    for packet in &batch {
                        if packet[14] == u8::MAX {
                            return;
                        }
                        come.send((packet[11], (worker, packet[14]))).unwrap();
                    }
                }
                panic!("the last frame did not arrive");
            });
        }
        for _ in 0..2 {
            bound
                .recv_timeout(soon() - std::time::Instant::now())
                .unwrap();
        }
        for number in 0..10 {
            for flow in 0..FLOWS {
                tx.push(&frame(flow, number)).unwrap();
            }
            tx.publish().unwrap();
        }
        let mut flows: BTreeMap<u8, Vec<(usize, u8)>> = BTreeMap::new();
        for _ in 0..10 * u32::from(FLOWS) {
            let (flow, came) = came
                .recv_timeout(soon() - std::time::Instant::now())
                .unwrap();
            flows.entry(flow).or_default().push(came);
        }
        for flow in 0..FLOWS {
            tx.push(&frame(flow, u8::MAX)).unwrap();
        }
        tx.publish().unwrap();
        let mut shares = [0; 2];
        for (flow, came) in flows {
            let worker = came[0].0;
            shares[worker] += 1;
            assert!(
                came.into_iter().eq((0..10).map(|number| (worker, number))),
                "flow {flow} is in one pipe, in order"
            );
        }
        assert!(shares.iter().all(|&share| share > 8), "{shares:?}");
    });
}

#[test]
fn a_set_alternates_between_its_pipes_and_refuses_incompatible_ones() {
    let nodes = Nodes::start(&["p0"]);
    let (a, b) = (nodes.attach("a"), nodes.attach("b"));
    let mut tx = a.tx_pipe(PIPE_BYTES, "p0").unwrap();
    let vlan = Match::Vlan { vlan: 5 };
    let mut first = b.rx_pipe(PIPE_BYTES).unwrap();
    let mut second = b.rx_tx_pipe(PIPE_BYTES, "p0").unwrap();
    first.bind_spread(&vlan, Spread::RoundRobin).unwrap();
    second.bind_spread(&vlan, Spread::RoundRobin).unwrap();
    let mut third = b.rx_pipe(PIPE_BYTES).unwrap();
    for refused in [third.bind(&vlan), third.bind_spread(&vlan, Spread::Hash)] {
        let Err(Error::Refused { reason, .. }) = refused else {
            panic!("{refused:?}")
        };
        assert!(
            reason.contains("VLAN 5") && reason.contains("round_robin"),
            "{reason}"
        );
    }
    let tagged = |number| {
        let mut tagged = frame(0, number);
        tagged[12..16].copy_from_slice(&[0x81, 0, 0, 5]);
        tagged[20] = number;
        tagged
    };
    let mut send = |numbers: std::ops::Range<u8>| {
        for number in numbers {
            tx.push(&tagged(number)).unwrap();
        }
        tx.publish().unwrap();
    };
    send(0..10);
    let mut numbers = Vec::new();
    eventually("the second pipe has its half", || {
        if let Some(mut batch) = second.try_recv().unwrap() {
            let mut taken = 0;
            while let Some(packet) = batch.next_packet() {
                numbers.push(packet[20]);
                taken += 1;
            }
            batch.discard(taken).unwrap();
        }
        numbers.len() == 5
    });
    assert_eq!(numbers, [1, 3, 5, 7, 9]);
    drop(second);
    send(10..14);
    let mut numbers = Vec::new();
    while numbers.len() < 9 {
        let batch = first.recv(soon()).unwrap();
        numbers.extend(batch.iter().map(|packet| packet[20]));
    }
    assert_eq!(numbers, [0, 2, 4, 6, 8, 10, 11, 12, 13]);
    // The last one out gives the match back.
    first.unbind(&vlan).unwrap();
    third.bind(&vlan).unwrap();
}
