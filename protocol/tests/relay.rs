//! A triangle: where no link leads to the responder any more, a neighbor passes the question on.
#![allow(clippy::unwrap_used)]

mod support;

use std::collections::VecDeque;

use covalent_protocol::{
    Answer, DownReason, ExchangeId, Execution, FRAME_BYTES_MAX, Host, LinkEvent, LinkState,
    LinkView, Mode, Name, Node, NodeConfig, Outcome, QueryError, Refusal, Reply, wire::slice::Kind,
};
use support::{Ending, Journal, forge};

const A: usize = 0;
const B: usize = 1;
const C: usize = 2;
const D: usize = 3;
const GUIDS: [u64; 4] = [0xa, 0xb, 0xc, 0xd];
/// The cables of the triangle.
const AB: usize = 0;
const AC: usize = 1;
const CB: usize = 2;

const PAYLOAD: &[u8] = b"take 5 from 1, give them to 2";
const TOKEN: u64 = 42;
const ROOM: u32 = 40;

/// The reported outcome of a named exchange.
#[derive(Debug, Clone, PartialEq, Eq)]
enum OwnedAnswer {
    Committed(Vec<u8>),
    Refused(Refusal),
    Undone,
    NeverSeen,
    Forgotten,
}

/// A program that keeps a journal and queries names.
#[derive(Debug, Default)]
struct Program {
    journal: Journal,
    names: Vec<(u64, ExchangeId)>,
    answers: Vec<(u64, OwnedAnswer)>,
}

impl Host for Program {
    fn admit(&mut self, id: &ExchangeId, mode: Mode, payload: &[u8]) -> Result<(), Refusal> {
        self.journal.admit(id, mode, payload)
    }

    fn execute(&mut self, id: &ExchangeId, payload: &[u8], reply: &mut Reply) -> Execution {
        self.journal.execute(id, payload, reply)
    }

    fn reverse(&mut self, id: &ExchangeId, payload: &[u8]) {
        self.journal.reverse(id, payload);
    }

    fn complete(&mut self, token: u64, outcome: Outcome<'_>) {
        self.journal.complete(token, outcome);
    }

    fn in_doubt(&mut self, token: u64, id: &ExchangeId) {
        self.names.push((token, *id));
        self.journal.in_doubt(token, id);
    }

    fn answered(&mut self, token: u64, answer: Answer<'_>) {
        let owned_answer = match answer {
            Answer::Committed(reply) => OwnedAnswer::Committed(reply.to_vec()),
            Answer::Refused(refusal) => OwnedAnswer::Refused(refusal),
            Answer::Undone => OwnedAnswer::Undone,
            Answer::NeverSeen => OwnedAnswer::NeverSeen,
            Answer::Forgotten => OwnedAnswer::Forgotten,
        };
        self.answers.push((token, owned_answer));
    }

    fn link_event(&mut self, event: LinkEvent) {
        self.journal.link_event(event);
    }
}

struct Station {
    node: Node,
    program: Program,
    ports: u16,
}

/// A cable: node and port of both ends, and the frames in flight to each.
struct Cable {
    ends: [(usize, u16); 2],
    in_flight: [VecDeque<Vec<u8>>; 2],
    cut: bool,
}

struct Net {
    stations: Vec<Station>,
    cables: Vec<Cable>,
    incarnations: u64,
}

fn make_node(at: usize, incarnation: u64, ports: u16) -> Node {
    let name = Name::new(["a", "b", "c", "d"][at]).unwrap();
    let mut node = Node::new(NodeConfig {
        slots: 16,
        keepalive_misses_max: 4,
        transactions_max: ROOM as usize,
        ..NodeConfig::new(GUIDS[at], incarnation, name)
    });
    for port in 0..ports {
        node.add_link(port, [2, 0, 0, 0, at as u8, port as u8])
            .unwrap();
    }
    node
}

impl Net {
    /// Nodes with these cables between them, all up.
    fn new(cables: &[(usize, usize)]) -> Self {
        let count = cables.iter().map(|&(a, b)| a.max(b)).max().unwrap() + 1;
        let mut ports = vec![0; count];
        let mut end = |at: usize| {
            ports[at] += 1;
            (at, ports[at] - 1)
        };
        let cables: Vec<_> = cables
            .iter()
            .map(|&(a, b)| Cable {
                ends: [end(a), end(b)],
                in_flight: [VecDeque::new(), VecDeque::new()],
                cut: false,
            })
            .collect();
        let stations = (0..count)
            .map(|at| Station {
                node: make_node(at, 100 + at as u64, ports[at]),
                program: Program::default(),
                ports: ports[at],
            })
            .collect();
        let mut net = Self {
            stations,
            cables,
            incarnations: 200,
        };
        for cable in 0..net.cables.len() {
            net.carrier(cable, true);
        }
        net.settle();
        net
    }

