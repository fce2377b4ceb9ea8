//! Daemons that are restarted in order under applications that find them again.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use covalent_pipe::seqpacket::Listener;
use covalent_verbs::{
    Client, Completion, Device, Error, Match, Mode, Outcome, Refusal, RemoteRegion, Rights,
    RxBatch, Target, TxPipe, Verb, Verbs,
};

use crate::nodes::{Nodes, PATIENCE, eventually, soon};

/// An EtherType that nobody else uses.
const TYPE: Match = Match::EtherType { ethertype: 0x88b6 };

/// A device that finds its daemon again.
fn attach(nodes: &Nodes, name: &str) -> Device {
    let device = nodes.attach(name);
    device.set_reconnect(Some(PATIENCE));
    device
}

/// Frame number `number`, 100 bytes.
fn frame(number: u32) -> [u8; 100] {
    let mut frame = [0; 100];
    frame[12..14].copy_from_slice(&0x88b6_u16.to_be_bytes());
    frame[14..18].copy_from_slice(&number.to_be_bytes());
    frame
}

fn number(frame: &[u8]) -> u32 {
    u32::from_be_bytes(frame[14..18].try_into().unwrap())
}

#[test]
fn pipes_are_open_again_with_their_bindings_and_what_lay_in_them() {
    let mut nodes = Nodes::start(&["p0"]);
    let (a, b) = (attach(&nodes, "a"), attach(&nodes, "b"));
    let mut out = a.tx_pipe(1 << 16, "p0").unwrap();
    // So that numbers have a hole, which they keep.
    let first = b.rx_pipe(1 << 16).unwrap();
    let mut rx = b.rx_pipe(1 << 16).unwrap();
    let id = rx.id();
    drop(first);
    rx.bind(&TYPE).unwrap();
    out.send(&frame(0)).unwrap();
    assert_eq!(b.next_rx_pipe_deadline(soon()).unwrap(), id);
    // It lies there unread.
    nodes.stop("b");
    nodes.start_again("b");
    let taken = |rx: &mut covalent_verbs::RxPipe<'_>| {
        let batch = rx.recv_deadline(soon()).unwrap();
        let numbers: Vec<u32> = batch.iter().map(number).collect();
        batch.free_all();
        numbers
    };
    assert_eq!(taken(&mut rx), [0], "what had arrived is received first");
    assert_eq!(b.next_reconnection(), None, "nobody has noticed yet");
    b.check_alive().unwrap();
    let reconnection = b.next_reconnection().expect("it has noticed");
    assert!(reconnection.in_order, "{reconnection:?}");
    assert_eq!(b.next_reconnection(), None);
    assert_eq!(rx.id(), id);
    let mut next = 1;
    let mut seen = Vec::new();
    // The cable takes a moment until it carries again, and what is sent before is lost.
    eventually("frames arrive again", || {
        out.send(&frame(next)).unwrap();
        next += 1;
        while let Some(batch) = rx.recv().unwrap() {
            seen.extend(batch.iter().map(number));
            batch.free_all();
        }
        !seen.is_empty()
    });
    assert!(seen.is_sorted(), "{seen:?}");
    rx.unbind(&TYPE).unwrap();
    assert!(matches!(rx.unbind(&TYPE), Err(Error::Refused { .. })));
}

#[test]
fn frames_that_were_not_taken_are_sent_by_the_next_daemon_once_and_in_order() {
    const FRAMES: u32 = 200;
    let mut nodes = Nodes::start(&["p0"]);
    let (a, b) = (attach(&nodes, "a"), attach(&nodes, "b"));
    let mut rx = b.rx_pipe(1 << 20).unwrap();
    rx.bind(&TYPE).unwrap();
    let mut out = a.tx_pipe(1 << 16, "p0").unwrap();
    // A pulled cable takes nothing.
    nodes.set_port("p0", false);
    for number in 0..FRAMES {
        out.send(&frame(number)).unwrap();
    }
    nodes.stop("a");
    nodes.start_again("a");
    out.flush_deadline(soon()).unwrap();
    assert_eq!(a.carried().frames, u64::from(FRAMES));
    assert!(a.next_reconnection().unwrap().in_order);
    let mut seen = Vec::new();
    while seen.len() < FRAMES as usize {
        let batch = rx.recv_deadline(soon()).unwrap();
        seen.extend(batch.iter().map(number));
        batch.free_all();
    }
    assert!(seen.iter().copied().eq(0..FRAMES), "{seen:?}");
}

