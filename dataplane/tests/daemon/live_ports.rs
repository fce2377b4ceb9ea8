//! Ports that come, go and are opened again while the node runs, and the effect on the others.

#![allow(clippy::print_stdout)]

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use covalent_api::{
    agreement::{RefusalBrief, VerdictBrief},
    event::EventKind,
    request::{PipeKind, Reply, Request},
    rule::{Action, Match, Rule, Spread},
    status::{LinkStatus, NodeStatus, PortStatus},
};
use covalent_config::{Config, Idle, PortConfig, PortKind};
use covalent_protocol::{Mode, verb::Verb};
use fastrand::Rng;

use super::{
    agreement::{held, text, wish},
    client::{App, Client, Ended, Verbs},
    node::{Node, eventually, pair},
    streams::numbered,
};

const TYPE: Match = Match::EtherType { ethertype: 0x1234 };

pub fn cable(dir: &Path, name: &str) -> PortConfig {
    PortConfig {
        name: name.to_owned(),
        lane: 0,
        link: true,
        kind: PortKind::Cable {
            path: dir.join(name),
            ring_slots: 1024,
        },
        faults: None,
    }
}

fn capture(name: &str, input: Option<&Path>, output: &Path) -> PortConfig {
    PortConfig {
        link: false,
        kind: PortKind::Pcap {
            input: input.map(Path::to_owned),
            output: Some(output.to_owned()),
        },
        ..cable(output, name)
    }
}

/// Opened again where it is.
fn with_ring(port: &PortConfig, slots: u32) -> PortConfig {
    let mut port = port.clone();
    if let PortKind::Cable { ring_slots, .. } = &mut port.kind {
        *ring_slots = slots;
    }
    port
}

pub fn without(config: &Config, name: &str) -> Config {
    let mut config = config.clone();
    config.port.retain(|port| port.name != name);
    config
}

pub fn replaced(config: &Config, port: PortConfig) -> Config {
    let mut config = config.clone();
    let at = config.port.iter().position(|other| other.name == port.name);
    match at {
        Some(at) => config.port[at] = port,
        None => config.port.push(port),
    }
    config
}

pub fn port<'s>(status: &'s NodeStatus, name: &str) -> Option<&'s PortStatus> {
    status.ports.iter().find(|port| port.name == name)
}

pub fn link<'s>(status: &'s NodeStatus, name: &str) -> Option<&'s LinkStatus> {
    status.links.iter().find(|link| link.port == name)
}

pub fn await_link(client: &mut Client, name: &str) -> u32 {
    let mut epoch = 0;
    eventually("the link is up", || {
        let status = client.status();
        let up = link(&status, name).filter(|link| link.state == "up");
        epoch = up.map_or(0, |link| link.epoch);
        up.is_some()
    });
    epoch
}

#[track_caller]
pub fn taken(client: &mut Client, config: &Config) -> VerdictBrief {
    let verdict = wish(client, &text(config));
    assert_eq!(verdict.refused, None, "{verdict:?}");
    verdict
}

/// Numbered frames from one application to another until it is stopped.
pub struct Stream {
    end: Arc<AtomicBool>,
    sender: JoinHandle<u32>,
    receiver: JoinHandle<u32>,
}

impl Stream {
    /// From `a` to `b` over `p0`.
    pub fn start(a: &Node, b: &Node) -> Self {
        /// Maximum in flight: fewer than the RX pipe holds.
        const WINDOW: u64 = 256;
        /// While the window is full.
        const PAUSE: Duration = Duration::from_micros(500);
        let end = Arc::new(AtomicBool::new(false));
        let received = Arc::new(AtomicU64::new(0));
        let mut sink = App::attach(&b.config.socket_path());
        // From all ports, so that it is bound on each new port.
        let (rx_pipe, mut rx) = sink.rx(None);
        sink.bind(rx_pipe, TYPE);
        let (socket, is_over, seen) = (a.config.socket_path(), end.clone(), received.clone());
        let sender = thread::spawn(move || {
            let mut app = App::attach(&socket);
            let (pipe, mut tx) = app.tx("p0");
            let mut number = 0;
            while !is_over.load(Ordering::Acquire) {
                if u64::from(number) < seen.load(Ordering::Acquire) + WINDOW {
                    app.send(pipe, &mut tx, &numbered(number, 200));
                    number += 1;
                } else {
                    thread::sleep(PAUSE);
                }
            }
            app.send(pipe, &mut tx, &numbered(u32::MAX, 200));
            // Until it has arrived.
            while seen.load(Ordering::Acquire) != u64::MAX {
                thread::sleep(PAUSE);
            }
            number
        });
        let receiver = thread::spawn(move || {
            for number in 0.. {
                let packet = sink.receive(rx_pipe, &mut rx, 1).remove(0);
                if packet == numbered(u32::MAX, 200) {
                    received.store(u64::MAX, Ordering::Release);
                    return number;
                }
                assert!(packet == numbered(number, 200), "a gap before {number}");
                received.store(u64::from(number) + 1, Ordering::Release);
            }
            unreachable!("more numbers than frames");
        });
        Self {
            end,
            sender,
            receiver,
        }
    }

