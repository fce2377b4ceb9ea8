//! Daemons that shut down gracefully and restart while applications reconnect to them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use covalent::{
    Client, Completion, Device, Error, Match, Mode, Outcome, Refusal, RemoteRegion, Rights,
    RxBatch, Target, Timeout, TxPipe, Verb, Verbs,
};
use covalent_ipc::seqpacket::Listener;

use crate::nodes::{Nodes, PATIENCE, eventually, soon};

/// An EtherType that nothing else uses.
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
fn pipes_are_reopened_with_their_bindings_and_contents() {
    let mut nodes = Nodes::start(&["p0"]);
    let (a, b) = (attach(&nodes, "a"), attach(&nodes, "b"));
    let mut out = a.tx_pipe(1 << 16, "p0").unwrap();
    // Leaves a hole in the pipe numbers, which must stay the same.
    let first = b.rx_pipe(1 << 16).unwrap();
    let mut rx = b.rx_pipe(1 << 16).unwrap();
    let id = rx.id();
    drop(first);
    rx.bind(&TYPE).unwrap();
    out.try_send(&frame(0)).unwrap();
    assert_eq!(b.next_rx_pipe(soon()).unwrap(), id);
    // It lies there unread.
    nodes.stop("b");
    nodes.respawn("b");
    let taken = |rx: &mut covalent::RxPipe<'_>| {
        let batch = rx.recv(soon()).unwrap();
        let numbers: Vec<u32> = batch.iter().map(number).collect();
        batch.free_all();
        numbers
    };
    assert_eq!(
        taken(&mut rx),
        [0],
        "data that had arrived is received first"
    );
    assert_eq!(b.next_reconnection(), None, "it is not noticed yet");
    b.check_connection().unwrap();
    let reconnection = b.next_reconnection().expect("it has noticed");
    assert!(reconnection.in_order, "{reconnection:?}");
    assert_eq!(b.next_reconnection(), None);
    assert_eq!(rx.id(), id);
    let mut next = 1;
    let mut seen = Vec::new();
    // The cable needs a moment after the restart. Frames sent before are lost.
    eventually("frames arrive again", || {
        out.try_send(&frame(next)).unwrap();
        next += 1;
        while let Some(batch) = rx.try_recv().unwrap() {
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
        out.try_send(&frame(number)).unwrap();
    }
    nodes.stop("a");
    nodes.respawn("a");
    out.flush(soon()).unwrap();
    assert_eq!(a.carried().frames, u64::from(FRAMES));
    assert!(a.next_reconnection().unwrap().in_order);
    let mut seen = Vec::new();
    while seen.len() < FRAMES as usize {
        let batch = rx.recv(soon()).unwrap();
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
    nodes.respawn("b");
    for device in [&plain, &hasty] {
        assert!(matches!(device.status(), Err(Error::DaemonGone { .. })));
        assert_eq!(device.next_reconnection(), None);
    }
}

#[test]
fn verbs_wait_for_links_that_come_up_late_after_a_restart() {
    let mut nodes = Nodes::start(&["p0"]);
    let (a, b) = (attach(&nodes, "a"), attach(&nodes, "b"));
    let counter = b.register_region("counter", 64, Rights::ALL).unwrap();
    let mut verbs = a.verbs_with_depth(16).unwrap();
    let region = verbs
        .open_region(Target::Name("b"), "counter", Timeout::FOREVER)
        .unwrap();
    nodes.stop("a");
    nodes.stop("b");
    nodes.respawn("a");
    let one = Verb::FetchAdd {
        offset_bytes: 0,
        delta: 1,
    };
    verbs.post(&region, one, Mode::TwoPhase, 7).unwrap();
    let mut completions = vec![Completion::default(); 16];
    // As a network card that looks for its carrier, or a neighbor that boots.
    let soon_up = Instant::now() + Duration::from_millis(2_500);
    let taken = verbs.poll(&mut completions, soon_up);
    assert!(
        matches!(taken, Ok(0) | Err(Error::Deadline { .. })),
        "{taken:?} {completions:?}"
    );
    nodes.respawn("b");
    b.check_connection().unwrap();
    let taken = verbs.poll(&mut completions, soon()).unwrap();
    let outcome = &completions[taken - 1].outcome;
    // Unknown if the verb arrived before the region was registered again.
    assert!(
        matches!(
            outcome,
            Outcome::Old(0) | Outcome::Refused(Refusal::UnknownRegion)
        ),
        "{outcome:?}"
    );
    assert!(counter.load(0).unwrap() <= 1);
}

/// The socket's holder accepts connections, and nothing replies: as systemd does while the daemon
/// does not start.
#[test]
fn a_daemon_that_never_answers_is_gone_after_the_patience() {
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
fn another_node_at_the_socket_is_reported_and_not_used() {
    let mut nodes = Nodes::start(&["p0"]);
    let device = attach(&nodes, "b");
    let former = device.node().guid.to_string();
    nodes.stop("b");
    nodes.forget("b");
    nodes.respawn("b");
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

/// Restarts daemon `b` and makes the device reconnect once, without using any object that is open
/// through it.
fn restart_under(nodes: &mut Nodes, device: &Device) {
    nodes.stop("b");
    nodes.respawn("b");
    device.check_connection().unwrap();
    let reconnection = device.next_reconnection().expect("it has noticed");
    assert!(reconnection.in_order, "{reconnection:?}");
}

/// Sends a message to a queue until the queue accepts it. The queue may not be registered again
/// yet, and its node may be unreachable.
fn deliver(verbs: &mut Verbs<'_>, queue: &RemoteRegion, message: &[u8]) {
    eventually("it is delivered", || {
        match verbs.send(queue, message, soon()) {
            Ok(()) => true,
            Err(Error::VerbRefused { .. } | Error::NoSuchPeer) => false,
            Err(error) => panic!("{error}"),
        }
    });
}

#[test]
fn messages_of_every_generation_are_received_in_order_at_any_time() {
    let mut nodes = Nodes::start(&["p0"]);
    let b = attach(&nodes, "b");
    let mut queue = b.receive_queue("orders", 1 << 16).unwrap();
    let a = nodes.attach("a");
    let mut verbs = a.verbs().unwrap();
    let orders = verbs
        .open_region(Target::Name("b"), "orders", Timeout::FOREVER)
        .unwrap();
    for generation in 0..3_u8 {
        if generation > 0 {
            restart_under(&mut nodes, &b);
        }
        for number in 0..5 {
            deliver(&mut verbs, &orders, &[generation, number]);
        }
    }
    // The last daemon has stopped too, unnoticed.
    nodes.stop("b");
    nodes.respawn("b");
    for generation in 0..3 {
        for number in 0..5 {
            let message = queue.try_recv().unwrap().expect("it was acknowledged");
            assert_eq!(message.data, [generation, number]);
        }
    }
    assert_eq!(queue.try_recv().unwrap(), None);
    deliver(&mut verbs, &orders, b"now");
    assert_eq!(queue.recv(soon()).unwrap().data, b"now");
    assert_eq!(b.carried().messages_lost, 0);
}

#[test]
fn unread_messages_of_too_many_restarts_are_counted_as_lost() {
    const RESTARTS: u8 = 7;
    let mut nodes = Nodes::start(&["p0"]);
    let b = attach(&nodes, "b");
    let mut queue = b.receive_queue("orders", 1 << 16).unwrap();
    let a = nodes.attach("a");
    let mut verbs = a.verbs().unwrap();
    let orders = verbs
        .open_region(Target::Name("b"), "orders", Timeout::FOREVER)
        .unwrap();
    for generation in 0..=RESTARTS {
        if generation > 0 {
            restart_under(&mut nodes, &b);
        }
        // Memory of an incarnation without messages is not kept.
        if generation != 3 {
            deliver(&mut verbs, &orders, &[generation, 0]);
            deliver(&mut verbs, &orders, &[generation, 1]);
        }
    }
    let mut generations = Vec::new();
    while let Some(message) = queue.try_recv().unwrap() {
        generations.push(message.data[0]);
        assert_eq!(message.data[1], (generations.len() as u8 + 1) % 2);
    }
    generations.dedup();
    assert_eq!(generations, [0, 2, 4, 5, 6, 7]);
    assert_eq!(b.carried().messages_lost, 2);
}

/// Sends numbered frames, starting at `next`, until the pipe's daemon has put `count` more into it.
fn fill(out: &mut TxPipe<'_>, arrived: impl Fn() -> u64, next: &mut u32, count: u64) {
    let wanted = arrived() + count;
    // The cable needs a moment after the restart. Frames sent before are lost.
    eventually("frames arrive", || {
        if arrived() < wanted {
            out.try_send(&frame(*next)).unwrap();
            *next += 1;
            out.flush(soon()).unwrap();
        }
        arrived() >= wanted
    });
}

/// Frames arrive in three daemon incarnations, and the last one stops too. `take` receives them
/// once each time that `next_rx_pipe` returns the pipe, as a program with many pipes does. It
/// returns the numbers of the frames that it took.
fn frames_of_every_generation(take: impl Fn(RxBatch<'_>) -> Vec<u32>) {
    let mut nodes = Nodes::start(&["p0"]);
    let (a, b) = (attach(&nodes, "a"), attach(&nodes, "b"));
    let mut out = a.tx_pipe(1 << 16, "p0").unwrap();
    let mut rx = b.rx_pipe(1 << 16).unwrap();
    rx.bind(&TYPE).unwrap();
    let id = rx.id();
    let socket = nodes.socket("b");
    // Number of packets that the daemon of this incarnation has put into the pipe.
    let arrived = || {
        let status = Client::connect(&socket, "test").unwrap().status().unwrap();
        status.pipes.iter().map(|pipe| pipe.rx_packets).sum()
    };
    let (mut next, mut begins) = (0, Vec::new());
    for generation in 0..3 {
        if generation > 0 {
            restart_under(&mut nodes, &b);
        }
        begins.push(next);
        fill(&mut out, arrived, &mut next, 4);
    }
    // Nothing comes any more that would be news.
    restart_under(&mut nodes, &b);
    let mut seen = Vec::new();
    while seen.last() != Some(&(next - 1)) {
        assert_eq!(b.next_rx_pipe(soon()).unwrap(), id);
        if let Some(batch) = rx.try_recv().unwrap() {
            seen.extend(take(batch));
        }
    }
    assert!(seen.is_sorted_by(|a, b| a < b), "{seen:?}");
    for (generation, begin) in begins.iter().enumerate() {
        let end = begins.get(generation + 1).copied().unwrap_or(next);
        let of_it = seen.iter().filter(|number| (*begin..end).contains(number));
        assert!(
            of_it.count() >= 4,
            "incarnation {generation} of {begins:?}: {seen:?}"
        );
    }
    assert_eq!(rx.try_recv().unwrap().map(drop), None);
    assert_eq!(b.carried().frames_lost, 0);
}

#[test]
fn frames_of_every_generation_are_received_in_order_at_any_time() {
    frames_of_every_generation(|batch| batch.iter().map(number).collect());
}

#[test]
fn a_pipe_is_reported_until_all_its_generations_are_empty() {
    frames_of_every_generation(|batch| {
        let first = batch.iter().map(number).next();
        batch.free(1);
        first.into_iter().collect()
    });
}

/// Outcomes of one client's additions.
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

/// Adds one to the first word repeatedly, sixteen at a time, until `end`, and waits for all of
/// them. Counts in `done` the additions of all clients so far.
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
        let taken = verbs.poll(&mut completions, soon()).unwrap();
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
            let region = verbs
                .open_region(Target::Name(target), "counter", Timeout::FOREVER)
                .unwrap();
            ready.fetch_add(1, Ordering::AcqRel);
            let tally = add(&mut verbs, &region, &end, &done);
            let mut restarts = Vec::new();
            while let Some(reconnection) = device.next_reconnection() {
                restarts.push(reconnection);
            }
            (tally, device.carried(), restarts)
        })
    };
    // The host of the counter only checks its daemon.
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
                device.check_connection().unwrap();
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
        nodes.respawn(name);
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
        // A client that was still handling one restart when the next began survived both as one.
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
    // A shutdown that a busy machine does not let finish within its second is not graceful.
    assert!(
        all.unknown == 0 || !in_order,
        "a graceful shutdown leaves nothing in doubt: {all:?}"
    );
}

#[test]
fn messages_arrive_once_through_restarts_of_the_receiver() {
    const MESSAGES: u64 = 2_000;
    let mut nodes = Nodes::start(&["p0"]);
    let b = attach(&nodes, "b");
    let mut queue = b.receive_queue("orders", 1 << 16).unwrap();
    let socket = nodes.socket("a");
    let sent = Arc::new(AtomicU64::new(0));
    let progress = sent.clone();
    let sender = thread::spawn(move || {
        let device = Device::attach(socket, "sender").unwrap();
        device.set_reconnect(Some(PATIENCE));
        let mut verbs = device.verbs().unwrap();
        let orders = verbs
            .open_region(Target::Name("b"), "orders", Timeout::FOREVER)
            .unwrap();
        for message in 0..MESSAGES {
            loop {
                match verbs.send(&orders, &message.to_le_bytes(), soon()) {
                    Ok(()) => break,
                    // Not there yet, or full: still the sender's.
                    Err(Error::VerbRefused {
                        refusal: Refusal::UnknownRegion | Refusal::QueueFull,
                        ..
                    }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            progress.store(message + 1, Ordering::Release);
        }
    });
    let mut restarts = 0;
    for expected in 0..MESSAGES {
        if expected % 400 == 200 {
            nodes.stop("b");
            nodes.respawn("b");
            restarts += 1;
        }
        let message = queue.recv(soon()).unwrap();
        let found = u64::from_le_bytes(message.data.try_into().unwrap());
        assert_eq!(found, expected, "after {restarts} restarts");
    }
    sender.join().unwrap();
    assert_eq!(sent.load(Ordering::Acquire), MESSAGES);
    assert_eq!(queue.try_recv().unwrap(), None);
}
