//! The conversation with the daemon: one request, one reply, over its Unix socket.

use std::{
    collections::VecDeque,
    fs, io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::fs::FileTypeExt,
    },
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use covalent_api::{
    MAX_DATAGRAM_BYTES,
    control::NOT_FOR_APPLICATIONS,
    datagram,
    event::{Event, EventKind},
    faults::FaultRates,
    guid::Guid,
    request::{PortBrief, Reply, Request},
    status::NodeStatus,
    versions::{NoCommonVersion, Versions, is_refusal_of_version_5},
};
use covalent_ipc::{
    owner_process::OwnerProcess,
    seqpacket::{Connection, SeqpacketError},
};
use nix::{errno::Errno, poll::PollFlags};

use crate::{
    error::{Error, Result},
    timeout::{Timeout, deadline, moment},
    wait,
};

/// Default time that a request waits for its reply. The daemon replies within one turn of its loop.
/// This bounds the effect of a stopped daemon on its applications.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Events kept for [`Client::next_event`] while waiting for replies. Beyond that the oldest is
/// dropped, which the sequence numbers show.
const EVENTS_MAX: usize = 1024;

/// A connection to the daemon without pipes, for queries and configuration.
///
/// It is `Send`. Use it on one thread at a time. A [`Device`](crate::Device) has its own. In a
/// forked process every call returns [`Error::Forked`].
#[derive(Debug)]
pub struct Client {
    connection: Connection,
    owner: OwnerProcess,
    socket: PathBuf,
    node: NodeInfo,
    buffer: Box<[u8]>,
    events: VecDeque<Event>,
    timeout: Duration,
    /// Outstanding replies to requests whose deadline passed. They are discarded on arrival.
    late_replies: u32,
    gone: bool,
}

/// The last message of a daemon that is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Farewell {
    /// That it ends, and that nothing was left half done.
    InOrder,
    /// The daemon detaches this application because of its writes to shared memory.
    Detached,
    /// Nothing.
    None,
}

/// Errors read from a closed socket before giving up. The last error means that nothing is left.
/// Each other error is reported once.
const FAREWELL_ERRORS_MAX: u32 = 8;

/// How the daemon's word begins that it detaches an application.
const DETACHED: &str = "detached: ";

/// The daemon's description of its node, sent when a client connects.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeInfo {
    /// The node's configured name.
    pub name: String,
    /// The node's identity, which is also the address of its lane 0
    /// ([`Device::address`](crate::Device::address)).
    pub guid: Guid,
    /// How many lanes there are.
    pub lanes: u32,
    /// The ports, ordered by index.
    pub ports: Vec<PortBrief>,
}

impl Client {
    /// Connects to the daemon's socket. `program` is a name of the client for operators, at most 64
    /// bytes.
    ///
    /// # Errors
    /// [`Error::Unreachable`], [`Error::Version`], [`Error::Refused`] (for example by the group
    /// check). [`Error::Deadline`] if the daemon does not reply within [`REQUEST_TIMEOUT`].
    pub fn connect(socket: impl AsRef<Path>, program: &str) -> Result<Self> {
        Self::connect_timeout(socket, program, REQUEST_TIMEOUT)
    }

    /// A client of the process at the other end of `connection`, which has sent nothing yet.
    fn over(connection: Connection, owner: OwnerProcess, socket: PathBuf) -> Self {
        Self {
            connection,
            owner,
            socket,
            node: NodeInfo {
                name: String::new(),
                guid: NO_GUID,
                lanes: 0,
                ports: Vec::new(),
            },
            buffer: vec![0; MAX_DATAGRAM_BYTES].into_boxed_slice(),
            events: VecDeque::new(),
            timeout: REQUEST_TIMEOUT,
            late_replies: 0,
            gone: false,
        }
    }

    /// As [`Client::connect`], within `timeout` and not [`REQUEST_TIMEOUT`].
    ///
    /// # Errors
    /// As [`Client::connect`].
    pub fn connect_timeout(
        socket: impl AsRef<Path>,
        program: &str,
        timeout: impl Into<Timeout>,
    ) -> Result<Self> {
        let deadline = moment(timeout);
        let socket = socket.as_ref();
        match Self::greet(socket, &Request::hello(program), deadline) {
            Err(Error::Refused { reason, .. }) if is_refusal_of_version_5(&reason) => {
                Self::greet(socket, &Request::hello_of_version_5(program), deadline)
            }
            greeted => greeted,
        }
    }

