//! An application that writes garbage into all memory that it shares with the daemon, attaches
//! again when it is detached, and repeats all of it.

mod siege;

use std::{
    os::fd::{AsFd, OwnedFd},
    path::Path,
    sync::atomic::Ordering,
    thread,
    time::{Duration, Instant},
};

use covalent_api::{
    datagram,
    request::{PipeKind, Reply, Request, Rights},
    rule::{Match, Spread},
};
use covalent_ipc::seqpacket::SeqpacketError;
use covalent_protocol::{
    Mode,
    verb::{
        self, Verb,
        envelope::{SUBMIT_BYTES_MAX, Submit},
    },
};
use rustix::{
    fs::{OFlags, fcntl_getfl, fcntl_setfl},
    io::write,
    net::{SendFlags, Shutdown, send, shutdown},
};

use super::{
    child::{orders, report},
    client::Client,
    honest::{BAIT, BAIT_TO_SEND_BACK, datagram_bait, stop_word},
    node::PATIENCE,
    noise::Noise,
    shared::Shared,
};

pub use siege::Siege;

/// The fill byte of its memory, so that each byte of it is recognized anywhere. No EtherType of the
/// test contains it.
const SECRET: u8 = 0xa5;

/// Ring size of its pipes: small, so that it wraps often.
const CAPACITY_BYTES: u64 = 64 * 1024;

/// How long it tries to fill a mailbox.
const OVERFILL_MAX: Duration = Duration::from_secs(3);

/// Offsets of the words of a pipe and of a session: see `pipe/src/control.rs` and
/// `pipe/src/session/memory.rs`.
const TAIL: u64 = 128;
/// Of the tail: a notification is outstanding.
const OUTSTANDING: u64 = 1 << 63;
const HEAD: u64 = 256;
const SEEN: u64 = 264;
const TX_TAIL: u64 = 384;
const COUNTERS: u64 = 1024;
const LENGTHS: u64 = 4096;
const SPACE_WANTED: u64 = 512;
const DOORBELLS_WRITTEN: u64 = 384;
const SLOTS: u64 = 4096;
const DO_NOT_SEND: u32 = 1 << 31;

/// Indexes of some of an incarnation's pipes.
const RX: usize = 0;
const TX: usize = 1;
const RX_TX: usize = 2;
const RX_BYTES: usize = 5;

struct Pipe {
    number: u32,
    kind: PipeKind,
    control: Shared,
    data: Shared,
}

/// One attachment.
struct Incarnation {
    client: Client,
    slots: u64,
    session: Shared,
    wakes: Vec<OwnedFd>,
    pipes: Vec<Pipe>,
    region: Shared,
    rkey: u32,
    /// It sent nothing that a connection is turned away for.
    sends_valid_messages: bool,
    /// Buffer for the daemon's messages.
    buffer: Vec<u8>,
}

/// How an incarnation ended.
enum End {
    /// The daemon detached it, for this reason.
    Detached(String),
    /// The same, after it lied about one pipe alone.
    DetachedFor(Siege),
    /// The daemon closed the connection because of a message on it.
    TurnedAway(String),
    /// It went by itself.
    Left,
}