#[test]
fn without_patience_a_device_ends_with_its_daemon_and_with_too_little_too() {
    let mut nodes = Nodes::start(&["p0"]);
    let (plain, hasty) = (nodes.attach("b"), nodes.attach("b"));
    hasty.set_reconnect(Some(Duration::from_millis(30)));
    nodes.stop("b");
    for device in [&plain, &hasty] {
        assert!(matches!(device.status(), Err(Error::DaemonGone { .. })));
    }
    nodes.start_again("b");
    for device in [&plain, &hasty] {
        assert!(matches!(device.status(), Err(Error::DaemonGone { .. })));
        assert_eq!(device.next_reconnection(), None);
    }
}

#[test]
fn verbs_wait_for_links_that_take_long_to_come_up_after_a_restart() {
    let mut nodes = Nodes::start(&["p0"]);
    let (a, b) = (attach(&nodes, "a"), attach(&nodes, "b"));
    let counter = b.register_region("counter", 64, Rights::ALL).unwrap();
    let mut verbs = a.verbs_with_depth(16).unwrap();
    let region = verbs.open_region(Target::Name("b"), "counter").unwrap();
    nodes.stop("a");
    nodes.stop("b");
    nodes.start_again("a");
    let one = Verb::FetchAdd {
        offset_bytes: 0,
        delta: 1,
    };
    verbs.post(&region, one, Mode::TwoPhase, 7).unwrap();
    let mut completions = vec![Completion::default(); 16];
    // As a network card that looks for its carrier, or a neighbour that boots.
    let soon_up = Instant::now() + Duration::from_millis(2_500);
    let taken = verbs.poll_deadline(&mut completions, soon_up);
    assert!(
        matches!(taken, Ok(0) | Err(Error::Deadline { .. })),
        "{taken:?} {completions:?}"
    );
    nodes.start_again("b");
    b.check_alive().unwrap();
    let taken = verbs.poll_deadline(&mut completions, soon()).unwrap();
    let outcome = &completions[taken - 1].outcome;
    // Unknown if it came before the region was registered again.
    assert!(
        matches!(
            outcome,
            Outcome::Old(0) | Outcome::Refused(Refusal::UnknownRegion)
        ),
        "{outcome:?}"
    );
    assert!(counter.load(0).unwrap() <= 1);
}

/// Whoever holds the socket lets everybody in, and nobody answers: systemd, while the daemon does not come up.
#[test]
fn a_daemon_that_nobody_answers_for_is_gone_when_patience_is_over() {
    const PATIENCE: Duration = Duration::from_secs(2);
    let mut nodes = Nodes::start(&["p0"]);
    let device = nodes.attach("b");
    device.set_reconnect(Some(PATIENCE));
    nodes.stop("b");
    let _held = Listener::bind(&nodes.socket("b")).unwrap();
    let since = Instant::now();
    let gone = device.status().unwrap_err();
    assert!(matches!(gone, Error::DaemonGone { .. }), "{gone}");
    assert!(since.elapsed() >= PATIENCE, "{:?}", since.elapsed());
    let since = Instant::now();
    let gone = device.status().unwrap_err();
    assert!(matches!(gone, Error::DaemonGone { .. }), "{gone}");
    assert!(since.elapsed() < PATIENCE, "it was waited for once");
}

#[test]
fn another_node_at_the_socket_is_told_and_not_used() {
    let mut nodes = Nodes::start(&["p0"]);
    let device = attach(&nodes, "b");
    let former = device.node().guid.to_string();
    nodes.stop("b");
    nodes.forget("b");
    nodes.start_again("b");
    let error = device.status().unwrap_err();
    assert!(matches!(error, Error::AnotherNode { .. }), "{error}");
    let text = error.to_string();
    let socket = nodes.socket("b");
    assert!(text.contains(socket.to_str().unwrap()), "{text}");
    assert!(
        text.contains(&former) && text.contains("state_dir"),
        "{text}"
    );
    assert!(matches!(device.status(), Err(Error::DaemonGone { .. })));
    assert_eq!(device.next_reconnection(), None);
}

