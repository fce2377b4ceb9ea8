//! Messages: sent by verbs, received from memory.

use std::{
    cell::Cell,
    cmp::Ordering,
    collections::BTreeMap,
    sync::atomic::{AtomicBool, Ordering as Memory},
    thread,
    time::{Duration, Instant},
};

use covalent::{
    Completion, Device, Error, Guid, Mode, Outcome, RECEIVE_QUEUE_BYTES_MIN, ReceiveQueue, Refusal,
    RemoteRegion, Rights, SEND_BYTES_MAX, Target, Timeout, Verb, Verbs,
};

use crate::{
    nodes::{Nodes, PATIENCE, soon},
    triangle::Triangle,
};

const CAPACITY_BYTES: u64 = 1 << 16;

/// A message that no other is like: its number, then bytes that follow from it.
fn message(number: u64, len: usize) -> Vec<u8> {
    let bytes = (0..len).map(|at| (number as usize * 31 + at * 7) as u8);
    let mut message: Vec<u8> = bytes.collect();
    let head = len.min(8);
    message[..head].copy_from_slice(&number.to_le_bytes()[..head]);
    message
}

/// Length of a message, at least 8 bytes so that its number is complete.
fn length(number: u64) -> usize {
    8 + (number as usize * 379) % (SEND_BYTES_MAX - 7)
}

/// The number of a message, every byte of which is as it was sent.
#[track_caller]
fn number_of(data: &[u8]) -> u64 {
    let number = u64::from_le_bytes(*data.first_chunk().unwrap());
    assert!(
        data == message(number, length(number)),
        "message {number} is torn"
    );
    number
}

fn refused(result: Result<(), Error>) -> Refusal {
    match result {
        Err(Error::VerbRefused { refusal, .. }) => refusal,
        other => panic!("{other:?}"),
    }
}

#[test]
fn messages_of_every_size_arrive_whole_with_sender_and_stamp() {
    let nodes = Nodes::start(&["p0"]);
    let (a, b) = (nodes.attach("a"), nodes.attach("b"));
    let mut queue = b.receive_queue("orders", CAPACITY_BYTES).unwrap();
    assert_eq!(queue.capacity_bytes(), CAPACITY_BYTES);
    assert_eq!(queue.try_recv().unwrap(), None);
    let mut number = 0;
    for (sender, target) in [(&a, Target::Name("b")), (&b, Target::Local)] {
        let mut verbs = sender.verbs().unwrap();
        let orders = verbs
            .open_region(target, "orders", Timeout::FOREVER)
            .unwrap();
        assert_eq!(orders.rights(), Rights::SEND);
        assert_eq!(orders.rkey(), queue.rkey());
        for len in [
            1,
            7,
            8,
            9,
            16,
            17,
            64,
            1000,
            1001,
            SEND_BYTES_MAX - 1,
            SEND_BYTES_MAX,
        ] {
            for mode in [Mode::OnePhase, Mode::TwoPhase] {
                number += 1;
                let data = message(number, len);
                let id = verbs.post(&orders, Verb::Send { data: &data }, mode, number);
                let completion = verbs.wait(id.unwrap(), soon()).unwrap();
                assert_eq!(completion.outcome, Outcome::Done);
                assert_eq!(completion.user_data, number);
                // No waiting: it was there before its sender knew.
                let received = queue.try_recv().unwrap().expect("the message");
                assert_eq!(received.data, data);
                assert_eq!(received.sender, sender.node().guid);
                let order = received.stamp.order(&completion.stamp);
                assert_eq!(order, Some(Ordering::Equal), "of one execution");
                assert_eq!(received.stamp.executor, Some(b.node().guid));
            }
        }
        verbs.send(&orders, b"blocking", Timeout::FOREVER).unwrap();
        verbs.send(&orders, b"until then", soon()).unwrap();
        assert_eq!(queue.recv(Timeout::FOREVER).unwrap().data, b"blocking");
        assert_eq!(queue.recv(soon()).unwrap().data, b"until then");
        for data in [&[][..], &[0; SEND_BYTES_MAX + 1]] {
            let error = verbs.send(&orders, data, Timeout::FOREVER).unwrap_err();
            assert!(matches!(error, Error::Invalid(_)), "{error}");
        }
    }
    assert_eq!(queue.try_recv().unwrap(), None);
    assert_eq!(b.status().unwrap().verbs.executed["send"], number + 4);
}

