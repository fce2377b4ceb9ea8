//! Frames that go on from one port to another while they are shown: their buffer goes with them.

use covalent_config::HugePages;
use covalent_dataplane::port::{Port, dpdk::ring_pair};

use crate::{
    devices::{self, number, open_all},
    frames::frame,
    pair::{LivePair, collect, until},
};

/// left ↔ in, out ↔ right, on rings: `in` and `out` are the ports of the forwarder.
struct Chain {
    left: Box<dyn Port>,
    entry: Box<dyn Port>,
    exit: Box<dyn Port>,
    right: Box<dyn Port>,
}

fn chain() -> Chain {
    let pair = || {
        let number = number();
        let ports = [
            devices::port(&format!("net_ring_one{number}")),
            devices::port(&format!("net_ring_other{number}")),
        ];
        drop(open_all(
            &[devices::port(&format!("net_null{number}"))],
            HugePages::Never,
        ));
        ring_pair(&ports, 512).unwrap();
        devices::pair(&ports)
    };
    let LivePair {
        near: left,
        far: entry,
    } = pair();
    let LivePair {
        near: exit,
        far: right,
    } = pair();
    Chain {
        left,
        entry,
        exit,
        right,
    }
}

impl Chain {
    fn send(&mut self, frames: &[Vec<u8>]) {
        for frame in frames {
            self.left.tx(frame).unwrap();
        }
        self.left.flush().unwrap();
    }

    fn arrived(&mut self, count: usize) -> Vec<Vec<u8>> {
        let mut arrived = Vec::new();
        until("the frames arrive", || {
            self.exit.flush().unwrap();
            collect(&mut *self.right, 64, &mut arrived);
            arrived.len() >= count
        });
        arrived
    }
}

fn some_frames() -> Vec<Vec<u8>> {
    (0..50)
        .map(|number| frame(number, 64 + number as usize))
        .collect()
}

#[test]
fn forwarded_frames_arrive_whole_and_in_order() {
    let mut chain = chain();
    let frames = some_frames();
    for _ in 0..200 {
        chain.send(&frames);
        let Chain { entry, exit, .. } = &mut chain;
        entry.receive(64, |frame| exit.tx(frame).unwrap()).unwrap();
        assert!(chain.arrived(frames.len()) == frames);
    }
    let counters = chain.entry.counters();
    assert!(
        counters.drops.iter().all(|(_, count)| *count == 0),
        "{:?}",
        counters.drops
    );
}

#[test]
fn a_frame_may_be_forwarded_twice_and_read_after_a_flush() {
    let mut chain = chain();
    let frames = some_frames();
    chain.send(&frames);
    let Chain { entry, exit, .. } = &mut chain;
    let mut seen = Vec::new();
    entry
        .receive(64, |frame| {
            exit.tx(frame).unwrap();
            exit.flush().unwrap();
            exit.tx(frame).unwrap();
            // It is still the frame that arrived, whatever port has its buffer by now.
            seen.push(frame.to_vec());
        })
        .unwrap();
    assert!(seen == frames);
    let arrived = chain.arrived(2 * frames.len());
    let twice: Vec<_> = frames
        .iter()
        .flat_map(|frame| [frame.clone(), frame.clone()])
        .collect();
    assert!(arrived == twice);
}

#[test]
fn a_part_of_a_frame_is_copied() {
    let mut chain = chain();
    let frames = some_frames();
    chain.send(&frames);
    let Chain { entry, exit, .. } = &mut chain;
    entry
        .receive(64, |frame| exit.tx(&frame[..60]).unwrap())
        .unwrap();
    let parts: Vec<_> = frames.iter().map(|frame| frame[..60].to_vec()).collect();
    assert!(chain.arrived(frames.len()) == parts);
}

#[test]
fn a_port_that_receives_while_another_shows_disturbs_nothing() {
    let mut chain = chain();
    let mut other = self::chain();
    let frames = some_frames();
    chain.send(&frames);
    other.send(&frames);
    let Chain { entry, exit, .. } = &mut chain;
    let mut inner = Vec::new();
    entry
        .receive(64, |frame| {
            exit.tx(frame).unwrap();
            other
                .entry
                .receive(1, |within| {
                    inner.push(within.to_vec());
                    exit.flush().unwrap();
                    assert_eq!(frame.len(), within.len());
                })
                .unwrap();
        })
        .unwrap();
    assert!(inner == frames);
    assert!(chain.arrived(frames.len()) == frames);
}
