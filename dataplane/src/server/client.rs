//! One connection to the daemon's socket.

use std::{
    fs,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::Instant,
};

use covalent_api::{
    datagram,
    request::{Reply, Request},
    versions::Versions,
};
use covalent_ipc::seqpacket::{Connection, Credentials, SeqpacketError};

use super::{handover::Unmapped, outgoing::Outgoing, places::HELLO_TIMEOUT};

/// A client: an application, `covalent-control`, the CLI.
#[derive(Debug)]
pub struct Client {
    connection: Connection,
    connected: Instant,
    /// The process that connected: readable once it has ended.
    owner: Option<OwnedFd>,
    /// The peer's credentials, as the kernel reports them.
    pub credentials: Credentials,
    /// The name that the client gives itself. Empty before its hello.
    pub program: String,
    /// The client has sent a hello with a version that this daemon supports.
    pub greeted: bool,
    /// The client is subscribed to events.
    pub subscribed: bool,
    /// The session that lasts as long as this connection.
    pub session: Option<u64>,
    /// It had the memory of a session made, which one connection may once.
    pub opened_session: bool,
    /// A request of it is being carried out: the next one waits.
    pub busy: bool,
    /// The job on its memory that it waits for: the next request waits too.
    pub errand: Option<u64>,
    /// Memory that was handed over and is not mapped yet, as far as is known.
    pub unmapped: Option<Unmapped>,
    /// The connection is to be closed once its pending messages are sent.
    pub closing: bool,
    outgoing: Outgoing,
}

/// The result of receiving from a client.
#[derive(Debug)]
pub enum Received {
    /// A request.
    Request(Box<Request>),
    /// Nothing yet.
    Nothing,
    /// A request that is unknown to this daemon, or unknown in this form, from a greeted client.
    /// Holds the unknown part.
    Unknown(String),
    /// Something that is not a request. Holds the reason.
    Garbage(String),
    /// The client closed the connection.
    HungUp,
}

impl Client {
    /// Creates a client that has sent nothing yet.
    pub fn new(connection: Connection, credentials: Credentials) -> Self {
        Self {
            owner: connection.peer_process(),
            connection,
            connected: Instant::now(),
            credentials,
            program: String::new(),
            greeted: false,
            subscribed: false,
            session: None,
            opened_session: false,
            busy: false,
            errand: None,
            unmapped: None,
            closing: false,
            outgoing: Outgoing::default(),
        }
    }

    /// The connection, for polling.
    pub const fn connection(&self) -> &Connection {
        &self.connection
    }

    /// The process that connected, for polling. A child of that process may hold the connection
    /// open after it has exited.
    pub fn owner(&self) -> Option<BorrowedFd<'_>> {
        self.owner.as_ref().map(AsFd::as_fd)
    }

    /// Shuts the connection down and returns it to be closed. Returns `None` if it is closed
    /// already, because closing took no time.
    pub fn hang_up(self) -> Option<Connection> {
        (!self.connection.hang_up()).then_some(self.connection)
    }

    /// The deadline of the client's hello, if it has not sent one.
    pub fn hello_due(&self) -> Option<Instant> {
        (!self.greeted && !self.closing).then(|| self.connected + HELLO_TIMEOUT)
    }

    /// Whether something waits to be sent.
    pub fn has_outgoing(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Whether its next request may be read: no request of it is in flight, and it has read the
    /// replies to earlier ones.
    pub fn may_request(&self) -> bool {
        !self.busy && !self.closing && !self.outgoing.owes_reply()
    }

    /// Receives the next datagram. No request carries descriptors: a request that does, where the
    /// kernel let them through, stays unread.
    pub fn receive(&self, buffer: &mut [u8]) -> Received {
        match self.connection.recv_bytes(buffer) {
            Ok(length) => self.read(&buffer[..length]),
            Err(SeqpacketError::WouldBlock) => Received::Nothing,
            Err(error @ (SeqpacketError::Truncated { .. } | SeqpacketError::Descriptors)) => {
                Received::Garbage(error.to_string())
            }
            Err(_) => Received::HungUp,
        }
    }

    fn read(&self, bytes: &[u8]) -> Received {
        let read = if self.greeted {
            datagram::decode(bytes)
        } else {
            Request::read_greeting(bytes)
        };
        match read {
            Ok(request) => Received::Request(Box::new(request)),
            Err(error) if self.greeted && datagram::is_named_request(bytes) => {
                Received::Unknown(error.to_string())
            }
            Err(error) => Received::Garbage(error.to_string()),
        }
    }

    /// Descriptors that it was not sent, and will not be. They may be the last ones of memory.
    pub fn take_unsent_descriptors(&mut self) -> Vec<OwnedFd> {
        self.outgoing.take_descriptors()
    }

    /// Queues a reply and sends as much as possible.
    pub fn reply(&mut self, reply: &Reply, fds: Vec<OwnedFd>) {
        self.outgoing.reply(reply, fds);
        self.send();
    }

    /// Queues a refusal.
    pub fn refuse(&mut self, reason: impl Into<String>) {
        self.reply(&Reply::refused(reason), Vec::new());
    }

    /// Refuses for the last time: the connection is closed once the reason is sent.
    pub fn turn_away(&mut self, reason: impl Into<String>) {
        self.refuse(reason);
        self.closing = true;
    }

    /// Refuses the greeting of a client with another version than this daemon's and closes the
    /// connection. The refusal lists the supported versions.
    pub fn turn_away_version(&mut self, reason: String) {
        let refused = Reply::Refused {
            reason,
            speaks: Some(Versions::SUPPORTED),
        };
        self.reply(&refused, Vec::new());
        self.closing = true;
    }

    /// Queues an event. A subscriber that reads too slowly gets an error and is closed.
    pub fn event(&mut self, bytes: &[u8]) {
        if self.outgoing.event(bytes).is_err() {
            self.turn_away(
                "events arrived faster than you read them: subscribe again and request the status",
            );
        } else {
            self.send();
        }
    }

    /// Sends as much as possible without waiting.
    pub fn send(&mut self) {
        while let Some(message) = self.outgoing.front() {
            let fds: Vec<_> = message.fds.iter().map(AsFd::as_fd).collect();
            match self.connection.send(&message.bytes, &fds) {
                Ok(()) => self.outgoing.sent(),
                Err(SeqpacketError::WouldBlock) => return,
                Err(error) => {
                    // No peer is left to notify: the next poll finds the closed connection. Any
                    // other failure ends the connection here.
                    self.closing |= !matches!(error, SeqpacketError::Closed);
                    self.outgoing = Outgoing::default();
                    return;
                }
            }
        }
    }

    /// Whether the process that connected has exited or is exiting. This distinguishes a closed
    /// connection from a killed application.
    pub fn process_ended(&self) -> bool {
        const PF_EXITING: u64 = 0x4;
        let Ok(stat) = fs::read_to_string(format!("/proc/{}/stat", self.credentials.pid)) else {
            return true;
        };
        // The command name is in parentheses and may hold any character. The fields follow the last
        // one.
        let Some((_, fields)) = stat.rsplit_once(')') else {
            return true;
        };
        let mut fields = fields.split_ascii_whitespace();
        let ended = matches!(fields.next(), Some("Z" | "X"));
        // After the state: ppid, pgrp, session, tty_nr, tpgid, flags (proc_pid_stat(5)).
        let flags = fields
            .nth(5)
            .and_then(|flags| flags.parse::<u64>().ok())
            .unwrap_or(0);
        ended || flags & PF_EXITING != 0
    }
}
