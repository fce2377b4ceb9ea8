//! Applications that keep to the rules, and check every byte that they get.

use std::{
    io::Read,
    os::{
        fd::OwnedFd,
        unix::fs::{FileExt, MetadataExt},
    },
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use covalent_api::{
    request::{PipeKind, Reply, Request, Rights},
    rule::{Match, Transport},
    status::{NodeStatus, PipeStatus},
};
use covalent_pipe::app::TxPipe;
use covalent_protocol::{Mode, verb::Verb};

use super::{
    child::{Application, orders, report},
    client::{App, CAPACITY_BYTES, Client, Verbs},
    node::{Node, PATIENCE},
};

/// EtherType of the honest stream.
const STREAM: u16 = 0x1234;
/// EtherType of frames for any application that binds it: hostile and slow ones.
pub const BAIT: u16 = 0x4321;
/// EtherType of the same number of other frames, for pipes that send their packets back.
pub const BAIT_TO_SEND_BACK: u16 = BAIT + 1;
/// Port of as many datagrams, for pipes of bytes.
const BAIT_PORT: u16 = 4321;
/// One frame of bait for so many others.
const FRAMES_PER_BAIT: u32 = 16;
/// Frames of bait for each batch that is sent back.
const BAIT_PER_BATCH: u32 = 48;
/// Frames on their way there and back at once.
const WINDOW: u32 = 300;
/// Verbs in flight at once, at either node.
const VERBS: u64 = 64;

/// The honest applications of two nodes: a stream from `a` to `b` and back, and verbs from `a` at
/// both. On either node one more opens and closes everything.
pub struct Honest {
    streamer: Application,
    verber: Application,
    others: Vec<Application>,
    stream_session: u64,
    verb_session: u64,
}

/// How far they have come.
#[derive(Debug, Clone, Copy, Default)]
pub struct Progress {
    /// Frames that came back.
    pub frames: u64,
    /// Verbs completed.
    pub verbs: u64,
}

impl Honest {
    /// Starts them and waits until all are in progress.
    pub fn start(a: &Node, b: &Node) -> Self {
        let mut echo = Application::start("honest::echo", b.socket(), "");
        let rkey = echo.next_report().expect("the echo is ready");
        let argument = format!("{} {rkey}", b.status().guid.bits());
        let mut streamer = Application::start("honest::streamer", a.socket(), "");
        let mut verber = Application::start("honest::verber", a.socket(), &argument);
        let session = |application: &mut Application| {
            let reported = application.next_report().expect("it is ready");
            reported.parse().expect("its session")
        };
        let stream_session = session(&mut streamer);
        let verb_session = session(&mut verber);
        let openers = [a, b].map(|node| Application::start("honest::opener", node.socket(), ""));
        let mut honest = Self {
            streamer,
            verber,
            others: Vec::from(openers),
            stream_session,
            verb_session,
        };
        honest.others.push(echo);
        honest
    }

    /// Returns their progress, as counted by the daemon of `a`.
    pub fn progress(&self, status: &NodeStatus) -> Progress {
        let received = |session, kind| {
            let wanted = |pipe: &&PipeStatus| pipe.session == session && pipe.kind == kind;
            let pipe = status.pipes.iter().find(wanted);
            pipe.unwrap_or_else(|| panic!("session {session} is open: {status:?}"))
                .rx_packets
        };
        Progress {
            frames: received(self.stream_session, PipeKind::Rx),
            verbs: received(self.verb_session, PipeKind::VerbComplete),
        }
    }

    /// Stops all of them. Each checks its results. Prints their work.
    pub fn stop(self) {
        for application in [self.streamer, self.verber].into_iter().chain(self.others) {
            if let Some(last) = application.stop() {
                eprintln!("{last}");
            }
        }
    }
}

impl Progress {
    /// Returns the work done since `before`.
    pub fn since(self, before: Self) -> Self {
        Self {
            frames: self.frames - before.frames,
            verbs: self.verbs - before.verbs,
        }
    }

    /// Parts of the frames and of the verbs of `whole`.
    pub fn part_of(self, whole: Self) -> [f64; 2] {
        [
            self.frames as f64 / whole.frames as f64,
            self.verbs as f64 / whole.verbs as f64,
        ]
    }

    /// The lesser of both, of frames and of verbs apart.
    pub fn least_of(self, other: Self) -> Self {
        Self {
            frames: self.frames.min(other.frames),
            verbs: self.verbs.min(other.verbs),
        }
    }

    /// The best of `all`, of frames and of verbs apart.
    pub fn best(all: &[Self]) -> Self {
        let best = |count: fn(&Self) -> u64| all.iter().map(count).max().unwrap_or(0);
        Self {
            frames: best(|progress| progress.frames),
            verbs: best(|progress| progress.verbs),
        }
    }

    /// The worst of `all`, of frames and of verbs apart.
    pub fn worst(all: &[Self]) -> Self {
        let worst = |count: fn(&Self) -> u64| all.iter().map(count).min().unwrap_or(0);
        Self {
            frames: worst(|progress| progress.frames),
            verbs: worst(|progress| progress.verbs),
        }
    }

    /// The median of `all`, of frames and of verbs apart.
    pub fn median(all: &[Self]) -> Self {
        let median = |count: fn(&Self) -> u64| {
            let mut counts: Vec<u64> = all.iter().map(count).collect();
            counts.sort_unstable();
            counts[counts.len() / 2]
        };
        Self {
            frames: median(|progress| progress.frames),
            verbs: median(|progress| progress.verbs),
        }
    }
}

/// Becomes true when the parent closes this child's input.
pub fn stop_word() -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    let word = stop.clone();
    thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        stop.store(true, Ordering::Relaxed);
    });
    word
}

