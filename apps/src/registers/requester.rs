//! A client on a device: it finds servers, sends them requests, and waits for the reply.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use covalent::{Completion, Device, Error, Guid, ReceiveQueue, RemoteRegion, Target, Verbs};

use super::{
    QUEUE_PREFIX,
    client::Client,
    machine::{Answer, Op},
    wire,
};

/// Size of the reply queue in bytes. One reply is outstanding at a time; some replies come late.
const REPLIES_BYTES: u64 = 16 * 1024;

/// How long a client waits before it tries the next server when one could not be reached.
const PAUSE: Duration = Duration::from_millis(2);

/// Where a server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Node {
    /// On the node that the client is attached to.
    Own,
    /// On a neighbor of this name.
    Named(String),
    /// On this node.
    Guid(Guid),
}

impl Node {
    const fn target(&self) -> Target<'_> {
        match self {
            Self::Own => Target::Local,
            Self::Named(name) => Target::Name(name.as_str()),
            Self::Guid(guid) => Target::Guid(*guid),
        }
    }
}

#[derive(Debug)]
struct Server {
    node: Node,
    queue: Option<RemoteRegion>,
}

/// A client on a device.
#[derive(Debug)]
pub struct Requester<'d> {
    verbs: Verbs<'d>,
    replies: ReceiveQueue<'d>,
    queue_name: String,
    servers: Vec<Server>,
    client: Client,
    /// How long one server may take.
    patience: Duration,
}

impl<'d> Requester<'d> {
    /// A client of the group's servers on these nodes. If `nodes` is empty, it uses the own node
    /// and all neighbors. It tries the next server if one does not reply within `patience`.
    ///
    /// # Errors
    /// The daemon refuses.
    pub fn new(
        device: &'d Device,
        group: &str,
        nodes: &[Node],
        patience: Duration,
    ) -> Result<Self> {
        let id = fresh_id();
        let nodes = if nodes.is_empty() {
            all_nodes(device)?
        } else {
            nodes.to_vec()
        };
        let server = |node| Server { node, queue: None };
        let servers: Vec<Server> = nodes.into_iter().map(server).collect();
        Ok(Self {
            verbs: device.verbs()?,
            replies: device.receive_queue(&format!("c.{id:016x}"), REPLIES_BYTES)?,
            queue_name: format!("{QUEUE_PREFIX}{group}"),
            client: Client::new(id, servers.len(), id as usize),
            servers,
            patience,
        })
    }

    /// By which servers know this client.
    #[must_use]
    pub const fn id(&self) -> u64 {
        self.client.id()
    }

    /// Makes the client known to the servers, once. `false`: no server replied in time.
    ///
    /// # Errors
    /// The daemon is gone.
    pub fn open(&mut self, deadline: Instant) -> Result<bool> {
        if self.client.is_open() && self.client.in_flight().is_none() {
            return Ok(true);
        }
        if !self.client.is_open() {
            self.client.begin(Op::Open);
        }
        Ok(self.query(deadline)? == Some(Answer::Done))
    }

    /// Executes one operation, once. `None`: no server replied in time, so the operation may be
    /// done, may still be done, or not. This client then executes nothing more
    /// ([`Requester::renew`]).
    ///
    /// # Errors
    /// The daemon is gone.
    pub fn execute(&mut self, op: Op, deadline: Instant) -> Result<Option<Answer>> {
        self.client.begin(op);
        self.query(deadline)
    }

    /// Continues as another client.
    pub fn renew(&mut self) {
        let id = fresh_id();
        self.client = Client::new(id, self.servers.len(), self.client.server());
    }

    fn query(&mut self, deadline: Instant) -> Result<Option<Answer>> {
        while let Some(command) = self.client.in_flight() {
            let now = Instant::now();
            if now >= deadline {
                return Ok(None);
            }
            let request = wire::request(self.replies.rkey(), command);
            let until = deadline.min(now + self.patience);
            let sent = self.send(&request, until)?;
            let until = if sent {
                until
            } else {
                deadline.min(now + PAUSE)
            };
            if let Some(answer) = self.await_answer(until)? {
                return Ok(Some(answer));
            }
            self.client.turn_to_next();
        }
        Ok(None)
    }

    /// Sends to the current server. `false`: the server cannot be reached now.
    fn send(&mut self, request: &[u8], until: Instant) -> Result<bool> {
        // Completions of exchanges in doubt free slots.
        let mut completions = [(); 8].map(|()| Completion::default());
        self.verbs.try_poll(&mut completions)?;
        let server = &mut self.servers[self.client.server()];
        let queue = match &server.queue {
            Some(queue) => queue,
            None => {
                match self
                    .verbs
                    .open_region(server.node.target(), &self.queue_name, until)
                {
                    Ok(queue) => server.queue.insert(queue),
                    Err(error) => return not_gone(error),
                }
            }
        };
        match self.verbs.send(queue, request, until) {
            // In doubt: it may be there, and may be answered.
            Ok(()) | Err(Error::InDoubt { .. }) => Ok(true),
            Err(error) => {
                server.queue = None;
                not_gone(error)
            }
        }
    }

    fn await_answer(&mut self, until: Instant) -> Result<Option<Answer>> {
        loop {
            match self.replies.recv(until) {
                Ok(message) => {
                    if let Some(answer) = self.client.take(message.data) {
                        return Ok(Some(answer));
                    }
                }
                Err(Error::Deadline { .. }) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// A refusal or an unreachable server is no failure: the client tries another server.
fn not_gone(error: Error) -> Result<bool> {
    match error {
        Error::DaemonGone { .. } | Error::Unintelligible(_) | Error::System { .. } => {
            Err(error.into())
        }
        _ => Ok(false),
    }
}

fn all_nodes(device: &Device) -> Result<Vec<Node>> {
    let links = device
        .status()
        .context("querying the neighbors from the daemon")?
        .links;
    let mut nodes = vec![Node::Own];
    for guid in links.iter().filter_map(|link| link.peer) {
        if !nodes.contains(&Node::Guid(guid)) {
            nodes.push(Node::Guid(guid));
        }
    }
    Ok(nodes)
}

/// A random number that is not 0.
fn fresh_id() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id()).max(1)
}
