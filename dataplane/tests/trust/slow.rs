//! An application that does not take its packets or notifications harms only itself.

use std::{
    sync::atomic::Ordering,
    thread,
    time::{Duration, Instant},
};

use covalent_api::{
    request::{PipeKind, Reply, Request},
    rule::Match,
};
use covalent_pipe::app::RxPipe;
use covalent_protocol::{Mode, verb::Verb};
use nix::sys::signal::{Signal, kill};

use super::{
    child::{Application, orders, report},
    client::{App, Verbs},
    honest::{BAIT, Honest, Progress, stop_word},
    namespace::with_veth,
    node::{self, Node, PATIENCE, pair_on_a_cable, pair_on_af_xdp},
    turn,
};

/// How long one look at the throughput lasts.
const WINDOW: Duration = Duration::from_millis(100);
/// Looks with and without the slow one.
const ROUNDS: usize = 3;
/// Times that a way of being slow is tried at most.
const TRIES: usize = 6;
/// The least part of its throughput that a neighbor of a slow application keeps in the best look.
const KEPT_MIN: f64 = 0.4;
/// The same in the median look.
const USUALLY_KEPT_MIN: f64 = 0.2;

/// Ways of being slow.
const SLOW_MODES: [&str; 4] = [
    "frees_nothing",
    "takes_no_notification",
    "reads_no_completion",
    "is_stopped",
];

/// Attaches, gets frames and completions, and is slow in the way of its argument.
#[test]
#[ignore = "the body of a child process"]
fn dawdler() {
    let Some((socket, slow_mode)) = orders() else {
        return;
    };
    let stop = stop_word();
    let mut app = App::attach(&socket);
    let (reply, fds) = app.client.call(&Request::OpenPipe {
        kind: PipeKind::Rx,
        capacity_bytes: 64 * 1024,
        port: Some("p0".to_owned()),
        completions: None,
    });
    let Reply::Pipe { pipe, .. } = reply else {
        panic!("{reply:?}")
    };
    let fds = fds.try_into().expect("two descriptors");
    let memory = covalent_pipe::PipeMemory::open(fds, covalent_pipe::Direction::Rx, 64 * 1024);
    let mut rx = RxPipe::new(memory.expect("pipe memory")).expect("an RX pipe");
    app.client.done(&Request::Mapped);
    app.bind(pipe, Match::EtherType { ethertype: BAIT });
    let (rkey, _memory) = app.register("slow", 64);
    let session = app.session;
    let mut verbs = Verbs::new(app);
    report(&format!("{session} {pipe}"));
    let mut number = 0;
    while !stop.load(Ordering::Relaxed) {
        match slow_mode.as_str() {
            "reads_no_completion" => {
                let verb = Verb::FetchAdd { delta: 1 };
                if verbs.post(0, Mode::OnePhase, number, rkey, 0, verb) {
                    number += 1;
                } else {
                    thread::sleep(Duration::from_millis(1));
                }
            }
            // Frees its packets, and never takes a notification.
            "takes_no_notification" => {
                if let Some(batch) = rx.recv() {
                    batch.free_all();
                } else if rx.wait_for_more() {
                    verbs.app.ring(pipe);
                }
                thread::sleep(Duration::from_micros(100));
            }
            _ => thread::sleep(Duration::from_millis(1)),
        }
    }
}

fn watch(a: &Node, honest: &Honest) -> Progress {
    let before = honest.progress(&a.status());
    thread::sleep(WINDOW);
    honest.progress(&a.status()).since(before)
}

/// Returns the counts of one pipe by the daemon of `node`: packets placed, and packets dropped as
/// `full`. Fails if another session's pipe dropped any.
fn placed_and_full(node: &Node, session: u64, pipe: u32) -> (u64, u64) {
    let status = node.status();
    let found = status
        .pipes
        .iter()
        .find(|found| (found.session, found.pipe) == (session, pipe));
    let found = found.expect("the slow one is still attached");
    let others = status.pipes.iter().filter(|other| other.session != session);
    let dropped: u64 = others.map(|other| other.drops["full"]).sum();
    assert_eq!(dropped, 0, "a neighbor's frames were dropped");
    (found.rx_packets, found.drops["full"])
}

