//! Random operations on a pipe, compared with a model: queues of packets, a count of bytes, a
//! status bit.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used)]

mod support;

use std::collections::VecDeque;

use covalent_pipe::{
    SharedBytes,
    app::SendRefusal,
    nic::{PushRefusal, footprint_bytes},
};
use proptest::prelude::*;
use support::{packet, rx, rx_tx, tx};

const CAPACITY_BYTES: u64 = 4096;
const USABLE_BYTES: u64 = CAPACITY_BYTES - 64;

#[derive(Debug, Clone)]
enum Operation {
    /// The writer places a packet of so many bytes.
    Write(usize),
    Publish,
    /// The reader takes so many packets.
    Read(usize),
    /// The reader gives back so many packets: frees, sends, or (odd, RX/TX) discards them.
    Return(usize),
    /// The reader of an RX pipe takes so many packets as received and keeps them.
    Confirm(usize),
    /// It gives back so many of those.
    FreeHeld(usize),
    /// The reader requests a notification for more data than it has seen.
    Wait,
    Doorbell,
    Complete,
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let length = prop_oneof![
        4 => 1..=130_usize,
        2 => 1..=1518_usize,
        1 => prop_oneof![Just(0), Just(64), Just(4031), Just(4032), Just(4033)],
    ];
    let count = prop_oneof![Just(usize::MAX), 0..4_usize];
    let operation = prop_oneof![
        6 => length.prop_map(Operation::Write),
        3 => Just(Operation::Publish),
        2 => count.clone().prop_map(Operation::Read),
        3 => count.clone().prop_map(Operation::Return),
        1 => count.clone().prop_map(Operation::Confirm),
        1 => count.prop_map(Operation::FreeHeld),
        1 => Just(Operation::Wait),
        2 => Just(Operation::Doorbell),
        2 => Just(Operation::Complete),
    ];
    prop::collection::vec(operation, 1..300)
}

/// Contents of a ring: packets by the side that may act on them next.
#[derive(Default)]
struct Model {
    number: u64,
    written: VecDeque<Vec<u8>>,
    published: VecDeque<Vec<u8>>,
    /// Confirmed by the reader and not given back.
    held: VecDeque<Vec<u8>>,
    /// Given back, with whether the packet is to be sent.
    returned: VecDeque<(Vec<u8>, bool)>,
    held_bytes: u64,
    /// Bytes that the reader of a TX half has passed and not completed.
    passed_bytes: u64,
    published_tail: u64,
    /// End of the data that the reader has received.
    received_tail: u64,
    /// End of the data for which it requests no notification.
    seen_tail: u64,
    outstanding: bool,
}

impl Model {
    fn next_packet(&mut self, len: usize) -> Vec<u8> {
        self.number += 1;
        packet(self.number, len)
    }

    fn write(&mut self, packet: Vec<u8>) {
        self.held_bytes += footprint_bytes(packet.len());
        self.written.push_back(packet);
    }

    fn fits(&self, len: usize) -> bool {
        footprint_bytes(len) + self.held_bytes <= USABLE_BYTES
    }

    fn push_outcome(&self, len: usize) -> Result<(), PushRefusal> {
        match len {
            0 => Err(PushRefusal::Empty),
            4033.. => Err(PushRefusal::TooLong { len, max: 4032 }),
            _ if !self.fits(len) => Err(PushRefusal::Full),
            _ => Ok(()),
        }
    }

    /// Rule 1: the notification that publishing must give.
    fn publish(&mut self) -> Option<u64> {
        let bytes: u64 = self
            .written
            .iter()
            .map(|packet| footprint_bytes(packet.len()))
            .sum();
        if bytes == 0 {
            return None;
        }
        self.published_tail += bytes;
        self.published.append(&mut self.written);
        let notify = !self.outstanding;
        self.outstanding = true;
        notify.then_some(self.published_tail)
    }