#[test]
fn a_full_queue_refuses_and_nothing_is_lost() {
    let nodes = Nodes::start(&["p0"]);
    let (a, b) = (nodes.attach("a"), nodes.attach("b"));
    // Room for three messages of 8 bytes.
    let mut queue = b.receive_queue("small", 3 * 40).unwrap();
    let mut verbs = a.verbs().unwrap();
    let small = verbs
        .open_region(Target::Name("b"), "small", Timeout::FOREVER)
        .unwrap();
    for round in 0..100_u64 {
        for number in 0..3 {
            let data = (3 * round + number).to_le_bytes();
            verbs.send(&small, &data, soon()).unwrap();
        }
        assert_eq!(
            refused(verbs.send(&small, b"a fourth", Timeout::FOREVER)),
            Refusal::QueueFull
        );
        for mode in [Mode::OnePhase, Mode::TwoPhase] {
            let completion =
                verbs.execute(&small, Verb::Send { data: b"x" }, mode, Timeout::FOREVER);
            assert_eq!(refused(completion.map(drop)), Refusal::QueueFull);
        }
        for number in 0..3 {
            let received = queue.try_recv().unwrap().expect("the sent message");
            assert_eq!(received.data, (3 * round + number).to_le_bytes());
        }
        assert_eq!(queue.try_recv().unwrap(), None);
    }
    assert_eq!(
        refused(verbs.send(&small, &[0; 89], Timeout::FOREVER)),
        Refusal::OutOfBounds
    );
    let verbs = b.status().unwrap().verbs;
    assert_eq!(verbs.refused["queue_full"], 300);
    assert_eq!(verbs.executed["send"], 300);
}

#[test]
fn a_queue_takes_messages_alone_and_only_a_queue_does() {
    let nodes = Nodes::start(&["p0"]);
    let (a, b) = (nodes.attach("a"), nodes.attach("b"));
    let _memory = b.register_region("memory", 4096, Rights::ALL).unwrap();
    let mut queue = b.receive_queue("queue", CAPACITY_BYTES).unwrap();
    let mut verbs = a.verbs().unwrap();
    let target = Target::Name("b");
    let [memory, remote] =
        ["memory", "queue"].map(|name| verbs.open_region(target, name, Timeout::FOREVER).unwrap());
    assert_eq!(
        refused(verbs.send(&memory, b"x", Timeout::FOREVER)),
        Refusal::NoRight
    );
    assert_eq!(
        refused(verbs.write(&remote, 0, b"x", Timeout::FOREVER)),
        Refusal::NoRight
    );
    assert_eq!(
        refused(verbs.read(&remote, 0, &mut [0; 8], Timeout::FOREVER)),
        Refusal::NoRight
    );
    let added = verbs.fetch_add(&remote, 64, 8, Timeout::FOREVER);
    assert_eq!(refused(added.map(drop)), Refusal::NoRight);
    assert_eq!(queue.try_recv().unwrap(), None);

    for capacity_bytes in [RECEIVE_QUEUE_BYTES_MIN - 8, u64::MAX] {
        let error = b.receive_queue("none", capacity_bytes).unwrap_err();
        assert!(matches!(error, Error::Invalid(_)), "{error}");
    }
    for capacity_bytes in [RECEIVE_QUEUE_BYTES_MIN + 1, 1 << 30] {
        let error = b.receive_queue("none", capacity_bytes).unwrap_err();
        assert!(matches!(error, Error::Refused { .. }), "{error}");
    }
    let mixed = Rights {
        read: true,
        ..Rights::SEND
    };
    let error = b.register_region("none", 4096, mixed).unwrap_err();
    assert!(error.to_string().contains("nothing else"), "{error}");
    let error = b.receive_queue("memory", 4096).unwrap_err();
    assert!(error.to_string().contains("memory"), "{error}");
    assert!(b.receive_queue("none", RECEIVE_QUEUE_BYTES_MIN).is_ok());
}

