//! A client: a pure machine. It has one command under way, asks one server after the other for it, always with the same number, and so has it done once.

use super::{
    machine::{Answer, Command, Op},
    wire::read_answer,
};

/// What a client does with its one command.
#[derive(Debug, Clone)]
pub struct Client {
    id: u64,
    next: u64,
    under_way: Option<Command>,
    /// Which server is asked, and how many there are.
    server: usize,
    servers: usize,
}

impl Client {
    /// A client with a random number, of so many servers, 1 at least; it begins with the server `first`.
    #[must_use]
    pub fn new(id: u64, servers: usize, first: usize) -> Self {
        let servers = servers.max(1);
        Self {
            id,
            next: 0,
            under_way: None,
            server: first % servers,
            servers,
        }
    }

    /// The next command. The first one of a client is [`Op::Open`].
    pub fn begin(&mut self, op: Op) -> &Command {
        let number = self.next;
        self.next += 1;
        self.under_way.insert(Command {
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

    /// What is under way.
    #[must_use]
    pub const fn under_way(&self) -> Option<&Command> {
        self.under_way.as_ref()
    }

    /// Which server is asked.
    #[must_use]
    pub const fn server(&self) -> usize {
        self.server
    }

    /// The server did not answer, or cannot: the next one is asked.
    pub const fn turn_to_next(&mut self) {
        self.server = (self.server + 1) % self.servers;
    }

    /// Bytes came: the answer to what is under way, or nothing that matters any more.
    pub fn take(&mut self, bytes: &[u8]) -> Option<Answer> {
        let (client, number, answer) = read_answer(bytes).ok()?;
        let command = self.under_way.as_ref()?;
        if (client, number) != (self.id, command.number) {
            return None;
        }
        self.under_way = None;
        Some(answer)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::registers::wire::answer;

    #[test]
    fn it_asks_everybody_for_the_same_and_takes_the_answer_once() {
        let mut client = Client::new(7, 3, 5);
        assert!(!client.is_open());
        let open = client.begin(Op::Open).clone();
        assert_eq!((open.number, client.server()), (0, 2));
        client.turn_to_next();
        assert_eq!(client.server(), 0);
        assert_eq!(client.under_way(), Some(&open));
        let said = answer(&open, &Answer::Done);
        assert_eq!(client.take(&said), Some(Answer::Done));
        assert_eq!(client.take(&said), None, "twice");
        let get = client.begin(Op::Get { key: vec![1] }).clone();
        assert_eq!(get.number, 1);
        assert_eq!(client.take(&said), None, "late");
        assert_eq!(client.take(b"x"), None);
        let said = answer(&get, &Answer::Value(None));
        assert_eq!(client.take(&said), Some(Answer::Value(None)));
        assert_eq!(client.under_way(), None);
    }
}
