//! Channels of nodes in a line, joined by queues: whatever is opened, closed, passed and cut, and in whatever order, nobody ever hears what makes
//! no sense, frames come in order and on their own path, and nothing stays reserved.
#![allow(clippy::unwrap_used)]

use std::collections::VecDeque;

use covalent_protocol::{
    channel::{
        CHANNELS_MAX, Channels, Lie, Passed, Ready, Spot, TRANSIT_RECORDS_MAX, Unsound,
        note::{ChannelNote, CloseReason, Open, PassHead},
    },
    wire::RecordBytes,
};
use proptest::{collection::vec, prelude::*};

const ENDS: u16 = 3;
const TRANSITS: u16 = 2;
const TARGET: u64 = 9;
/// At each node: the berth towards the first one of the line, and towards the last one.
const BACK: u8 = 0;
const ON: u8 = 1;

#[derive(Debug, Clone)]
enum Said {
    Note(ChannelNote),
    Pass(PassHead, Vec<RecordBytes>),
}

/// What an end has to say: frames that name the path by a number of their own, and count.
#[derive(Debug, Clone, Default)]
struct End {
    path: u64,
    is_open: bool,
    waiting: VecDeque<Vec<RecordBytes>>,
    said: u64,
    heard: u64,
}

/// The first node opens paths to the last one.
struct Line {
    nodes: Vec<Channels>,
    /// By cable and hearing side: 0 nearer to the first node.
    under_way: Vec<[VecDeque<Said>; 2]>,
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
            channels.add_berth();
            channels.add_berth();
            channels
        };
        Self {
            nodes: (0..nodes).map(|_| node()).collect(),
            under_way: (1..nodes).map(|_| Default::default()).collect(),
            ends: [0, 1].map(|_| vec![End::default(); usize::from(ENDS)]),
            paths: 0,
        }
    }

    /// The cable at a berth of a node, and the side of it that the node is at.
    fn cable(&self, at: usize, berth: u8) -> Option<(usize, usize)> {
        match berth {
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

    /// An end that is open has one more frame to say.
    fn speak(&mut self, side: usize, end: u16, records: usize) {
        let end = &mut self.ends[side][usize::from(end)];
        if end.is_open && end.waiting.len() < 4 {
            let frame = (0..records as u64).map(|number| record(end.path, end.said + number));
            end.waiting.push_back(frame.collect());
            end.said += records as u64;
        }
    }

    fn cut(&mut self, cable: usize) {
        self.under_way[cable].iter_mut().for_each(VecDeque::clear);
        for (at, berth) in [(cable, ON), (cable + 1, BACK)] {
            let lost = self.nodes[at].on_down(berth);
            if let Some(side) = self.side(at) {
                for end in (0..ENDS).filter(|end| lost & 1 << end != 0) {
                    self.ends[side][usize::from(end)] = End::default();
                }
            }
        }
    }

    /// One message goes onto a cable: a note, or a frame.
    fn send(&mut self, at: usize, berth: u8) -> bool {
        let Some((cable, side)) = self.cable(at, berth) else {
            return false;
        };
        let node = &mut self.nodes[at];
        if let Some(note) = node.note(berth) {
            node.note_said(berth);
            self.under_way[cable][1 - side].push_back(Said::Note(note));
            return true;
        }
        let ends = [0, self.under_way.len()].iter().position(|end| *end == at);
        let speaks = |end: u16| {
            ends.is_some_and(|side| !self.ends[side][usize::from(end)].waiting.is_empty())
        };
        let Some((spot, ready)) = node.ready(berth, speaks) else {
            return false;
        };
        let said = match ready {
            Ready::Frame(records) => {
                let mut space = [[0; 64]; 23];
                let (head, taken) = node.take_frame(spot, &mut space).unwrap();
                assert_eq!(taken, records);
                Said::Pass(head, space[..taken].to_vec())
            }
            Ready::End(end) => {
                node.end_said(spot);
                let records = self.ends[ends.unwrap()][usize::from(end)]
                    .waiting
                    .pop_front();
                Said::Pass(Channels::head(spot, false), records.unwrap())
            }
        };
        self.under_way[cable][1 - side].push_back(said);
        true
    }

    /// A node hears the next message at a berth.
    fn hear(&mut self, at: usize, berth: u8) -> Result<bool, Lie> {
        let Some((cable, side)) = self.cable(at, berth) else {
            return Ok(false);
        };
        let Some(said) = self.under_way[cable][side].pop_front() else {
            return Ok(false);
        };
        match said {
            Said::Note(ChannelNote::Open(open)) => self.hear_open(at, berth, open)?,
            Said::Note(ChannelNote::Opened(number)) => {
                if let Some(end) = self.nodes[at].on_opened(berth, number)? {
                    self.paths += 1;
                    let path = self.paths;
                    self.ends[0][usize::from(end)].is_open = true;
                    self.ends[0][usize::from(end)].path = path;
                }
            }
            Said::Note(ChannelNote::Wanted(number)) => {
                if let Some(end) = self.nodes[at].on_wanted(berth, number)? {
                    assert_eq!(at, 0, "who opened it is asked");
                    assert!(self.nodes[at].spot_of(end).is_some(), "and has it");
                }
            }
            Said::Note(ChannelNote::Close {
                channel,
                why,
                opener,
            }) => {
                if let Some(end) = self.nodes[at].on_close(berth, channel, !opener, why)? {
                    let side = self.side(at).unwrap();
                    self.ends[side][usize::from(end)] = End::default();
                }
            }
            Said::Pass(head, records) => {
                if let Passed::Here(end) = self.nodes[at].on_pass(berth, head, &records)? {
                    let side = self.side(at).unwrap();
                    self.hear_frame(side, end, &records);
                }
            }
        }
        Ok(true)
    }

    fn hear_open(&mut self, at: usize, berth: u8, open: Open) -> Result<(), Lie> {
        let spot: Spot = self.nodes[at].on_open(berth, open)?;
        let last = at + 1 == self.nodes.len();
        let node = &mut self.nodes[at];
        if last {
            match (0..ENDS).find(|&end| node.spot_of(end).is_none()) {
                Some(end) => {
                    node.accept(spot, end);
                    self.ends[1][usize::from(end)] = End {
                        is_open: true,
                        // What it says of the path is the number that the other end hears first.
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

    /// All that comes on a path is of that path, in order and once.
    fn hear_frame(&mut self, side: usize, end: u16, records: &[RecordBytes]) {
        let end = &mut self.ends[side][usize::from(end)];
        for heard in records {
            let number = |at: usize| u64::from_le_bytes(heard[at..at + 8].try_into().unwrap());
            if end.heard == 0 && side == 1 {
                end.path = number(0);
            }
            if side == 1 {
                assert_eq!(number(0), end.path, "of another path");
            }
            assert_eq!(number(8), end.heard, "in order and once");
            end.heard += 1;
        }
    }

    fn settle(&mut self) -> Result<(), Lie> {
        loop {
            let mut moved = false;
            for at in 0..self.nodes.len() {
                for berth in [BACK, ON] {
                    while self.send(at, berth) {
                        moved = true;
                    }
                    while self.hear(at, berth)? {
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
    Hear(usize, u8),
    Cut(usize),
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..ENDS, 1..8u8).prop_map(|(end, hops)| Step::Open(end, hops)),
        2 => (0..2usize, 0..ENDS).prop_map(|(side, end)| Step::Close(side, end)),
        6 => (0..2usize, 0..ENDS, 1..5usize).prop_map(|(side, end, records)| Step::Speak(side, end, records)),
        20 => (0..5usize, 0..2u8).prop_map(|(at, berth)| Step::Send(at, berth)),
        20 => (0..5usize, 0..2u8).prop_map(|(at, berth)| Step::Hear(at, berth)),
        1 => (0..4usize).prop_map(Step::Cut),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn nobody_hears_what_makes_no_sense_and_nothing_stays(nodes in 2..=5usize, steps in vec(steps(), 0..300)) {
        let mut line = Line::new(nodes);
        for step in steps {
            let heard = match step {
                Step::Open(end, hops) => { line.open(end, hops); Ok(true) }
                Step::Close(side, end) => { line.close(side, end); Ok(true) }
                Step::Speak(side, end, records) => { line.speak(side, end, records); Ok(true) }
                Step::Send(at, berth) => Ok(line.send(at % nodes, berth)),
                Step::Hear(at, berth) => line.hear(at % nodes, berth),
                Step::Cut(cable) => { line.cut(cable % (nodes - 1)); Ok(true) }
            };
            prop_assert!(heard.is_ok());
            for node in &line.nodes {
                prop_assert!(node.transits() <= usize::from(TRANSITS));
                prop_assert!(node.waiting_records() <= 2 * TRANSIT_RECORDS_MAX * usize::from(TRANSITS));
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
fn more_than_there_is_room_for_ends_the_path_and_nothing_else() {
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
fn what_no_neighbour_says_is_a_lie() {
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
        "nothing was asked for there"
    );
    assert_eq!(middle.on_opened(ON, 0), Err(Lie), "it is open");
    assert_eq!(middle.on_opened(ON, 1), Err(Lie));
    let mut close = |berth, number, own| middle.on_close(berth, number, own, CloseReason::Idle);
    assert_eq!(close(BACK, 0, true), Err(Lie), "it is the other's");
    assert_eq!(close(BACK, 1, false), Err(Lie));
    let mut pass = |berth, head| middle.on_pass(berth, head, &[record(0, 0)]);
    assert_eq!(pass(BACK, head(1, true)), Err(Lie));
    assert_eq!(pass(BACK, head(0, false)), Err(Lie));
    assert_eq!(pass(7, head(0, true)), Err(Lie), "nobody is there");
    assert_eq!(pass(BACK, head(0, true)), Ok(Passed::On));
    // Before it is open, either way.
    middle.on_open(BACK, Open { channel: 1, ..open }).unwrap();
    assert_eq!(
        middle.on_pass(BACK, head(1, true), &[record(0, 0)]),
        Err(Lie)
    );
    // Once it is over: what was under way is late, and then there is no such channel.
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
    channels.add_berth();
    for end in 0..CHANNELS_MAX as u16 {
        assert!(channels.open(end, 0, TARGET, 1, 9));
    }
    let mut other = Channels::new(100, 1);
    other.add_berth();
    other.add_berth();
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
fn a_transit_on_which_nothing_passes_is_given_up() {
    let mut line = open_line(4);
    for pace in 0..8 {
        if pace == 3 {
            line.speak(0, 0, 1);
            line.settle().unwrap();
        }
        line.nodes.iter_mut().for_each(|node| {
            assert_eq!(
                node.on_pace(4),
                Unsound::default(),
                "all is as it should be"
            );
        });
        line.settle().unwrap();
        assert_eq!(line.nodes[1].transits(), usize::from(pace < 7), "{pace}");
    }
    assert!(!line.ends[0][0].is_open && !line.ends[1][0].is_open);
    line.assert_empty();
}