impl Incarnation {
    fn begin(socket: &Path, number: u64) -> Self {
        let mut client = Client::connect(socket);
        let (reply, mut wakes) = client.call(&Request::OpenSession { lane: 0 });
        let Reply::Session { slots, .. } = reply else {
            panic!("{reply:?}")
        };
        let session = Shared::map(wakes.remove(0));
        client.done(&Request::Mapped);
        let mut pipes = Vec::new();
        for kind in [
            PipeKind::Rx,
            PipeKind::Tx,
            PipeKind::RxTx,
            PipeKind::VerbSubmit,
            PipeKind::VerbComplete,
            PipeKind::RxBytes,
        ] {
            pipes.push(open(&mut client, kind));
        }
        // Packets then flow into the memory that is corrupted. Another incarnation may still hold
        // the first match. All incarnations share the others.
        client.call(&Request::Bind {
            pipe: pipes[RX].number,
            matches: Match::EtherType { ethertype: BAIT },
            spread: None,
        });
        let to_send_back = Match::EtherType {
            ethertype: BAIT_TO_SEND_BACK,
        };
        for (place, matches) in [(RX_TX, to_send_back), (RX_BYTES, datagram_bait())] {
            client.done(&Request::Bind {
                pipe: pipes[place].number,
                matches,
                spread: Some(Spread::RoundRobin),
            });
        }
        let (reply, mut fds) = client.call(&Request::RegisterRegion {
            name: format!("offender-{number}"),
            size_bytes: CAPACITY_BYTES,
            rights: Rights::ALL,
            durable: false,
        });
        let Reply::Region { rkey, .. } = reply else {
            panic!("{reply:?}")
        };
        let region = Shared::map(fds.remove(0));
        client.done(&Request::Mapped);
        region.fill(SECRET);
        client.connection.set_nonblocking(true).expect("a socket");
        Self {
            client,
            slots: slots.into(),
            session,
            wakes,
            pipes,
            region,
            rkey,
            sends_valid_messages: true,
            buffer: vec![0; covalent_api::MAX_DATAGRAM_BYTES],
        }
    }

    /// Lies until the daemon has had enough of it.
    fn live(mut self, noise: &mut Noise) -> End {
        // Some lie at once and grossly, some seldom, and some are nearly honest for a while.
        let begun = Instant::now();
        let (honest_for, rarity) = match noise.below(48) {
            0..36 => (Duration::ZERO, 1),
            36..39 => (Duration::ZERO, 16),
            39..42 => (Duration::from_micros(noise.below(1000)), 64),
            42..47 => (Duration::from_micros(noise.below(4000)), 16),
            _ => return self.overfill(),
        };
        loop {
            let patience = begun.elapsed();
            assert!(patience < PATIENCE, "the daemon puts up with anything");
            let lies = patience >= honest_for;
            for _ in 0..8 {
                if lies && (noise.below(rarity) == 0 || patience > Duration::from_millis(50)) {
                    self.lie(noise);
                } else {
                    self.work(noise);
                }
            }
            if lies && noise.below(256) == 0 && self.misspeak(noise) {
                return End::Left;
            }
            if let Some(end) = self.listen() {
                return end;
            }
        }
    }

    /// Takes no notification but marks each as taken, until their mailbox is full.
    fn overfill(mut self) -> End {
        let begun = Instant::now();
        loop {
            // It takes as many rounds of the lane as the mailbox has slots: too long on a busy
            // machine.
            if begun.elapsed() > OVERFILL_MAX {
                return End::Left;
            }
            for _ in 0..64 {
                let tx = &self.pipes[TX];
                let pending = SLOTS + self.slots * 32 + u64::from(tx.number) * 4;
                self.session.store_u32(pending, 0);
                tx.control.store_u32(SPACE_WANTED, 1);
                let tail = tx.control.load(TAIL);
                if tail - tx.control.load(HEAD) < CAPACITY_BYTES / 2 {
                    self.send(tx, tail, 64, 64);
                }
            }
            if let Some(end) = self.listen() {
                return end;
            }
        }
    }

    /// Behaves like an application, or nearly.
    fn work(&self, noise: &mut Noise) {
        let pipe = &self.pipes[noise.below(self.pipes.len() as u64) as usize];
        let control = &pipe.control;
        let tail = control.load(TAIL) & !(63 | OUTSTANDING);
        match pipe.kind {
            PipeKind::Rx | PipeKind::VerbComplete => {
                control.store(SEEN, tail);
                control.store(HEAD, tail);
            }
            PipeKind::RxBytes => {
                let tail = control.load(TAIL) & !OUTSTANDING;
                control.store(SEEN, tail);
                control.store(HEAD, tail);
            }
            PipeKind::RxTx => {
                let given_back = control.load(TX_TAIL);
                if noise.below(4) == 0 {
                    let mark = noise.below(u64::from(DO_NOT_SEND) * 2) as u32 & DO_NOT_SEND;
                    control.store_u32(LENGTHS + given_back / 16 % (CAPACITY_BYTES / 16), mark | 64);
                }
                control.store(TX_TAIL, tail);
            }
            PipeKind::Tx | PipeKind::VerbSubmit => {
                if tail.wrapping_sub(control.load(HEAD)) > CAPACITY_BYTES - 4096 {
                    return;
                }
                let length = if pipe.kind == PipeKind::Tx {
                    match noise.below(16) {
                        0 => noise.below(64) as u32 + 1,
                        1 => noise.below(3000) as u32 + 1,
                        _ => 60 + noise.below(1400) as u32,
                    }
                } else {
                    self.write_verb(pipe, tail, noise)
                };
                self.send(pipe, tail, length, length);
            }
        }
        self.ring(u64::from(pipe.number));
    }

