//! Receive queues: when messages are appended, what is refused, and what an owner can do to its own
//! memory.

use covalent_protocol::{
    ExchangeId, Mode, Moment, Refusal, Reply,
    region::{
        Engine, Memory, RegisterError, Registration, Rights, SharedWords,
        queue::{HEAD_AT, QUEUE_BYTES_MIN, QueueBroken, RING_AT, Receiver, footprint_bytes},
    },
    verb::{SEND_BYTES_MAX, Status, Verb, VerbKind},
};
use proptest::{collection::vec, prelude::*};

use super::{Answer, RKEY, encode, exchange};

/// A message as its receiver has it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Message {
    sender: u64,
    data: Vec<u8>,
}

/// A lane with one receive queue, and its owner.
struct Bench {
    engine: Engine<SharedWords>,
    memory: SharedWords,
    receiver: Receiver,
    reply: Reply,
}

impl Bench {
    fn new(ring_bytes: u64) -> Self {
        let size_bytes = RING_AT + ring_bytes;
        let memory = SharedWords::new(size_bytes as usize / 8);
        let mut engine = Engine::new();
        engine
            .register(registration(Rights::SEND, memory.clone()))
            .unwrap();
        Self {
            engine,
            memory,
            receiver: Receiver::new(size_bytes).unwrap(),
            reply: Reply::new(),
        }
    }

    fn admit(&mut self, id: &ExchangeId, mode: Mode, data: &[u8]) -> Result<(), Refusal> {
        self.engine.admit(id, mode, &send(data))
    }

    fn execute(&mut self, id: &ExchangeId, data: &[u8]) -> Answer {
        self.engine.execute(id, &send(data), &mut self.reply);
        Answer::of(&self.reply)
    }

    /// Admits and executes in one phase.
    fn run(&mut self, number: u32, data: &[u8]) -> Result<(), Refusal> {
        let id = exchange(number);
        self.admit(&id, Mode::OnePhase, data)?;
        assert_eq!(self.execute(&id, data), Answer::ok(&[]));
        Ok(())
    }

    /// As the owner.
    fn take(&mut self) -> Result<Option<Message>, QueueBroken> {
        let mut data = [0xee; SEND_BYTES_MAX];
        let read = |offset, target: &mut [u8]| self.memory.read(offset, target);
        let taken = self.receiver.take(read, &mut data)?;
        self.memory.swap(HEAD_AT, self.receiver.head());
        Ok(taken.map(|message| Message {
            sender: message.sender,
            data: data[..message.len].to_vec(),
        }))
    }
}

fn registration(rights: Rights, memory: SharedWords) -> Registration<SharedWords> {
    Registration {
        owner: 1,
        name: "queue".into(),
        rkey: RKEY,
        rights,
        memory,
    }
}

fn send(data: &[u8]) -> Vec<u8> {
    encode(0, Verb::Send { data })
}

/// A message that no other is like.
fn message(number: u32, len: usize) -> Vec<u8> {
    (0..len)
        .map(|at| (number as usize * 31 + at * 7) as u8)
        .collect()
}

#[test]
fn messages_of_every_length_arrive_whole_with_their_sender() {
    // Not a multiple of any length, so that messages wrap at every position.
    let mut bench = Bench::new(footprint_bytes(SEND_BYTES_MAX) + 24);
    for len in 1..=SEND_BYTES_MAX {
        let number = len as u32;
        let data = message(number, len);
        bench.run(number, &data).unwrap();
        let sender = exchange(number).peer;
        assert_eq!(bench.take(), Ok(Some(Message { sender, data })), "{len}");
        assert_eq!(bench.take(), Ok(None));
    }
    let executed = bench.engine.executed();
    let sent: Vec<_> = executed.filter(|&(_, count)| count > 0).collect();
    assert_eq!(sent, [(VerbKind::Send, SEND_BYTES_MAX as u64)]);
}

