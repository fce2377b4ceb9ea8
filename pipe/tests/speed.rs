//! How fast packets pass through shared memory. Not a check: run it on a quiet machine with
//! `cargo test --release -p covalent-pipe --test speed -- --ignored --nocapture --test-threads 1`.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod support;

use std::{
    hint, thread,
    time::{Duration, Instant},
};

use support::{rx, rx_tx, tx};

const CAPACITY_BYTES: u64 = 2 << 20;
const BURST: u64 = 64;

fn report(what: &str, packets: u64, elapsed: Duration) {
    let rate = packets as f64 / elapsed.as_secs_f64() / 1e6;
    println!("{what}: {rate:.1} M packets/s, {:.1} ns each", 1e3 / rate);
}

/// Medians of five runs, as the machine is shared.
fn measure(what: &str, packets: u64, mut run: impl FnMut()) {
    let mut times: Vec<_> = (0..5)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed()
        })
        .collect();
    times.sort();
    report(what, packets, times[2]);
}

#[test]
#[ignore = "a measurement"]
fn one_thread_rx() {
    for len in [64, 128, 512, 1518] {
        let packets = 20_000_000_u64;
        let (mut nic, mut app) = rx(CAPACITY_BYTES);
        let packet = vec![7; len];
        measure(&format!("one thread, RX, {len} B"), packets, || {
            let mut sum = 0_u64;
            for _ in 0..packets / BURST {
                for _ in 0..BURST {
                    nic.push(&packet).unwrap();
                }
                nic.publish();
                let batch = app.recv().unwrap();
                for bytes in &batch {
                    sum += u64::from(bytes[0]);
                }
                batch.free_all();
            }
            assert_eq!(sum, packets / BURST * BURST * 7);
        });
    }
}

#[test]
#[ignore = "a measurement"]
fn one_thread_tx() {
    let packets = 20_000_000_u64;
    let (mut nic, mut app) = tx(CAPACITY_BYTES);
    let packet = [7; 64];
    let mut wire = [0; 64];
    measure("one thread, TX, 64 B", packets, || {
        for _ in 0..packets / BURST {
            for _ in 0..BURST {
                app.send(&packet).unwrap();
            }
            app.publish();
            while let Some(bytes) = nic.peek_tx().unwrap() {
                bytes.copy_to(&mut wire);
                hint::black_box(&wire);
                nic.advance_tx();
            }
            nic.complete_tx();
        }
    });
}

#[test]
#[ignore = "a measurement"]
fn two_threads_rx() {
    for len in [64, 128, 512, 1518] {
        let packets = 30_000_000_u64;
        measure(&format!("two threads, RX, {len} B"), packets, || {
            let (mut nic, mut app) = rx(CAPACITY_BYTES);
            let packet = vec![7; len];
            let lane = thread::spawn(move || {
                let mut left = packets;
                while left > 0 {
                    let mut burst = 0;
                    while burst < BURST && burst < left && nic.push(&packet).is_ok() {
                        burst += 1;
                    }
                    nic.publish();
                    left -= burst;
                    if burst == 0 {
                        hint::spin_loop();
                    }
                }
            });
            let mut received = 0;
            let mut sum = 0_u64;
            while received < packets {
                let Some(batch) = app.recv() else {
                    hint::spin_loop();
                    continue;
                };
                let mut seen = 0;
                for bytes in batch.iter().take(BURST as usize) {
                    sum += u64::from(bytes[0]);
                    seen += 1;
                }
                received += seen as u64;
                batch.free(seen);
            }
            lane.join().unwrap();
            assert_eq!(sum, packets * 7);
        });
    }
}

#[test]
#[ignore = "a measurement"]
fn two_threads_echo() {
    let packets = 30_000_000_u64;
    measure("two threads, RX/TX echo in place, 64 B", packets, || {
        let (mut nic, mut app) = rx_tx(CAPACITY_BYTES);
        let packet = [7; 64];
        let echo = thread::spawn(move || {
            let mut left = packets;
            while left > 0 {
                let Some(mut batch) = app.recv_mut() else {
                    hint::spin_loop();
                    continue;
                };
                let mut seen = 0;
                while seen < BURST
                    && let Some(mut packet) = batch.next_packet()
                {
                    packet[0] ^= 0xff;
                    seen += 1;
                }
                left -= seen;
                batch.send(seen as usize);
            }
        });
        let mut wire = [0; 64];
        let (mut pushed, mut returned) = (0, 0);
        while returned < packets {
            let mut burst = 0;
            while burst < BURST && pushed < packets && nic.push(&packet).is_ok() {
                burst += 1;
                pushed += 1;
            }
            nic.publish();
            while let Some(bytes) = nic.peek_tx().unwrap() {
                bytes.copy_to(&mut wire);
                hint::black_box(&wire);
                nic.advance_tx();
                returned += 1;
            }
            nic.complete_tx();
        }
        echo.join().unwrap();
    });
}
