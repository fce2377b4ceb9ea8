//! Requests, multicasts and answers as bytes. All words are little-endian.
//!
//! ```text
//! request    version u8 = 1 ┼ key of the client's queue u32 ┼ command
//! multicast  node of the client u64 ┼ key of its queue u32 ┼ command
//! answer     version u8 = 1 ┼ client u64 ┼ number u64 ┼ what came of it
//! command    client u64 ┼ number u64 ┼ kind u8 ┼ key ┼ value, or (expected?, new)
//! bytes      length u16 ┼ bytes          perhaps bytes: 0 u8, or 1 u8 ┼ bytes
//! ```

use super::machine::{Answer, Command, KEY_BYTES_MAX, Op, VALUE_BYTES_MAX};

const VERSION: u8 = 1;

/// The bytes do not have the expected format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unreadable;

/// Where a client is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ReplyTo {
    /// Its node.
    pub node: u64,
    /// Key of its queue there.
    pub rkey: u32,
}

/// A request to a server.
#[must_use]
pub fn request(rkey: u32, command: &Command) -> Vec<u8> {
    let mut bytes = Writer::default();
    bytes.0.push(VERSION);
    bytes.0.extend(rkey.to_le_bytes());
    bytes.command(command);
    bytes.0
}

/// Parses a request from a node.
///
/// # Errors
/// The bytes are no request.
pub fn read_request(node: u64, bytes: &[u8]) -> Result<(ReplyTo, Command), Unreadable> {
    let mut bytes = Reader::new(bytes);
    bytes.version()?;
    let rkey = bytes.half()?;
    let command = bytes.command()?;
    bytes.end()?;
    Ok((ReplyTo { node, rkey }, command))
}

/// Encodes the multicast of a server.
#[must_use]
pub fn multicast(to: ReplyTo, command: &Command) -> Vec<u8> {
    let mut bytes = Writer::default();
    bytes.word(to.node);
    bytes.0.extend(to.rkey.to_le_bytes());
    bytes.command(command);
    bytes.0
}

/// Parses the multicast of a server.
///
/// # Errors
/// The bytes are no such multicast.
pub fn read_multicast(bytes: &[u8]) -> Result<(ReplyTo, Command), Unreadable> {
    let mut bytes = Reader::new(bytes);
    let node = bytes.word()?;
    let rkey = bytes.half()?;
    let command = bytes.command()?;
    bytes.end()?;
    Ok((ReplyTo { node, rkey }, command))
}

/// An answer to a client.
#[must_use]
pub fn answer(command: &Command, answer: &Answer) -> Vec<u8> {
    let mut bytes = Writer::default();
    bytes.0.push(VERSION);
    bytes.word(command.client);
    bytes.word(command.number);
    bytes.answer(answer);
    bytes.0
}

/// Parses a reply: the client, the number of its command, and the result.
///
/// # Errors
/// The bytes are no reply.
pub fn read_answer(bytes: &[u8]) -> Result<(u64, u64, Answer), Unreadable> {
    let mut bytes = Reader::new(bytes);
    bytes.version()?;
    let (client, number) = (bytes.word()?, bytes.word()?);
    let answer = bytes.answer()?;
    bytes.end()?;
    Ok((client, number, answer))
}

/// Writes.
#[derive(Debug, Default)]
pub(super) struct Writer(Vec<u8>);

impl Writer {
    pub(super) fn finish(self) -> Vec<u8> {
        self.0
    }

    pub(super) fn word(&mut self, word: u64) {
        self.0.extend(word.to_le_bytes());
    }

    /// Keys and values, which are short.
    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend((bytes.len() as u16).to_le_bytes());
        self.0.extend(bytes);
    }

    fn perhaps(&mut self, bytes: Option<&Vec<u8>>) {
        self.0.push(u8::from(bytes.is_some()));
        if let Some(bytes) = bytes {
            self.bytes(bytes);
        }
    }

    pub(super) fn answer(&mut self, answer: &Answer) {
        match answer {
            Answer::Done => self.0.push(0),
            Answer::Value(value) => {
                self.0.push(1);
                self.perhaps(value.as_ref());
            }
            Answer::Differs(found) => {
                self.0.push(2);
                self.perhaps(found.as_ref());
            }
            Answer::NoRoom => self.0.push(3),
            Answer::Forgotten => self.0.push(4),
        }
    }

    fn command(&mut self, command: &Command) {
        self.word(command.client);
        self.word(command.number);
        match &command.op {
            Op::Open => self.0.push(0),
            Op::Get { key } => {
                self.0.push(1);
                self.bytes(key);
            }
            Op::Put { key, value } => {
                self.0.push(2);
                self.bytes(key);
                self.bytes(value);
            }
            Op::Cas { key, expected, new } => {
                self.0.push(3);
                self.bytes(key);
                self.perhaps(expected.as_ref());
                self.bytes(new);
            }
        }
    }
}

