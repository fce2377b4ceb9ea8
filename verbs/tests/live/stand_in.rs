//! A daemon that gives verbs outcomes of the test's choice: for lack of room, which a real daemon
//! reports only temporarily, or replies of another node that no honest node sends. It also chooses
//! the moment at which a pipe gets room.

use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use covalent::{
    CommitWord, Completion as Completed, Device, Error, Mode, Outcome, Refusal, RemoteRegion,
    Rights, Timeout, Verb,
};
use covalent_api::{
    API_VERSION, MAX_DATAGRAM_BYTES, datagram,
    guid::Guid,
    request::{PipeKind, Reply, Request},
};
use covalent_ipc::{
    event::EventFd,
    seqpacket::{Connection, Listener, SeqpacketError},
};
use covalent_pipe::{
    Direction, PagePolicy, PipeMemory, PipeSpec,
    nic::NicPipe,
    session::{NicSession, SessionMemory},
};
use covalent_protocol::verb::{
    Reply as VerbReply,
    envelope::{Completion, CompletionOutcome, ReportStamp, Submit},
};

use nix::{
    fcntl::{FcntlArg, OFlag, fcntl},
    unistd::write,
};

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
    /// The application's signals.
    woken: EventFd,
    /// Which of the pipes are for verbs, and for their completions.
    pipes: Vec<(PipeKind, NicPipe)>,
    /// Verbs that were answered.
    answered: Arc<AtomicU64>,
    /// The reply to each verb in turn. Every other verb is refused for lack of room.
    replies: Vec<Vec<u8>>,
}

