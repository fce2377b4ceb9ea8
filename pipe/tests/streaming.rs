//! Millions of packets between two threads, every one checked.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used)]

mod support;

use std::{hint, thread};

use support::{mix, rx, rx_tx, tx};

const PACKETS: u64 = 2_000_000;
const CAPACITY_BYTES: u64 = 64 * 1024;

/// Length of packet `number`: mostly small, now and then long.
fn len_of(number: u64) -> usize {
    let random = mix(number);
    let len = if random.is_multiple_of(16) {
        8 + random % 1500
    } else {
        8 + random % 120
    };
    len as usize
}

/// Writes the packet's number at its start and at its end.
fn fill(number: u64, buffer: &mut [u8]) {
    let len = buffer.len();
    buffer[..8].copy_from_slice(&number.to_le_bytes());
    if len >= 16 {
        buffer[len - 8..].copy_from_slice(&mix(number).to_le_bytes());
    }
}

fn check(number: u64, bytes: &[u8]) {
    assert_eq!(bytes.len(), len_of(number), "length of packet {number}");
    assert_eq!(bytes[..8], number.to_le_bytes(), "start of packet {number}");
    if bytes.len() >= 16 {
        assert_eq!(
            bytes[bytes.len() - 8..],
            mix(number).to_le_bytes(),
            "end of packet {number}"
        );
    }
}

/// Waits a little for the other thread, which may be on this very core.
fn pause(idle: &mut u32) {
    *idle += 1;
    if idle.is_multiple_of(64) {
        thread::yield_now();
    } else {
        hint::spin_loop();
    }
}

#[test]
fn rx_passes_every_packet_once_and_in_order() {
    let (mut nic, mut app) = rx(CAPACITY_BYTES);
    let lane = thread::spawn(move || {
        let mut idle = 0;
        let mut number = 0;
        while number < PACKETS {
            if nic
                .push_with(len_of(number), |mut room| {
                    let mut bytes = vec![0; room.len()];
                    fill(number, &mut bytes);
                    room.copy_from(&bytes[..]);
                })
                .is_ok()
            {
                number += 1;
                if number.is_multiple_of(32) {
                    nic.publish();
                }
            } else {
                nic.publish();
                pause(&mut idle);
            }
        }
        nic.publish();
        assert_eq!(nic.violation(), None);
    });
    let mut idle = 0;
    let mut number = 0;
    while number < PACKETS {
        let Some(batch) = app.recv() else {
            pause(&mut idle);
            continue;
        };
        for bytes in &batch {
            check(number, bytes);
            number += 1;
        }
        batch.free_all();
    }
    lane.join().unwrap();
}

#[test]
fn tx_passes_every_packet_once_and_in_order() {
    let (mut nic, mut app) = tx(CAPACITY_BYTES);
    let sender = thread::spawn(move || {
        let mut idle = 0;
        let mut number = 0;
        while number < PACKETS {
            if let Ok(mut reservation) = app.reserve(len_of(number)) {
                fill(number, &mut reservation);
                reservation.commit();
                number += 1;
                if number.is_multiple_of(32) {
                    app.publish();
                }
            } else {
                app.publish();
                pause(&mut idle);
            }
        }
        app.publish();
        assert_eq!(app.violation(), None);
    });
    let mut idle = 0;
    let mut number = 0;
    while number < PACKETS {
        let before = number;
        while let Some(bytes) = nic.peek_tx().unwrap() {
            check(number, &bytes.to_vec());
            nic.advance_tx();
            number += 1;
        }
        nic.complete_tx();
        if number == before {
            pause(&mut idle);
        }
    }
    sender.join().unwrap();
}

#[test]
fn rx_tx_echoes_every_packet_once_and_in_order() {
    let (mut nic, mut app) = rx_tx(CAPACITY_BYTES);
    let echo = thread::spawn(move || {
        let mut idle = 0;
        let mut number = 0;
        while number < PACKETS {
            let Some(mut batch) = app.recv_mut() else {
                pause(&mut idle);
                continue;
            };
            while let Some(mut packet) = batch.next_packet() {
                check(number, &packet);
                packet[0] ^= 0xff;
                if number % 10 == 9 {
                    packet.discard();
                }
                number += 1;
            }
            batch.send_all();
        }
        assert_eq!(app.violation(), None);
    });
    let mut idle = 0;
    let mut pushed = 0;
    let mut returned = 0;
    // The last packet is discarded, so its predecessor may return before there is room for it.
    while returned < PACKETS - PACKETS / 10 || pushed < PACKETS {
        let before = (pushed, returned);
        for _ in 0..32 {
            if pushed < PACKETS
                && nic
                    .push_with(len_of(pushed), |mut room| {
                        let mut bytes = vec![0; room.len()];
                        fill(pushed, &mut bytes);
                        room.copy_from(&bytes[..]);
                    })
                    .is_ok()
            {
                pushed += 1;
            }
        }
        nic.publish();
        while let Some(bytes) = nic.peek_tx().unwrap() {
            // Nine of each ten come back.
            let number = returned / 9 * 10 + returned % 9;
            let mut bytes = bytes.to_vec();
            bytes[0] ^= 0xff;
            check(number, &bytes);
            nic.advance_tx();
            returned += 1;
        }
        nic.complete_tx();
        if before == (pushed, returned) {
            pause(&mut idle);
        }
    }
    echo.join().unwrap();
}