    /// Rule 2.
    fn doorbell(&mut self) -> Option<u64> {
        self.outstanding = self.seen_tail != self.published_tail;
        self.outstanding.then_some(self.published_tail)
    }

    /// The reader has finished with the packets at the front of the published ones. It has not seen
    /// those after them.
    fn see_up_to_published(&mut self) {
        let waiting: u64 = self
            .published
            .iter()
            .map(|packet| footprint_bytes(packet.len()))
            .sum();
        self.seen_tail = self.published_tail - waiting;
    }
}

proptest! {
    #![proptest_config(
        ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() }
    )]

    #[test]
    fn rx_behaves_as_its_model(operations in operations()) {
        let (mut nic, mut app) = rx(CAPACITY_BYTES);
        let mut model = Model::default();
        for operation in operations {
            match operation {
                Operation::Write(len) => {
                    let packet = model.next_packet(len);
                    let expected = model.push_outcome(len);
                    prop_assert_eq!(nic.push(&packet), expected);
                    if expected.is_ok() {
                        model.write(packet);
                    }
                }
                Operation::Publish => prop_assert_eq!(nic.publish(), model.publish()),
                Operation::Read(count) => {
                    model.received_tail = model.published_tail;
                    let Some(batch) = app.peek() else {
                        prop_assert!(model.published.is_empty());
                        continue;
                    };
                    prop_assert!(batch.iter().take(count).eq(model.published.iter().take(count)));
                    prop_assert_eq!(batch.iter().count(), model.published.len());
                }
                Operation::Return(count) => {
                    model.received_tail = model.published_tail;
                    let Some(batch) = app.recv() else {
                        prop_assert!(model.published.is_empty());
                        continue;
                    };
                    let count = count.min(model.published.len());
                    batch.free(count);
                    if count > 0 {
                        for packet in model.held.drain(..).chain(model.published.drain(..count)) {
                            model.held_bytes -= footprint_bytes(packet.len());
                        }
                        model.see_up_to_published();
                    }
                }
                Operation::Confirm(count) => {
                    model.received_tail = model.published_tail;
                    let Some(batch) = app.peek() else {
                        prop_assert!(model.published.is_empty());
                        continue;
                    };
                    let count = count.min(model.published.len());
                    batch.confirm(count);
                    model.held.extend(model.published.drain(..count));
                    model.see_up_to_published();
                }
                Operation::FreeHeld(count) => {
                    app.free_held(count);
                    for packet in model.held.drain(..count.min(model.held.len())) {
                        model.held_bytes -= footprint_bytes(packet.len());
                    }
                    model.see_up_to_published();
                }
                Operation::Wait => {
                    prop_assert_eq!(app.wait_for_more(), model.outstanding);
                    model.seen_tail = model.received_tail;
                }
                Operation::Doorbell => prop_assert_eq!(nic.on_doorbell(), Ok(model.doorbell())),
                Operation::Complete => prop_assert_eq!(nic.complete_tx(), None),
            }
            prop_assert!(app.held().eq(&model.held));
            prop_assert_eq!(nic.free_bytes(), USABLE_BYTES - model.held_bytes);
        }
        prop_assert_eq!(nic.violation(), None);
    }

    #[test]
    fn tx_behaves_as_its_model(operations in operations()) {
        let (mut nic, mut app) = tx(CAPACITY_BYTES);
        let mut model = Model::default();
        for operation in operations {
            match operation {
                Operation::Write(len) => {
                    let packet = model.next_packet(len);
                    let expected = match model.push_outcome(len) {
                        Ok(()) => Ok(()),
                        Err(PushRefusal::Empty) => Err(SendRefusal::Empty),
                        Err(
                            PushRefusal::TooLong { len, max },
                        ) => Err(SendRefusal::TooLong { len, max }),
                        Err(_) => Err(SendRefusal::Full),
                    };
                    prop_assert_eq!(app.send(&packet), expected);
                    if expected.is_ok() {
                        model.write(packet);
                    }
                }
                Operation::Publish => {
                    prop_assert_eq!(app.publish(), !model.written.is_empty());
                    model.publish();
                }
                Operation::Read(count) | Operation::Return(count) => {
                    for _ in 0..count.min(64) {
                        let expected = model.published.pop_front();
                        prop_assert_eq!(
                            nic.peek_tx().unwrap().map(SharedBytes::to_vec),
                            expected.clone(),
                        );
                        nic.advance_tx();
                        model.passed_bytes += expected.map_or(
                            0,
                            |packet| footprint_bytes(packet.len()),
                        );
                    }
                }
                Operation::Doorbell => prop_assert_eq!(nic.on_doorbell(), Ok(None)),
                Operation::Confirm(_) | Operation::FreeHeld(_) | Operation::Wait => {}
                Operation::Complete => {
                    prop_assert_eq!(nic.complete_tx(), None);
                    model.held_bytes -= core::mem::take(&mut model.passed_bytes);
                }
            }
            prop_assert_eq!(app.in_flight_bytes(), model.held_bytes);
            prop_assert_eq!(app.free_bytes(), USABLE_BYTES - model.held_bytes);
        }
        prop_assert_eq!(app.violation(), None);
    }

    #[test]
    fn rx_tx_behaves_as_its_model(operations in operations()) {
        let (mut nic, mut app) = rx_tx(CAPACITY_BYTES);
        let mut model = Model::default();
        for operation in operations {
            match operation {
                Operation::Write(len) => {
                    let packet = model.next_packet(len);
                    let expected = model.push_outcome(len);
                    prop_assert_eq!(nic.push(&packet), expected);
                    if expected.is_ok() {
                        model.write(packet);
                    }
                }
                Operation::Publish => prop_assert_eq!(nic.publish(), model.publish()),
                Operation::Return(count) => {
                    let Some(mut batch) = app.recv_mut() else {
                        prop_assert!(model.published.is_empty());
                        continue;
                    };
                    for expected in &mut model.published {
                        let mut packet = batch.next_packet().unwrap();
                        prop_assert_eq!(&*packet, &expected[..]);
                        packet[0] = packet[0].wrapping_add(1);
                        expected[0] = expected[0].wrapping_add(1);
                    }
                    prop_assert!(batch.next_packet().is_none());
                    let wanted = count % 2 == 0;
                    prop_assert_eq!(
                        if wanted { batch.send(count) } else { batch.discard(count) },
                        count > 0,
                    );
                    let count = count.min(model.published.len());
                    model.returned.extend(
                        model.published.drain(..count).map(|packet| (packet, wanted)),
                    );
                }
                Operation::Read(count) => {
                    for _ in 0..count.min(64) {
                        while model.returned.front().is_some_and(|(_, wanted)| !wanted) {
                            let (packet, _) = model.returned.pop_front().unwrap();
                            model.passed_bytes += footprint_bytes(packet.len());
                        }
                        let expected = model.returned.pop_front().map(|(packet, _)| packet);
                        prop_assert_eq!(
                            nic.peek_tx().unwrap().map(SharedBytes::to_vec),
                            expected.clone(),
                        );
                        nic.advance_tx();
                        model.passed_bytes += expected.map_or(
                            0,
                            |packet| footprint_bytes(packet.len()),
                        );
                    }
                }
                Operation::Doorbell => {
                    model.see_up_to_published();
                    prop_assert_eq!(nic.on_doorbell(), Ok(model.doorbell()));
                }
                Operation::Confirm(_) | Operation::FreeHeld(_) | Operation::Wait => {}
                Operation::Complete => {
                    prop_assert_eq!(nic.complete_tx(), None);
                    model.held_bytes -= core::mem::take(&mut model.passed_bytes);
                }
            }
            prop_assert_eq!(app.wait_for_more(), model.outstanding);
            prop_assert_eq!(nic.free_bytes(), USABLE_BYTES - model.held_bytes);
        }
        prop_assert_eq!(nic.violation(), None);
    }
}