impl StandIn {
    /// Serves the first connection to `listener` until the peer closes it. The application wakes
    /// the lane once, from the second end of `lane`.
    fn serve(
        listener: &Listener,
        lane: (EventFd, EventFd),
        answered: Arc<AtomicU64>,
        replies: Vec<Vec<u8>>,
    ) {
        let connection = listener.accept().unwrap();
        connection.set_nonblocking(true).unwrap();
        let memory = SessionMemory::create(SLOTS).unwrap();
        let memory_fd = memory.fd().try_clone_to_owned().unwrap();
        let (wake, application_woken) = EventFd::pair().unwrap();
        let (woken, wake_lane) = lane;
        let mut stand_in = Self {
            connection,
            session: NicSession::new(memory),
            wake,
            woken,
            pipes: Vec::new(),
            answered,
            replies,
        };
        stand_in.session.set_lane_sleeping(true);
        let mut buffer = vec![0; MAX_DATAGRAM_BYTES];
        loop {
            match stand_in.connection.recv(&mut buffer) {
                Ok((len, _)) => match datagram::decode(&buffer[..len]).unwrap() {
                    Request::OpenSession { .. } => {
                        let reply = Reply::Session {
                            session: 1,
                            slots: SLOTS,
                        };
                        let [memory, woken] = [memory_fd.as_fd(), application_woken.as_fd()];
                        let fds = [memory, woken, wake_lane.as_fd()];
                        stand_in.reply(&reply, &fds);
                    }
                    request => stand_in.answer(&request),
                },
                Err(SeqpacketError::WouldBlock) => {
                    stand_in.serve_pipes();
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
                        PipeKind::Tx | PipeKind::VerbSubmit => Direction::Tx,
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

    /// Sends all frames that lie there. Takes the application's signal after that.
    fn send_frames(&mut self) -> Vec<(u32, u64)> {
        let (mut sent, mut news) = (0, Vec::new());
        for (number, tx) in self.of(PipeKind::Tx) {
            while tx.peek_tx().unwrap().is_some() {
                tx.advance_tx();
                sent += 1;
            }
            news.extend(tx.complete_tx().map(|head| (number, head)));
        }
        if sent > 0 {
            self.woken.drain().unwrap();
        }
        news
    }

    /// Sends all frames and ends all verbs that lie there.
    fn serve_pipes(&mut self) {
        let mut taken = Vec::new();
        for (_, submit) in self.of(PipeKind::VerbSubmit) {
            while let Some(submission) = submit.peek_tx().unwrap() {
                taken.push(Submit::decode(&submission.to_vec()).unwrap().user_data);
                submit.advance_tx();
            }
            submit.complete_tx();
        }
        let first = self
            .answered
            .fetch_add(taken.len() as u64, Ordering::AcqRel) as usize;
        let replies = self.replies.clone();
        let mut news = self.send_frames();
        for (number, complete) in self.of(PipeKind::VerbComplete) {
            for (at, &user_data) in (first..).zip(&taken) {
                let refused = CompletionOutcome::Refused(Refusal::NoResources);
                let reply = replies.get(at);
                let completion = Completion {
                    user_data,
                    reported: ReportStamp::default(),
                    outcome: reply.map_or(refused, |reply| CompletionOutcome::Committed(reply)),
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
            move || StandIn::serve(&listener, EventFd::pair().unwrap(), refused, Vec::new())
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

fn encoded(reply: &VerbReply<'_>) -> Vec<u8> {
    let mut bytes = vec![0; reply.encoded_bytes()];
    reply.encode(&mut bytes).unwrap();
    bytes
}

/// A faulty or lying node decides the outcome of its own verbs only.
#[test]
fn a_reply_that_the_verb_cannot_have_ends_that_verb_alone() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("covalentd.sock");
    let listener = Listener::bind(&socket).unwrap();
    let old = 7_u64.to_le_bytes();
    let add = Verb::FetchAdd {
        offset_bytes: 0,
        delta: 1,
    };
    let words = [0, 8].map(|offset_bytes| CommitWord {
        offset_bytes,
        expected: 0,
        new: 1,
    });
    let commit = Verb::MultiCommit { words: &words };
    let read = Verb::Read {
        offset_bytes: 0,
        len_bytes: 8,
    };
    let found = |index| Outcome::Mismatch { index, found: 7 };
    let cases: [(Verb<'_>, Vec<u8>, Outcome); 9] = [
        (add, encoded(&VerbReply::ok(&old)), Outcome::Old(7)),
        (add, Vec::new(), Outcome::BadReply),
        (add, vec![0xff; 20], Outcome::BadReply),
        (add, encoded(&VerbReply::ok(&[])), Outcome::BadReply),
        (
            add,
            encoded(&VerbReply::mismatch(1, &old)),
            Outcome::BadReply,
        ),
        (commit, encoded(&VerbReply::mismatch(1, &old)), found(1)),
        (
            commit,
            encoded(&VerbReply::mismatch(2, &old)),
            Outcome::BadReply,
        ),
        (
            read,
            encoded(&VerbReply::mismatch(0, &old)),
            Outcome::BadReply,
        ),
        (add, encoded(&VerbReply::ok(&old)), Outcome::Old(7)),
    ];
    let replies = cases.iter().map(|(_, reply, _)| reply.clone()).collect();
    let lane = EventFd::pair().unwrap();
    let daemon = thread::spawn(move || StandIn::serve(&listener, lane, Arc::default(), replies));
    {
        let device = Device::attach(&socket, "test").unwrap();
        let mut verbs = device.verbs().unwrap();
        let region = RemoteRegion::from_key(None, 1, 16, Rights::ALL);
        for ((verb, _, _), user_data) in cases.iter().zip(0..) {
            verbs
                .post(&region, *verb, Mode::OnePhase, user_data)
                .unwrap();
        }
        let mut ends = [Completed::default(); 9];
        let mut taken = 0;
        while taken < ends.len() {
            taken += verbs.poll(&mut ends[taken..], PATIENCE).unwrap();
        }
        for ((_, _, expected), end) in cases.iter().zip(&ends) {
            assert_eq!(end.outcome, *expected, "verb {}", end.user_data);
        }
        assert_eq!(verbs.outstanding(), 0);
        // The device and the queue serve on.
        verbs.post(&region, add, Mode::OnePhase, 99).unwrap();
        assert_eq!(verbs.poll(&mut ends, PATIENCE).unwrap(), 1);
        let refused = Outcome::Refused(Refusal::NoResources);
        assert_eq!((ends[0].user_data, ends[0].outcome), (99, refused));
    }
    daemon.join().unwrap();
}

/// The wake-up of a lane, in which the application waits until the lane took it.
fn rendezvous() -> (EventFd, EventFd) {
    let woken = EventFd::new().unwrap();
    let wake = OwnedFd::from(woken.try_clone().unwrap());
    // The counter has no room for a signal, so a write blocks.
    write(&wake, &(u64::MAX - 1).to_ne_bytes()).unwrap();
    fcntl(&wake, FcntlArg::F_SETFL(OFlag::empty())).unwrap();
    (woken, EventFd::from(wake))
}

/// The request for a wake-up first publishes the frames in the pipe, and wakes the lane. Here the
/// lane sends them before the request goes on, so it writes no notification.
#[test]
fn room_between_a_refused_send_and_its_request_for_a_wake_up_ends_the_wait() {
    const LIMIT: Duration = Duration::from_secs(10);
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("covalentd.sock");
    let listener = Listener::bind(&socket).unwrap();
    let lane = rendezvous();
    let daemon = thread::spawn(move || StandIn::serve(&listener, lane, Arc::default(), Vec::new()));
    {
        let device = Device::attach(&socket, "test").unwrap();
        device.set_spin(Duration::ZERO);
        let mut pipe = device.tx_pipe(1 << 16, "p0").unwrap();
        let frame = [0x5a; 1000];
        while pipe.push(&frame).is_ok() {}
        let started = Instant::now();
        let waited = device.until(LIMIT, || match pipe.push(&frame) {
            Ok(()) => Ok(Some(())),
            Err(Error::PipeFull { .. }) => Ok(None),
            Err(error) => Err(error),
        });
        assert!(waited.is_ok(), "{waited:?}");
        // A sleep ends at the deadline, and the last look finds the room.
        assert!(started.elapsed() < LIMIT, "it slept in spite of room");
        assert_eq!(device.doorbells(), 1, "the request publishes");
    }
    daemon.join().unwrap();
}
