//! Two neighbors, each with a link of its own, that access the same words of one node.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use covalent_protocol::{
    ExchangeId, Execution, FRAME_BYTES_MAX, Host, LinkEvent, LinkState, Mode, Name, Node,
    NodeConfig, Outcome, Refusal, Reply,
    region::{Engine, Memory as _, Rights, Words, queue::Receiver},
    verb::{self, SEND_BYTES_MAX, Status, Verb},
};
use proptest::prelude::*;

use super::{RKEY, encode, engine, refused, run_here, word};

const KEEPER: u64 = 9;

/// The program of the node that has the region.
struct Keeper(Engine<Words>);

impl Host for Keeper {
    fn admit(&mut self, id: &ExchangeId, mode: Mode, payload: &[u8]) -> Result<(), Refusal> {
        self.0.admit(id, mode, payload)
    }
    fn execute(&mut self, id: &ExchangeId, payload: &[u8], reply: &mut Reply) -> Execution {
        self.0.execute(id, payload, reply);
        Execution::Done
    }
    fn reverse(&mut self, id: &ExchangeId, payload: &[u8]) {
        self.0.reverse(id, payload);
    }
    fn complete(&mut self, _token: u64, _outcome: Outcome<'_>) {
        panic!("it requests nothing");
    }
    fn in_doubt(&mut self, _token: u64, _id: &ExchangeId) {}
    fn link_event(&mut self, _event: LinkEvent) {}
}

/// How a verb of a neighbor ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// With the old word, or the number of the execution for a verb without one.
    Done(Status, u64),
    Refused(Refusal),
}

/// The program of a neighbor that only submits.
#[derive(Default)]
struct Initiator(Vec<(u64, Ending)>);

impl Host for Initiator {
    fn admit(&mut self, _: &ExchangeId, _: Mode, _: &[u8]) -> Result<(), Refusal> {
        Err(Refusal::Unsupported)
    }
    fn execute(&mut self, _: &ExchangeId, _: &[u8], _: &mut Reply) -> Execution {
        Execution::Done
    }
    fn reverse(&mut self, _: &ExchangeId, _: &[u8]) {}
    fn complete(&mut self, token: u64, outcome: Outcome<'_>) {
        let ending = match outcome {
            Outcome::Committed(reply) => {
                let reply = verb::Reply::decode(reply).unwrap();
                Ending::Done(reply.status, reply.value().unwrap_or(reply.moment.count))
            }
            Outcome::Refused(refusal) => Ending::Refused(refusal),
            Outcome::PeerRestarted => panic!("no node restarts"),
        };
        self.0.push((token, ending));
    }
    fn in_doubt(&mut self, _: u64, _: &ExchangeId) {}
    fn link_event(&mut self, _: LinkEvent) {}
}

/// Two neighbors of one node. Link `n` of it leads to neighbor `n`.
struct Triple {
    keeper: (Node, Keeper),
    initiators: [(Node, Initiator); 2],
    /// Frames to the keeper and to the neighbor.
    cables: [[VecDeque<Vec<u8>>; 2]; 2],
}

fn node(guid: u64, links: u16) -> Node {
    let mut node = Node::new(NodeConfig {
        slots: 4,
        transactions_max: 64,
        ..NodeConfig::new(guid, 100 + guid, Name::new("node").unwrap())
    });
    for link in 0..links {
        node.add_link(link, [2, 0, 0, 0, guid as u8, link as u8])
            .unwrap();
    }
    node
}

impl Triple {
    /// With a region of `words` words at the node in the middle.
    fn up(rights: Rights, words: usize) -> Self {
        let mut triple = Self {
            keeper: (node(KEEPER, 2), Keeper(engine(rights, words))),
            initiators: [1, 2].map(|guid| (node(guid, 1), Initiator::default())),
            cables: Default::default(),
        };
        for cable in 0..2 {
            triple.carrier(cable, true);
        }
        triple.settle();
        assert!(
            triple
                .keeper
                .0
                .links()
                .all(|link| link.state == LinkState::Up)
        );
        triple
    }

