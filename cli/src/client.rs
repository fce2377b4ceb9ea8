//! The command line's client of the daemon's socket: one request, one reply, never an unbounded
//! wait.

use std::{
    fmt, io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, bail};
use covalent_api::{
    MAX_DATAGRAM_BYTES, datagram,
    event::Event,
    request::{Reply, Request},
    status::NodeStatus,
    versions::{NoCommonVersion, Versions, is_refusal_of_version_5},
};
use covalent_ipc::seqpacket::{Connection, SeqpacketError};

/// Longest time until a daemon replies. It replies from its main thread, which does nothing slow.
const PATIENCE: Duration = Duration::from_secs(5);

/// Longest time until a reply when the caller polls for readiness.
pub const SHORT_PATIENCE: Duration = Duration::from_millis(300);

/// How often to read a reply after the daemon closed the connection: the kernel may report the
/// close once before it returns the pending message.
const LAST_RECEIVE_ATTEMPTS: usize = 2;

/// Name under which the command line identifies itself.
const PROGRAM: &str = "covalent";

/// The daemon refused a request, for this reason.
#[derive(Debug, thiserror::Error)]
#[error("the daemon refused: {0}")]
struct Refused(String);

/// A connection that was greeted.
pub struct Client {
    connection: Connection,
    socket: PathBuf,
    patience: Duration,
    node: String,
    buffer: Vec<u8>,
}

impl Client {
    /// Connects to the daemon at `socket` and exchanges the greeting.
    ///
    /// # Errors
    /// Fails if no process listens there, if the daemon refuses this user, or if its version
    /// differs.
    pub fn connect(socket: &Path) -> Result<Self> {
        Self::connect_within(socket, PATIENCE)
    }

    /// As [`Client::connect`], with `patience` as the limit for the connection and for each reply.
    ///
    /// # Errors
    /// As [`Client::connect`].
    pub fn connect_within(socket: &Path, patience: Duration) -> Result<Self> {
        match Self::greet(socket, patience, &Request::hello(PROGRAM)) {
            Err(refused)
                if refused
                    .downcast_ref::<Refused>()
                    .is_some_and(|Refused(reason)| is_refusal_of_version_5(reason)) =>
            {
                Self::greet(socket, patience, &Request::hello_of_version_5(PROGRAM))
            }
            greeted => greeted,
        }
    }

    /// Connects and introduces the command line with `hello`.
    fn greet(socket: &Path, patience: Duration, hello: &Request) -> Result<Self> {
        let connection = Connection::connect_timeout(socket, patience)
            .map_err(|error| unreachable(socket, &error))?;
        let mut client = Self {
            connection,
            socket: socket.to_owned(),
            patience,
            node: String::new(),
            buffer: vec![0; MAX_DATAGRAM_BYTES],
        };
        match client.send_request(hello)? {
            Reply::Welcome { version, node, .. } if Versions::SUPPORTED.has(version) => {
                client.node = node;
                Ok(client)
            }
            Reply::Welcome {
                version, speaks, ..
            } => bail!(apart(speaks.unwrap_or(Versions::only(version)))),
            other => Err(unexpected(&other)),
        }
    }

    /// The node's configured name.
    pub fn node(&self) -> &str {
        &self.node
    }

    /// Everything that the daemon knows of itself.
    ///
    /// # Errors
    /// When the daemon is gone or does not answer.
    pub fn status(&mut self) -> Result<NodeStatus> {
        match self.send_request(&Request::Status)? {
            Reply::Status(status) => Ok(*status),
            other => Err(unexpected(&other)),
        }
    }