    /// Claims that a TX pipe has a packet at `tail` with the length word `word`, and that as much
    /// was written as `length` needs.
    fn send(&self, pipe: &Pipe, tail: u64, word: u32, length: u32) {
        pipe.control
            .store_u32(LENGTHS + tail / 16 % (CAPACITY_BYTES / 16), word);
        let end = tail.wrapping_add(u64::from(length).next_multiple_of(64));
        pipe.control.store(TAIL, end);
        self.ring(u64::from(pipe.number));
    }

    /// Writes a verb, good or bad, at `tail` and gives its length.
    fn write_verb(&self, pipe: &Pipe, tail: u64, noise: &mut Noise) -> u32 {
        let mut message = [0; SUBMIT_BYTES_MAX];
        let mut request = [0; 256];
        let verb_request = verb::Request {
            rkey: if noise.below(4) == 0 {
                noise.next() as u32
            } else {
                self.rkey
            },
            offset: if noise.below(4) == 0 {
                noise.next() as u32
            } else {
                noise.below(1024) as u32 * 8
            },
            verb: Verb::FetchAdd {
                delta: noise.next(),
            },
        };
        let request_bytes = verb_request.encode(&mut request).expect("room");
        let submit = Submit {
            user_data: noise.next(),
            target: if noise.below(4) == 0 { noise.next() } else { 0 },
            mode: Mode::OnePhase,
            request: &request[..request_bytes],
        };
        let mut length = submit.encode(&mut message).expect("room");
        match noise.below(4) {
            0 => {
                let at = noise.below(length as u64) as usize;
                message[at] = noise.next() as u8;
            }
            1 => {
                length = noise.below(message.len() as u64) as usize + 1;
                noise.fill(&mut message[..length]);
            }
            _ => {}
        }
        for (at, word) in (0..).step_by(8).zip(message[..length].chunks(8)) {
            let mut bytes = [0; 8];
            bytes[..word.len()].copy_from_slice(word);
            pipe.data.store(tail + at, u64::from_le_bytes(bytes));
        }
        length as u32
    }

    fn ring(&self, pipe: u64) {
        let written = self.session.load(DOORBELLS_WRITTEN);
        let slot = SLOTS + (self.slots + written % self.slots) * 16;
        self.session.store(slot, pipe);
        self.session
            .store(DOORBELLS_WRITTEN, written.wrapping_add(1));
        let _ = write(&self.wakes[1], &1_u64.to_ne_bytes());
    }

    /// Writes one word of garbage, or tampers with the descriptors.
    fn lie(&self, noise: &mut Noise) {
        let pipe = &self.pipes[noise.below(self.pipes.len() as u64) as usize];
        let (memory, offset) = match noise.below(10) {
            8 => {
                let (pipe, marks) = (&self.pipes[TX], noise.next() as u32 & DO_NOT_SEND);
                let length = marks | noise.below(128) as u32;
                return self.send(pipe, pipe.control.load(TAIL), length, 64);
            }
            9 => return self.ring(noise.below(self.slots * 2)),
            // The lines of the cursors, counts and flags.
            0 | 1 => (&self.session, 128 * noise.below(7)),
            2 | 3 => (&pipe.control, 128 * noise.below(6)),
            // A length where the daemon looks next.
            4 => (
                &pipe.control,
                LENGTHS + pipe.control.load(TAIL) / 16 % (CAPACITY_BYTES / 16),
            ),
            5 => (&self.session, noise.below(self.session.words()) * 4),
            6 => (&pipe.control, noise.below(pipe.control.words()) * 4),
            _ => return self.shake(noise),
        };
        let there = memory.load(offset);
        let value = match noise.below(10) {
            0 => 0,
            1 => u64::MAX,
            2 => noise.next(),
            3 => there.wrapping_add(64),
            4 => there.wrapping_sub(64),
            5 => there ^ 1 << noise.below(64),
            6 => noise.below(CAPACITY_BYTES / 64) * 64,
            7 => u64::from(DO_NOT_SEND) | noise.below(2000),
            8 => CAPACITY_BYTES * noise.below(3) + noise.below(128),
            _ => 1 << 63 | noise.next(),
        };
        if noise.below(3) == 0 {
            memory.store_u32(offset, value as u32);
        } else {
            memory.store(offset, value);
        }
        self.ring(pipe.number.into());
    }