/// Has the device find its daemon `b` once more, without a look at anything that is open through it.
fn restart_under(nodes: &mut Nodes, device: &Device) {
    nodes.stop("b");
    nodes.start_again("b");
    device.check_alive().unwrap();
    let reconnection = device.next_reconnection().expect("it has noticed");
    assert!(reconnection.in_order, "{reconnection:?}");
}

/// Sends a message to a queue until that takes it: it may not be registered again yet, and its node not be reached.
fn deliver(verbs: &mut Verbs<'_>, queue: &RemoteRegion, message: &[u8]) {
    eventually("it is delivered", || {
        match verbs.send_deadline(queue, message, soon()) {
            Ok(()) => true,
            Err(Error::VerbRefused(_) | Error::NoSuchPeer) => false,
            Err(error) => panic!("{error}"),
        }
    });
}

#[test]
fn messages_of_every_life_are_received_in_their_order_however_late() {
    let mut nodes = Nodes::start(&["p0"]);
    let b = attach(&nodes, "b");
    let mut queue = b.receive_queue("orders", 1 << 16).unwrap();
    let a = nodes.attach("a");
    let mut verbs = a.verbs().unwrap();
    let orders = verbs.open_region(Target::Name("b"), "orders").unwrap();
    for life in 0..3_u8 {
        if life > 0 {
            restart_under(&mut nodes, &b);
        }
        for number in 0..5 {
            deliver(&mut verbs, &orders, &[life, number]);
        }
    }
    // The last one has ended too, and nobody has noticed.
    nodes.stop("b");
    nodes.start_again("b");
    for life in 0..3 {
        for number in 0..5 {
            let message = queue.recv().unwrap().expect("it was acknowledged");
            assert_eq!(message.data, [life, number]);
        }
    }
    assert_eq!(queue.recv().unwrap(), None);
    deliver(&mut verbs, &orders, b"now");
    assert_eq!(queue.recv_deadline(soon()).unwrap().data, b"now");
    assert_eq!(b.carried().messages_lost, 0);
}

#[test]
fn who_receives_nothing_through_too_many_restarts_is_told_how_much_is_lost() {
    const RESTARTS: u8 = 7;
    let mut nodes = Nodes::start(&["p0"]);
    let b = attach(&nodes, "b");
    let mut queue = b.receive_queue("orders", 1 << 16).unwrap();
    let a = nodes.attach("a");
    let mut verbs = a.verbs().unwrap();
    let orders = verbs.open_region(Target::Name("b"), "orders").unwrap();
    for life in 0..=RESTARTS {
        if life > 0 {
            restart_under(&mut nodes, &b);
        }
        // Of one in which nothing came nothing is kept.
        if life != 3 {
            deliver(&mut verbs, &orders, &[life, 0]);
            deliver(&mut verbs, &orders, &[life, 1]);
        }
    }
    let mut lives = Vec::new();
    while let Some(message) = queue.recv().unwrap() {
        lives.push(message.data[0]);
        assert_eq!(message.data[1], (lives.len() as u8 + 1) % 2);
    }
    lives.dedup();
    assert_eq!(lives, [0, 2, 4, 5, 6, 7]);
    assert_eq!(b.carried().messages_lost, 2);
}

/// Sends numbered frames, counted on from `next`, until the pipe's daemon has put `count` more into it.
fn fill(out: &mut TxPipe<'_>, arrived: impl Fn() -> u64, next: &mut u32, count: u64) {
    let wanted = arrived() + count;
    // The cable takes a moment until it carries again, and what is sent before is lost.
    eventually("frames arrive", || {
        if arrived() < wanted {
            out.send(&frame(*next)).unwrap();
            *next += 1;
            out.flush_deadline(soon()).unwrap();
        }
        arrived() >= wanted
    });
}