/// Returns frame `number` of the stream. Its bytes identify their position.
fn frame(number: u32) -> Vec<u8> {
    let length = 64 + number as usize * 37 % 1400;
    let mut frame: Vec<u8> = (0..length)
        .map(|at| (at as u32).wrapping_mul(31).wrapping_add(number) as u8)
        .collect();
    frame[12..14].copy_from_slice(&STREAM.to_be_bytes());
    frame[14..18].copy_from_slice(&number.to_be_bytes());
    frame
}

/// Which datagrams are bait.
pub fn datagram_bait() -> Match {
    Match::Destination {
        transport: Transport::Udp,
        dst: [10, 0, 0, 2].into(),
        dst_port: BAIT_PORT,
    }
}

/// Bait of each kind in turn.
pub fn bait(number: u32) -> Vec<u8> {
    if number % 3 == 2 {
        let mut datagram = Vec::new();
        etherparse::PacketBuilder::ethernet2([2; 6], [4; 6])
            .ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)
            .udp(4000, BAIT_PORT)
            .write(&mut datagram, &[0x5a; 22])
            .expect("memory");
        return datagram;
    }
    let ethertype = [BAIT, BAIT_TO_SEND_BACK][number as usize % 3];
    let mut frame = frame(0);
    frame[12..14].copy_from_slice(&ethertype.to_be_bytes());
    frame
}

fn send_bait(app: &mut App, pipe: u32, tx: &mut TxPipe) {
    for number in 0..BAIT_PER_BATCH {
        // A full wire accepts none: the sender does not wait for it.
        let _ = tx.send(&bait(number));
    }
    if tx.publish() {
        app.ring(pipe);
    }
}

/// Sends every frame of the stream back, and holds a region for verbs.
#[test]
#[ignore = "the body of a child process"]
fn echo() {
    let Some((socket, _)) = orders() else { return };
    let stop = stop_word();
    let mut app = App::attach(&socket);
    let (rkey, memory) = app.register("count", 64);
    let (bait_pipe, mut tx) = app.tx("p0");
    let (pipe, mut rx_tx) = app.rx_tx("p0");
    app.bind(pipe, Match::EtherType { ethertype: STREAM });
    report(&rkey.to_string());
    while !stop.load(Ordering::Relaxed) {
        if let Some(batch) = rx_tx.recv_mut() {
            if batch.send_all() {
                app.ring(pipe);
            }
            send_bait(&mut app, bait_pipe, &mut tx);
        } else if rx_tx.wait_for_more() {
            app.ring(pipe);
        } else {
            app.sleep(Duration::from_millis(20));
        }
    }
    report(&format!(
        "{} fetch-and-adds",
        memory.load(0).expect("in bounds")
    ));
}

/// Keeps a window of frames on their way to the echo and back, and checks each.
#[test]
#[ignore = "the body of a child process"]
fn streamer() {
    let Some((socket, _)) = orders() else { return };
    let stop = stop_word();
    let mut app = App::attach(&socket);
    let (rx_pipe, mut rx) = app.rx(None);
    app.bind(rx_pipe, Match::EtherType { ethertype: STREAM });
    let (pipe, mut tx) = app.tx("p0");
    report(&app.session.to_string());
    let (mut sent, mut back) = (0_u32, 0_u32);
    let mut alive = Instant::now();
    while !stop.load(Ordering::Relaxed) || back < sent {
        while sent - back < WINDOW && !stop.load(Ordering::Relaxed) {
            if tx.send(&frame(sent)).is_err() {
                break;
            }
            sent += 1;
            if sent % FRAMES_PER_BAIT == 0 {
                let _ = tx.send(&bait(sent / FRAMES_PER_BAIT));
            }
        }
        if tx.publish() {
            app.ring(pipe);
        }
        if let Some(batch) = rx.recv() {
            for packet in batch.iter() {
                assert!(
                    packet == frame(back),
                    "frame {back} returned as {} bytes: {:02x?}…",
                    packet.len(),
                    &packet[..packet.len().min(32)]
                );
                back += 1;
            }
            batch.free_all();
            alive = Instant::now();
        } else if rx.wait_for_more() {
            app.ring(rx_pipe);
        } else {
            assert!(
                alive.elapsed() < PATIENCE,
                "no frame returned in time: {back} of {sent}"
            );
            app.sleep(Duration::from_millis(20));
        }
    }
    report(&format!("{back} frames returned byte for byte, in order"));
}