fn post(verbs: &mut Verbs<'_>, there: &RemoteRegion, turn: u64) {
    let mode = [Mode::OnePhase, Mode::TwoPhase][turn as usize % 2];
    let data = turn.to_le_bytes();
    verbs
        .post(there, Verb::Send { data: &data }, mode, turn)
        .unwrap();
}

/// Two programs that hand one message to and fro, and sleep at once whenever there is none.
#[test]
fn no_wake_up_is_lost_when_receivers_sleep_each_time() {
    const TURNS: u64 = 2000;
    let nodes = Nodes::start_with(&["p0"], "[dataplane]\nidle = \"interrupt\"\n");
    let play = |own: &'static str, other: &'static str, serves: bool| {
        let device = nodes.attach(own);
        device.set_spin(Duration::ZERO);
        let mut verbs = device.verbs_with_depth(4).unwrap();
        let mut queue = device.receive_queue(own, 4096).unwrap();
        let there = loop {
            match verbs.open_region(Target::Name(other), other, soon()) {
                Ok(there) => break there,
                Err(Error::VerbRefused {
                    refusal: Refusal::UnknownRegion,
                    ..
                }) => thread::yield_now(),
                Err(error) => panic!("{error}"),
            }
        };
        for turn in 0..TURNS {
            if serves {
                post(&mut verbs, &there, turn);
            }
            let received = queue.recv(soon()).unwrap();
            assert_eq!(received.data, turn.to_le_bytes());
            if !serves {
                post(&mut verbs, &there, turn);
            }
            // Completions wake the same sleeper, and must not be taken for messages.
            let mut completions = [Completion::default()];
            assert_eq!(verbs.poll(&mut completions, soon()).unwrap(), 1);
            assert_eq!(completions[0].outcome, Outcome::Done);
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| play("a", "b", true));
        scope.spawn(|| play("b", "a", false));
    });
}

#[test]
fn a_receiver_that_waits_sleeps_until_its_deadline_or_a_message() {
    let nodes = Nodes::start(&["p0"]);
    let (a, b) = (nodes.attach("a"), nodes.attach("b"));
    let mut queue = b.receive_queue("queue", CAPACITY_BYTES).unwrap();
    let start = Instant::now();
    let wait = Duration::from_millis(50);
    let error = queue.recv(start + wait).unwrap_err();
    assert!(matches!(error, Error::Deadline { .. }), "{error}");
    assert!(start.elapsed() >= wait);

    let own = b.node().guid;
    let mut verbs = [&a, &b].map(|device| device.verbs().unwrap());
    for number in 0..20 {
        let verbs = &mut verbs[number as usize % 2];
        thread::scope(|scope| {
            let receiver = scope.spawn(|| {
                let device = nodes.attach("b");
                device.set_spin(Duration::ZERO);
                let name = format!("own{number}");
                let mut own = device.receive_queue(&name, 4096).unwrap();
                own.recv(soon()).unwrap().data.to_vec()
            });
            let name = format!("own{number}");
            let there = loop {
                match verbs.open_region(Target::Guid(own), &name, soon()) {
                    Ok(there) => break there,
                    Err(Error::VerbRefused { .. }) => thread::yield_now(),
                    Err(error) => panic!("{error}"),
                }
            };
            // Long enough to be asleep; if it is not, the test is only easier to pass.
            thread::sleep(Duration::from_millis(number));
            verbs.send(&there, b"wake up", soon()).unwrap();
            let sent = Instant::now();
            assert_eq!(receiver.join().unwrap(), b"wake up");
            assert!(sent.elapsed() < PATIENCE / 4, "its deadline woke it");
        });
    }
}