    /// Connects and introduces this program with `hello`.
    fn greet(socket: &Path, hello: &Request, deadline: Instant) -> Result<Self> {
        let socket = socket.to_owned();
        let unreachable = |cause: io::Error| Error::Unreachable {
            socket: socket.clone(),
            cause,
        };
        let owner = OwnerProcess::this().map_err(|cause| Error::System {
            what: "mapping a page that detects a fork",
            cause,
        })?;
        // A stopped daemon does not accept connections.
        let left = deadline.saturating_duration_since(Instant::now());
        let connection =
            Connection::connect_timeout(&socket, left).map_err(|cause| match cause.kind() {
                io::ErrorKind::WouldBlock => Error::Deadline {
                    what: "the daemon accepted the connection".into(),
                },
                io::ErrorKind::ConnectionRefused if is_no_socket(&socket) => {
                    unreachable(Errno::ENOTSOCK.into())
                }
                _ => unreachable(cause),
            })?;
        connection.set_nonblocking(true).map_err(unreachable)?;
        let mut client = Self::over(connection, owner, socket);
        let answer = match client.request_until(hello, "attach", deadline) {
            Err(gone @ Error::DaemonGone { .. }) => return Err(client.last_word().unwrap_or(gone)),
            Err(Error::Refused { reason, .. }) if reason == NOT_FOR_APPLICATIONS => {
                return Err(Error::Unreachable {
                    socket: client.socket,
                    cause: io::Error::other(reason),
                });
            }
            answer => answer?,
        };
        match answer {
            (
                Reply::Welcome {
                    version, speaks, ..
                },
                _,
            ) if !Versions::SUPPORTED.has(version) => {
                Err(apart(speaks.unwrap_or(Versions::only(version))))
            }
            (
                Reply::Welcome {
                    node,
                    guid,
                    lanes,
                    ports,
                    ..
                },
                _,
            ) => {
                client.node = NodeInfo {
                    name: node,
                    guid,
                    lanes,
                    ports,
                };
                Ok(client)
            }
            (other, _) => Err(unexpected("Hello", &other)),
        }
    }

    /// The node that the daemon runs.
    #[must_use]
    pub const fn node(&self) -> &NodeInfo {
        &self.node
    }

    /// The lane that owns a port.
    pub(crate) fn lane_of_port(&self, port: &str) -> Result<u32> {
        let ports = &self.node.ports;
        let found = ports.iter().find(|brief| brief.name == port);
        let found = found.ok_or_else(|| {
            let names: Vec<&str> = ports.iter().map(|brief| brief.name.as_str()).collect();
            Error::UnknownPort {
                port: port.to_owned(),
                node: self.node.name.clone(),
                known: names.join(", "),
            }
        })?;
        Ok(found.lane)
    }

    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Sets how long each later request waits for its reply. This is the deadline of every call
    /// here that takes none. The default is [`REQUEST_TIMEOUT`].
    pub fn set_request_timeout(&mut self, timeout: Duration) {
        self.timeout = timeout.min(wait::LONGEST);
    }

    pub(crate) const fn request_timeout(&self) -> Duration {
        self.timeout
    }

    /// Everything that the daemon knows of itself.
    ///
    /// # Errors
    /// [`Error::DaemonGone`], [`Error::Refused`], [`Error::Deadline`].
    pub fn status(&mut self) -> Result<NodeStatus> {
        self.status_until(self.request_deadline())
    }

    pub(crate) fn status_until(&mut self, deadline: Instant) -> Result<NodeStatus> {
        match self.request_until(&Request::Status, "report its status", deadline)? {
            (Reply::Status(status), _) => Ok(*status),
            (other, _) => Err(unexpected("Status", &other)),
        }
    }

    /// Enables or disables a port, as if its cable were plugged or pulled. Only root and the
    /// daemon's own user may do this.
    ///
    /// # Errors
    /// As [`Client::status`].
    pub fn set_port(&mut self, port: &str, enabled: bool) -> Result<()> {
        let request = Request::SetPort {
            port: port.to_owned(),
            enabled,
        };
        self.done(
            &request,
            &format!("{} port {port}", if enabled { "enable" } else { "disable" }),
        )
    }