/// Reads, and believes nothing.
#[derive(Debug)]
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], Unreadable> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Unreadable)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn byte(&mut self) -> Result<u8, Unreadable> {
        self.take::<1>().map(|[byte]| byte)
    }

    fn half(&mut self) -> Result<u32, Unreadable> {
        self.take().map(u32::from_le_bytes)
    }

    pub(super) fn word(&mut self) -> Result<u64, Unreadable> {
        self.take().map(u64::from_le_bytes)
    }

    fn version(&mut self) -> Result<(), Unreadable> {
        let version = self.byte()?;
        (version == VERSION).then_some(()).ok_or(Unreadable)
    }

    /// A number of things that are at most `max`.
    pub(super) fn count(&mut self, max: usize) -> Result<u64, Unreadable> {
        let count = self.word()?;
        (count <= max as u64).then_some(count).ok_or(Unreadable)
    }

    fn bytes(&mut self, max: usize) -> Result<Vec<u8>, Unreadable> {
        let len = usize::from(self.take().map(u16::from_le_bytes)?);
        if len > max {
            return Err(Unreadable);
        }
        let (taken, rest) = self.0.split_at_checked(len).ok_or(Unreadable)?;
        self.0 = rest;
        Ok(taken.to_vec())
    }

    pub(super) fn key(&mut self) -> Result<Vec<u8>, Unreadable> {
        let key = self.bytes(KEY_BYTES_MAX)?;
        (!key.is_empty()).then_some(key).ok_or(Unreadable)
    }

    pub(super) fn value(&mut self) -> Result<Vec<u8>, Unreadable> {
        self.bytes(VALUE_BYTES_MAX)
    }

    fn perhaps(&mut self) -> Result<Option<Vec<u8>>, Unreadable> {
        match self.byte()? {
            0 => Ok(None),
            1 => self.value().map(Some),
            _ => Err(Unreadable),
        }
    }

    pub(super) fn answer(&mut self) -> Result<Answer, Unreadable> {
        match self.byte()? {
            0 => Ok(Answer::Done),
            1 => self.perhaps().map(Answer::Value),
            2 => self.perhaps().map(Answer::Differs),
            3 => Ok(Answer::NoRoom),
            4 => Ok(Answer::Forgotten),
            _ => Err(Unreadable),
        }
    }

    fn command(&mut self) -> Result<Command, Unreadable> {
        let (client, number) = (self.word()?, self.word()?);
        let op = match self.byte()? {
            0 => Op::Open,
            1 => Op::Get { key: self.key()? },
            2 => Op::Put {
                key: self.key()?,
                value: self.value()?,
            },
            3 => Op::Cas {
                key: self.key()?,
                expected: self.perhaps()?,
                new: self.value()?,
            },
            _ => return Err(Unreadable),
        };
        Ok(Command { client, number, op })
    }

    /// Nothing is left.
    pub(super) fn end(self) -> Result<(), Unreadable> {
        self.0.is_empty().then_some(()).ok_or(Unreadable)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn values() -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(any::<u8>(), 0..=VALUE_BYTES_MAX)
    }

    fn keys() -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(any::<u8>(), 1..=KEY_BYTES_MAX)
    }

    fn ops() -> impl Strategy<Value = Op> {
        let expected = proptest::option::of(values());
        prop_oneof![
            Just(Op::Open),
            keys().prop_map(|key| Op::Get { key }),
            (keys(), values()).prop_map(|(key, value)| Op::Put { key, value }),
            (keys(), expected, values()).prop_map(|(key, expected, new)| Op::Cas {
                key,
                expected,
                new
            }),
        ]
    }

    proptest! {
        #[test]
        fn written_messages_are_read_back_unchanged(
            client: u64,
            number: u64,
            op in ops(),
            node: u64,
            rkey: u32,
            value in proptest::option::of(values()),
        ) {
            let command = Command { client, number, op };
            let to = ReplyTo { node, rkey };
            prop_assert_eq!(
                read_request(node, &request(rkey, &command)),
                Ok((to, command.clone())),
            );
            prop_assert_eq!(read_multicast(&multicast(to, &command)), Ok((to, command.clone())));
            for original in [
                Answer::Done,
                Answer::Value(value.clone()),
                Answer::Differs(value),
                Answer::NoRoom,
                Answer::Forgotten,
            ] {
                prop_assert_eq!(
                    read_answer(&answer(&command, &original)),
                    Ok((client, number, original)),
                );
            }
            let long = request(rkey, &command);
            prop_assert_eq!(read_request(node, &long[..long.len() - 1]), Err(Unreadable));
            prop_assert!(long.len() + 8 <= covalent::MULTICAST_BYTES_MAX);
        }

        #[test]
        fn the_reader_terminates_on_any_bytes(
            bytes in proptest::collection::vec(any::<u8>(), 0..400),
        ) {
            let _ = read_request(1, &bytes);
            let _ = read_multicast(&bytes);
            let _ = read_answer(&bytes);
        }
    }
}
