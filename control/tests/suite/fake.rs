//! A daemon played by a test: a seqpacket socket, a greeting, and the messages that the test sends.

use std::{
    os::fd::{AsFd, OwnedFd},
    path::Path,
    time::Duration,
};

use covalent_api::{
    API_VERSION, MAX_DATAGRAM_BYTES, datagram,
    event::{Event, EventKind},
    guid::Guid,
    request::{Reply, Request},
    status::NodeStatus,
};
use covalent_ipc::seqpacket::{Connection, Listener, SeqpacketError};

/// No test waits longer for anything.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The GUID that the fake daemon reports.
pub fn guid() -> Guid {
    Guid::new(0x0123_4567_89ab_cdef).expect("not zero")
}

/// One connection of control, from the daemon's side. Blocking: it runs on a thread of its own.
pub struct Session {
    connection: Connection,
}

impl Session {
    /// Waits for control to connect.
    pub fn accept(listener: &Listener) -> Self {
        let connection = listener.accept().expect("control connects");
        Self { connection }
    }

    /// Waits for control, and greets it.
    pub fn greeted(listener: &Listener) -> Self {
        let session = Self::accept(listener);
        assert!(matches!(
            session.next(),
            Some(Request::Hello {
                version: API_VERSION,
                ..
            })
        ));
        session.send_reply(&welcome(API_VERSION));
        assert_eq!(session.next(), Some(Request::Subscribe));
        session.send_reply(&Reply::Done);
        session
    }

    /// The next request; `None` when control has left.
    pub fn next(&self) -> Option<Request> {
        assert!(
            self.connection.wait(Some(PATIENCE)).expect("a socket"),
            "control sends nothing"
        );
        let mut buffer = vec![0; MAX_DATAGRAM_BYTES];
        match self.connection.recv(&mut buffer) {
            Ok((length, _)) => Some(datagram::decode(&buffer[..length]).expect("a request")),
            Err(SeqpacketError::Closed) => None,
            Err(problem) => panic!("{problem}"),
        }
    }

    /// Whether control sends nothing for a while.
    pub fn is_quiet(&self) -> bool {
        !self
            .connection
            .wait(Some(Duration::from_millis(100)))
            .expect("a socket")
    }

    /// Another descriptor of the connection.
    pub fn copy(&self) -> OwnedFd {
        self.connection
            .as_fd()
            .try_clone_to_owned()
            .expect("a descriptor")
    }

    pub fn send_reply(&self, reply: &Reply) {
        let bytes = datagram::encode(reply).expect("fits");
        self.connection.send(&bytes, &[]).expect("control listens");
    }

    pub fn send_bytes(&self, bytes: &[u8]) {
        self.connection.send(bytes, &[]).expect("control listens");
    }

    pub fn event(&self, sequence: u64, kind: EventKind) {
        self.send_reply(&Reply::Event(Event {
            sequence,
            realtime_ns: sequence,
            kind,
        }));
    }

    /// Answers every status request with `status` until control disconnects. Returns the number of
    /// requests.
    pub fn answer(&self, status: &NodeStatus) -> u64 {
        self.answer_each(|| status.clone())
    }

    /// As [`answer`](Self::answer), with the status that `status` makes for each request.
    pub fn answer_each(&self, mut status: impl FnMut() -> NodeStatus) -> u64 {
        let mut answered = 0;
        while let Some(request) = self.next() {
            assert_eq!(request, Request::Status);
            self.send_reply(&Reply::Status(Box::new(status())));
            answered += 1;
        }
        answered
    }
}

pub fn welcome(version: u32) -> Reply {
    Reply::Welcome {
        version,
        speaks: None,
        node: "node-a".into(),
        guid: guid(),
        lanes: 1,
        ports: Vec::new(),
    }
}

pub fn listen(socket: &Path) -> Listener {
    Listener::bind(socket).expect("a free name in a directory of the test")
}

pub fn link_up(port: &str) -> EventKind {
    EventKind::LinkUp {
        port: port.into(),
        peer: Guid::new(0xb).expect("not zero"),
        peer_name: "node-b".into(),
        peer_port: 1,
        epoch: 5,
    }
}

pub fn link_down(port: &str) -> EventKind {
    EventKind::LinkDown {
        port: port.into(),
        reason: "carrier lost".into(),
        open_transactions: 3,
    }
}