    fn triangle() -> Self {
        let net = Self::new(&[(A, B), (A, C), (C, B)]);
        for station in &net.stations {
            assert!(station.node.links().all(|link| link.state == LinkState::Up));
        }
        net
    }

    fn carrier_at(&mut self, cable: usize, end: usize, up: bool) {
        let (at, port) = self.cables[cable].ends[end];
        let Station { node, program, .. } = &mut self.stations[at];
        node.on_carrier(port, up, program);
    }

    fn carrier(&mut self, cable: usize, up: bool) {
        self.carrier_at(cable, 0, up);
        self.carrier_at(cable, 1, up);
    }

    fn pull(&mut self, cable: usize) {
        self.lose(cable);
        self.cables[cable].cut = true;
        self.carrier(cable, false);
    }

    fn plug(&mut self, cable: usize) {
        self.cables[cable].cut = false;
        self.carrier(cable, true);
    }

    fn lose(&mut self, cable: usize) {
        self.cables[cable]
            .in_flight
            .iter_mut()
            .for_each(VecDeque::clear);
    }

    /// The node at `end` of a cable puts everything on it that it has to send there.
    fn send(&mut self, cable: usize, end: usize) {
        let (at, port) = self.cables[cable].ends[end];
        let mut buffer = [0xee; FRAME_BYTES_MAX];
        let node = &mut self.stations[at].node;
        while let Some(len) = node.poll_transmit(port, &mut buffer) {
            if !self.cables[cable].cut {
                self.cables[cable].in_flight[1 - end].push_back(buffer[..len].to_vec());
            }
        }
        assert!(!node.has_work(port), "poll_transmit and has_work agree");
    }

    /// The next frame in flight to `end` of a cable arrives.
    fn deliver(&mut self, cable: usize, end: usize) -> bool {
        let Some(frame) = self.cables[cable].in_flight[end].pop_front() else {
            return false;
        };
        let (at, port) = self.cables[cable].ends[end];
        let Station { node, program, .. } = &mut self.stations[at];
        node.on_frame(port, &frame, program);
        true
    }

    fn forward(&mut self, cable: usize, from: usize) {
        self.send(cable, from);
        while self.deliver(cable, 1 - from) {}
    }

    fn tick(&mut self) {
        for Station { node, program, .. } in &mut self.stations {
            node.on_tick(program);
        }
    }

    fn settle(&mut self) {
        for _ in 0..10_000 {
            let mut moved = false;
            for cable in 0..self.cables.len() {
                self.send(cable, 0);
                self.send(cable, 1);
            }
            for cable in 0..self.cables.len() {
                for end in [0, 1] {
                    while self.deliver(cable, end) {
                        moved = true;
                    }
                }
            }
            if !moved {
                return;
            }
        }
        panic!("the net never became quiescent");
    }

    fn run(&mut self, ticks: usize) {
        for _ in 0..ticks {
            self.tick();
            self.settle();
        }
    }

    fn restart(&mut self, at: usize) {
        self.incarnations += 1;
        self.stations[at].node = make_node(at, self.incarnations, self.stations[at].ports);
        for cable in 0..self.cables.len() {
            for end in [0, 1] {
                if self.cables[cable].ends[end].0 == at && !self.cables[cable].cut {
                    self.carrier_at(cable, end, true);
                }
            }
        }
    }

    fn submit(&mut self, from: usize, to: usize, mode: Mode, payload: &[u8], token: u64) {
        self.stations[from]
            .node
            .submit(GUIDS[to], mode, payload, token)
            .unwrap();
    }

    fn query(&mut self, at: usize, name: &ExchangeId, token: u64) -> Result<(), QueryError> {
        let Station { node, program, .. } = &mut self.stations[at];
        node.query(name, token, program)
    }

    fn program(&self, at: usize) -> &Program {
        &self.stations[at].program
    }

    fn executed(&self, at: usize) -> Vec<&[u8]> {
        let executed = &self.program(at).journal.executed;
        executed.iter().map(|(_, payload)| &payload[..]).collect()
    }

    fn completed(&self, at: usize) -> &[(u64, Ending)] {
        &self.program(at).journal.completed
    }

    fn link(&self, at: usize, port: usize) -> LinkView<'_> {
        self.stations[at].node.links().nth(port).unwrap()
    }

    /// Takes the first `steps` steps of an exchange that A starts with B, over the cable between
    /// them.
    fn walk(&mut self, mode: Mode, steps: usize) {
        self.submit(A, B, mode, PAYLOAD, TOKEN);
        for step in 0..steps {
            match step % 4 {
                0 => self.send(AB, 0),
                1 => assert!(self.deliver(AB, 1)),
                2 => self.send(AB, 1),
                _ => assert!(self.deliver(AB, 0)),
            }
        }
    }

    /// Everything has ended and nothing is held anywhere.
    fn assert_at_rest(&self, what: &str) {
        for station in &self.stations {
            assert_eq!(station.node.in_doubt(), 0, "{what}");
            assert_eq!(station.node.room(), ROOM, "{what}");
            assert!(station.program.journal.admitted.is_empty(), "{what}");
            assert!(
                station.node.links().all(|link| link.open_transactions == 0),
                "{what}"
            );
        }
    }

    fn assert_once(&self, what: &str) {
        assert_eq!(self.executed(B), [PAYLOAD], "{what}");
        let reply = self.program(B).journal.reply_to(PAYLOAD);
        assert_eq!(
            self.completed(A),
            [(TOKEN, Ending::Committed(reply))],
            "{what}"
        );
        self.assert_at_rest(what);
    }
}

