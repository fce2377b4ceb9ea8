//! A client as a pure state machine. It has one command in flight and sends it to one server after
//! the other, always with the same number, so the command executes once.

use super::{
    machine::{Answer, Command, Op},
    wire::read_answer,
};

/// A client and its one command.
#[derive(Debug, Clone)]
pub struct Client {
    id: u64,
    next: u64,
    in_flight: Option<Command>,
    /// The server in use, and the number of servers.
    server: usize,
    servers: usize,
}

impl Client {
    /// A client with the random number `id` and `servers` servers, at least 1. It starts with the
    /// server `first`.
    #[must_use]
    pub fn new(id: u64, servers: usize, first: usize) -> Self {
        let servers = servers.max(1);
        Self {
            id,
            next: 0,
            in_flight: None,
            server: first % servers,
            servers,
        }
    }

    /// The next command. The first one of a client is [`Op::Open`].
    pub fn begin(&mut self, op: Op) -> &Command {
        let number = self.next;
        self.next += 1;
        self.in_flight.insert(Command {
            client: self.id,
            number,
            op,
        })
    }

    /// By which servers know it.
    #[must_use]
    pub const fn id(&self) -> u64 {
        self.id
    }

    /// Whether it has begun.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        self.next > 0
    }

    /// The command in flight.
    #[must_use]
    pub const fn in_flight(&self) -> Option<&Command> {
        self.in_flight.as_ref()
    }

    /// The server in use.
    #[must_use]
    pub const fn server(&self) -> usize {
        self.server
    }

    /// Switches to the next server: the current one did not reply, or cannot.
    pub const fn turn_to_next(&mut self) {
        self.server = (self.server + 1) % self.servers;
    }

    /// Takes received bytes. Returns the reply to the command in flight; `None` for anything else.
    pub fn take(&mut self, bytes: &[u8]) -> Option<Answer> {
        let (client, number, answer) = read_answer(bytes).ok()?;
        let command = self.in_flight.as_ref()?;
        if (client, number) != (self.id, command.number) {
            return None;
        }
        self.in_flight = None;
        Some(answer)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::registers::wire::answer;

    #[test]
    fn a_client_sends_one_request_to_each_server_and_takes_one_reply() {
        let mut client = Client::new(7, 3, 5);
        assert!(!client.is_open());
        let open = client.begin(Op::Open).clone();
        assert_eq!((open.number, client.server()), (0, 2));
        client.turn_to_next();
        assert_eq!(client.server(), 0);
        assert_eq!(client.in_flight(), Some(&open));
        let reply = answer(&open, &Answer::Done);
        assert_eq!(client.take(&reply), Some(Answer::Done));
        assert_eq!(client.take(&reply), None, "twice");
        let get = client.begin(Op::Get { key: vec![1] }).clone();
        assert_eq!(get.number, 1);
        assert_eq!(client.take(&reply), None, "late");
        assert_eq!(client.take(b"x"), None);
        let reply = answer(&get, &Answer::Value(None));
        assert_eq!(client.take(&reply), Some(Answer::Value(None)));
        assert_eq!(client.in_flight(), None);
    }
}
