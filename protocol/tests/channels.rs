//! Channels of nodes in a line, joined by queues. Under any order of opens, closes, frames and
//! cuts, no node receives an invalid message. Frames arrive in order and on their own path, and
//! nothing stays reserved.
#![allow(clippy::unwrap_used)]

use std::collections::VecDeque;

use covalent_protocol::{
    channel::{
        CHANNELS_MAX, Channels, Lie, Passed, Ready, Spot, TRANSIT_RECORDS_MAX, Unsound,
        note::{ChannelMessage, CloseReason, Open, PassHead},
    },
    wire::RecordBytes,
};
use proptest::{collection::vec, prelude::*};

const ENDS: u16 = 3;
const TRANSITS: u16 = 2;
const TARGET: u64 = 9;
/// At each node: the neighbor index towards the first node of the line, and towards the last one.
const BACK: u8 = 0;
const ON: u8 = 1;

#[derive(Debug, Clone)]
enum Sent {
    ControlMessage(ChannelMessage),
    Pass(PassHead, Vec<RecordBytes>),
}

/// The frames that an end sends: they carry a number of the path, and a count.
#[derive(Debug, Clone, Default)]
struct End {
    path: u64,
    is_open: bool,
    waiting: VecDeque<Vec<RecordBytes>>,
    sent: u64,
    received: u64,
}

/// The first node opens paths to the last one.
struct Line {
    nodes: Vec<Channels>,
    /// By cable and hearing side: 0 nearer to the first node.
    in_flight: Vec<[VecDeque<Sent>; 2]>,
    ends: [Vec<End>; 2],
    paths: u64,
}

fn record(path: u64, number: u64) -> RecordBytes {
    let mut record = [0; 64];
    record[..8].copy_from_slice(&path.to_le_bytes());
    record[8..16].copy_from_slice(&number.to_le_bytes());
    record
}

impl Line {
    fn new(nodes: usize) -> Self {
        let node = || {
            let mut channels = Channels::new(TRANSITS, ENDS);
            channels.add_neighbor();
            channels.add_neighbor();
            channels
        };
        Self {
            nodes: (0..nodes).map(|_| node()).collect(),
            in_flight: (1..nodes).map(|_| Default::default()).collect(),
            ends: [0, 1].map(|_| vec![End::default(); usize::from(ENDS)]),
            paths: 0,
        }
    }

    /// The cable at a neighbor index of a node, and the node's side of it.
    fn cable(&self, at: usize, neighbor: u8) -> Option<(usize, usize)> {
        match neighbor {
            BACK => at.checked_sub(1).map(|cable| (cable, 1)),
            _ => (at + 1 < self.nodes.len()).then_some((at, 0)),
        }
    }

    fn side(&self, at: usize) -> Option<usize> {
        [0, self.nodes.len() - 1].iter().position(|end| *end == at)
    }

    fn open(&mut self, end: u16, hops: u8) {
        if self.nodes[0].spot_of(end).is_none() && self.nodes[0].open(end, ON, TARGET, 1, hops) {
            self.ends[0][usize::from(end)] = End::default();
        }
    }

    fn close(&mut self, side: usize, end: u16) {
        let at = [0, self.nodes.len() - 1][side];
        self.nodes[at].close_end(end, CloseReason::Failed);
        self.ends[side][usize::from(end)] = End::default();
    }

    /// An open end queues one more frame.
    fn speak(&mut self, side: usize, end: u16, records: usize) {
        let end = &mut self.ends[side][usize::from(end)];
        if end.is_open && end.waiting.len() < 4 {
            let frame = (0..records as u64).map(|number| record(end.path, end.sent + number));
            end.waiting.push_back(frame.collect());
            end.sent += records as u64;
        }
    }

    fn cut(&mut self, cable: usize) {
        self.in_flight[cable].iter_mut().for_each(VecDeque::clear);
        for (at, neighbor) in [(cable, ON), (cable + 1, BACK)] {
            let lost = self.nodes[at].on_down(neighbor);
            if let Some(side) = self.side(at) {
                for end in (0..ENDS).filter(|end| lost & 1 << end != 0) {
                    self.ends[side][usize::from(end)] = End::default();
                }
            }
        }
    }