    /// Returns the number of frames sent, all of which arrived.
    pub fn end(self) -> u32 {
        self.end.store(true, Ordering::Release);
        let sent = self.sender.join().expect("the sender ends well");
        let received = self.receiver.join().expect("the receiver ends well");
        assert_eq!(sent, received);
        sent
    }
}

/// Adds 1 repeatedly to a word of the other node until `end` is set, several additions at a time.
/// Returns their number.
fn add(a: &Node, target: u64, rkey: u32, end: Arc<AtomicBool>) -> JoinHandle<u64> {
    let socket = a.config.socket_path();
    thread::spawn(move || {
        let mut verbs = Verbs::new(App::attach(&socket));
        let (mut posted, mut ended) = (0_u64, 0);
        while !end.load(Ordering::Acquire) || ended < posted {
            while posted < ended + 8 && !end.load(Ordering::Acquire) {
                let mode = [Mode::OnePhase, Mode::TwoPhase][posted as usize % 2];
                let verb = Verb::FetchAdd { delta: 1 };
                assert!(verbs.post(target, mode, posted, rkey, 0, verb));
                posted += 1;
            }
            for (_, how) in verbs.wait() {
                match how {
                    Ended::Committed { .. } => ended += 1,
                    other => assert!(other.is_doubt(), "{other:?}"),
                }
            }
        }
        posted
    })
}

/// Returns the next configuration to request from one of the nodes.
fn next(config: &Config, dir: &Path, rng: &mut Rng) -> (Config, bool) {
    let mut wanted = config.clone();
    let is_good = match rng.u8(0..10) {
        0 | 1 if config.port.iter().any(|port| port.name == "p1") => {
            wanted = without(config, "p1");
            true
        }
        0 | 1 => {
            wanted.port.insert(0, cable(dir, "p1"));
            true
        }
        2 | 3 => {
            let slots = [512, 1024, 2048][rng.usize(0..3)];
            let p2 = cable(dir, "p2");
            wanted = replaced(config, with_ring(&p2, slots));
            true
        }
        4 => {
            let name = format!("x{}", rng.u8(0..4));
            wanted = match config.port.iter().any(|port| port.name == name) {
                true => without(config, &name),
                false => replaced(config, cable(dir, &name)),
            };
            true
        }
        5 => {
            rng.shuffle(&mut wanted.port);
            true
        }
        6 => {
            wanted.steer = (0..rng.u16(0..60))
                .map(|number| Rule {
                    matches: Match::EtherType {
                        ethertype: 0x3000 + number,
                    },
                    action: Action::Drop,
                })
                .collect();
            true
        }
        7 => {
            wanted.dataplane.idle = [Idle::Adaptive, Idle::Interrupt][rng.usize(0..2)];
            wanted.dataplane.burst = rng.u32(16..64);
            true
        }
        8 => {
            // Beside the open ports: nothing is closed.
            let missing = dir.join("missing");
            wanted = replaced(config, capture("c1", Some(&missing), &dir.join("c1")));
            false
        }
        _ => {
            // The cable of the second port goes down and comes back, for a port that cannot be
            // opened.
            wanted = replaced(config, with_ring(&cable(dir, "p2"), 4096));
            let missing = dir.join("missing");
            let output = dir.join(format!("{}-c0", config.node.name));
            wanted = replaced(&wanted, capture("c0", Some(&missing), &output));
            false
        }
    };
    (wanted, is_good)
}