#[test]
fn a_message_bears_the_moment_of_its_commit() {
    let mut bench = Bench::new(64);
    let moment = Moment {
        count: 0x0102_0304_0506_0708,
        clock: 0x1112_1314_1516_1718,
    };
    bench.reply.clear_at(moment);
    bench.engine.run(&send(b"here"), &mut bench.reply).unwrap();
    let mut data = [0; SEND_BYTES_MAX];
    let read = |offset, target: &mut [u8]| bench.memory.read(offset, target);
    let taken = bench.receiver.take(read, &mut data).unwrap().unwrap();
    assert_eq!(
        (taken.sender, taken.moment, taken.len),
        (0, moment, 4),
        "of the own node"
    );
}

#[test]
fn a_message_shows_at_commit_and_never_after_a_reversal() {
    let mut bench = Bench::new(2 * footprint_bytes(8));
    let [kept, undone] = [message(1, 8), message(2, 8)];
    bench.admit(&exchange(1), Mode::TwoPhase, &kept).unwrap();
    bench.admit(&exchange(2), Mode::TwoPhase, &undone).unwrap();
    assert_eq!(bench.take(), Ok(None), "both may be undone");
    assert_eq!(
        bench.run(3, b"no room"),
        Err(Refusal::QueueFull),
        "an open message keeps its room"
    );
    bench.engine.reverse(&exchange(2), &send(&undone));
    assert_eq!(bench.run(4, b"the room"), Ok(()));
    assert_eq!(bench.execute(&exchange(1), &kept), Answer::ok(&[]));
    let came: Vec<_> = std::iter::from_fn(|| bench.take().unwrap()).collect();
    assert_eq!(came[0].data, b"the room", "in the order of their commits");
    assert_eq!(came[1].data, kept);
    assert_eq!(came.len(), 2);
    assert_eq!(bench.memory.load(0), Some(2 * footprint_bytes(8)));
}

#[test]
fn a_full_queue_is_refused_with_its_own_reason_and_nothing_is_lost() {
    let mut bench = Bench::new(3 * footprint_bytes(5) + 8);
    let mut sent = Vec::new();
    for number in 0..3 {
        sent.push(message(number, 5));
        bench.run(number, &sent[number as usize]).unwrap();
    }
    for mode in [Mode::OnePhase, Mode::TwoPhase] {
        assert_eq!(
            bench.admit(&exchange(9), mode, b"x"),
            Err(Refusal::QueueFull)
        );
    }
    assert_eq!(
        bench.engine.run(&send(b"x"), &mut bench.reply),
        Err(Refusal::QueueFull),
        "the own node's applications too"
    );
    let refused = bench.engine.refused();
    let refused: Vec<_> = refused.filter(|&(_, count)| count > 0).collect();
    assert_eq!(refused, [(Refusal::QueueFull, 3)]);
    assert_eq!(bench.take().unwrap().unwrap().data, sent[0]);
    bench.run(4, b"again").unwrap();
    for expected in [&sent[1][..], &sent[2], b"again"] {
        assert_eq!(bench.take().unwrap().unwrap().data, expected);
    }
    assert_eq!(bench.take(), Ok(None));
}

#[test]
fn a_message_that_never_fits_the_queue_is_out_of_bounds() {
    let mut bench = Bench::new(footprint_bytes(16));
    assert_eq!(bench.run(1, &[1; 17]), Err(Refusal::OutOfBounds));
    assert_eq!(bench.run(2, &[1; 16]), Ok(()));
}

#[test]
fn a_receive_queue_grants_only_sends_and_has_room_for_a_message() {
    let mut engine = Engine::new();
    let mut register = |rights, words| {
        let memory = SharedWords::new(words);
        engine.register(registration(rights, memory))
    };
    let words_min = QUEUE_BYTES_MIN as usize / 8;
    for also in [
        Rights {
            read: true,
            ..Rights::SEND
        },
        Rights {
            write: true,
            ..Rights::SEND
        },
        Rights {
            atomic: true,
            ..Rights::SEND
        },
    ] {
        assert_eq!(register(also, words_min), Err(RegisterError::MixedRights));
    }
    assert_eq!(
        register(Rights::SEND, words_min - 1),
        Err(RegisterError::QueueTooSmall)
    );
    assert_eq!(register(Rights::SEND, words_min), Ok(()));
    assert!(Receiver::new(QUEUE_BYTES_MIN - 1).is_none());
}