const fn steps(mode: Mode) -> usize {
    match mode {
        Mode::OnePhase => 4,
        Mode::TwoPhase => 8,
    }
}

fn every_cut(visit: impl Fn(Mode, usize, &str)) {
    for mode in [Mode::OnePhase, Mode::TwoPhase] {
        for cut in 0..=steps(mode) {
            visit(mode, cut, &format!("{mode:?}, cut behind step {cut}"));
        }
    }
}

/// Whether B executed an exchange that was cut there.
const fn is_executed(mode: Mode, cut: usize) -> bool {
    match mode {
        Mode::OnePhase => cut >= 2,
        Mode::TwoPhase => cut >= 6,
    }
}

#[test]
fn a_cut_for_good_is_resolved_over_the_neighbor() {
    every_cut(|mode, cut, what| {
        let mut net = Net::triangle();
        net.walk(mode, cut);
        net.pull(AB);
        net.settle();
        let executed = usize::from(is_executed(mode, cut));
        assert_eq!(net.executed(B).len(), executed, "{what}");
        assert_eq!(
            net.completed(A).len(),
            executed,
            "the answer arrived without a link to B: {what}"
        );
        assert_eq!(net.stations[A].node.in_doubt(), 0, "{what}");
        assert!(net.program(A).journal.in_doubt.is_empty(), "{what}");
        assert!(net.program(B).journal.admitted.is_empty(), "{what}");
        let passed_on = u64::from((1..steps(mode)).contains(&cut));
        assert_eq!(net.link(A, 1).counters.relayed, passed_on, "{what}");
        assert_eq!(net.link(C, 0).counters.relays_passed, passed_on, "{what}");
        net.run(8);
        assert_eq!(
            net.executed(B).len(),
            executed,
            "nothing more without a link: {what}"
        );
        net.plug(AB);
        net.run(2);
        net.assert_once(what);
    });
}

/// B did not see the link fail: it still holds the exchange that A queries, and A's earlier
/// messages may arrive after the reply.
#[test]
fn a_relayed_query_may_overtake_records_in_flight() {
    every_cut(|mode, cut, what| {
        let mut net = Net::triangle();
        net.walk(mode, cut);
        net.carrier_at(AB, 0, false);
        net.forward(AC, 0);
        net.forward(CB, 0);
        net.forward(CB, 1);
        net.forward(AC, 1);
        net.settle();
        assert_eq!(net.stations[A].node.in_doubt(), 0, "{what}");
        assert!(net.executed(B).len() <= 1, "{what}");
        net.carrier_at(AB, 0, true);
        net.run(4);
        net.assert_once(what);
    });
}

/// Many exchanges with long replies: more than may be in flight through a neighbor at a time.
#[test]
fn many_exchanges_with_long_replies_are_learned_in_turn() {
    let mut net = Net::triangle();
    net.stations[B].program.journal.reply_bytes = Some(covalent_protocol::MAX_PAYLOAD_BYTES);
    for token in 0..16 {
        net.submit(A, B, Mode::OnePhase, &[token as u8 + 1], token);
    }
    net.send(AB, 0);
    while net.deliver(AB, 1) {}
    net.pull(AB);
    net.settle();
    assert_eq!(net.executed(B).len(), 16);
    let mut completed = net.completed(A).to_vec();
    completed.sort_by_key(|(token, _)| *token);
    let expected: Vec<_> = (0..16)
        .map(|token| {
            let reply = net.program(B).journal.reply_to(&[token as u8 + 1]);
            (token, Ending::Committed(reply))
        })
        .collect();
    assert_eq!(completed, expected);
    net.assert_at_rest("long replies");
    assert_eq!(net.link(A, 1).counters.relayed, 16);
}