/// Measures neighbors of a slow application, with it and without it. Returns whether they keep
/// enough of their frames and verbs.
fn keep_enough(a: &Node, honest: &Honest, slow_mode: &str) -> bool {
    let (mut alone, mut beside) = (Vec::new(), Vec::new());
    let mut reported = Vec::new();
    for _ in 0..ROUNDS {
        alone.push(watch(a, honest));
        // On the node and the port where the neighbor's stream ends.
        let mut dawdler = Application::start("slow::dawdler", a.socket(), slow_mode);
        let ready = dawdler.next_report().expect("it is ready");
        let (session, pipe) = ready.split_once(' ').expect("a session and a pipe");
        let (session, pipe) = (
            session.parse().expect("a number"),
            pipe.parse().expect("a number"),
        );
        if slow_mode == "is_stopped" {
            kill(dawdler.pid(), Signal::SIGSTOP).expect("it runs");
        }
        let is_full = matches!(slow_mode, "frees_nothing" | "is_stopped");
        let deadline = Instant::now() + PATIENCE;
        loop {
            let (placed, full) = placed_and_full(a, session, pipe);
            if placed > 0 && (full > 0 || !is_full) {
                break;
            }
            assert!(
                Instant::now() < deadline,
                "{slow_mode}: {placed} placed, {full} full"
            );
            thread::sleep(Duration::from_millis(10));
        }
        // From here on its effect is measured.
        beside.push(watch(a, honest));
        reported.push(placed_and_full(a, session, pipe));
        if slow_mode == "is_stopped" {
            kill(dawdler.pid(), Signal::SIGCONT).expect("it is stopped");
        }
        dawdler.stop();
    }
    let worst = Progress::worst(&beside);
    let alone = Progress::median(&alone);
    let usual = Progress::median(&beside).part_of(alone);
    let kept = Progress::best(&beside).part_of(alone);
    eprintln!(
        "{slow_mode}: neighbors keep {usual:.2?} of their frames and verbs (best {kept:.2?}; in \
         the worst window {worst:?}); (placed, full) of its pipe: {reported:?}"
    );
    assert!(
        worst.frames > 0 && worst.verbs > 0,
        "{slow_mode}: its neighbors stood still"
    );
    // False for NaN too: the neighbors then made no progress without it.
    kept.iter().all(|&kept| kept > KEPT_MIN) && usual.iter().all(|&kept| kept > USUALLY_KEPT_MIN)
}

fn dawdle(mut a: Node, mut b: Node) {
    let honest = Honest::start(&a, &b);
    for slow_mode in SLOW_MODES {
        // Other users of the machine may come and go meanwhile. A neighbor that is delayed by the
        // application is delayed each time.
        let held_up = !(0..TRIES).any(|_| keep_enough(&a, &honest, slow_mode));
        assert!(!held_up, "{slow_mode}: its neighbors are held up");
    }
    // Byte for byte, nothing lost: the neighbors check.
    honest.stop();
    for node in [&mut a, &mut b] {
        node.check_alive();
        assert_eq!(
            node.status().sessions_detached["violation"],
            0,
            "to be slow is no offense"
        );
    }
    let links = a.status().links;
    assert!(links.iter().all(|link| link.ups == 1), "{links:?}");
}

#[test]
fn a_slow_application_harms_itself_alone() {
    let _turn = turn::take();
    let dir = node::place();
    let (a, b) = pair_on_a_cable(dir.path());
    dawdle(a, b);
}

#[test]
fn a_slow_application_harms_itself_alone_on_af_xdp() {
    let _turn = turn::take();
    with_veth(|| {
        let dir = node::place();
        let (a, b) = pair_on_af_xdp(dir.path());
        dawdle(a, b);
    });
}