    fn carrier(&mut self, cable: usize, up: bool) {
        let (node, host) = &mut self.keeper;
        node.on_carrier(cable as u16, up, host);
        let (node, host) = &mut self.initiators[cable];
        node.on_carrier(0, up, host);
    }

    /// Everything in flight on a cable is lost and both ends see it.
    fn pull(&mut self, cable: usize) {
        self.cables[cable].iter_mut().for_each(VecDeque::clear);
        self.carrier(cable, false);
    }

    fn submit(&mut self, initiator: usize, mode: Mode, offset: u32, verb: Verb<'_>, token: u64) {
        let payload = encode(offset, verb);
        let (node, _) = &mut self.initiators[initiator];
        node.submit(KEEPER, mode, &payload, token).unwrap();
    }

    fn send(&mut self) {
        let mut buffer = [0; FRAME_BYTES_MAX];
        for (cable, [to_keeper, to_initiator]) in self.cables.iter_mut().enumerate() {
            while let Some(len) = self.initiators[cable].0.poll_transmit(0, &mut buffer) {
                to_keeper.push_back(buffer[..len].to_vec());
            }
            while let Some(len) = self.keeper.0.poll_transmit(cable as u16, &mut buffer) {
                to_initiator.push_back(buffer[..len].to_vec());
            }
        }
    }

    /// One frame of a cable arrives.
    fn deliver(&mut self, cable: usize, at_keeper: bool) -> bool {
        let [to_keeper, to_initiator] = &mut self.cables[cable];
        if at_keeper {
            let Some(frame) = to_keeper.pop_front() else {
                return false;
            };
            let (node, host) = &mut self.keeper;
            node.on_frame(cable as u16, &frame, host);
        } else {
            let Some(frame) = to_initiator.pop_front() else {
                return false;
            };
            let (node, host) = &mut self.initiators[cable];
            node.on_frame(0, &frame, host);
        }
        self.send();
        true
    }

    fn settle(&mut self) {
        self.send();
        for _ in 0..100_000 {
            let mut moved = false;
            for (cable, at_keeper) in [(0, true), (0, false), (1, true), (1, false)] {
                moved |= self.deliver(cable, at_keeper);
            }
            if !moved {
                return;
            }
        }
        panic!("it never became quiescent");
    }

    fn tick(&mut self) {
        self.keeper.0.on_tick(&mut self.keeper.1);
        for (node, host) in &mut self.initiators {
            node.on_tick(host);
        }
        self.send();
    }

    /// Executes `choice`: a frame arrives, a cable is pulled, or time passes. Cables are plugged
    /// again after a while.
    fn turn(&mut self, turn: usize, choice: u8, is_cut: &mut [bool; 2]) {
        match choice {
            200..208 => {
                let cable = usize::from(choice) % 2;
                self.pull(cable);
                is_cut[cable] = true;
            }
            208.. if choice.is_multiple_of(4) => self.tick(),
            _ => {
                self.deliver(usize::from(choice) % 2, (choice / 2).is_multiple_of(2));
            }
        }
        if turn.is_multiple_of(16) {
            for (cable, is_cut) in is_cut.iter_mut().enumerate() {
                if std::mem::take(is_cut) {
                    self.carrier(cable, true);
                }
            }
            self.tick();
        }
    }

    fn engine(&mut self) -> &mut Engine<Words> {
        &mut self.keeper.1.0
    }
}

const INCREMENT: Verb<'_> = Verb::CompareAndSwap {
    expected: 0,
    new: 1,
};