    /// Changes the faults that a port with `[port.faults]` injects into its own frames: `rx` for
    /// arriving frames, `tx` for sent frames. For tests of a faulty wire. Only root and the
    /// daemon's own user may do this.
    ///
    /// # Errors
    /// As [`Client::status`]. [`Error::Refused`] for a port that is not configured to damage
    /// frames.
    pub fn set_faults(&mut self, port: &str, rx: FaultRates, tx: FaultRates) -> Result<()> {
        let request = Request::SetFaults {
            port: port.to_owned(),
            rx,
            tx,
        };
        self.done(&request, &format!("set the faults of port {port}"))
    }

    /// Deletes a durable region with its contents, and frees its name and its space in the journal.
    /// Returns after the deletion is on disk. Only the region's user, root and the daemon's own
    /// user may do this.
    ///
    /// # Errors
    /// As [`Client::status`]. [`Error::Refused`] if an application has the region registered.
    pub fn delete_region(&mut self, name: &str) -> Result<()> {
        let request = Request::DeleteRegion {
            name: name.to_owned(),
        };
        self.done(&request, &format!("delete the durable region `{name}`"))
    }

    /// Subscribes to every later event of the node. Read them with [`Client::next_event`].
    ///
    /// # Errors
    /// As [`Client::status`].
    pub fn subscribe(&mut self) -> Result<()> {
        self.done(&Request::Subscribe, "send events")
    }