/// The neighbor restarts, or its links fail, while it holds a query or a reply: the query is
/// repeated.
#[test]
fn the_neighbor_fails_in_the_middle() {
    // Which cables fail, or whether C restarts.
    for failure in 0..3 {
        for step in 0..4 {
            let what = format!("failure {failure} behind step {step}");
            let mut net = Net::triangle();
            net.walk(Mode::TwoPhase, 7);
            net.pull(AB);
            let legs = [(AC, 0), (CB, 0), (CB, 1), (AC, 1)];
            for &(cable, end) in &legs[..step] {
                net.forward(cable, end);
            }
            // The next message is in flight and lost.
            net.send(legs[step].0, legs[step].1);
            match failure {
                0 => net.pull(AC),
                1 => net.pull(CB),
                _ => {
                    net.lose(AC);
                    net.lose(CB);
                    net.restart(C);
                }
            }
            net.settle();
            if failure < 2 {
                assert!(
                    net.completed(A).is_empty() || failure == 1 && step == 3,
                    "{what}"
                );
                net.run(3);
                let doubted = net.completed(A).is_empty();
                assert_eq!(
                    net.stations[A].node.in_doubt(),
                    u64::from(doubted),
                    "{what}"
                );
                assert_eq!(net.program(A).journal.in_doubt.len(), usize::from(doubted));
                net.plug([AC, CB][failure]);
            }
            net.run(3);
            net.assert_once(&what);
        }
    }
}

/// No node has a path: the caller is in doubt, with the name, and gets the outcome when any path
/// returns.
#[test]
fn without_any_path_the_caller_is_in_doubt_until_one_returns() {
    every_cut(|mode, cut, what| {
        for path in [AB, CB] {
            let mut net = Net::triangle();
            net.pull(CB);
            net.walk(mode, cut);
            net.pull(AB);
            net.run(6);
            let open = (1..steps(mode)).contains(&cut);
            assert_eq!(net.stations[A].node.in_doubt(), u64::from(open), "{what}");
            let names = &net.program(A).names;
            assert_eq!(names.len(), usize::from(open), "reported once: {what}");
            if let [(token, name)] = names[..] {
                assert_eq!(
                    (token, name.peer, name.port),
                    (TOKEN, GUIDS[B], 0),
                    "{what}"
                );
            }
            net.plug(path);
            net.run(2);
            assert_eq!(net.stations[A].node.in_doubt(), 0, "{what}");
            if path == CB {
                let done = usize::from(is_executed(mode, cut));
                assert_eq!(net.completed(A).len(), done, "{what}");
                net.plug(AB);
                net.run(2);
            }
            net.assert_once(what);
        }
    });
}

/// A second neighbor is queried when the first has no path.
#[test]
fn each_neighbor_is_queried_in_turn() {
    let mut net = Net::new(&[(A, B), (A, C), (A, D), (D, B)]);
    net.walk(Mode::OnePhase, 2);
    net.pull(AB);
    net.settle();
    assert_eq!(net.link(C, 0).counters.relays_passed, 0);
    assert_eq!(net.link(D, 0).counters.relays_passed, 1);
    assert!(net.program(A).journal.in_doubt.is_empty());
    net.assert_once("over the second neighbor");
}

/// B is two neighbors away: that is one hop too many.
#[test]
fn a_question_goes_one_hop_and_no_further() {
    let mut net = Net::new(&[(A, B), (A, C), (C, D), (D, B)]);
    net.walk(Mode::OnePhase, 2);
    net.pull(AB);
    net.run(5);
    assert_eq!(net.stations[A].node.in_doubt(), 1);
    assert_eq!(net.link(D, 0).counters.relays_passed, 0);
    net.plug(AB);
    net.run(2);
    net.assert_once("when the link returns");

    // C has a link to B, but A queries in another node's name, as if it relayed the query.
    let mut net = Net::triangle();
    net.walk(Mode::OnePhase, 2);
    net.pull(AB);
    net.send(AC, 0);
    let frame = &mut net.cables[AC].in_flight[1][0];
    let at = places(frame, Kind::Relay)[0];
    forge(frame, at, |record| record[PAYLOAD_AT[0]] = GUIDS[D] as u8);
    net.settle();
    assert_eq!(net.link(C, 0).counters.relays_passed, 0);
    assert_eq!(net.stations[A].node.in_doubt(), 1);
    net.run(1);
    assert_eq!(net.link(C, 0).counters.relays_passed, 1);
    net.assert_once("queried again in its own name");
}

/// Two nodes query their exchanges with B over the same neighbor at the same time, more than it has
/// table entries.
#[test]
fn two_requesters_share_the_places_of_the_neighbor() {
    let mut net = Net::new(&[(A, B), (A, C), (C, B), (D, B), (D, C)]);
    let cables = [0, 3];
    for (from, cable) in [A, D].into_iter().zip(cables) {
        for token in 0..12 {
            net.submit(from, B, Mode::OnePhase, &[from as u8, token as u8], token);
        }
        net.send(cable, 0);
        while net.deliver(cable, 1) {}
    }
    assert_eq!(net.executed(B).len(), 24);
    for cable in cables {
        net.pull(cable);
    }
    // All queries of both arrive at C before B answers any: C has table entries for eight of the
    // sixteen.
    net.forward(1, 0);
    net.forward(4, 0);
    assert_eq!(
        net.link(C, 0).counters.relays_passed + net.link(C, 2).counters.relays_passed,
        8
    );
    net.run(4);
    for from in [A, D] {
        let mut tokens: Vec<_> = net.completed(from).iter().map(|done| done.0).collect();
        tokens.sort_unstable();
        assert_eq!(tokens, (0..12).collect::<Vec<_>>());
    }
    assert_eq!(net.executed(B).len(), 24);
    net.assert_at_rest("two askers");
}