#[test]
fn each_delivered_message_is_reported_once() {
    let mut bench = Bench::new(256);
    assert!(bench.engine.take_delivered().is_none());
    bench.admit(&exchange(1), Mode::TwoPhase, b"x").unwrap();
    assert!(bench.engine.take_delivered().is_none(), "it may be undone");
    bench.execute(&exchange(1), b"x");
    assert!(bench.engine.take_delivered().is_some());
    assert!(bench.engine.take_delivered().is_none());
    bench.engine.run(&send(b"x"), &mut bench.reply).unwrap();
    assert!(bench.engine.take_delivered().is_some());
}

#[test]
fn a_queue_removed_between_admission_and_execution_is_gone() {
    for mode in [Mode::OnePhase, Mode::TwoPhase] {
        let mut bench = Bench::new(256);
        bench.admit(&exchange(1), mode, b"late").unwrap();
        bench.engine.remove(RKEY).unwrap();
        assert_eq!(bench.execute(&exchange(1), b"late").status, Status::Gone);
        assert!(bench.engine.take_delivered().is_none());
        assert_eq!(bench.take(), Ok(None));
    }
}

#[test]
fn an_impossible_head_gives_no_room() {
    let mut bench = Bench::new(512);
    bench.run(1, b"one").unwrap();
    for head in [1 << 63, u64::MAX, footprint_bytes(3) + 8] {
        bench.memory.swap(HEAD_AT, head);
        assert_eq!(bench.run(2, b"two"), Err(Refusal::QueueFull), "{head:#x}");
    }
    bench.memory.swap(HEAD_AT, 0);
    assert_eq!(bench.run(2, b"two"), Ok(()), "only its own senders suffer");
    let mut tail = 2 * footprint_bytes(3);
    while tail <= 512 {
        bench.memory.swap(HEAD_AT, tail);
        bench.run(3, b"one").unwrap();
        tail += footprint_bytes(3);
    }
    bench.memory.swap(HEAD_AT, 0);
    assert_eq!(
        bench.run(4, b"x"),
        Err(Refusal::QueueFull),
        "more than a ring full cannot wait"
    );
}

#[test]
fn an_owner_detects_words_that_no_lane_wrote() {
    let full = || {
        let mut bench = Bench::new(512);
        bench.run(1, b"message").unwrap();
        bench
    };
    // The offset of a word, and its new value.
    for (offset, word) in [
        (0, 8),
        (0, 513),
        (0, u64::MAX),
        (RING_AT, 0),
        (RING_AT, 9),
        (RING_AT, SEND_BYTES_MAX as u64 + 1),
        (RING_AT, 7 | 1 << 32),
        (RING_AT, u64::MAX),
    ] {
        let mut bench = full();
        bench.memory.swap(offset, word);
        assert_eq!(bench.take(), Err(QueueBroken), "{offset}, {word:#x}");
        assert_eq!(bench.receiver.head(), 0, "nothing was taken");
    }
    assert_eq!(full().take().unwrap().unwrap().data, b"message");
}

#[derive(Debug, Clone)]
enum Step {
    /// A peer submits an exchange.
    Request(Mode, usize),
    /// One that is open is executed, or reversed.
    Settle {
        which: prop::sample::Index,
        executed: bool,
    },
    /// An application of the own node sends.
    Here(usize),
    /// The owner takes a message.
    Take,
}

fn step() -> impl Strategy<Value = Step> {
    let mode = prop_oneof![1 => Just(Mode::OnePhase), 2 => Just(Mode::TwoPhase)];
    let len = || prop_oneof![4 => 1..60_usize, 1 => 60..300_usize];
    prop_oneof![
        4 => (mode, len()).prop_map(|(mode, len)| Step::Request(mode, len)),
        3 => (any::<prop::sample::Index>(), prop::bool::weighted(0.7))
            .prop_map(|(which, executed)| Step::Settle { which, executed }),
        1 => len().prop_map(Step::Here),
        3 => Just(Step::Take),
    ]
}

