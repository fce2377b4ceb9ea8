//! A daemon that refuses every verb for lack of room. A real one does so only temporarily.

use std::{
    os::fd::{AsFd, BorrowedFd},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use covalent::{Device, Error, Refusal, RemoteRegion, Rights, Timeout};
use covalent_api::{
    API_VERSION, MAX_DATAGRAM_BYTES, datagram,
    guid::Guid,
    request::{PipeKind, Reply, Request},
};
use covalent_pipe::{
    Direction, PagePolicy, PipeMemory, PipeSpec,
    event::EventFd,
    nic::NicPipe,
    seqpacket::{Connection, Listener, SeqpacketError},
    session::{NicSession, SessionMemory},
};
use covalent_protocol::verb::envelope::{Completion, CompletionOutcome, ReportStamp, Submit};

use crate::nodes::PATIENCE;

/// Pipes that a session may have, and one more.
const SLOTS: u32 = 16;

/// Between two looks at everything.
const PAUSE: Duration = Duration::from_micros(20);

/// The open objects of the one application.
struct StandIn {
    connection: Connection,
    session: NicSession,
    /// Wakes the application.
    wake: EventFd,
    /// Which of the pipes are for verbs, and for their completions.
    pipes: Vec<(PipeKind, NicPipe)>,
    refused: Arc<AtomicU64>,
}

impl StandIn {
    /// Serves the first connection to `listener` until the peer closes it.
    fn serve(listener: &Listener, refused: Arc<AtomicU64>) {
        let connection = listener.accept().unwrap();
        connection.set_nonblocking(true).unwrap();
        let memory = SessionMemory::create(SLOTS).unwrap();
        let memory_fd = memory.fd().try_clone_to_owned().unwrap();
        let [(wake, woken), (_lane, lane_wake)] =
            [EventFd::pair(), EventFd::pair()].map(Result::unwrap);
        let mut stand_in = Self {
            connection,
            session: NicSession::new(memory),
            wake,
            pipes: Vec::new(),
            refused,
        };
        let mut buffer = vec![0; MAX_DATAGRAM_BYTES];
        loop {
            match stand_in.connection.recv(&mut buffer) {
                Ok((len, _)) => match datagram::decode(&buffer[..len]).unwrap() {
                    Request::OpenSession { .. } => {
                        let reply = Reply::Session {
                            session: 1,
                            slots: SLOTS,
                        };
                        let fds = [memory_fd.as_fd(), woken.as_fd(), lane_wake.as_fd()];
                        stand_in.reply(&reply, &fds);
                    }
                    request => stand_in.answer(&request),
                },
                Err(SeqpacketError::WouldBlock) => {
                    stand_in.refuse();
                    thread::sleep(PAUSE);
                }
                Err(_) => return,
            }
        }
    }

    fn reply(&self, reply: &Reply, fds: &[BorrowedFd<'_>]) {
        let reply = datagram::encode(reply).unwrap();
        self.connection.send(&reply, fds).unwrap();
    }

    fn answer(&mut self, request: &Request) {
        match request {
            Request::Hello { .. } => {
                let welcome = Reply::Welcome {
                    version: API_VERSION,
                    speaks: None,
                    node: "a".to_owned(),
                    guid: Guid::new(0x100).unwrap(),
                    lanes: 1,
                    ports: Vec::new(),
                };
                self.reply(&welcome, &[]);
            }
            Request::OpenPipe {
                kind,
                capacity_bytes,
                ..
            } => {
                let memory = PipeMemory::create(&PipeSpec {
                    direction: match kind {
                        PipeKind::VerbSubmit => Direction::Tx,
                        _ => Direction::Rx,
                    },
                    capacity_bytes: *capacity_bytes,
                    pages: PagePolicy::Never,
                })
                .unwrap();
                let reply = Reply::Pipe {
                    pipe: self.pipes.len() as u32,
                    page_bytes: memory.page_bytes(),
                    frame_bytes_max: 0,
                    link_ethertype: None,
                };
                self.reply(&reply, &memory.fds());
                self.pipes.push((*kind, NicPipe::new(memory)));
            }
            _ => self.reply(&Reply::Done, &[]),
        }
    }

    /// Refuses all verbs that lie there.
    fn refuse(&mut self) {
        let mut refused = Vec::new();
        for (_, submit) in self.of(PipeKind::VerbSubmit) {
            while let Some(submission) = submit.peek_tx().unwrap() {
                refused.push(Submit::decode(&submission.to_vec()).unwrap().user_data);
                submit.advance_tx();
            }
            submit.complete_tx();
        }
        self.refused
            .fetch_add(refused.len() as u64, Ordering::AcqRel);
        let mut news = Vec::new();
        for (number, complete) in self.of(PipeKind::VerbComplete) {
            for &user_data in &refused {
                let completion = Completion {
                    user_data,
                    reported: ReportStamp::default(),
                    outcome: CompletionOutcome::Refused(Refusal::NoResources),
                };
                let mut encoded = vec![0; completion.encoded_bytes()];
                completion.encode(&mut encoded).unwrap();
                complete.push(&encoded).unwrap();
            }
            news.extend(complete.publish().map(|tail| (number, tail)));
        }
        while let Some(number) = self.session.next_doorbell().unwrap() {
            let (_, pipe) = &mut self.pipes[number as usize];
            news.extend(pipe.on_doorbell().unwrap().map(|tail| (number, tail)));
        }
        for (number, tail) in news {
            self.session.notify(number, tail).unwrap();
        }
        if self.session.app_sleeping() {
            self.wake.notify().unwrap();
        }
    }

    fn of(&mut self, wanted: PipeKind) -> impl Iterator<Item = (u32, &mut NicPipe)> {
        let numbered = (0..).zip(&mut self.pipes);
        numbered
            .filter_map(move |(number, (kind, pipe))| (*kind == wanted).then_some((number, pipe)))
    }
}

/// How a blocking call without a deadline ends.
fn add(socket: &Path, reconnect: Option<Duration>) -> Result<u64, Error> {
    let device = Device::attach(socket, "test")?;
    device.set_reconnect(reconnect);
    let mut verbs = device.verbs()?;
    let word = RemoteRegion::from_key(None, 1, 8, Rights::ALL);
    verbs.fetch_add(&word, 0, 1, Timeout::FOREVER)
}

/// A device that reconnects waits while a stopping daemon gives verbs back in this way, but not
/// forever.
#[test]
fn a_verb_refused_for_lack_of_space_too_often_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("covalentd.sock");
    let mut refusals = Vec::new();
    for reconnect in [None, Some(PATIENCE)] {
        let listener = Listener::bind(&socket).unwrap();
        let refused = Arc::new(AtomicU64::new(0));
        let (reported, ended) = mpsc::channel();
        let application = {
            let socket = socket.clone();
            move || reported.send(add(&socket, reconnect))
        };
        let daemon = {
            let refused = refused.clone();
            move || StandIn::serve(&listener, refused)
        };
        let threads = [
            thread::spawn(daemon),
            thread::spawn(move || drop(application())),
        ];
        let end = ended.recv_timeout(PATIENCE).expect("the call ends");
        let error = end.unwrap_err();
        assert!(
            matches!(
                error,
                Error::VerbRefused {
                    refusal: Refusal::NoResources,
                    ..
                }
            ),
            "{error}"
        );
        for thread in threads {
            thread.join().unwrap();
        }
        refusals.push(refused.load(Ordering::Acquire));
    }
    assert_eq!(refusals[0], 1);
    assert!((2..100).contains(&refusals[1]), "{refusals:?}");
}