    /// Waits for the next event. Gaps in [`Event::sequence`] show missed events.
    ///
    /// # Errors
    /// [`Error::DaemonGone`], [`Error::Deadline`] after `timeout`.
    pub fn next_event(&mut self, timeout: impl Into<Timeout>) -> Result<Event> {
        let deadline = deadline(timeout);
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(event);
            }
            match self.receive(deadline, "an event arrived")? {
                (Reply::Event(event), _) => return Ok(event),
                _ if self.late_replies > 0 => self.late_replies -= 1,
                (other, _) => return Err(unexpected("nothing", &other)),
            }
        }
    }

    /// Sends a request whose reply carries no data.
    pub(crate) fn done(&mut self, request: &Request, what: &str) -> Result<()> {
        self.done_until(request, what, self.request_deadline())
    }

    /// As [`Client::done`], until `deadline`.
    pub(crate) fn done_until(
        &mut self,
        request: &Request,
        what: &str,
        deadline: Instant,
    ) -> Result<()> {
        match self.request_until(request, what, deadline)? {
            (Reply::Done, _) => Ok(()),
            (other, _) => Err(unexpected("Done", &other)),
        }
    }

    /// Sends a request and waits for its reply. `what` completes the sentence "covalentd refused to
    /// …".
    pub(crate) fn request(
        &mut self,
        request: &Request,
        what: &str,
    ) -> Result<(Reply, Vec<OwnedFd>)> {
        self.request_until(request, what, self.request_deadline())
    }

    /// When a request that is made now is given up.
    pub(crate) fn request_deadline(&self) -> Instant {
        Instant::now() + self.timeout
    }

    /// As [`Client::request`], until `deadline`.
    pub(crate) fn request_until(
        &mut self,
        request: &Request,
        what: &str,
        deadline: Instant,
    ) -> Result<(Reply, Vec<OwnedFd>)> {
        let deadline = Some(deadline);
        let bytes = datagram::encode(request).map_err(|error| Error::Invalid(error.to_string()))?;
        self.send(&bytes, deadline)?;
        loop {
            let (reply, fds) = match self.receive(deadline, "the daemon answered a request") {
                Err(error @ Error::Deadline { .. }) => {
                    self.late_replies += 1;
                    return Err(error);
                }
                received => received?,
            };
            match reply {
                Reply::Event(event) => {
                    if self.events.len() == EVENTS_MAX {
                        self.events.pop_front();
                    }
                    self.events.push_back(event);
                }
                _ if self.late_replies > 0 => self.late_replies -= 1,
                Reply::Refused { reason, speaks } => return Err(refused(what, reason, speaks)),
                reply => return Ok((reply, fds)),
            }
        }
    }

    /// The process that connected.
    pub(crate) const fn owner(&self) -> OwnerProcess {
        self.owner
    }

    fn check_owner(&self) -> Result<()> {
        if self.owner.is_here() {
            Ok(())
        } else {
            Err(Error::Forked)
        }
    }

    fn send(&mut self, bytes: &[u8], deadline: Option<Instant>) -> Result<()> {
        self.check_owner()?;
        loop {
            if self.gone {
                return Err(self.daemon_gone());
            }
            match self.connection.send(bytes, &[]) {
                Ok(()) => return Ok(()),
                Err(SeqpacketError::WouldBlock) => {
                    self.sleep(PollFlags::POLLOUT, deadline, "the daemon took a request")?;
                }
                Err(error) => return Err(self.broken(error)),
            }
        }
    }

    fn receive(
        &mut self,
        deadline: Option<Instant>,
        what: &'static str,
    ) -> Result<(Reply, Vec<OwnedFd>)> {
        self.check_owner()?;
        loop {
            if self.gone {
                return Err(self.daemon_gone());
            }
            match self.connection.recv(&mut self.buffer) {
                Ok((len, fds)) => {
                    return match datagram::decode(&self.buffer[..len]) {
                        Ok(reply) => Ok((reply, fds)),
                        Err(error) => {
                            self.gone = true;
                            Err(Error::Unintelligible(error.to_string()))
                        }
                    };
                }
                Err(SeqpacketError::WouldBlock) => self.sleep(PollFlags::POLLIN, deadline, what)?,
                // The lost datagram was a reply, since only replies carry descriptors. The order of
                // replies holds, and the daemon takes back what it handed over.
                Err(SeqpacketError::DescriptorsLost) if self.late_replies > 0 => {
                    self.late_replies -= 1;
                }
                Err(SeqpacketError::DescriptorsLost) => {
                    return Err(Error::System {
                        what: "receiving descriptors from covalentd (this process has too many \
                            open, see `ulimit -n`)",
                        cause: Errno::EMFILE.into(),
                    });
                }
                Err(error) => return Err(self.broken(error)),
            }
        }
    }

    fn sleep(
        &self,
        events: PollFlags,
        deadline: Option<Instant>,
        what: &'static str,
    ) -> Result<()> {
        if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            return Err(Error::Deadline { what: what.into() });
        }
        wait::poll(&mut [(self.connection.as_fd(), events)], deadline)?;
        Ok(())
    }

    /// Checks, without waiting, whether the daemon has closed the connection.
    pub(crate) fn check_connection(&mut self) -> Result<()> {
        self.check_owner()?;
        if !self.gone {
            let mut fds = [(self.connection.as_fd(), wait::HANG_UP)];
            self.gone = wait::poll(&mut fds, Some(Instant::now()))?[0].intersects(wait::HANG_UP);
        }
        if self.gone {
            Err(self.daemon_gone())
        } else {
            Ok(())
        }
    }

    /// Records that another object of the daemon is gone. No more requests are sent to the daemon.
    pub(crate) fn hung_up(&mut self) -> Error {
        self.gone = true;
        self.daemon_gone()
    }

    /// To wait for the daemon's hanging up beside other things.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.connection.as_fd()
    }

    /// Whether the daemon is known to be gone.
    pub(crate) const fn is_gone(&self) -> bool {
        self.gone
    }

    /// Returns the last message of a daemon that is gone.
    pub(crate) fn farewell(&mut self) -> Farewell {
        let mut farewell = Farewell::None;
        let mut errors = 0;
        // Bounded by the contents of the socket.
        while errors < FAREWELL_ERRORS_MAX {
            let Ok((len, _)) = self.connection.recv(&mut self.buffer) else {
                // The kernel reports a close with unread data before it returns the daemon's
                // messages. An unreadable message need not be the last one.
                errors += 1;
                continue;
            };
            match datagram::decode(&self.buffer[..len]) {
                Ok(Reply::Event(event)) if event.kind == EventKind::Stopping => {
                    farewell = Farewell::InOrder;
                }
                Ok(Reply::Refused { reason, .. }) if reason.starts_with(DETACHED) => {
                    return Farewell::Detached;
                }
                _ => {}
            }
        }
        let stops = |event: &Event| event.kind == EventKind::Stopping;
        if self.events.iter().any(stops) {
            farewell = Farewell::InOrder;
        }
        farewell
    }

    fn broken(&mut self, error: SeqpacketError) -> Error {
        match error {
            SeqpacketError::Closed => {
                self.gone = true;
                self.daemon_gone()
            }
            SeqpacketError::Io(cause) => Error::System {
                what: "talking to covalentd",
                cause,
            },
            // The datagram is gone, and with it the order of replies.
            error => {
                self.gone = true;
                Error::Unintelligible(error.to_string())
            }
        }
    }

    /// Returns why the daemon rejected this user. The daemon sends the reason and closes, and the
    /// kernel reports the close first.
    fn last_word(&mut self) -> Option<Error> {
        // First the close, then the daemon's message.
        for _ in 0..2 {
            let Ok((len, _)) = self.connection.recv(&mut self.buffer) else {
                continue;
            };
            if let Ok(Reply::Refused { reason, speaks }) = datagram::decode(&self.buffer[..len]) {
                return Some(refused("attach", reason, speaks));
            }
        }
        None
    }

    pub(crate) fn daemon_gone(&self) -> Error {
        Error::DaemonGone {
            socket: self.socket.clone(),
        }
    }
}