#[test]
fn a_reversible_word_of_one_neighbor_is_busy_until_its_link_fails() {
    let mut triple = Triple::up(Rights::ALL, 8);
    triple.submit(0, Mode::TwoPhase, 0, INCREMENT, 1);
    triple.send();
    // Message 1 arrives, and message 2 is in flight.
    assert!(triple.deliver(0, true));
    assert_eq!(triple.engine().reserved_words(), 1);
    for (token, mode) in [(1, Mode::OnePhase), (2, Mode::TwoPhase)] {
        triple.submit(1, mode, 0, INCREMENT, token);
    }
    triple.send();
    while triple.deliver(1, true) | triple.deliver(1, false) {}
    let busy = Ending::Refused(Refusal::Busy);
    assert_eq!(triple.initiators[1].1.0, [(1, busy), (2, busy)]);
    assert_eq!(run_here(triple.engine(), 0, INCREMENT), Err(Refusal::Busy));
    assert_eq!(
        (
            word(triple.engine(), 0),
            refused(triple.engine(), Refusal::Busy)
        ),
        (0, 3)
    );

    // The cut reverses it at the executing node at once. At the neighbor it is open until the link
    // is back.
    triple.pull(0);
    assert_eq!(
        (word(triple.engine(), 0), triple.engine().reserved_words()),
        (0, 0)
    );
    triple.submit(1, Mode::TwoPhase, 0, INCREMENT, 3);
    triple.settle();
    assert_eq!(
        triple.initiators[1].1.0.last(),
        Some(&(3, Ending::Done(Status::Ok, 0)))
    );
    assert_eq!(word(triple.engine(), 0), 1);
    triple.carrier(0, true);
    for _ in 0..20 {
        triple.tick();
        triple.settle();
    }
    // After its resubmission it finds the other's change.
    assert_eq!(
        triple.initiators[0].1.0,
        [(1, Ending::Done(Status::Mismatch, 1))]
    );
    assert_eq!(
        (word(triple.engine(), 0), triple.engine().reserved_words()),
        (1, 0)
    );
}

/// One client of a counter that both neighbors hammer.
#[derive(Debug, Clone, Copy)]
struct Client {
    /// The expected value of the word, for its compare-and-swaps.
    believed: u64,
    done: u64,
    busy: u64,
}