#[test]
fn a_user_of_one_port_is_unaffected_by_changes_of_others() {
    let dir = tempfile::tempdir().expect("a directory");
    let dir = dir.path();
    let start = |name: &str| {
        // Long timeouts, because other processes may use the cores.
        let mut node = Node::new(dir, name, &["p0", "p1", "p2"], "idle_tick_ms = 50\n");
        let output = dir.join(format!("{name}-c0"));
        node.config.port.push(capture("c0", None, &output));
        node.start()
    };
    let nodes = [start("a"), start("b")];
    let mut clients = [nodes[0].client(), nodes[1].client()];
    for client in &mut clients {
        for name in ["p0", "p1", "p2"] {
            await_link(client, name);
        }
    }
    let mut owner = App::attach(&nodes[1].config.socket_path());
    let (rkey, memory) = owner.register("count", 4096);
    let end = Arc::new(AtomicBool::new(false));
    let adding = add(&nodes[0], nodes[1].guid(), rkey, end.clone());
    let stream = Stream::start(&nodes[0], &nodes[1]);

    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut rng = Rng::with_seed(seed);
    let mut configs = [nodes[0].config.clone(), nodes[1].config.clone()];
    let mut epochs = [0, 0];
    for _ in 0..200 {
        let at = rng.usize(0..2);
        let (wanted, is_good) = next(&configs[at], dir, &mut rng);
        let verdict = wish(&mut clients[at], &text(&wanted));
        assert_eq!(verdict.refused.is_none(), is_good, "{verdict:?}");
        if is_good {
            epochs[at] += 1;
            configs[at] = wanted;
        }
        assert_eq!(verdict.held.epoch, epochs[at]);
        assert!(verdict.lanes.iter().all(|lane| lane.epoch == epochs[at]));
    }
    end.store(true, Ordering::Release);
    let added = adding.join().expect("every verb ends");
    assert_eq!(memory.load(0), Some(added), "each verb once");
    assert!(stream.end() > 0 && added > 0);
    for (client, config) in clients.iter_mut().zip(&configs) {
        let status = client.status();
        let p0 = link(&status, "p0").expect("it is there");
        assert_eq!((p0.state.as_str(), p0.ups), ("up", 1), "{p0:?}");
        let drops = &port(&status, "p0").expect("it is there").drops;
        assert!(drops.values().all(|&count| count == 0), "{drops:?}");
        let named = |mut names: Vec<String>| {
            names.sort();
            names
        };
        let there = named(status.ports.iter().map(|port| port.name.clone()).collect());
        let wanted = named(config.port.iter().map(|port| port.name.clone()).collect());
        assert_eq!(there, wanted);
        assert!(status.ports.iter().all(|port| port.absent.is_none()));
    }
    // Links configured on both sides come up.
    for client in &mut clients {
        await_link(client, "p2");
    }
}

#[test]
fn a_pipe_waits_for_its_port_and_continues_when_it_returns() {
    let dir = tempfile::tempdir().expect("a directory");
    let (a, b) = pair(dir.path(), &["p0", "p1"]);
    let mut control = a.client();
    let mut events = a.client();
    events.done(&Request::Subscribe);
    let number = port(&control.status(), "p1").map(|port| port.number);
    let before = await_link(&mut control, "p1");

    let mut sender = App::attach(&a.config.socket_path());
    let (tx_pipe, mut tx) = sender.tx("p1");
    let mut receiver = App::attach(&b.config.socket_path());
    let (rx_pipe, mut rx) = receiver.rx(Some("p1"));
    receiver.bind(rx_pipe, TYPE);
    sender.send(tx_pipe, &mut tx, &numbered(0, 64));
    receiver.receive(rx_pipe, &mut rx, 1);

    let verdict = taken(&mut control, &without(&a.config, "p1"));
    assert_eq!(verdict.changed, ["port"]);
    assert!(
        verdict.beware[0].starts_with("1 pipe of session") && verdict.beware[0].contains("`p1`"),
        "{verdict:?}"
    );
    let status = control.status();
    assert!(port(&status, "p1").is_none() && link(&status, "p1").is_none());
    let Reply::Refused { reason, .. } = sender
        .client
        .call(&Request::OpenPipe {
            kind: PipeKind::Tx,
            capacity_bytes: 1 << 16,
            port: Some("p1".to_owned()),
            completions: None,
        })
        .0
    else {
        panic!("a pipe on a port that is not there");
    };
    assert!(reason.contains("no port `p1`"), "{reason}");
    for number in 1..10 {
        sender.send(tx_pipe, &mut tx, &numbered(number, 64));
    }
    // A port that comes has another number, also in its place.
    let other = replaced(&without(&a.config, "p1"), cable(dir.path(), "p9"));
    let verdict = taken(&mut control, &other);
    assert_eq!(verdict.changed, ["port[1]"]);
    assert_ne!(
        port(&control.status(), "p9").map(|port| port.number),
        number
    );

    let verdict = taken(&mut control, &a.config);
    assert_eq!(verdict.changed, ["port", "port[1]"]);
    loop {
        match events.receive() {
            Some((Reply::Event(event), _)) => {
                if event.kind
                    == (EventKind::PortOpened {
                        port: "p1".to_owned(),
                    })
                {
                    break;
                }
            }
            other => panic!("{other:?}"),
        }
    }
    let waited = receiver.receive(rx_pipe, &mut rx, 9);
    assert!(
        waited
            .into_iter()
            .eq((1..10).map(|number| numbered(number, 64)))
    );
    assert_eq!(
        port(&control.status(), "p1").map(|port| port.number),
        number
    );
    assert!(await_link(&mut control, "p1") > before);
    let sent = port(&control.status(), "p1").map(|port| port.tx_packets);
    assert!(sent >= Some(10), "counts go on: {sent:?}");
}