/// Converts a refusal of `what` into an error. If the refusal lists the versions that the daemon
/// `speaks`, the version is the cause.
fn refused(what: &str, reason: String, speaks: Option<Versions>) -> Error {
    speaks.map_or_else(
        || Error::Refused {
            request: what.to_owned(),
            reason,
        },
        apart,
    )
}

/// The daemon is more than one release away.
const fn apart(daemon: Versions) -> Error {
    Error::Version(NoCommonVersion {
        server: "covalentd",
        server_versions: daemon,
        client: "this program's library",
        client_versions: Versions::SUPPORTED,
    })
}

/// Whether a file is there that is no socket. `connect` reports it as a socket without a listener.
fn is_no_socket(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| !found.file_type().is_socket())
}

/// Placeholder for the node until the daemon has sent its identity.
const NO_GUID: Guid = Guid::new(u64::MAX).expect("not zero");

/// The descriptors of a reply that must have `N`.
pub(crate) fn take_fds<const N: usize>(fds: Vec<OwnedFd>) -> Result<[OwnedFd; N]> {
    fds.try_into().map_err(|fds: Vec<OwnedFd>| {
        Error::Unintelligible(format!("{} descriptors arrived, expected {N}", fds.len()))
    })
}

pub(crate) fn unexpected(requested: &str, reply: &Reply) -> Error {
    // Only the kind of reply: a status would fill pages.
    let text = format!("{reply:?}");
    let kind: String = text.chars().take_while(|c| c.is_alphanumeric()).collect();
    Error::Unintelligible(format!("{kind} in answer to {requested}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// A client, and the daemon's end of its connection.
    fn pair() -> (Client, Connection) {
        let (connection, daemon) = Connection::pair().unwrap();
        connection.set_nonblocking(true).unwrap();
        (
            Client::over(connection, OwnerProcess::this().unwrap(), PathBuf::new()),
            daemon,
        )
    }

    fn goodbye() -> Vec<u8> {
        let event = Event {
            sequence: 1,
            realtime_ns: 0,
            kind: EventKind::Stopping,
        };
        datagram::encode(&Reply::Event(event)).unwrap()
    }

    /// The kernel first reports the request that the daemon did not read, and then returns the
    /// daemon's message.
    #[test]
    fn a_goodbye_is_received_behind_an_unread_request() {
        let (mut client, daemon) = pair();
        client.connection.send(b"a request", &[]).unwrap();
        daemon.send(&goodbye(), &[]).unwrap();
        drop(daemon);
        assert_eq!(client.farewell(), Farewell::InOrder);
    }

    #[test]
    fn a_goodbye_is_received_behind_unreadable_messages() {
        let (mut client, daemon) = pair();
        daemon
            .send(&vec![b' '; MAX_DATAGRAM_BYTES + 1], &[])
            .unwrap();
        daemon.send(b"nothing that is known", &[]).unwrap();
        daemon.send(&goodbye(), &[]).unwrap();
        drop(daemon);
        assert_eq!(client.farewell(), Farewell::InOrder);
    }

    #[test]
    fn a_daemon_without_a_goodbye_was_killed_and_detaching_is_announced() {
        let (mut client, daemon) = pair();
        drop(daemon);
        assert_eq!(client.farewell(), Farewell::None);
        let (mut client, daemon) = pair();
        let reason = format!("{DETACHED}pipe 3");
        let detached = datagram::encode(&Reply::refused(reason)).unwrap();
        daemon.send(&detached, &[]).unwrap();
        drop(daemon);
        assert_eq!(client.farewell(), Farewell::Detached);
    }
}
