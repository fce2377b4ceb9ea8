//! A small application: requests over the socket, pipes and rings by the pipe crate alone.

use std::{
    os::fd::OwnedFd,
    path::Path,
    time::{Duration, Instant},
};

use covalent_api::{
    MAX_DATAGRAM_BYTES, datagram,
    request::{PipeKind, Reply, Request, Rights},
    rule::{Match, Spread},
    status::NodeStatus,
};
use covalent_ipc::{
    event::EventFd,
    seqpacket::{Connection, SeqpacketError},
};
use covalent_pipe::{
    Direction, PipeMemory,
    app::{RxPipe, RxTxPipe, TxPipe},
    region::RegionMemory,
    session::{AppSession, SessionMemory},
};
use covalent_protocol::{
    Mode,
    verb::{
        self, Verb,
        envelope::{Completion, CompletionOutcome, SUBMIT_BYTES_MAX, Submit},
    },
};

use super::node::PATIENCE;

/// Ring size of the tests' pipes.
pub const CAPACITY_BYTES: u64 = 1 << 20;

/// `request` as it is sent.
pub fn sent(request: &Request) -> Vec<u8> {
    datagram::encode(request).expect("a request fits")
}

/// A greeted connection.
pub struct Client {
    pub connection: Connection,
    buffer: Vec<u8>,
}

impl Client {
    pub fn connect(socket: &Path) -> Self {
        let (client, reply) = Self::greet(socket, &sent(&Request::hello("test")));
        assert!(matches!(reply, Reply::Welcome { .. }), "{reply:?}");
        client
    }

    /// Connects, sends `hello`, and receives the reply.
    pub fn greet(socket: &Path, hello: &[u8]) -> (Self, Reply) {
        let connection = Connection::connect(socket).expect("the daemon listens");
        let mut client = Self {
            connection,
            buffer: vec![0; MAX_DATAGRAM_BYTES],
        };
        let reply = client.call_bytes(hello);
        (client, reply)
    }

    /// Sends `bytes` and takes the answer.
    pub fn call_bytes(&mut self, bytes: &[u8]) -> Reply {
        self.connection
            .send(bytes, &[])
            .expect("the daemon receives");
        self.receive().expect("the daemon answers").0
    }

    pub fn send(&self, request: &Request) {
        self.connection
            .send(&sent(request), &[])
            .expect("the daemon receives");
    }

    /// Receives the next message. Returns `None` once the daemon has closed the connection.
    pub fn receive(&mut self) -> Option<(Reply, Vec<OwnedFd>)> {
        assert!(
            self.connection.wait(Some(PATIENCE)).expect("poll works"),
            "the daemon answers in time"
        );
        match self.connection.recv(&mut self.buffer) {
            Ok((length, fds)) => Some((
                datagram::decode(&self.buffer[..length]).expect("the daemon speaks the protocol"),
                fds,
            )),
            Err(SeqpacketError::Closed) => None,
            Err(SeqpacketError::Io(_)) => None,
            Err(error) => panic!("{error}"),
        }
    }

    pub fn call(&mut self, request: &Request) -> (Reply, Vec<OwnedFd>) {
        self.send(request);
        self.receive().expect("the daemon answers")
    }

    /// Sends a request that must be refused. Returns the reason.
    pub fn refused(&mut self, request: &Request) -> String {
        match self.call(request).0 {
            Reply::Refused { reason, .. } => reason,
            other => panic!("{request:?} was not refused: {other:?}"),
        }
    }

    /// Sends a request whose reply has no content.
    pub fn done(&mut self, request: &Request) {
        let (reply, _) = self.call(request);
        assert_eq!(reply, Reply::Done, "{request:?}");
    }

    pub fn status(&mut self) -> NodeStatus {
        match self.call(&Request::Status).0 {
            Reply::Status(status) => *status,
            other => panic!("{other:?}"),
        }
    }
}

/// An application with a session.
pub struct App {
    pub client: Client,
    pub session: u64,
    pub rings: AppSession,
    pub wake: EventFd,
    pub lane: EventFd,
}

impl App {
    pub fn attach(socket: &Path) -> Self {
        Self::attach_to_lane(socket, 0)
    }

    pub fn attach_to_lane(socket: &Path, lane: u32) -> Self {
        Self::of(Client::connect(socket), lane)
    }

    /// The session of `client` on `lane`.
    pub fn of(mut client: Client, lane: u32) -> Self {
        let (reply, fds) = client.call(&Request::OpenSession { lane });
        let Reply::Session { session, slots } = reply else {
            panic!("{reply:?}")
        };
        let [memory, wake, lane]: [OwnedFd; 3] = fds.try_into().expect("three descriptors");
        let memory = SessionMemory::open(memory, slots).expect("session memory");
        client.done(&Request::Mapped);
        Self {
            client,
            session,
            rings: AppSession::new(memory),
            wake: wake.into(),
            lane: lane.into(),
        }
    }

