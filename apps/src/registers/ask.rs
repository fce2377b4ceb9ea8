//! A client at work on a device: it finds servers, asks them, and waits for the answer.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use covalent_verbs::{Completion, Device, Error, Guid, ReceiveQueue, RemoteRegion, Target, Verbs};

use super::{
    QUEUE_PREFIX,
    client::Client,
    machine::{Answer, Op},
    wire,
};

/// Room for answers, in bytes. There is one at a time, and some that come late.
const REPLIES_BYTES: u64 = 16 * 1024;

/// How long a client waits before it asks the next server when one could not be asked.
const PAUSE: Duration = Duration::from_millis(2);

/// Where a server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Node {
    /// On the node that the client is attached to.
    Own,
    /// On a neighbour of this name.
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
pub struct Asker<'d> {
    verbs: Verbs<'d>,
    replies: ReceiveQueue<'d>,
    queue_name: String,
    servers: Vec<Server>,
    client: Client,
    /// How long one server may take.
    patience: Duration,
}

impl<'d> Asker<'d> {
    /// A client of the group's servers on these nodes; on the own one and all neighbours, if none is named. It asks the next one when one has not answered
    /// within `patience`.
    ///
    /// # Errors
    /// What the daemon refuses.
    pub fn new(
        device: &'d Device,
        group: &str,
        nodes: &[Node],
        patience: Duration,
    ) -> Result<Self> {
        let id = fresh_id();
        let nodes = if nodes.is_empty() {
            all_around(device)?
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

    /// Makes the client known, once; `false`: nobody answered in time.
    ///
    /// # Errors
    /// The daemon is gone.
    pub fn open(&mut self, deadline: Instant) -> Result<bool> {
        if self.client.is_open() && self.client.under_way().is_none() {
            return Ok(true);
        }
        if !self.client.is_open() {
            self.client.begin(Op::Open);
        }
        Ok(self.ask(deadline)? == Some(Answer::Done))
    }

    /// Has one thing done, once. `None`: nobody answered in time, so nobody knows whether it is done, or will be; this client asks for nothing more
    /// ([`Asker::renew`]).
    ///
    /// # Errors
    /// The daemon is gone.
    pub fn execute(&mut self, op: Op, deadline: Instant) -> Result<Option<Answer>> {
        self.client.begin(op);
        self.ask(deadline)
    }

    /// Goes on as another client.
    pub fn renew(&mut self) {
        let id = fresh_id();
        self.client = Client::new(id, self.servers.len(), self.client.server());
    }

    fn ask(&mut self, deadline: Instant) -> Result<Option<Answer>> {
        while let Some(command) = self.client.under_way() {
            let now = Instant::now();
            if now >= deadline {
                return Ok(None);
            }
            let request = wire::request(self.replies.rkey(), command);
            let until = deadline.min(now + self.patience);
            let asked = self.send(&request, until)?;
            let until = if asked {
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

    /// Asks the server whose turn it is. `false`: it cannot be asked now.
    fn send(&mut self, request: &[u8], until: Instant) -> Result<bool> {
        // Ends of what was in doubt make room.
        let mut ends = [(); 8].map(|()| Completion::default());
        self.verbs.poll(&mut ends)?;
        let server = &mut self.servers[self.client.server()];
        let queue = match &server.queue {
            Some(queue) => queue,
            None => {
                match self
                    .verbs
                    .open_region_deadline(server.node.target(), &self.queue_name, until)
                {
                    Ok(queue) => server.queue.insert(queue),
                    Err(error) => return not_gone(error),
                }
            }
        };
        match self.verbs.send_deadline(queue, request, until) {
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
            match self.replies.recv_deadline(until) {
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

/// What a server refuses, or nobody there, is no failure: another one is asked.
fn not_gone(error: Error) -> Result<bool> {
    match error {
        Error::DaemonGone { .. } | Error::Unintelligible(_) | Error::System { .. } => {
            Err(error.into())
        }
        _ => Ok(false),
    }
}

fn all_around(device: &Device) -> Result<Vec<Node>> {
    let links = device
        .status()
        .context("ask the daemon for neighbours")?
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