    /// Punches holes, tries other sizes, and fills, drains and half closes the descriptors for
    /// wake-ups.
    fn shake(&self, noise: &mut Noise) {
        let pipe = &self.pipes[noise.below(self.pipes.len() as u64) as usize];
        let memory = match noise.below(4) {
            0 => &self.session,
            1 => &self.region,
            2 => &pipe.control,
            _ => &pipe.data,
        };
        let pages = memory.words() / 1024;
        if noise.below(2) == 0 {
            let page = noise.below(pages);
            let holed = memory.shake(page, (noise.below(pages) + 1).min(pages - page));
            assert!(!holed, "a hole in memory that is sealed against holes");
        }
        let [to_application, to_lane] = [self.wakes[0].as_fd(), self.wakes[1].as_fd()];
        match noise.below(8) {
            0 => {
                let _ = write(to_lane, &(u64::MAX - 1).to_ne_bytes());
            }
            1 => {
                let _ = rustix::io::read(to_lane, &mut [0; 8][..]);
            }
            2 => {
                // This affects the daemon too, because the descriptor's state is shared. It is
                // reverted, because this process must not block either.
                let flags = fcntl_getfl(to_lane).expect("a descriptor");
                let _ = fcntl_setfl(to_lane, flags - OFlags::NONBLOCK);
                thread::yield_now();
                let _ = fcntl_setfl(to_lane, flags | OFlags::NONBLOCK);
            }
            3 => {
                let _ = send(
                    to_application,
                    &[SECRET; 8],
                    SendFlags::DONTWAIT | SendFlags::NOSIGNAL,
                );
            }
            4 => {
                let _ = shutdown(to_application, Shutdown::Both);
            }
            _ => {}
        }
    }

    /// Receives the daemon's messages. Returns `Some` if the connection has ended.
    fn listen(&mut self) -> Option<End> {
        let mut last = String::new();
        loop {
            match self.client.connection.recv(&mut self.buffer) {
                Ok((length, _)) => match datagram::decode(&self.buffer[..length]) {
                    Ok(Reply::Refused { reason, .. }) => {
                        if let Some(reason) = reason.strip_prefix("detached: ") {
                            return Some(End::Detached(reason.to_owned()));
                        }
                        last = reason;
                    }
                    Ok(_) => {}
                    Err(error) => panic!("{error}"),
                },
                Err(SeqpacketError::WouldBlock) => return None,
                // No reason arrived: it found no space behind replies that were not read.
                Err(_) if last.is_empty() => return Some(End::Left),
                Err(_) => {
                    assert!(
                        !self.sends_valid_messages,
                        "turned away without cause: {last}"
                    );
                    return Some(End::TurnedAway(last));
                }
            }
        }
    }