    /// One message goes onto a cable: a note, or a frame.
    fn send(&mut self, at: usize, neighbor: u8) -> bool {
        let Some((cable, side)) = self.cable(at, neighbor) else {
            return false;
        };
        let node = &mut self.nodes[at];
        if let Some(note) = node.note(neighbor) {
            node.message_sent(neighbor);
            self.in_flight[cable][1 - side].push_back(Sent::ControlMessage(note));
            return true;
        }
        let ends = [0, self.in_flight.len()].iter().position(|end| *end == at);
        let speaks = |end: u16| {
            ends.is_some_and(|side| !self.ends[side][usize::from(end)].waiting.is_empty())
        };
        let Some((spot, ready)) = node.ready(neighbor, speaks) else {
            return false;
        };
        let sent = match ready {
            Ready::Frame(records) => {
                let mut space = [[0; 64]; 23];
                let (head, taken) = node.take_frame(spot, &mut space).unwrap();
                assert_eq!(taken, records);
                Sent::Pass(head, space[..taken].to_vec())
            }
            Ready::End(end) => {
                node.end_sent(spot);
                let records = self.ends[ends.unwrap()][usize::from(end)]
                    .waiting
                    .pop_front();
                Sent::Pass(Channels::head(spot, false), records.unwrap())
            }
        };
        self.in_flight[cable][1 - side].push_back(sent);
        true
    }

    /// A node receives the next message at a neighbor index.
    fn receive(&mut self, at: usize, neighbor: u8) -> Result<bool, Lie> {
        let Some((cable, side)) = self.cable(at, neighbor) else {
            return Ok(false);
        };
        let Some(sent) = self.in_flight[cable][side].pop_front() else {
            return Ok(false);
        };
        match sent {
            Sent::ControlMessage(ChannelMessage::Open(open)) => {
                self.receive_open(at, neighbor, open)?
            }
            Sent::ControlMessage(ChannelMessage::Opened(number)) => {
                if let Some(end) = self.nodes[at].on_opened(neighbor, number)? {
                    self.paths += 1;
                    let path = self.paths;
                    self.ends[0][usize::from(end)].is_open = true;
                    self.ends[0][usize::from(end)].path = path;
                }
            }
            Sent::ControlMessage(ChannelMessage::Wanted(number)) => {
                if let Some(end) = self.nodes[at].on_wanted(neighbor, number)? {
                    assert_eq!(at, 0, "the opener is queried");
                    assert!(self.nodes[at].spot_of(end).is_some(), "and has it");
                }
            }
            Sent::ControlMessage(ChannelMessage::Close {
                channel,
                why,
                opener,
            }) => {
                if let Some(end) = self.nodes[at].on_close(neighbor, channel, !opener, why)? {
                    let side = self.side(at).unwrap();
                    self.ends[side][usize::from(end)] = End::default();
                }
            }
            Sent::Pass(head, records) => {
                if let Passed::Here(end) = self.nodes[at].on_pass(neighbor, head, &records)? {
                    let side = self.side(at).unwrap();
                    self.receive_frame(side, end, &records);
                }
            }
        }
        Ok(true)
    }

    fn receive_open(&mut self, at: usize, neighbor: u8, open: Open) -> Result<(), Lie> {
        let spot: Spot = self.nodes[at].on_open(neighbor, open)?;
        let last = at + 1 == self.nodes.len();
        let node = &mut self.nodes[at];
        if last {
            match (0..ENDS).find(|&end| node.spot_of(end).is_none()) {
                Some(end) => {
                    node.accept(spot, end);
                    self.ends[1][usize::from(end)] = End {
                        is_open: true,
                        // A placeholder: the number in the first received frame replaces it.
                        path: 1 << 32,
                        ..End::default()
                    };
                }
                None => node.refuse(spot, CloseReason::NoRoom),
            }
        } else if let Err(why) = node.pass_on(spot, ON) {
            node.refuse(spot, why);
        }
        Ok(())
    }

    /// All frames received on a path belong to that path, in order and once.
    fn receive_frame(&mut self, side: usize, end: u16, records: &[RecordBytes]) {
        let end = &mut self.ends[side][usize::from(end)];
        for received in records {
            let number = |at: usize| u64::from_le_bytes(received[at..at + 8].try_into().unwrap());
            if end.received == 0 && side == 1 {
                end.path = number(0);
            }
            if side == 1 {
                assert_eq!(number(0), end.path, "of another path");
            }
            assert_eq!(number(8), end.received, "in order and once");
            end.received += 1;
        }
    }