#[test]
fn a_new_port_steers_the_bindings_of_every_pipe() {
    let dir = tempfile::tempdir().expect("a directory");
    let (a, b) = pair(dir.path(), &["p0"]);
    let mut clients = [a.client(), b.client()];
    let mut receiver = App::attach(&b.config.socket_path());
    // One alone, and two that take turns; one that sees another port only.
    let (alone, mut alone_rx) = receiver.rx(None);
    receiver.bind(alone, TYPE);
    let shared = Match::EtherType { ethertype: 0x4321 };
    let mut turns = [receiver.rx(None), receiver.rx(None)];
    for (pipe, _) in &turns {
        receiver.share(*pipe, shared.clone(), Spread::RoundRobin);
    }
    let (elsewhere, _memory) = receiver.rx(Some("p0"));
    receiver.bind(elsewhere, Match::Any);
    for (client, node) in clients.iter_mut().zip([&a, &b]) {
        let mut wanted = replaced(&node.config, cable(dir.path(), "p1"));
        wanted.steer.push(Rule {
            matches: Match::EtherType { ethertype: 0x2222 },
            action: Action::Drop,
        });
        taken(client, &wanted);
    }
    for client in &mut clients {
        await_link(client, "p1");
    }
    let mut sender = App::attach(&a.config.socket_path());
    let (tx_pipe, mut tx) = sender.tx("p1");
    let typed = |number: u32, ethertype: u16| {
        let mut frame = numbered(number, 64);
        frame[12..14].copy_from_slice(&ethertype.to_be_bytes());
        frame
    };
    for frame in [
        typed(0, 0x2222),
        typed(1, 0x4321),
        typed(2, 0x4321),
        typed(3, 0x5555),
        typed(4, 0x1234),
    ] {
        sender.send(tx_pipe, &mut tx, &frame);
    }
    let came = receiver.receive(alone, &mut alone_rx, 1);
    assert_eq!(came, [typed(4, 0x1234)]);
    let mut came: Vec<_> = turns
        .iter_mut()
        .flat_map(|(pipe, rx)| receiver.receive(*pipe, rx, 1))
        .collect();
    came.sort();
    let mut sent = [typed(1, 0x4321), typed(2, 0x4321)];
    sent.sort();
    assert_eq!(came, sent);
    eventually("both frames without a receiver are counted", || {
        let status = b.status();
        let drops = &port(&status, "p1").expect("it is there").drops;
        drops["steered_to_drop"] == 1 && drops["no_pipe"] == 1
    });
}