/// Sends `count` messages with as many in flight as fit, and retries when the queue is full.
/// Returns the numbers in the order of completion.
fn send_all(device: &Device, target: Target<'_>, first: u64, count: u64) -> Vec<(u64, u64)> {
    let mut verbs = device.verbs_with_depth(32).unwrap();
    let queue = verbs
        .open_region(target, "queue", Timeout::FOREVER)
        .unwrap();
    let mut to_send: Vec<u64> = (first..first + count).rev().collect();
    let mut done = Vec::new();
    let mut completions = vec![Completion::default(); 32];
    let deadline = soon();
    while (done.len() as u64) < count {
        assert!(Instant::now() < deadline, "{} were done", done.len());
        while let Some(&number) = to_send.last() {
            let data = message(number, length(number));
            let mode = [Mode::OnePhase, Mode::TwoPhase][number as usize % 2];
            match verbs.post(&queue, Verb::Send { data: &data }, mode, number) {
                Ok(_) => to_send.pop(),
                Err(Error::QueueFull { .. }) => break,
                Err(error) => panic!("{error}"),
            };
        }
        let taken = verbs.poll(&mut completions, deadline).unwrap();
        for completion in &completions[..taken] {
            match completion.outcome {
                Outcome::Done => {
                    done.push((completion.stamp.executor_count, completion.user_data));
                }
                Outcome::Refused(Refusal::QueueFull | Refusal::NoResources) => {
                    to_send.push(completion.user_data);
                }
                Outcome::InDoubt(_) => {}
                ref other => panic!("{other:?}"),
            }
        }
    }
    done
}

/// Takes `count` messages: number by the count of its execution, in the order of coming.
fn receive_all(queue: &mut ReceiveQueue<'_>, count: u64) -> Vec<(u64, u64, Guid)> {
    (0..count)
        .map(|_| {
            let message = queue.recv(soon()).unwrap();
            let number = number_of(message.data);
            (message.stamp.executor_count, number, message.sender)
        })
        .collect()
}

/// Sets the flag when it is dropped, also by a panic.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Memory::Relaxed);
    }
}

/// Neighbors on two links and an application of the same node send to one small queue, while links
/// are cut repeatedly.
#[test]
fn messages_over_several_links_and_cuts_arrive_exactly_once() {
    const EACH: u64 = 4000;
    let nodes = Triangle::start();
    let receiver = nodes.attach("b");
    // Small, so that it is often full.
    let mut queue = receiver.receive_queue("queue", 1 << 15).unwrap();
    let senders = ["a", "c", "b"].map(|name| nodes.attach(name));
    let own = receiver.node().guid;
    let guids = [0, 1, 2].map(|at: usize| senders[at].node().guid);
    let is_over = AtomicBool::new(false);
    let (sent_stamps, arrived) = thread::scope(|scope| {
        let sending: Vec<_> = (0..)
            .zip(senders)
            .map(|(at, device)| {
                scope.spawn(move || send_all(&device, Target::Guid(own), at * EACH, EACH))
            })
            .collect();
        let cutting = scope.spawn(|| {
            let mut cuts = 0;
            while !is_over.load(Memory::Relaxed) {
                for (node, cable) in [("a", "ab"), ("c", "cb")] {
                    nodes.set_port(node, cable, false);
                    thread::sleep(Duration::from_millis(3));
                    nodes.set_port(node, cable, true);
                    nodes.await_links(node, &["up", "up"]);
                    cuts += 1;
                }
                thread::sleep(Duration::from_millis(5));
            }
            cuts
        });
        let _over = Over(&is_over);
        let arrived = receive_all(&mut queue, 3 * EACH);
        let sent_stamps: Vec<_> = sending.into_iter().map(|it| it.join().unwrap()).collect();
        is_over.store(true, Memory::Relaxed);
        let cuts: u32 = cutting.join().unwrap();
        assert!(cuts >= 4, "{cuts} cuts");
        (sent_stamps, arrived)
    });
    assert_eq!(queue.try_recv().unwrap(), None, "nothing twice");
    assert!(
        arrived.is_sorted_by_key(|&(count, ..)| count),
        "in the order of their commits"
    );
    let by_count: BTreeMap<_, _> = arrived
        .iter()
        .map(|&(count, number, sender)| (count, (number, sender)))
        .collect();
    let mut numbers: Vec<_> = arrived.iter().map(|&(_, number, _)| number).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..3 * EACH).collect::<Vec<_>>(), "exactly once");
    for (guid, sent_stamps) in guids.iter().zip(&sent_stamps) {
        for (count, number) in sent_stamps {
            assert_eq!(
                by_count[count],
                (*number, *guid),
                "as reported to its sender"
            );
        }
    }
}