    fn settle(&mut self) -> Result<(), Lie> {
        loop {
            let mut moved = false;
            for at in 0..self.nodes.len() {
                for neighbor in [BACK, ON] {
                    while self.send(at, neighbor) {
                        moved = true;
                    }
                    while self.receive(at, neighbor)? {
                        moved = true;
                    }
                }
            }
            if !moved {
                return Ok(());
            }
        }
    }

    fn assert_empty(&self) {
        for (at, node) in self.nodes.iter().enumerate() {
            assert_eq!(node.taken(), 0, "channels of {at}");
            assert_eq!(node.transits(), 0, "transits of {at}");
            assert_eq!(node.waiting_records(), 0, "records at {at}");
            let counters = node.counters();
            let gone = counters.passed_records + counters.dropped_records;
            assert_eq!(counters.taken_records, gone, "books of {at}");
        }
    }
}

#[derive(Debug, Clone)]
enum Step {
    Open(u16, u8),
    Close(usize, u16),
    Speak(usize, u16, usize),
    Send(usize, u8),
    Receive(usize, u8),
    Cut(usize),
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..ENDS, 1..8u8).prop_map(|(end, hops)| Step::Open(end, hops)),
        2 => (0..2usize, 0..ENDS).prop_map(|(side, end)| Step::Close(side, end)),
        6 => (0..2usize, 0..ENDS, 1..5usize).prop_map(
            |(side, end, records)| Step::Speak(side, end, records),
        ),
        20 => (0..5usize, 0..2u8).prop_map(|(at, neighbor)| Step::Send(at, neighbor)),
        20 => (0..5usize, 0..2u8).prop_map(|(at, neighbor)| Step::Receive(at, neighbor)),
        1 => (0..4usize).prop_map(Step::Cut),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn no_end_receives_nonsense_and_nothing_stays_reserved(
        nodes in 2..=5usize,
        steps in vec(steps(), 0..300),
    ) {
        let mut line = Line::new(nodes);
        for step in steps {
            let received = match step {
                Step::Open(end, hops) => { line.open(end, hops); Ok(true) }
                Step::Close(side, end) => { line.close(side, end); Ok(true) }
                Step::Speak(side, end, records) => { line.speak(side, end, records); Ok(true) }
                Step::Send(at, neighbor) => Ok(line.send(at % nodes, neighbor)),
                Step::Receive(at, neighbor) => line.receive(at % nodes, neighbor),
                Step::Cut(cable) => { line.cut(cable % (nodes - 1)); Ok(true) }
            };
            prop_assert!(received.is_ok());
            for node in &line.nodes {
                prop_assert!(node.transits() <= usize::from(TRANSITS));
                prop_assert!(
                    node.waiting_records() <= 2 * TRANSIT_RECORDS_MAX * usize::from(TRANSITS),
                );
            }
        }
        prop_assert_eq!(line.settle(), Ok(()));
        for side in [0, 1] {
            for end in 0..ENDS {
                line.close(side, end);
            }
        }
        prop_assert_eq!(line.settle(), Ok(()));
        line.assert_empty();
    }
}

/// A line with one path that is open at both of its ends.
fn open_line(nodes: usize) -> Line {
    let mut line = Line::new(nodes);
    line.open(0, 9);
    line.settle().unwrap();
    assert!(line.ends[0][0].is_open && line.ends[1][0].is_open);
    line
}

fn head(channel: u8, opener: bool) -> PassHead {
    PassHead {
        channel,
        opener,
        to_all: false,
    }
}

#[test]
fn an_overrun_ends_its_path_and_nothing_else() {
    let mut line = open_line(3);
    line.open(1, 9);
    line.settle().unwrap();
    let frame = [record(1, 0); 16];
    for _ in 0..TRANSIT_RECORDS_MAX / 16 {
        assert_eq!(
            line.nodes[1].on_pass(BACK, head(0, true), &frame),
            Ok(Passed::On)
        );
    }
    assert_eq!(line.nodes[1].waiting_records(), TRANSIT_RECORDS_MAX);
    assert_eq!(
        line.nodes[1].on_pass(BACK, head(0, true), &frame[..1]),
        Ok(Passed::Dropped)
    );
    assert_eq!(line.nodes[1].waiting_records(), 0);
    assert_eq!(line.nodes[1].transits(), 1, "the other path");
    line.settle().unwrap();
    assert!(
        !line.ends[0][0].is_open && !line.ends[1][0].is_open,
        "both ends know"
    );
    assert!(line.ends[0][1].is_open && line.ends[1][1].is_open);
}