#[test]
fn a_restarted_responder_reports_it_over_the_neighbor() {
    let mut net = Net::triangle();
    net.walk(Mode::TwoPhase, 7);
    net.pull(AB);
    net.restart(B);
    net.run(3);
    assert_eq!(net.completed(A), [(TOKEN, Ending::PeerRestarted)]);
    net.assert_at_rest("a restart");
    net.plug(AB);
    net.submit(A, B, Mode::TwoPhase, b"afterwards", 7);
    net.run(2);
    assert_eq!(net.completed(A).len(), 2);
}

/// The neighbor reports "undone" for an exchange that B executed. A does not resubmit it because of
/// that.
#[test]
fn a_neighbor_that_lies_causes_no_second_execution() {
    for lie in [0u8, 4] {
        let mut net = Net::triangle();
        net.walk(Mode::TwoPhase, 7);
        net.pull(AB);
        for (cable, end) in [(AC, 0), (CB, 0), (CB, 1)] {
            net.forward(cable, end);
        }
        net.send(AC, 1);
        for frame in &mut net.cables[AC].in_flight[0] {
            for at in places(frame, Kind::Relayed) {
                forge(frame, at, |record| record[PAYLOAD_AT[0] + 2] = lie);
            }
        }
        net.settle();
        assert!(net.completed(A).is_empty());
        assert_eq!(net.stations[A].node.in_doubt(), 0, "C is believed so far");
        net.run(5);
        assert_eq!(net.executed(B), [PAYLOAD]);
        net.plug(AB);
        net.run(2);
        net.assert_once("B's own word counts");
    }
}

/// The neighbor sends queries in A's name that A never sent. The worst effect is a failed link and
/// a resubmitted exchange.
#[test]
fn a_neighbor_that_queries_in_another_name_causes_no_second_execution() {
    every_cut(|mode, cut, what| {
        for commit in [false, true] {
            let mut net = with_questions_at_the_neighbor();
            net.walk(mode, cut);
            let epoch = net.link(A, 0).epoch;
            let question = question(&net, 0, commit, epoch, 1);
            lie(&mut net, &[question]);
            net.run(10);
            net.assert_once(what);
        }
    });
}

/// A question that names another epoch is about another exchange.
#[test]
fn a_question_with_another_epoch_is_about_nothing_known() {
    for (cut, ending) in [(2, 0), (4, 0), (7, 1)] {
        let mut net = with_questions_at_the_neighbor();
        net.walk(Mode::TwoPhase, cut);
        let epoch = net.link(A, 0).epoch;
        let question = |commit, epoch| question(&net, 0, commit, epoch, 1);
        let others = [question(false, epoch + 1), question(true, epoch + 1)];
        let right = question(false, epoch);
        assert_eq!(lie(&mut net, &others), [3, 3], "forgotten");
        assert!(net.program(B).journal.reversed.is_empty());
        assert_eq!(net.executed(B).len(), usize::from(cut >= 6));
        let mut net = with_questions_at_the_neighbor();
        net.walk(Mode::TwoPhase, cut);
        assert_eq!(lie(&mut net, &[right]), [ending]);
        net.run(10);
        net.assert_once("the exchange ends");
    }
}

/// "Never seen" and "undone" are distinguished and final, and neither exchange is executed when it
/// arrives after all.
#[test]
fn never_seen_and_undone_are_latched() {
    for (cut, ending) in [(1, 4), (2, 0)] {
        let mut net = with_questions_at_the_neighbor();
        net.walk(Mode::TwoPhase, cut);
        let epoch = net.link(A, 0).epoch;
        let question = question(&net, 0, false, epoch, 1);
        let questions = [question.clone(), question.clone(), question];
        assert_eq!(lie(&mut net, &questions), [ending; 3]);
        net.forward(AB, 0);
        assert!(net.executed(B).is_empty(), "it arrives after the answer");
        net.pull(AB);
        net.settle();
        assert_eq!(net.stations[A].node.in_doubt(), 0);
        assert!(net.executed(B).is_empty());
        net.plug(AB);
        net.run(4);
        net.assert_once("applied again");
        let counters = net.link(A, 0).counters;
        assert_eq!(counters.never_seen, u64::from(ending == 4));
        assert_eq!((counters.reversed, counters.resolved), (1, 1));
    }
}

