//! The counters of pipes can be read when the daemon no longer runs.

use covalent_api::{request::PipeKind, rule::Match, status::PipeStatus};
use covalent_pipe::{app::BytePipe, nic::PipeCounters};

use super::{
    client::App,
    honest::{BAIT, BAIT_TO_SEND_BACK, bait, datagram_bait},
    node::{self, eventually, pair_on_a_cable},
    turn,
};

/// Frames of each kind.
const FRAMES: u64 = 20;

/// Returns the values that a pipe's daemon reports, as far as the counters in the pipe's memory
/// have them.
fn counter_values(status: &PipeStatus) -> [u64; 10] {
    [
        status.rx_packets,
        status.rx_bytes,
        status.tx_packets,
        status.tx_bytes,
        status.tx_discarded_packets,
        status.notifications_sent,
        status.notifications_suppressed,
        status.drops["full"],
        status.drops["too_long"],
        status.head_updates,
    ]
}

fn seen(counters: PipeCounters) -> [u64; 10] {
    [
        counters.rx_packets,
        counters.rx_bytes,
        counters.tx_packets,
        counters.tx_bytes,
        counters.tx_discarded,
        counters.notifications_sent,
        counters.notifications_suppressed,
        counters.full,
        counters.too_long,
        counters.head_updates,
    ]
}

#[test]
fn counters_of_pipes_outlive_a_killed_daemon() {
    let _turn = turn::take();
    let dir = node::place();
    let (a, b) = pair_on_a_cable(dir.path());
    let mut app = App::attach(&b.socket());
    let (rx_pipe, rx) = app.rx(None);
    app.bind(rx_pipe, Match::EtherType { ethertype: BAIT });
    let (rx_tx_pipe, mut rx_tx) = app.rx_tx("p0");
    let ethertype = BAIT_TO_SEND_BACK;
    app.bind(rx_tx_pipe, Match::EtherType { ethertype });
    let (bytes_pipe, memory) = app.open(PipeKind::RxBytes, None);
    let bytes = BytePipe::new(memory).expect("a pipe of bytes");
    app.bind(bytes_pipe, datagram_bait());
    let (tx_pipe, mut tx) = app.tx("p0");

    let mut sender = App::attach(&a.socket());
    let (pipe, mut wire) = sender.tx("p0");
    for number in 0..3 * FRAMES {
        sender.send(pipe, &mut wire, &bait(number as u32));
        app.send(tx_pipe, &mut tx, &bait(0));
    }
    // Every other one is sent back.
    let mut taken = 0;
    eventually("all arrived to be sent back", || {
        if let Some(mut batch) = rx_tx.recv_mut() {
            while let Some(packet) = batch.next_packet() {
                taken += 1;
                if taken % 2 == 0 {
                    packet.discard();
                }
            }
            if batch.send_all() {
                app.ring(rx_tx_pipe);
            }
        }
        taken == FRAMES
    });
    // In the order in which they were opened.
    let counters = || {
        [
            rx.counters(),
            rx_tx.counters(),
            bytes.counters(),
            tx.counters(),
        ]
    };
    let mut last = Vec::new();
    eventually("the pipes rest", || {
        let before = last.clone();
        last = b.status().pipes.iter().map(counter_values).collect();
        let sent: u64 = counters().iter().map(|counters| counters.tx_packets).sum();
        let received: u64 = counters().iter().map(|counters| counters.rx_packets).sum();
        (received, sent, &before) == (3 * FRAMES, 3 * FRAMES + FRAMES / 2, &last)
    });
    b.kill();
    assert_eq!(counters().map(seen).to_vec(), last);
    let [rx, rx_tx, bytes, _] = counters();
    assert_eq!([rx.rx_packets, bytes.rx_packets], [FRAMES; 2]);
    assert_eq!(
        [rx_tx.rx_packets, rx_tx.tx_packets, rx_tx.tx_discarded],
        [FRAMES, FRAMES / 2, FRAMES / 2]
    );
}