    /// Sends an improper message on the socket. Returns whether the connection is gone afterwards.
    fn misspeak(&mut self, noise: &mut Noise) -> bool {
        let pipe = noise.below(12) as u32;
        let request = match noise.below(8) {
            0 => Request::Status,
            1 => Request::ClosePipe { pipe },
            2 => Request::OpenPipe {
                kind: PipeKind::Tx,
                capacity_bytes: noise.next(),
                port: Some("p0".to_owned()),
                completions: None,
            },
            3 => Request::RegisterRegion {
                name: "x".repeat(noise.below(100) as usize),
                size_bytes: noise.next(),
                rights: Rights::ALL,
                durable: false,
            },
            4 => {
                self.sends_valid_messages = false;
                Request::OpenSession {
                    lane: noise.next() as u32,
                }
            }
            5 => Request::Unbind {
                pipe,
                matches: Match::Any,
            },
            6 => {
                let mut garbage = vec![0; noise.below(3000) as usize + 1];
                noise.fill(&mut garbage);
                let _ = self.client.connection.send(&garbage, &[]);
                self.sends_valid_messages = false;
                return false;
            }
            _ => Request::OpenPipe {
                kind: PipeKind::RxTx,
                capacity_bytes: CAPACITY_BYTES,
                port: Some("p0".to_owned()),
                completions: None,
            },
        };
        let bytes = datagram::encode(&request).expect("fits");
        // A flood, for as long as it is accepted. No replies are read meanwhile. Descriptors may
        // come along.
        let fds = [self.wakes[1].as_fd()];
        for _ in 0..noise.below(40) {
            let along = if noise.below(4) == 0 { &fds[..] } else { &[] };
            if self.client.connection.send(&bytes, along).is_err() {
                break;
            }
        }
        // In the midst of a request.
        noise.below(4) == 0
    }
}

fn open(client: &mut Client, kind: PipeKind) -> Pipe {
    let port = matches!(kind, PipeKind::Tx | PipeKind::RxTx).then(|| "p0".to_owned());
    let (reply, mut fds) = client.call(&Request::OpenPipe {
        kind,
        capacity_bytes: CAPACITY_BYTES,
        port,
        completions: None,
    });
    let Reply::Pipe { pipe: number, .. } = reply else {
        panic!("{reply:?}")
    };
    let control = Shared::map(fds.remove(0));
    let data = Shared::map(fds.remove(0));
    client.done(&Request::Mapped);
    if kind != PipeKind::VerbSubmit {
        data.fill(SECRET);
    }
    Pipe {
        number,
        kind,
        control,
        data,
    }
}

/// Runs one incarnation after the other, several at a time. Finally reports how each ended.
#[test]
#[ignore = "the body of a child process"]
fn offender() {
    let Some((socket, argument)) = orders() else {
        return;
    };
    let stop = stop_word();
    let (seed, first_lie) = argument.split_once(' ').expect("a seed and a lie");
    let seed: u64 = seed.parse().expect("a seed");
    let first_lie: u64 = first_lie.parse().expect("a number");
    report("ready");
    let ends: Vec<String> = thread::scope(|scope| {
        let threads = [1, 2, 3].map(|number| {
            let (socket, stop) = (&socket, &stop);
            scope.spawn(move || {
                let mut noise = Noise::new(seed.wrapping_mul(number));
                let mut ends = Vec::new();
                // The pipe that every second incarnation besieges. The first ones do so too, so
                // that each process covers these pipes, however short it runs.
                let besieged = match number {
                    1 => Some(RX_TX),
                    2 => Some(RX_BYTES),
                    _ => None,
                };
                for count in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let incarnation = Incarnation::begin(socket, number);
                    let end = match besieged {
                        Some(place) if count % 2 == 0 => {
                            incarnation.besiege(place, first_lie + count / 2, &mut noise)
                        }
                        _ => incarnation.live(&mut noise),
                    };
                    ends.push(match end {
                        End::Detached(reason) => format!("detached: {reason}"),
                        End::DetachedFor(siege) => siege.to_string(),
                        End::TurnedAway(reason) => format!("turned away: {reason}"),
                        End::Left => "left".to_owned(),
                    });
                }
                ends
            })
        });
        let ended =
            threads.map(|incarnation| incarnation.join().expect("only the daemon ends a run"));
        ended.into_iter().flatten().collect()
    });
    for end in ends {
        report(&end);
    }
}

/// Uses as much of a core as the offender, and shares nothing with other processes.
#[test]
#[ignore = "the body of a child process"]
fn burner() {
    if orders().is_none() {
        return;
    }
    let stop = stop_word();
    let mut noise = Noise::new(1);
    report("ready");
    while !stop.load(Ordering::Relaxed) {
        std::hint::black_box(noise.next());
    }
}