/// A query of an incarnation of the initiator that the responder never met settles nothing.
#[test]
fn a_query_of_another_incarnation_settles_nothing() {
    let mut net = with_questions_at_the_neighbor();
    net.walk(Mode::TwoPhase, 2);
    let mut question = question(&net, 0, false, net.link(A, 0).epoch, 1);
    question[8] ^= 1;
    assert_eq!(lie(&mut net, &[question]), [5], "no path");
    assert!(net.program(B).journal.reversed.is_empty());
    net.run(10);
    net.assert_once("untouched");
}

/// More questions than there are places, under a valid CRC: the worst is a failed link.
#[test]
fn a_place_has_one_question_at_a_time() {
    let mut net = with_questions_at_the_neighbor();
    net.send(CB, 0);
    let frame = &mut net.cables[CB].in_flight[1][0];
    let at = places(frame, Kind::Relay);
    forge(frame, at[1], |record| record[SLOT_AT] = 0);
    net.deliver(CB, 1);
    assert_eq!(
        net.program(B).journal.downs().last(),
        Some(&DownReason::Violation)
    );
    net.run(10);
    net.assert_at_rest("a failed link");
}

/// A caller that queries by name while the exchange is in doubt gets its outcome when a path
/// returns. Later queries return the same.
#[test]
fn a_query_by_name_is_answered_when_a_path_returns() {
    every_cut(|mode, cut, what| {
        if !(1..steps(mode)).contains(&cut) {
            return;
        }
        for canceled in [false, true] {
            for path in [AB, CB] {
                let what = format!("{what}, canceled {canceled}, over {path}");
                let mut net = Net::triangle();
                net.pull(CB);
                net.walk(mode, cut);
                net.pull(AB);
                net.settle();
                let [(TOKEN, name)] = net.program(A).names[..] else {
                    panic!("{what}: {:?}", net.program(A).names)
                };
                if canceled {
                    net.stations[A].node.cancel_interest(|token| token == TOKEN);
                    assert_eq!(net.stations[A].node.in_doubt(), 0, "{what}");
                    assert_eq!(
                        net.stations[A].node.room(),
                        ROOM,
                        "no room is leaked: {what}"
                    );
                }
                net.query(A, &name, 1).unwrap();
                net.query(A, &name, 2).unwrap();
                assert_eq!(net.program(A).names[1..], [(1, name), (2, name)], "{what}");
                assert!(net.program(A).answers.is_empty(), "{what}");
                net.plug(path);
                net.run(3);
                let reply = net.program(B).journal.reply_to(PAYLOAD);
                let executed = is_executed(mode, cut);
                // Over the neighbor it waits for a link before it is resubmitted.
                let ended = executed || canceled || path == AB;
                let owned_answer = if executed || !canceled {
                    OwnedAnswer::Committed(reply)
                } else if cut == 1 {
                    OwnedAnswer::NeverSeen
                } else {
                    OwnedAnswer::Undone
                };
                let answers = &net.program(A).answers;
                let expected = vec![(1, owned_answer.clone()), (2, owned_answer.clone())];
                assert_eq!(
                    *answers,
                    if ended { expected.clone() } else { vec![] },
                    "{what}"
                );
                net.plug(AB);
                net.run(2);
                assert_eq!(net.program(A).answers, expected, "{what}");
                // Later, with the responder's latch long overwritten.
                for token in 1000..1020 {
                    net.submit(A, B, Mode::OnePhase, b"afterwards", token);
                }
                net.settle();
                net.query(A, &name, 3).unwrap();
                assert_eq!(net.program(A).answers[2..], [(3, owned_answer)], "{what}");
                assert_eq!(
                    net.executed(B)
                        .iter()
                        .filter(|payload| **payload == PAYLOAD)
                        .count(),
                    usize::from(executed || !canceled),
                    "{what}"
                );
                net.assert_at_rest(&what);
            }
        }
    });
}

/// An exchange that was in doubt, was resubmitted and is in doubt again keeps the name that its
/// caller received first.
#[test]
fn an_exchange_applied_again_keeps_its_name() {
    for canceled in [false, true] {
        let mut net = Net::new(&[(A, B)]);
        net.walk(Mode::TwoPhase, 1);
        net.pull(AB);
        let name = net.program(A).names[0].1;
        net.plug(AB);
        for _ in 0..20 {
            net.send(AB, 0);
            if net.stations[A].node.in_doubt() == 0 {
                break;
            }
            while net.deliver(AB, 1) {}
            net.send(AB, 1);
            while net.deliver(AB, 0) {}
        }
        // Undone and resubmitted, and the new request is lost.
        net.send(AB, 0);
        assert_eq!(net.link(A, 0).counters.reversed, 1);
        net.pull(AB);
        assert_eq!(net.program(A).names, [(TOKEN, name); 2]);
        if canceled {
            net.stations[A].node.cancel_interest(|token| token == TOKEN);
        }
        net.query(A, &name, 9).unwrap();
        net.plug(AB);
        net.run(2);
        let owned_answer = if canceled {
            OwnedAnswer::NeverSeen
        } else {
            OwnedAnswer::Committed(net.program(B).journal.reply_to(PAYLOAD))
        };
        assert_eq!(net.program(A).answers, [(9, owned_answer)]);
        assert_eq!(net.executed(B).len(), usize::from(!canceled));
        net.assert_at_rest("applied again");
    }
}