    /// Pulls or plugs the cable of `port`.
    ///
    /// # Errors
    /// When the daemon refuses.
    pub fn set_port(&mut self, port: &str, enabled: bool) -> Result<()> {
        match self.send_request(&Request::SetPort {
            port: port.to_owned(),
            enabled,
        })? {
            Reply::Done => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// Deletes a durable region.
    ///
    /// # Errors
    /// When the daemon refuses.
    pub fn delete_region(&mut self, name: &str) -> Result<()> {
        match self.send_request(&Request::DeleteRegion {
            name: name.to_owned(),
        })? {
            Reply::Done => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// Returns the latest events that the daemon keeps, in order.
    ///
    /// # Errors
    /// Fails if the daemon is gone or does not reply.
    pub fn events(&mut self) -> Result<Vec<Event>> {
        let mut all: Vec<Event> = Vec::new();
        let mut from = 0;
        loop {
            match self.send_request(&Request::Events { from })? {
                Reply::Events { events, next } => {
                    all.extend(events);
                    match next {
                        // It keeps so many at most, and each answer is later than the one before.
                        Some(next) if next > from => from = next,
                        _ => return Ok(all),
                    }
                }
                other => return Err(unexpected(&other)),
            }
        }
    }

    /// Turns this connection into a stream of events.
    ///
    /// # Errors
    /// When the daemon refuses.
    pub fn subscribe(mut self) -> Result<Events> {
        match self.send_request(&Request::Subscribe)? {
            Reply::Done => Ok(Events { client: self }),
            other => Err(unexpected(&other)),
        }
    }

    fn send_request(&mut self, request: &Request) -> Result<Reply> {
        let message = datagram::encode(request)?;
        let sent = self.connection.send(&message, &[]);
        let received = match sent {
            Ok(()) => self.receive(self.patience),
            Err(SeqpacketError::Closed) => Err(no_daemon(&self.socket, &SeqpacketError::Closed)),
            Err(problem) => Err(anyhow!(problem).context(format!(
                "cannot send to the daemon at {}",
                self.socket.display()
            ))),
        };
        match received.or_else(|problem| self.last_word().ok_or(problem).map(Some))? {
            Some(Reply::Refused {
                speaks: Some(speaks),
                ..
            }) => bail!(apart(speaks)),
            Some(Reply::Refused { reason, .. }) => bail!(Refused(reason)),
            Some(reply) => Ok(reply),
            None => bail!(
                "the daemon at {} did not answer within {:?}",
                self.socket.display(),
                self.patience
            ),
        }
    }

    /// Returns why the daemon refused this user. The daemon sends the reason and closes, but the
    /// kernel reports the close first.
    fn last_word(&mut self) -> Option<Reply> {
        let last_reply =
            (0..LAST_RECEIVE_ATTEMPTS).find_map(|_| self.receive(Duration::ZERO).ok().flatten());
        last_reply.filter(|reply| matches!(reply, Reply::Refused { .. }))
    }

    /// Returns the next message, or `None` if none arrives within `patience`.
    fn receive(&mut self, patience: Duration) -> Result<Option<Reply>> {
        let failed = || format!("cannot read from the daemon at {}", self.socket.display());
        if !self.connection.wait(Some(patience)).with_context(failed)? {
            return Ok(None);
        }
        let (length, _) = match self.connection.recv(&mut self.buffer) {
            // A killed daemon may accept a connection, and closes it without a reply.
            Err(SeqpacketError::Closed) => bail!(no_daemon(&self.socket, &SeqpacketError::Closed)),
            received => received.with_context(failed)?,
        };
        Ok(Some(datagram::decode(&self.buffer[..length])?))
    }
}

/// The stream of a node's events.
pub struct Events {
    client: Client,
}

impl Events {
    /// Returns the next event, or `None` if none arrives within `patience`.
    ///
    /// # Errors
    /// Fails if the daemon is gone.
    pub fn next(&mut self, patience: Duration) -> Result<Option<Event>> {
        let deadline = Instant::now() + patience;
        loop {
            match self
                .client
                .receive(deadline.saturating_duration_since(Instant::now()))?
            {
                Some(Reply::Event(event)) => return Ok(Some(event)),
                Some(_) => {}
                None => return Ok(None),
            }
        }
    }
}

/// Returns whether the daemon at `socket` serves requests. A daemon that still opens its ports
/// listens already, but does not reply yet.
pub fn serves(socket: &Path) -> bool {
    Client::connect_within(socket, SHORT_PATIENCE).is_ok()
}

/// Returns whether a process listens on the `SOCK_SEQPACKET` socket at `path`.
pub fn answers(path: &Path) -> bool {
    Connection::connect(path).is_ok()
}

/// Returns whether certainly no process listens at `path`: the socket does not exist, or its
/// process left it behind. Other errors, such as a lack of permission, prove nothing.
pub fn no_daemon_listens(path: &Path) -> bool {
    use io::ErrorKind::{ConnectionRefused, NotFound};
    Connection::connect(path)
        .is_err_and(|error| matches!(error.kind(), NotFound | ConnectionRefused))
}

/// The error of a command that found no daemon at `socket`. The text is the same in all commands.
pub fn no_daemon(socket: &Path, cause: &dyn fmt::Display) -> anyhow::Error {
    anyhow!(
        "no covalentd answers at {} ({cause})\n  cure: `covalent up` starts it; `--config FILE` or \
         `--socket PATH` selects another node",
        socket.display()
    )
}

/// The error of a command that could not connect to `socket`.
fn unreachable(socket: &Path, error: &io::Error) -> anyhow::Error {
    if error.kind() != io::ErrorKind::PermissionDenied {
        return no_daemon(socket, error);
    }
    anyhow!(
        "user {} may not connect to {} ({error})\n  cure: as root, as the daemon's user, or as a \
         member of `node.group` (`usermod -aG`, then a new login)",
        nix::unistd::geteuid(),
        socket.display()
    )
}

/// Explains an error of the library before a program has a device, as [`Client`] does.
pub fn explained(error: covalent::Error) -> anyhow::Error {
    match error {
        covalent::Error::Unreachable { socket, cause } => unreachable(&socket, &cause),
        covalent::Error::DaemonGone { socket } => no_daemon(&socket, &SeqpacketError::Closed),
        other => other.into(),
    }
}

/// The daemon is more than one release away.
const fn apart(daemon: Versions) -> NoCommonVersion {
    NoCommonVersion {
        server: "covalentd",
        server_versions: daemon,
        client: "covalent",
        client_versions: Versions::SUPPORTED,
    }
}

fn unexpected(reply: &Reply) -> anyhow::Error {
    anyhow!("the daemon sent an unexpected reply: {reply:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_that_listens_and_is_silent_does_not_serve() {
        let directory = tempfile::tempdir().expect("temporary directory");
        let path = directory.path().join("covalentd.sock");
        let _listener = covalent_ipc::seqpacket::Listener::bind(&path).expect("bound");
        assert!(answers(&path));
        let began = Instant::now();
        assert!(!serves(&path));
        let waited = began.elapsed();
        assert!(
            (SHORT_PATIENCE..PATIENCE).contains(&waited),
            "{waited:?}: a caller that polls cannot wait for long"
        );
    }

    #[test]
    fn only_an_absent_or_dead_socket_means_that_no_daemon_listens() {
        let directory = tempfile::tempdir().expect("temporary directory");
        let path = directory.path().join("covalentd.sock");
        assert!(no_daemon_listens(&path));
        let listener = covalent_ipc::seqpacket::Listener::bind(&path).expect("bound");
        assert!(!no_daemon_listens(&path));
        drop(listener);
        assert!(no_daemon_listens(&path));
        // A socket that cannot be queried may have a listener.
        assert!(!no_daemon_listens(Path::new(&"x".repeat(200))));
    }
}