#[test]
fn a_port_that_cannot_be_opened_leaves_the_open_ones() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path();
    let start = |name: &str| {
        let mut node = Node::new(path, name, &["p0", "p1"], "");
        let output = path.join(format!("{name}-c0"));
        node.config.port.push(capture("c0", None, &output));
        node.start()
    };
    let (a, _b) = (start("a"), start("b"));
    let mut control = a.client();
    let epochs = ["p0", "p1"].map(|name| await_link(&mut control, name));
    let before = held(&mut control);
    let missing = path.join("missing");
    // Beside all that is open: nothing is closed, though a port would have been.
    let reopened = replaced(&a.config, with_ring(&a.config.port[1], 2048));
    let beside = replaced(&reopened, capture("c1", Some(&missing), &path.join("c1")));
    let verdict = wish(&mut control, &text(&beside));
    assert_eq!(verdict.refused, Some(RefusalBrief::Unready));
    assert_eq!(verdict.objections[0].key, "port[3]");
    assert!(verdict.objections[0].message.contains("missing"));
    let status = control.status();
    for (name, epoch) in ["p0", "p1"].into_iter().zip(epochs) {
        assert_eq!(link(&status, name).map(|link| link.epoch), Some(epoch));
    }
    // In place of a port that must be closed first.
    let after = replaced(&reopened, capture("c0", Some(&missing), &path.join("a-c0")));
    let verdict = wish(&mut control, &text(&after));
    assert_eq!(verdict.refused, Some(RefusalBrief::Unready));
    assert_eq!(verdict.objections[0].key, "port[2]");
    assert_eq!(held(&mut control), before);
    assert!(await_link(&mut control, "p1") > epochs[1]);
    let status = control.status();
    assert_eq!(link(&status, "p0").map(|link| link.epoch), Some(epochs[0]));
    assert!(status.ports.iter().all(|port| port.absent.is_none()));
    // The restored port works, and so does another exchange.
    let mut app = App::attach(&a.config.socket_path());
    let (pipe, mut tx) = app.tx("c0");
    app.send(pipe, &mut tx, &numbered(1, 64));
    eventually("the capture is written", || {
        std::fs::metadata(path.join("a-c0")).is_ok_and(|file| file.len() == 24 + 16 + 64)
    });
    taken(&mut control, &reopened);
    await_link(&mut control, "p1");
}

#[test]
fn ports_change_places_lanes_and_names() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path();
    let mut a = Node::new(path, "a", &["p0", "p1"], "");
    let lane = a.config.lane[0].clone();
    a.config.lane.push(lane);
    let a = a.start();
    let b = Node::new(path, "b", &["p0", "p1"], "").start();
    let mut control = a.client();
    for name in ["p0", "p1"] {
        await_link(&mut control, name);
    }
    let peer_port = |name: &str| {
        let status = a.status();
        link(&status, name).and_then(|link| link.peer_port)
    };
    assert_eq!([peer_port("p0"), peer_port("p1")], [Some(0), Some(1)]);
    // The two cables change places: both must be closed before either is opened.
    let mut crossed = a.config.clone();
    let kind = crossed.port[0].kind.clone();
    crossed.port[0].kind = std::mem::replace(&mut crossed.port[1].kind, kind);
    let verdict = taken(&mut control, &crossed);
    assert_eq!(verdict.changed, ["port[0].path", "port[1].path"]);
    eventually("each leads to the other end", || {
        [peer_port("p0"), peer_port("p1")] == [Some(1), Some(0)]
    });
    // One moves to the other lane, and is another port there.
    let mut moved = a.config.clone();
    moved.port[1].lane = 1;
    taken(&mut control, &moved);
    for name in ["p0", "p1"] {
        await_link(&mut control, name);
    }
    let status = control.status();
    let p1 = port(&status, "p1").expect("it is there");
    assert_eq!((p1.lane, p1.number), (1, 2));
    let peer = link(&b.status(), "p1").and_then(|link| link.peer);
    assert_eq!(peer.map(|peer| peer.bits()), Some(a.guid() + 1));
    // Back, under the number that it had there; and under another name.
    taken(&mut control, &a.config);
    assert_eq!(
        port(&control.status(), "p1").map(|port| port.number),
        Some(1)
    );
    let mut named = a.config.clone();
    named.port[1].name = "other".to_owned();
    taken(&mut control, &named);
    await_link(&mut control, "other");
    assert_eq!(
        port(&control.status(), "other").map(|port| port.number),
        Some(3)
    );
}

#[test]
fn fault_injection_that_is_not_allowed_is_refused_with_its_key() {
    let dir = tempfile::tempdir().expect("a directory");
    let (a, _b) = pair(dir.path(), &["p0"]);
    let mut control = a.client();
    let mut wanted = a.config.clone();
    wanted.port[0].faults = Some(covalent_config::FaultsConfig::default());
    let verdict = wish(&mut control, &text(&wanted));
    assert_eq!(verdict.refused, Some(RefusalBrief::Unready));
    assert_eq!(verdict.objections[0].key, "port[0].faults");
    assert!(verdict.objections[0].message.contains("--allow-faults"));
}