/// A sender that exits with messages in flight, and a pulled cable: a message reported as undone
/// never arrives.
#[test]
fn an_undone_message_never_arrives() {
    let nodes = Triangle::start();
    let receiver = nodes.attach("b");
    let mut queue = receiver.receive_queue("queue", 1 << 20).unwrap();
    let (queried, mut undone) = (Cell::new(0), 0);
    // On a busy machine all verbs sometimes complete before the cable is pulled, in all of the
    // first rounds.
    for round in (0..100).take_while(|round| *round < 8 || queried.get() == 0) {
        let device = nodes.attach("a");
        // Deep enough for the pipe of requests to hold all.
        let mut verbs = device.verbs_with_depth(4096).unwrap();
        let remote = verbs
            .open_region(Target::Name("b"), "queue", Timeout::FOREVER)
            .unwrap();
        let data = |number: u64| message(number, length(number));
        for number in 0..40 {
            let data = data(40 * round + number);
            let verb = Verb::Send { data: &data };
            verbs.post(&remote, verb, Mode::TwoPhase, number).unwrap();
        }
        nodes.set_port("c", "cb", false);
        nodes.set_port("a", "ab", false);
        nodes.await_links("a", &["down", "up"]);
        let mut in_doubt = Vec::new();
        let mut expected = Vec::new();
        let mut completions = vec![Completion::default(); 64];
        // No data arrives over a cable any more. Completions of earlier data follow soon, unless
        // the machine stalls.
        let pause = Duration::from_millis(400);
        while let Ok(taken @ 1..) = verbs.poll(&mut completions, Instant::now() + pause) {
            for completion in &completions[..taken] {
                let number = 40 * round + completion.user_data;
                match completion.outcome {
                    Outcome::Done => expected.push(number),
                    Outcome::InDoubt(id) => in_doubt.push((number, id)),
                    ref other => panic!("{other:?}"),
                }
            }
        }
        drop(verbs);
        drop(device);
        nodes.set_port("c", "cb", true);
        let device = nodes.attach("a");
        let mut verbs = device.verbs().unwrap();
        for (number, in_doubt) in &in_doubt {
            let id = verbs.query_in_doubt(in_doubt, *number).unwrap();
            loop {
                let completion = verbs.wait(id, soon()).unwrap();
                match completion.outcome {
                    Outcome::Done => expected.push(*number),
                    Outcome::Undone | Outcome::NeverSeen => undone += 1,
                    Outcome::InDoubt(_) => continue,
                    ref other => panic!("{other:?}"),
                }
                break;
            }
        }
        nodes.set_port("a", "ab", true);
        for node in ["a", "b", "c"] {
            nodes.await_links(node, &["up", "up"]);
        }
        let mut arrived = Vec::new();
        while let Some(message) = queue.try_recv().unwrap() {
            arrived.push(number_of(message.data));
        }
        arrived.sort_unstable();
        expected.sort_unstable();
        assert_eq!(arrived, expected, "round {round}");
        queried.set(queried.get() + in_doubt.len());
    }
    assert!(
        queried.get() > 0,
        "no cut hit a message in flight; {undone} were undone"
    );
}