#[test]
fn messages_that_no_neighbor_sends_are_violations() {
    let mut line = open_line(3);
    let open = Open {
        hops_left: 3,
        channel: 0,
        target: TARGET,
        origin: 1,
    };
    let middle = &mut line.nodes[1];
    assert_eq!(middle.on_open(BACK, open), Err(Lie), "the number is taken");
    assert_eq!(
        middle.on_opened(BACK, 0),
        Err(Lie),
        "nothing was requested there"
    );
    assert_eq!(middle.on_opened(ON, 0), Err(Lie), "it is open");
    assert_eq!(middle.on_opened(ON, 1), Err(Lie));
    let mut close =
        |neighbor, number, own| middle.on_close(neighbor, number, own, CloseReason::Idle);
    assert_eq!(close(BACK, 0, true), Err(Lie), "it is the other's");
    assert_eq!(close(BACK, 1, false), Err(Lie));
    let mut pass = |neighbor, head| middle.on_pass(neighbor, head, &[record(0, 0)]);
    assert_eq!(pass(BACK, head(1, true)), Err(Lie));
    assert_eq!(pass(BACK, head(0, false)), Err(Lie));
    assert_eq!(pass(7, head(0, true)), Err(Lie), "no path is there");
    assert_eq!(pass(BACK, head(0, true)), Ok(Passed::On));
    // Before it is open, either way.
    middle.on_open(BACK, Open { channel: 1, ..open }).unwrap();
    assert_eq!(
        middle.on_pass(BACK, head(1, true), &[record(0, 0)]),
        Err(Lie)
    );
    // After the close, a frame in flight is late, and then there is no such channel.
    line.close(0, 0);
    let first = &mut line.nodes[0];
    assert_eq!(
        first.on_pass(ON, head(0, false), &[record(0, 0)]),
        Ok(Passed::Dropped)
    );
    assert_eq!(first.counters().late_records, 1);
    assert_eq!(first.on_close(ON, 0, true, CloseReason::Idle), Ok(None));
    assert_eq!(first.on_pass(ON, head(0, false), &[record(0, 0)]), Err(Lie));
}

#[test]
fn there_are_so_many_channels_and_no_more() {
    let mut channels = Channels::new(0, 64);
    channels.add_neighbor();
    for end in 0..CHANNELS_MAX as u16 {
        assert!(channels.open(end, 0, TARGET, 1, 9));
    }
    let mut other = Channels::new(100, 1);
    other.add_neighbor();
    other.add_neighbor();
    for channel in 0..CHANNELS_MAX as u8 {
        let open = Open {
            hops_left: 9,
            channel,
            target: TARGET,
            origin: 1,
        };
        let spot = other.on_open(0, open).unwrap();
        assert_eq!(other.pass_on(spot, 1), Ok(()));
    }
    assert!(!other.open(0, 1, TARGET, 1, 9), "all numbers are given");
    let open = Open {
        hops_left: 9,
        channel: 3,
        target: TARGET,
        origin: 1,
    };
    let spot = other.on_open(1, open).unwrap();
    assert_eq!(
        other.pass_on(spot, 0),
        Ok(()),
        "the other way they are others"
    );
    assert_eq!(other.transits(), CHANNELS_MAX + 1);
}

#[test]
fn an_idle_transit_is_released() {
    let mut line = open_line(4);
    for tick in 0..8 {
        if tick == 3 {
            line.speak(0, 0, 1);
            line.settle().unwrap();
        }
        line.nodes.iter_mut().for_each(|node| {
            assert_eq!(
                node.on_tick(4),
                Unsound::default(),
                "all is as it should be"
            );
        });
        line.settle().unwrap();
        assert_eq!(line.nodes[1].transits(), usize::from(tick < 7), "{tick}");
    }
    assert!(!line.ends[0][0].is_open && !line.ends[1][0].is_open);
    line.assert_empty();
}