proptest! {
    /// Both neighbors increment word 0 by compare-and-swap and word 1 by fetch-and-add at once, in
    /// any order of frames and through cuts. No increment is lost, and none happens twice.
    #[test]
    fn no_increment_is_lost_or_doubled(choices in prop::collection::vec(any::<u8>(), 200..600)) {
        const EACH: u64 = 12;
        const ADDS: u64 = 12;
        let mut triple = Triple::up(Rights::ALL, 8);
        let mut clients = [Client { believed: 0, done: 0, busy: 0 }; 2];
        let mut handed_out = BTreeSet::new();
        let mut seen = [0; 2];
        let request = |triple: &mut Triple, initiator: usize, client: &Client| {
            let verb = Verb::CompareAndSwap { expected: client.believed, new: client.believed + 1 };
            triple.submit(initiator, Mode::TwoPhase, 0, verb, 0);
        };
        for (initiator, client) in clients.iter().enumerate() {
            request(&mut triple, initiator, client);
            for token in 1..=ADDS {
                let mode = [Mode::OnePhase, Mode::TwoPhase][token as usize % 2];
                triple.submit(initiator, mode, 8, Verb::FetchAdd { delta: 1 }, token);
            }
        }
        triple.send();
        let calm = [0_u8, 1, 2, 3].into_iter().cycle().take(40_000);
        let mut is_cut = [false; 2];
        for (turn, choice) in choices.into_iter().chain(calm).enumerate() {
            triple.turn(turn, choice, &mut is_cut);
            for initiator in 0..2 {
                while let Some(
                    &(token, ending),
                ) = triple.initiators[initiator].1.0.get(seen[initiator]) {
                    seen[initiator] += 1;
                    let client = &mut clients[initiator];
                    match (token, ending) {
                        (0, Ending::Done(Status::Ok, _)) => {
                            client.done += 1;
                            client.believed += 1;
                        }
                        (0, Ending::Done(Status::Mismatch, found)) => client.believed = found,
                        (0, Ending::Refused(Refusal::Busy)) => client.busy += 1,
                        (_, Ending::Done(Status::Ok, old)) => {
                            prop_assert!(handed_out.insert(old), "{old} was handed out twice");
                        }
                        other => prop_assert!(false, "{other:?}"),
                    }
                    if token == 0 && client.done < EACH {
                        let client = *client;
                        request(&mut triple, initiator, &client);
                        triple.send();
                    }
                }
            }
            if clients.iter().all(
                |client| client.done == EACH,
            ) && handed_out.len() as u64 == 2 * ADDS {
                break;
            }
        }
        prop_assert_eq!(clients.map(|client| client.done), [EACH; 2], "{:?}", clients);
        prop_assert!(handed_out.into_iter().eq(0..2 * ADDS));
        prop_assert_eq!((word(triple.engine(), 0), word(triple.engine(), 8)), (2 * EACH, 2 * ADDS));
        triple.settle();
        prop_assert_eq!(triple.engine().reserved_words(), 0);
    }

    /// Both neighbors send into one queue, in any order of frames and through cuts. Each message is
    /// there once and whole, with the execution number that its sender received, and in the order
    /// of these numbers.
    #[test]
    fn messages_arrive_exactly_once_and_as_reported_to_their_senders(
        choices in prop::collection::vec(any::<u8>(), 200..600),
    ) {
        const EACH: u64 = 20;
        const WORDS: usize = 1 << 14;
        let data = |initiator: usize, token: u64| -> Vec<u8> {
            // Some take several frames, and nearly all more than a record.
            let len = 1 + (token as usize * 397 + initiator * 1000) % SEND_BYTES_MAX;
            (0..len).map(|at| (at * 7 + initiator * 100 + token as usize) as u8).collect()
        };
        let mut triple = Triple::up(Rights::SEND, WORDS);
        for initiator in 0..2 {
            for token in 0..EACH {
                let mode = [Mode::OnePhase, Mode::TwoPhase][token as usize % 2];
                triple.submit(
                    initiator,
                    mode,
                    0,
                    Verb::Send { data: &data(initiator, token) },
                    token,
                );
            }
        }
        triple.send();
        let calm = [0_u8, 1, 2, 3].into_iter().cycle().take(40_000);
        let mut is_cut = [false; 2];
        for (turn, choice) in choices.into_iter().chain(calm).enumerate() {
            triple.turn(turn, choice, &mut is_cut);
            if triple.initiators.iter().all(|(_, initiator)| initiator.0.len() as u64 == EACH) {
                break;
            }
        }
        let mut reported = BTreeMap::new();
        for (initiator, (_, program)) in triple.initiators.iter().enumerate() {
            for &(token, ending) in &program.0 {
                let Ending::Done(Status::Ok, count) = ending else {
                    panic!("{ending:?}")
                };
                prop_assert_eq!(
                    reported.insert(count, (initiator as u64 + 1, data(initiator, token))),
                    None,
                );
            }
        }
        prop_assert_eq!(reported.len() as u64, 2 * EACH);
        let mut receiver = Receiver::new(8 * WORDS as u64).unwrap();
        let memory = triple.engine().memory(RKEY).unwrap();
        let mut space = [0; SEND_BYTES_MAX];
        for (count, (sender, data)) in reported {
            let read = |offset, target: &mut [u8]| memory.read(offset, target);
            let message = receiver.take(read, &mut space).unwrap().expect("a message");
            prop_assert_eq!((message.moment.count, message.sender), (count, sender));
            prop_assert!(space[..message.len] == data, "message {count} is torn");
        }
        let read = |offset, target: &mut [u8]| memory.read(offset, target);
        prop_assert_eq!(receiver.take(read, &mut space), Ok(None), "and no other");
    }
}
