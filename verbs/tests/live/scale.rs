//! Many pipes, many applications, many threads on one lane.

use std::{sync::Barrier, thread};

use covalent::{Device, Match, RxPipe, Transport, TxPipe};
use etherparse::PacketBuilder;

use crate::nodes::{Nodes, soon};

const PIPE_BYTES: u64 = 64 * 1024;
const FIRST_PORT: u16 = 10_000;

/// The port `number` belongs to pipe `number`. The payload contains it too, with a count.
fn frame(number: u16, count: u32) -> Vec<u8> {
    let mut frame = Vec::new();
    PacketBuilder::ethernet2([2; 6], [4; 6])
        .ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)
        .udp(4000, FIRST_PORT + number)
        .write(
            &mut frame,
            &[number.to_be_bytes().as_slice(), &count.to_be_bytes()].concat(),
        )
        .unwrap();
    frame.resize(60, 0);
    frame
}

/// The pipe and the count that a frame was made for.
fn payload_of(frame: &[u8]) -> (u16, u32) {
    let payload = &frame[42..];
    (
        u16::from_be_bytes([payload[0], payload[1]]),
        u32::from_be_bytes(payload[2..6].try_into().unwrap()),
    )
}

fn bound(device: &Device, number: u16) -> RxPipe<'_> {
    let mut pipe = device.rx_pipe(PIPE_BYTES).unwrap();
    pipe.bind(&Match::Port {
        transport: Transport::Udp,
        dst_port: FIRST_PORT + number,
    })
    .unwrap();
    pipe
}

/// Sends `rounds` frames to each of `pipes` pipes in turn, no faster than they are taken.
fn send_to_all(tx: &mut TxPipe<'_>, pipes: u16, rounds: u32) {
    for count in 0..rounds {
        for number in 0..pipes {
            tx.send(&frame(number, count), soon()).unwrap();
        }
        tx.flush(soon()).unwrap();
    }
}

/// 1 to 4096 pipes of one application on one lane: each receives all of its own packets, in order,
/// and is notified.
#[test]
fn thousands_of_pipes_each_get_their_own() {
    const ROUNDS: u32 = 3;
    let nodes = Nodes::start_with(
        &["p0"],
        "[dataplane]\npipes_per_session_max = 4096\nsession_memory_max_mib = 1024",
    );
    let (a, b) = (nodes.attach("a"), nodes.attach("b"));
    let mut tx = a.tx_pipe(1 << 20, "p0").unwrap();
    let mut pipes: Vec<RxPipe<'_>> = Vec::new();
    for wanted in [1_u16, 32, 1024, 4096] {
        while pipes.len() < usize::from(wanted) {
            pipes.push(bound(&b, pipes.len() as u16));
        }
        let mut counts = vec![0; pipes.len()];
        for round in 0..ROUNDS {
            // A round is at most what a pipe holds, so a slow receiver loses nothing.
            for number in 0..wanted {
                tx.send(&frame(number, round), soon()).unwrap();
            }
            tx.flush(soon()).unwrap();
            let mut left = pipes.len();
            while left > 0 {
                let ready = b.next_rx_pipe(soon()).unwrap();
                // The pipes were opened in order, so their numbers are their indices.
                let place = ready.number() as usize;
                while let Some(batch) = pipes[place].try_recv().unwrap() {
                    for packet in &batch {
                        assert_eq!(payload_of(packet), (place as u16, counts[place]));
                        counts[place] += 1;
                        left -= 1;
                    }
                }
            }
        }
        assert!(
            counts.iter().all(|&count| count == ROUNDS),
            "{wanted} pipes"
        );
        assert!(pipes.iter().all(|pipe| pipe.counters().full == 0));
    }
    let error = b.rx_pipe(PIPE_BYTES).unwrap_err();
    assert!(
        error.to_string().contains("pipes_per_session_max"),
        "{error}"
    );
}

/// Sixteen attachments, each on a thread of its own with two pipes, all of them working at once.
#[test]
fn attachments_do_not_disturb_each_other() {
    const THREADS: u16 = 16;
    const ROUNDS: u32 = 200;
    let nodes = Nodes::start(&["p0"]);
    let ready = Barrier::new(usize::from(THREADS) + 1);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (nodes, ready) = (&nodes, &ready);
            scope.spawn(move || {
                let device = nodes.attach("b");
                let mut pipes = [2 * thread, 2 * thread + 1].map(|number| bound(&device, number));
                ready.wait();
                let mut counts = [0; 2];
                while counts != [ROUNDS; 2] {
                    let id = device.next_rx_pipe(soon()).unwrap();
                    let place = usize::from(id == pipes[1].id());
                    while let Some(batch) = pipes[place].try_recv().unwrap() {
                        for packet in &batch {
                            assert_eq!(
                                payload_of(packet),
                                (2 * thread + place as u16, counts[place])
                            );
                            counts[place] += 1;
                        }
                    }
                }
            });
        }
        let a = nodes.attach("a");
        let mut tx = a.tx_pipe(PIPE_BYTES, "p0").unwrap();
        ready.wait();
        // 200 packets of 64 bytes fit into each pipe, so even a starved thread loses none.
        send_to_all(&mut tx, 2 * THREADS, ROUNDS);
    });
}