/// The responder restarts, or the initiator does, or the name is invented: the outcome is unknown,
/// and is reported as such.
#[test]
fn an_unknown_name_is_reported_as_forgotten() {
    let doubted = || {
        let mut net = Net::triangle();
        net.pull(CB);
        net.walk(Mode::OnePhase, 2);
        net.pull(AB);
        net.settle();
        let name = net.program(A).names[0].1;
        net.stations[A].node.cancel_interest(|_| true);
        (net, name)
    };
    let (mut net, name) = doubted();
    net.query(A, &name, 1).unwrap();
    net.restart(B);
    net.plug(CB);
    net.run(2);
    net.query(A, &name, 2).unwrap();
    assert_eq!(
        net.program(A).answers,
        [(1, OwnedAnswer::Forgotten), (2, OwnedAnswer::Forgotten)]
    );
    net.assert_at_rest("the responder restarted");

    let (mut net, name) = doubted();
    net.restart(A);
    net.query(A, &name, 1).unwrap();
    let other = ExchangeId {
        sequence: name.sequence + 1,
        ..name
    };
    net.query(A, &other, 2).unwrap();
    assert_eq!(
        net.program(A).answers,
        [(1, OwnedAnswer::Forgotten), (2, OwnedAnswer::Forgotten)]
    );
}

/// Names beyond the capacity are not kept, and the number of waiting queries is limited.
#[test]
fn names_and_their_waiters_are_bounded() {
    let mut net = Net::triangle();
    net.pull(CB);
    for token in 0..16 {
        net.submit(A, B, Mode::OnePhase, &[token as u8], token);
    }
    net.send(AB, 0);
    while net.deliver(AB, 1) {}
    net.pull(AB);
    net.settle();
    let mut names = net.program(A).names.clone();
    names.sort_by_key(|(token, _)| *token);
    assert_eq!(names.len(), 16);
    // A quarter of the capacity: ten.
    for (token, name) in &names[..10] {
        net.query(A, name, 100 + token).unwrap();
    }
    assert_eq!(net.query(A, &names[0].1, 1), Err(QueryError::Full));
    net.stations[A].node.cancel_interest(|token| token != 109);
    assert_eq!(net.stations[A].node.room(), ROOM);
    net.query(A, &names[0].1, 2).unwrap();
    net.plug(AB);
    net.run(2);
    let reply = |byte: u8| OwnedAnswer::Committed(vec![!byte]);
    let mut answers = net.program(A).answers.clone();
    answers.sort_by_key(|(token, _)| *token);
    assert_eq!(answers, [(2, reply(0)), (109, reply(9))]);
    for (number, (_, name)) in names.iter().enumerate() {
        net.query(A, name, 200 + number as u64).unwrap();
    }
    let kept = net.program(A).answers[2..]
        .iter()
        .filter(|(_, owned_answer)| *owned_answer != OwnedAnswer::Forgotten);
    assert_eq!(kept.count(), 10, "and six are forgotten");
    net.assert_at_rest("names");
}

/// A neighbor that is gone for good, and whose exchanges only have names, takes no table entry from
/// the next neighbor.
#[test]
fn names_keep_no_place_from_the_next_neighbor() {
    let mut net = Net::new(&[(A, B)]);
    net.walk(Mode::OnePhase, 2);
    net.pull(0);
    let name = net.program(A).names[0].1;
    net.stations[A].node.cancel_interest(|_| true);
    net.query(A, &name, 1).unwrap();
    // Each link has space for three peers.
    for guid in [0x51, 0x52, 0x53] {
        let mut other = Station {
            node: Node::new(NodeConfig::new(guid, guid, Name::new("other").unwrap())),
            program: Program::default(),
            ports: 1,
        };
        other.node.add_link(0, [2, 0, 0, 0, 9, guid as u8]).unwrap();
        other.node.on_carrier(0, true, &mut other.program);
        net.carrier_at(0, 0, true);
        let mut buffer = [0; FRAME_BYTES_MAX];
        for _ in 0..10 {
            net.tick();
            other.node.on_tick(&mut other.program);
            for _ in 0..4 {
                while let Some(len) = net.stations[A].node.poll_transmit(0, &mut buffer) {
                    other.node.on_frame(0, &buffer[..len], &mut other.program);
                }
                while let Some(len) = other.node.poll_transmit(0, &mut buffer) {
                    let Station { node, program, .. } = &mut net.stations[A];
                    node.on_frame(0, &buffer[..len], program);
                }
            }
        }
        assert_eq!(net.link(A, 0).peer, Some(guid));
        net.carrier_at(0, 0, false);
    }
    assert_eq!(net.program(A).answers, [(1, OwnedAnswer::Forgotten)]);
    assert_eq!(net.stations[A].node.room(), ROOM);
}