    pub fn open(&mut self, kind: PipeKind, port: Option<&str>) -> (u32, PipeMemory) {
        let port = port.map(ToOwned::to_owned);
        let (reply, fds) = self.client.call(&Request::OpenPipe {
            kind,
            capacity_bytes: CAPACITY_BYTES,
            port,
            completions: None,
        });
        let Reply::Pipe { pipe, .. } = reply else {
            panic!("{reply:?}")
        };
        let direction = match kind {
            PipeKind::Rx | PipeKind::VerbComplete => Direction::Rx,
            PipeKind::Tx | PipeKind::VerbSubmit => Direction::Tx,
            PipeKind::RxTx => Direction::RxTx,
            PipeKind::RxBytes => Direction::RxBytes,
        };
        let fds: [OwnedFd; 2] = fds.try_into().expect("two descriptors");
        let memory = PipeMemory::open(fds, direction, CAPACITY_BYTES).expect("pipe memory");
        self.client.done(&Request::Mapped);
        (pipe, memory)
    }

    pub fn rx(&mut self, port: Option<&str>) -> (u32, RxPipe) {
        let (pipe, memory) = self.open(PipeKind::Rx, port);
        (pipe, RxPipe::new(memory).expect("an RX pipe"))
    }

    pub fn tx(&mut self, port: &str) -> (u32, TxPipe) {
        let (pipe, memory) = self.open(PipeKind::Tx, Some(port));
        (pipe, TxPipe::new(memory).expect("a TX pipe"))
    }

    pub fn rx_tx(&mut self, port: &str) -> (u32, RxTxPipe) {
        let (pipe, memory) = self.open(PipeKind::RxTx, Some(port));
        (pipe, RxTxPipe::new(memory).expect("an RX/TX pipe"))
    }

    pub fn bind(&mut self, pipe: u32, matches: Match) {
        self.client.done(&Request::Bind {
            pipe,
            matches,
            spread: None,
        });
    }

    /// Binds beside others.
    pub fn share(&mut self, pipe: u32, matches: Match, spread: Spread) {
        self.client.done(&Request::Bind {
            pipe,
            matches,
            spread: Some(spread),
        });
    }

    pub fn unbind(&mut self, pipe: u32, matches: Match) {
        self.client.done(&Request::Unbind { pipe, matches });
    }

    pub fn register(&mut self, name: &str, size_bytes: u64) -> (u32, RegionMemory) {
        self.register_as(name, size_bytes, Rights::ALL, false)
    }

    pub fn register_queue(&mut self, name: &str, size_bytes: u64) -> (u32, RegionMemory) {
        self.register_as(name, size_bytes, Rights::SEND, false)
    }

    pub fn register_durable(&mut self, name: &str, size_bytes: u64) -> (u32, RegionMemory) {
        self.register_as(name, size_bytes, Rights::ALL, true)
    }

    fn register_as(
        &mut self,
        name: &str,
        size_bytes: u64,
        rights: Rights,
        durable: bool,
    ) -> (u32, RegionMemory) {
        let request = Request::RegisterRegion {
            name: name.to_owned(),
            size_bytes,
            rights,
            durable,
        };
        let (reply, mut fds) = self.client.call(&request);
        let Reply::Region { rkey, .. } = reply else {
            panic!("{reply:?}")
        };
        let fd = fds.pop().expect("one descriptor");
        let memory = RegionMemory::open(fd, size_bytes).expect("region memory");
        self.client.done(&Request::Mapped);
        (rkey, memory)
    }

    /// Rings the doorbell of `pipe`, waking the lane if it sleeps.
    pub fn ring(&mut self, pipe: u32) {
        if self.rings.ring(pipe).expect("an honest daemon") {
            self.lane.notify().expect("the daemon runs");
        }
    }

    /// Sleeps like an application until the daemon has a notification, for at most `timeout`.
    pub fn sleep(&mut self, timeout: Duration) {
        if self.rings.prepare_sleep() {
            self.wake.wait(Some(timeout)).expect("poll works");
        }
        self.rings.cancel_sleep();
        let _ = self.wake.drain();
        while self
            .rings
            .next_notification()
            .expect("an honest daemon")
            .is_some()
        {}
    }

    /// Sends `frame`, waiting for space.
    pub fn send(&mut self, pipe: u32, tx: &mut TxPipe, frame: &[u8]) {
        let deadline = Instant::now() + PATIENCE;
        while tx.send(frame).is_err() {
            assert!(Instant::now() < deadline, "no room to send in time");
            if tx.publish() {
                self.ring(pipe);
            }
            std::thread::yield_now();
        }
        if tx.publish() {
            self.ring(pipe);
        }
    }