proptest! {
    #![proptest_config(
        ProptestConfig { cases: 8 * ProptestConfig::default().cases, ..ProptestConfig::default() }
    )]

    /// The engine against a list: what is admitted, and what is visible in which order, after every
    /// step.
    #[test]
    fn any_interleaving_is_a_list_of_the_committed_messages(
        ring_words in 5_u64..80,
        steps in vec(step(), 1..120),
    ) {
        let ring_bytes = 8 * ring_words;
        let mut bench = Bench::new(ring_bytes);
        let mut waiting = std::collections::VecDeque::new();
        let mut open: Vec<(ExchangeId, Vec<u8>)> = Vec::new();
        for (number, step) in (0..).zip(steps) {
            let id = exchange(number);
            let bytes = |data: &Vec<u8>| footprint_bytes(data.len());
            let taken_bytes: u64 = waiting.iter().map(
                |message: &Message| bytes(&message.data),
            ).sum();
            let kept_bytes: u64 = open.iter().map(|(_, data)| bytes(data)).sum();
            let expected = |len| {
                if footprint_bytes(len) > ring_bytes {
                    Err(Refusal::OutOfBounds)
                } else if taken_bytes + kept_bytes + footprint_bytes(len) > ring_bytes {
                    Err(Refusal::QueueFull)
                } else {
                    Ok(())
                }
            };
            match step {
                Step::Request(mode, len) => {
                    let data = message(number, len);
                    let admitted = bench.admit(&id, mode, &data);
                    prop_assert_eq!(admitted, expected(len));
                    match mode {
                        _ if admitted.is_err() => {}
                        Mode::OnePhase => {
                            prop_assert_eq!(bench.execute(&id, &data), Answer::ok(&[]));
                            waiting.push_back(Message { sender: id.peer, data });
                        }
                        Mode::TwoPhase => open.push((id, data)),
                    }
                }
                Step::Settle { which, executed } if !open.is_empty() => {
                    let (id, data) = open.swap_remove(which.index(open.len()));
                    if executed {
                        prop_assert_eq!(bench.execute(&id, &data), Answer::ok(&[]));
                        waiting.push_back(Message { sender: id.peer, data });
                    } else {
                        bench.engine.reverse(&id, &send(&data));
                    }
                }
                Step::Settle { .. } => {}
                Step::Here(len) => {
                    let data = message(number, len);
                    let ran = bench.engine.run(&send(&data), &mut bench.reply);
                    prop_assert_eq!(ran, expected(len));
                    if ran.is_ok() {
                        waiting.push_back(Message { sender: 0, data });
                    }
                }
                Step::Take => prop_assert_eq!(bench.take(), Ok(waiting.pop_front())),
            }
        }
        for (id, data) in open {
            bench.engine.reverse(&id, &send(&data));
        }
        for message in waiting {
            prop_assert_eq!(bench.take(), Ok(Some(message)));
        }
        prop_assert_eq!(bench.take(), Ok(None), "nothing of the reversed messages");
        let longest = message(0, (ring_bytes - footprint_bytes(0)) as usize);
        prop_assert_eq!(bench.run(0, &longest), Ok(()), "at rest all the room is there");
    }

    /// Arbitrary writes of an owner to its memory: the lane does not panic and does not keep space
    /// forever. The owner's end does not panic and does not read invalid data.
    #[test]
    fn a_hostile_owner_harms_itself(
        writes in vec((0..32_u64, prop_oneof![any::<u64>(), 0..300_u64]), 1..40),
        lens in vec(1..200_usize, 40),
    ) {
        let mut bench = Bench::new(128);
        let mut committed_bytes = 0;
        for (number, ((word, value), len)) in (0..).zip(writes.into_iter().zip(lens)) {
            bench.memory.swap(8 * word, value);
            let (id, data) = (exchange(number), message(number, len));
            if bench.admit(&id, Mode::TwoPhase, &data).is_ok() {
                bench.memory.swap(HEAD_AT, value);
                if number % 2 == 0 {
                    prop_assert_eq!(bench.execute(&id, &data), Answer::ok(&[]));
                    committed_bytes += footprint_bytes(len);
                } else {
                    bench.engine.reverse(&id, &send(&data));
                }
            }
            let _ = bench.take();
        }
        bench.memory.swap(HEAD_AT, committed_bytes);
        prop_assert_eq!(bench.run(0, &[1; 96]), Ok(()), "an owner that recovers has all its room");
    }
}