/// Adds to a word of the other node and to one of its own. Checks that no other client did and that
/// no addition was lost.
#[test]
#[ignore = "the body of a child process"]
fn verber() {
    let Some((socket, argument)) = orders() else {
        return;
    };
    let stop = stop_word();
    let (guid, rkey) = argument.split_once(' ').expect("a GUID and a key");
    let mut app = App::attach(&socket);
    let (own_rkey, memory) = app.register("own", 64);
    let targets = [
        (guid.parse().expect("a GUID"), rkey.parse().expect("a key")),
        (0, own_rkey),
    ];
    let session = app.session;
    let mut verbs = Verbs::new(app);
    report(&session.to_string());
    let (mut posted, mut done) = (0, [0_u64; 2]);
    while !stop.load(Ordering::Relaxed) || done != [posted; 2] {
        while posted - done[0].min(done[1]) < VERBS && !stop.load(Ordering::Relaxed) {
            for (side, &(target, rkey)) in (0..).zip(&targets) {
                let verb = Verb::FetchAdd { delta: 1 };
                assert!(
                    verbs.post(target, Mode::TwoPhase, side, rkey, 0, verb),
                    "room for the previous verbs"
                );
            }
            posted += 1;
        }
        if done == [posted; 2] {
            continue;
        }
        for (side, how) in verbs.wait() {
            let done = &mut done[side as usize];
            assert_eq!(how.word(), *done, "the count of side {side}");
            *done += 1;
        }
    }
    assert_eq!(memory.load(0), Some(done[1]));
    report(&format!(
        "{} remote and {} local fetch-and-adds, each exactly once",
        done[0], done[1]
    ));
}

/// Opens and closes pipes, regions and whole sessions. Checks that their memory is empty when it
/// arrives.
#[test]
#[ignore = "the body of a child process"]
fn opener() {
    let Some((socket, _)) = orders() else { return };
    let stop = stop_word();
    let mut opened = 0;
    while !stop.load(Ordering::Relaxed) {
        let mut client = Client::connect(&socket);
        let (reply, fds) = client.call(&Request::OpenSession { lane: 0 });
        assert!(matches!(reply, Reply::Session { .. }), "{reply:?}");
        // Two words describe it.
        assert_empty(&fds[0], &[(0, 16)]);
        client.done(&Request::Mapped);
        for kind in [PipeKind::Rx, PipeKind::Tx, PipeKind::RxTx] {
            let port = (kind != PipeKind::Rx).then(|| "p0".to_owned());
            let (reply, fds) = client.call(&Request::OpenPipe {
                kind,
                capacity_bytes: CAPACITY_BYTES,
                port,
                completions: None,
            });
            let Reply::Pipe { pipe, .. } = reply else {
                panic!("{reply:?}")
            };
            // Four words describe it.
            assert_empty(&fds[0], &[(0, 32)]);
            assert_empty(&fds[1], &[]);
            client.done(&Request::Mapped);
            client.done(&Request::ClosePipe { pipe });
        }
        let (reply, fds) = client.call(&Request::RegisterRegion {
            name: format!("opened-{}", std::process::id()),
            size_bytes: CAPACITY_BYTES,
            rights: Rights::ALL,
            durable: false,
        });
        assert!(matches!(reply, Reply::Region { .. }), "{reply:?}");
        assert_empty(&fds[0], &[]);
        opened += 1;
        thread::sleep(Duration::from_millis(10));
    }
    report(&format!(
        "{opened} sessions with three pipes and a region each, all of it empty"
    ));
}

/// Fails if the memory has a nonzero byte outside of `reported`: pairs of a start and a length.
fn assert_empty(memory: &OwnedFd, reported: &[(usize, usize)]) {
    let file = std::fs::File::from(memory.try_clone().expect("a descriptor"));
    let length = file.metadata().expect("a memfd").size() as usize;
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, 0).expect("readable");
    for &(start, length) in reported {
        bytes[start..][..length].fill(0);
    }
    let found = bytes.iter().position(|&byte| byte != 0);
    assert_eq!(found, None, "memory that held something before");
}