    /// Receives `count` packets, sleeping in between.
    pub fn receive(&mut self, pipe: u32, rx: &mut RxPipe, count: usize) -> Vec<Vec<u8>> {
        let mut packets = Vec::with_capacity(count);
        let deadline = Instant::now() + PATIENCE;
        while packets.len() < count {
            assert!(
                Instant::now() < deadline,
                "{} of {count} packets arrived in time",
                packets.len()
            );
            if let Some(batch) = rx.recv() {
                let wanted = count - packets.len();
                packets.extend(batch.iter().take(wanted).map(<[u8]>::to_vec));
                batch.free(wanted);
                continue;
            }
            if rx.wait_for_more() {
                self.ring(pipe);
                continue;
            }
            // The reply to the doorbell above may be a notification for packets that are here
            // already.
            self.sleep(Duration::from_millis(50));
        }
        packets
    }
}

/// An application's verbs.
pub struct Verbs {
    pub app: App,
    submit_pipe: u32,
    submit: TxPipe,
    complete_pipe: u32,
    complete: RxPipe,
}

/// A completion, owned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    Committed {
        status: verb::Status,
        index: u16,
        data: Vec<u8>,
    },
    Other(String),
}

impl Ended {
    /// Whether the outcome is still to come.
    pub fn is_doubt(&self) -> bool {
        matches!(self, Self::Other(reported) if reported.starts_with("InDoubt"))
    }

    /// The word of a verb that must have been done.
    pub fn word(&self) -> u64 {
        match self {
            Self::Committed {
                status: verb::Status::Ok,
                data,
                ..
            } => u64::from_le_bytes(data.as_slice().try_into().expect("a word")),
            other => panic!("{other:?}"),
        }
    }
}

impl Verbs {
    pub fn new(mut app: App) -> Self {
        let (submit_pipe, memory) = app.open(PipeKind::VerbSubmit, None);
        let submit = TxPipe::new(memory).expect("a TX pipe");
        let (complete_pipe, memory) = app.open(PipeKind::VerbComplete, None);
        let complete = RxPipe::new(memory).expect("an RX pipe");
        Self {
            app,
            submit_pipe,
            submit,
            complete_pipe,
            complete,
        }
    }

    /// Submits a verb. Returns `false` if there is no space now.
    pub fn post(
        &mut self,
        target: u64,
        mode: Mode,
        user_data: u64,
        rkey: u32,
        offset: u32,
        verb: Verb<'_>,
    ) -> bool {
        let request = verb::Request { rkey, offset, verb };
        let mut encoded = vec![0; request.encoded_bytes()];
        request.encode(&mut encoded).expect("room for the request");
        self.post_bytes(&Submit {
            user_data,
            target,
            mode,
            request: &encoded,
        })
    }

    pub fn post_bytes(&mut self, submit: &Submit<'_>) -> bool {
        let mut message = [0; SUBMIT_BYTES_MAX];
        let length = submit
            .encode(&mut message)
            .expect("room for the submission");
        self.post_raw(&message[..length])
    }

    pub fn post_raw(&mut self, message: &[u8]) -> bool {
        if self.submit.send(message).is_err() {
            return false;
        }
        if self.submit.publish() {
            self.app.ring(self.submit_pipe);
        }
        true
    }

    /// Takes the completions that are there.
    pub fn poll(&mut self) -> Vec<(u64, Ended)> {
        let mut ended = Vec::new();
        let Some(batch) = self.complete.recv() else {
            return ended;
        };
        for packet in batch.iter() {
            let completion = Completion::decode(packet).expect("a completion");
            let how = match completion.outcome {
                CompletionOutcome::Committed(reply) => {
                    let reply = verb::Reply::decode(reply).expect("a reply");
                    Ended::Committed {
                        status: reply.status,
                        index: reply.index,
                        data: reply.data.to_vec(),
                    }
                }
                other => Ended::Other(format!("{other:?}")),
            };
            ended.push((completion.user_data, how));
        }
        // Free at once, so that no doorbell rings while the application waits: a lane that missed a
        // doorbell is not woken by chance.
        if batch.free_all() {
            self.app.ring(self.complete_pipe);
        }
        ended
    }

    /// Waits for completions, sleeping.
    pub fn wait(&mut self) -> Vec<(u64, Ended)> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let ended = self.poll();
            if !ended.is_empty() {
                return ended;
            }
            assert!(Instant::now() < deadline, "no completion arrived in time");
            self.app.sleep(Duration::from_millis(50));
        }
    }

    /// Submits one verb and waits for its end. On a machine that stalls, the link fails now and
    /// then, and the verb is in doubt first.
    pub fn run(
        &mut self,
        target: u64,
        mode: Mode,
        rkey: u32,
        offset: u32,
        verb: Verb<'_>,
    ) -> Ended {
        assert!(
            self.post(target, mode, 77, rkey, offset, verb),
            "room for one verb"
        );
        loop {
            for (user_data, how) in self.wait() {
                assert_eq!(user_data, 77);
                if !how.is_doubt() {
                    return how;
                }
            }
        }
    }
}