/// Frames come in three lives, of which the last ends too, and `take` gets them: once for each time that the pipe is named, as a program does that serves many pipes in turn. It tells the
/// numbers of those that it took.
fn frames_of_every_life(take: impl Fn(RxBatch<'_>) -> Vec<u32>) {
    let mut nodes = Nodes::start(&["p0"]);
    let (a, b) = (attach(&nodes, "a"), attach(&nodes, "b"));
    let mut out = a.tx_pipe(1 << 16, "p0").unwrap();
    let mut rx = b.rx_pipe(1 << 16).unwrap();
    rx.bind(&TYPE).unwrap();
    let id = rx.id();
    let socket = nodes.socket("b");
    // What the daemon of this life has put into the pipe.
    let arrived = || {
        let status = Client::connect(&socket, "test").unwrap().status().unwrap();
        status.pipes.iter().map(|pipe| pipe.rx_packets).sum()
    };
    let (mut next, mut begins) = (0, Vec::new());
    for life in 0..3 {
        if life > 0 {
            restart_under(&mut nodes, &b);
        }
        begins.push(next);
        fill(&mut out, arrived, &mut next, 4);
    }
    // Nothing comes any more that would be news.
    restart_under(&mut nodes, &b);
    let mut seen = Vec::new();
    while seen.last() != Some(&(next - 1)) {
        assert_eq!(b.next_rx_pipe_deadline(soon()).unwrap(), id);
        if let Some(batch) = rx.recv().unwrap() {
            seen.extend(take(batch));
        }
    }
    assert!(seen.is_sorted_by(|a, b| a < b), "{seen:?}");
    for (life, begin) in begins.iter().enumerate() {
        let end = begins.get(life + 1).copied().unwrap_or(next);
        let of_it = seen.iter().filter(|number| (*begin..end).contains(number));
        assert!(of_it.count() >= 4, "life {life} of {begins:?}: {seen:?}");
    }
    assert_eq!(rx.recv().unwrap().map(drop), None);
    assert_eq!(b.carried().frames_lost, 0);
}

#[test]
fn frames_of_every_life_are_received_in_their_order_however_late() {
    frames_of_every_life(|batch| batch.iter().map(number).collect());
}

#[test]
fn a_pipe_is_named_until_nothing_of_any_life_is_left_in_it() {
    frames_of_every_life(|batch| {
        let first = batch.iter().map(number).next();
        batch.free(1);
        first.into_iter().collect()
    });
}

/// What became of the additions of one client.
#[derive(Debug, Default)]
struct Tally {
    done: u64,
    not_done: u64,
    unknown: u64,
}

impl Tally {
    fn count(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Old(_) => self.done += 1,
            Outcome::Refused(Refusal::NoResources | Refusal::UnknownRegion | Refusal::Busy) => {
                self.not_done += 1
            }
            Outcome::Forgotten | Outcome::PeerRestarted => self.unknown += 1,
            Outcome::InDoubt(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

/// Adds one to the first word again and again, sixteen at a time, until `end`, and waits for all of them.
/// Counts in `done` what all clients have added so far.
fn add(verbs: &mut Verbs<'_>, region: &RemoteRegion, end: &AtomicBool, done: &AtomicU64) -> Tally {
    let one = Verb::FetchAdd {
        offset_bytes: 0,
        delta: 1,
    };
    let mut tally = Tally::default();
    let mut completions = vec![Completion::default(); 16];
    loop {
        while !end.load(Ordering::Acquire) && verbs.outstanding() < 16 {
            verbs.post(region, one, Mode::TwoPhase, 0).unwrap();
        }
        if verbs.outstanding() == 0 {
            return tally;
        }
        let taken = verbs.poll_deadline(&mut completions, soon()).unwrap();
        let before = tally.done;
        for completion in &completions[..taken] {
            tally.count(&completion.outcome);
        }
        done.fetch_add(tally.done - before, Ordering::AcqRel);
    }
}

#[test]
fn additions_are_exact_through_restarts_of_both_nodes_under_load() {
    const DONE_MIN: u64 = 1_000;
    let mut nodes = Nodes::start(&["p0"]);
    let (ready, end) = (
        Arc::new(AtomicU64::new(0)),
        Arc::new(AtomicBool::new(false)),
    );
    let hosted = Arc::new(AtomicBool::new(false));
    let done = Arc::new(AtomicU64::new(0));
    let client = |from: &'static str, target: &'static str| {
        let (socket, end, ready) = (nodes.socket(from), end.clone(), ready.clone());
        let done = done.clone();
        thread::spawn(move || {
            let device = Device::attach(socket, "adder").unwrap();
            device.set_reconnect(Some(PATIENCE));
            let mut verbs = device.verbs_with_depth(16).unwrap();
            let region = verbs.open_region(Target::Name(target), "counter").unwrap();
            ready.fetch_add(1, Ordering::AcqRel);
            let tally = add(&mut verbs, &region, &end, &done);
            let mut restarts = Vec::new();
            while let Some(reconnection) = device.next_reconnection() {
                restarts.push(reconnection);
            }
            (tally, device.carried(), restarts)
        })
    };
    // Who hosts the counter does nothing else, and looks after its daemon.
    let host = {
        let (socket, hosted, end) = (nodes.socket("b"), hosted.clone(), end.clone());
        thread::spawn(move || {
            let device = Device::attach(socket, "host").unwrap();
            device.set_reconnect(Some(PATIENCE));
            let counter = device
                .register_region("counter", 4096, Rights::ALL)
                .unwrap();
            hosted.store(true, Ordering::Release);
            while !end.load(Ordering::Acquire) || Arc::strong_count(&end) > 2 {
                device.check_alive().unwrap();
                thread::sleep(Duration::from_micros(200));
            }
            counter.load(0).unwrap()
        })
    };
    eventually("the counter is there", || hosted.load(Ordering::Acquire));
    let clients = [client("a", "b"), client("b", "b")];
    eventually("both add", || ready.load(Ordering::Acquire) == 2);
    let seed = Instant::now();
    for round in 0..10_u64 {
        // Any moment will do.
        let pause = 3_000 + (seed.elapsed().as_nanos() as u64 ^ round) % 20_000;
        thread::sleep(Duration::from_micros(pause));
        let name = if round % 2 == 0 { "b" } else { "a" };
        nodes.stop(name);
        nodes.start_again(name);
    }
    eventually("enough is added", || {
        done.load(Ordering::Acquire) > DONE_MIN
    });
    end.store(true, Ordering::Release);
    let (mut all, mut in_order) = (Tally::default(), true);
    for client in clients {
        let (tally, carried, restarts) = client.join().unwrap();
        eprintln!("{tally:?} {carried:?} {restarts:?}");
        assert_eq!(
            carried.verbs_forgotten,
            tally.unknown.min(carried.verbs_forgotten)
        );
        // Who was not through with one restart when the next began lived through both at once.
        assert!((1..=5).contains(&restarts.len()), "{restarts:?}");
        in_order &= restarts.iter().all(|restart| restart.in_order);
        all.done += tally.done;
        all.unknown += tally.unknown;
        all.not_done += tally.not_done;
    }
    let word = host.join().unwrap();
    assert!(all.done > DONE_MIN, "{all:?}");
    assert!(
        (all.done..=all.done + all.unknown).contains(&word),
        "{word} were added: {all:?}"
    );
    // An end that a machine without time did not let finish within its second is none in order.
    assert!(
        all.unknown == 0 || !in_order,
        "in order nothing is left in doubt: {all:?}"
    );
}

#[test]
fn messages_come_once_through_restarts_of_the_receiver() {
    const MESSAGES: u64 = 2_000;
    let mut nodes = Nodes::start(&["p0"]);
    let b = attach(&nodes, "b");
    let mut queue = b.receive_queue("orders", 1 << 16).unwrap();
    let socket = nodes.socket("a");
    let sent = Arc::new(AtomicU64::new(0));
    let told = sent.clone();
    let sender = thread::spawn(move || {
        let device = Device::attach(socket, "sender").unwrap();
        device.set_reconnect(Some(PATIENCE));
        let mut verbs = device.verbs().unwrap();
        let orders = verbs.open_region(Target::Name("b"), "orders").unwrap();
        for message in 0..MESSAGES {
            loop {
                match verbs.send_deadline(&orders, &message.to_le_bytes(), soon()) {
                    Ok(()) => break,
                    // Not there yet, or full: still the sender's.
                    Err(Error::VerbRefused(Refusal::UnknownRegion | Refusal::QueueFull)) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            told.store(message + 1, Ordering::Release);
        }
    });
    let mut restarts = 0;
    for expected in 0..MESSAGES {
        if expected % 400 == 200 {
            nodes.stop("b");
            nodes.start_again("b");
            restarts += 1;
        }
        let message = queue.recv_deadline(soon()).unwrap();
        let found = u64::from_le_bytes(message.data.try_into().unwrap());
        assert_eq!(found, expected, "after {restarts} restarts");
    }
    sender.join().unwrap();
    assert_eq!(sent.load(Ordering::Acquire), MESSAGES);
    assert_eq!(queue.recv().unwrap(), None);
}
