//! The daemon's socket, as the command line uses it: one question, one answer, never waiting for ever.

use std::{
    io,
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
use covalent_pipe::seqpacket::Connection;

/// How long a daemon may take to answer. It answers from its main thread, which has nothing slow to do.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long it may take when somebody asks again and again whether it is ready.
const SHORT_PATIENCE: Duration = Duration::from_millis(300);

/// How often to look for what a daemon said before it hung up: the system may tell once that it did, and then what it said.
const LAST_LOOKS: usize = 2;

/// What the command line calls itself.
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
    /// Connects to the daemon at `socket` and greets it.
    ///
    /// # Errors
    /// Says whether nobody listens there, the daemon refused this user, or its version differs.
    pub fn connect(socket: &Path) -> Result<Self> {
        Self::connect_within(socket, PATIENCE)
    }

    /// As [`Client::connect`], where neither that nor any answer may take longer than `patience`.
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
        let connection = Connection::connect_timeout(socket, patience).map_err(|error| {
            if error.kind() == io::ErrorKind::PermissionDenied {
                return anyhow!(
                    "user {} may not connect to {} ({error})\n  cure: as root, as the daemon's user, or as a member of `node.group` (`usermod -aG`, then a new login)",
                    nix::unistd::geteuid(),
                    socket.display()
                );
            }
            anyhow!(
                "no daemon answers at {} ({error})\n  cure: `covalent up --config FILE` starts one; `--socket PATH` names another place",
                socket.display()
            )
        })?;
        let mut client = Self {
            connection,
            socket: socket.to_owned(),
            patience,
            node: String::new(),
            buffer: vec![0; MAX_DATAGRAM_BYTES],
        };
        match client.ask(hello)? {
            Reply::Welcome { version, node, .. } if Versions::SPOKEN.has(version) => {
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
        match self.ask(&Request::Status)? {
            Reply::Status(status) => Ok(*status),
            other => Err(unexpected(&other)),
        }
    }

    /// Pulls or plugs the cable of `port`.
    ///
    /// # Errors
    /// When the daemon refuses.
    pub fn set_port(&mut self, port: &str, enabled: bool) -> Result<()> {
        match self.ask(&Request::SetPort {
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
        match self.ask(&Request::DeleteRegion {
            name: name.to_owned(),
        })? {
            Reply::Done => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// The last events that the daemon keeps, in order.
    ///
    /// # Errors
    /// When the daemon is gone or does not answer.
    pub fn events(&mut self) -> Result<Vec<Event>> {
        let mut all: Vec<Event> = Vec::new();
        let mut from = 0;
        loop {
            match self.ask(&Request::Events { from })? {
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
        match self.ask(&Request::Subscribe)? {
            Reply::Done => Ok(Events { client: self }),
            other => Err(unexpected(&other)),
        }
    }

    fn ask(&mut self, request: &Request) -> Result<Reply> {
        let message = datagram::encode(request)?;
        let sent = self.connection.send(&message, &[]);
        let received = match sent {
            Ok(()) => self.receive(self.patience),
            Err(problem) => Err(anyhow!(problem)
                .context(format!("the daemon at {} is gone", self.socket.display()))),
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

    /// Why the daemon turned this user away: it says so and hangs up, and the system tells of the second first.
    fn last_word(&mut self) -> Option<Reply> {
        let heard = (0..LAST_LOOKS).find_map(|_| self.receive(Duration::ZERO).ok().flatten());
        heard.filter(|reply| matches!(reply, Reply::Refused { .. }))
    }

    /// The next message, or `None` when none came within `patience`.
    fn receive(&mut self, patience: Duration) -> Result<Option<Reply>> {
        let gone = || format!("cannot read from the daemon at {}", self.socket.display());
        if !self.connection.wait(Some(patience)).with_context(gone)? {
            return Ok(None);
        }
        let (length, _) = self.connection.recv(&mut self.buffer).with_context(gone)?;
        Ok(Some(datagram::decode(&self.buffer[..length])?))
    }
}

/// What happens on a node, as it happens.
pub struct Events {
    client: Client,
}

impl Events {
    /// The next event, or `None` when none came within `patience`.
    ///
    /// # Errors
    /// When the daemon is gone.
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

/// Whether the daemon at `socket` serves: one that still opens its ports listens already, but does not answer yet.
pub fn serves(socket: &Path) -> bool {
    Client::connect_within(socket, SHORT_PATIENCE).is_ok()
}

/// Whether somebody listens on the `SOCK_SEQPACKET` socket at `path`.
pub fn answers(path: &Path) -> bool {
    Connection::connect(path).is_ok()
}

/// Whether certainly nobody listens at `path`: there is no socket, or one that its process left behind. That this user may not connect,
/// for one, says nothing.
pub fn is_nobody_there(path: &Path) -> bool {
    use io::ErrorKind::{ConnectionRefused, NotFound};
    Connection::connect(path)
        .is_err_and(|error| matches!(error.kind(), NotFound | ConnectionRefused))
}

/// The daemon is more than one release away.
const fn apart(daemon: Versions) -> NoCommonVersion {
    NoCommonVersion {
        server: "covalentd",
        server_speaks: daemon,
        client: "covalent",
        client_speaks: Versions::SPOKEN,
    }
}

fn unexpected(reply: &Reply) -> anyhow::Error {
    anyhow!("the daemon answered with something else than was asked for: {reply:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_that_listens_and_is_silent_does_not_serve() {
        let directory = tempfile::tempdir().expect("temporary directory");
        let path = directory.path().join("covalentd.sock");
        let _listener = covalent_pipe::seqpacket::Listener::bind(&path).expect("bound");
        assert!(answers(&path));
        let began = Instant::now();
        assert!(!serves(&path));
        let waited = began.elapsed();
        assert!(
            (SHORT_PATIENCE..PATIENCE).contains(&waited),
            "{waited:?}: whoever looks again and again cannot wait for long"
        );
    }

    #[test]
    fn only_an_absent_or_dead_socket_means_that_nobody_is_there() {
        let directory = tempfile::tempdir().expect("temporary directory");
        let path = directory.path().join("covalentd.sock");
        assert!(is_nobody_there(&path));
        let listener = covalent_pipe::seqpacket::Listener::bind(&path).expect("bound");
        assert!(!is_nobody_there(&path));
        drop(listener);
        assert!(is_nobody_there(&path));
        // What cannot be asked may well be there.
        assert!(!is_nobody_there(Path::new(&"x".repeat(200))));
    }
}