/// Where the payload lies in the first record of a message, and in those behind it.
const PAYLOAD_AT: [usize; 2] = [28, 8];
const SLOT_AT: usize = 20;
const QUESTION_BYTES: usize = 44;

/// The query that A would send to B about slot `slot` of its port 0 there.
fn question(net: &Net, slot: u8, commit: bool, epoch: u32, sequence: u32) -> Vec<u8> {
    let incarnation = |at: usize| {
        let of = |station: &Station| {
            let mut peers = station.node.peers();
            peers
                .find(|peer| peer.guid == GUIDS[at])
                .map(|peer| peer.incarnation)
        };
        net.stations.iter().find_map(of).unwrap()
    };
    let mut bytes = Vec::new();
    for number in [GUIDS[A], incarnation(A), GUIDS[B], incarnation(B)] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend(0u16.to_le_bytes());
    bytes.extend([slot, u8::from(commit)]);
    bytes.extend(epoch.to_le_bytes());
    bytes.extend(sequence.to_le_bytes());
    bytes
}

/// Where the messages of a kind begin in a frame, by record.
fn places(frame: &[u8], kind: Kind) -> Vec<usize> {
    let mut places = Vec::new();
    let mut at = 0;
    for header in support::headers(frame) {
        if header.kind == kind {
            places.push(at);
        }
        at += usize::from(header.shape.records);
    }
    places
}

/// The triangle, with another node beside it that queried exchanges with B at C. C has queries to
/// relay, which a test replaces by others.
fn with_questions_at_the_neighbor() -> Net {
    let mut net = Net::new(&[(A, B), (A, C), (C, B), (D, B), (D, C)]);
    for token in 0..4 {
        net.submit(D, B, Mode::OnePhase, b"of another", 100 + token);
    }
    net.send(3, 0);
    net.pull(3);
    net.forward(4, 0);
    // No caller waits for them, so they leave nothing behind.
    net.stations[D].node.cancel_interest(|_| true);
    net
}

/// C sends these queries to B instead of those that it received. Returns the endings in the
/// replies.
fn lie(net: &mut Net, questions: &[Vec<u8>]) -> Vec<u8> {
    net.send(CB, 0);
    let frame = &mut net.cables[CB].in_flight[1][0];
    let at = places(frame, Kind::Relay);
    for (at, question) in at.into_iter().zip(questions) {
        assert_eq!(question.len(), QUESTION_BYTES);
        let first = 56 - PAYLOAD_AT[0];
        forge(frame, at, |record| {
            record[PAYLOAD_AT[0]..56].copy_from_slice(&question[..first]);
        });
        forge(frame, at + 1, |record| {
            record[PAYLOAD_AT[1]..][..QUESTION_BYTES - first].copy_from_slice(&question[first..]);
        });
    }
    while net.deliver(CB, 1) {}
    net.send(CB, 1);
    let mut endings = Vec::new();
    for frame in &net.cables[CB].in_flight[0] {
        for at in places(frame, Kind::Relayed) {
            endings.push(frame[14 + 64 * at + PAYLOAD_AT[0] + 2]);
        }
    }
    endings.truncate(questions.len());
    endings
}

#[test]
fn a_relayed_answer_waits_for_the_disk_too() {
    for mode in [Mode::OnePhase, Mode::TwoPhase] {
        for steps in 1..=6 {
            let what = format!("{mode:?}, cut behind step {steps}");
            let mut net = Net::triangle();
            net.stations[B].program.journal.durable = true;
            net.submit(A, B, mode, PAYLOAD, TOKEN);
            for step in 0..steps {
                match step % 4 {
                    0 => net.send(AB, 0),
                    1 => drop(net.deliver(AB, 1)),
                    2 => net.send(AB, 1),
                    _ => drop(net.deliver(AB, 0)),
                }
            }
            net.pull(AB);
            net.run(20);
            assert_eq!(net.completed(A), [], "{what}");
            let executed = net.executed(B).len();
            net.stations[B].node.on_durable(1);
            net.run(3);
            let completions = net.completed(A).len();
            assert_eq!(
                completions, executed,
                "an executed exchange is reported, {what}"
            );
            net.plug(AB);
            net.run(3);
            net.stations[B].node.on_durable(2);
            net.run(3);
            assert_eq!(net.executed(B), [PAYLOAD], "{what}");
            assert_eq!(net.completed(A).len(), 1, "{what}");
        }
    }
}
