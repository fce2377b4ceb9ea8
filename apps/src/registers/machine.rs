//! The registers themselves: a pure machine, the same at every server.

use std::collections::{BTreeMap, btree_map::Entry};

use super::wire::{Reader, Unreadable, Writer};

/// Longest key in bytes; the shortest has one.
pub const KEY_BYTES_MAX: usize = 32;
/// Longest value in bytes; the shortest has none.
pub const VALUE_BYTES_MAX: usize = 256;
/// Most registers.
pub const REGISTERS_MAX: usize = 65_536;
/// Clients whose last reply is kept. Beyond this number, the client with the oldest last command is
/// forgotten.
pub const CLIENTS_MAX: usize = 4_096;

/// An operation on a register.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Op {
    /// Makes a client known. The first command of each, with number 0.
    Open,
    /// Returns the value.
    Get {
        /// Of this register.
        key: Vec<u8>,
    },
    /// Sets the value.
    Put {
        /// Of this register.
        key: Vec<u8>,
        /// To this.
        value: Vec<u8>,
    },
    /// Sets the value if the current value is the expected one.
    Cas {
        /// Of this register.
        key: Vec<u8>,
        /// Expected; `None`: it was never set.
        expected: Option<Vec<u8>>,
        /// The new value.
        new: Vec<u8>,
    },
}

/// An operation that executes once, however often the client sends it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Command {
    /// A random number of the client's own.
    pub client: u64,
    /// Number of the client's command: 0 for [`Op::Open`], then 1, 2, 3, … A client has one command
    /// in flight.
    pub number: u64,
    /// The operation.
    pub op: Op,
}

/// The result of a command.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Answer {
    /// Done: `Open`, `Put`, or a `Cas` that found the expected value.
    Done,
    /// To `Get`: the value. `None`: it was never set.
    Value(Option<Vec<u8>>),
    /// To `Cas`: something else was found, and nothing was changed.
    Differs(Option<Vec<u8>>),
    /// There are as many registers as there can be, and this would be one more.
    NoRoom,
    /// The client is no longer known, or has sent a later command. Whether the command was executed
    /// is unknown.
    Forgotten,
}

/// All registers, and the last reply to each client.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Machine {
    registers: BTreeMap<Vec<u8>, Vec<u8>>,
    clients: BTreeMap<u64, Last>,
    /// Clients by the time of their last command.
    oldest: BTreeMap<u64, u64>,
    /// Commands applied, those that were no news left out.
    applied: u64,
}

/// The last command of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Last {
    number: u64,
    answer: Answer,
    when: u64,
}

impl Machine {
    /// Executes a command. If the command was executed before, returns the same reply again.
    pub fn apply(&mut self, command: &Command) -> Answer {
        let Command { client, number, op } = command;
        match self.clients.get(client) {
            Some(last) if last.number == *number => return last.answer.clone(),
            Some(last) if last.number > *number => return Answer::Forgotten,
            None if *number > 0 => return Answer::Forgotten,
            _ => {}
        }
        let answer = self.execute(op);
        self.applied += 1;
        let when = self.applied;
        let last = Last {
            number: *number,
            answer: answer.clone(),
            when,
        };
        if let Some(before) = self.clients.insert(*client, last) {
            self.oldest.remove(&before.when);
        }
        self.oldest.insert(when, *client);
        if self.clients.len() > CLIENTS_MAX
            && let Some((_, gone)) = self.oldest.pop_first()
        {
            self.clients.remove(&gone);
        }
        answer
    }

    fn execute(&mut self, op: &Op) -> Answer {
        let has_room = self.registers.len() < REGISTERS_MAX;
        match op {
            Op::Open => Answer::Done,
            Op::Get { key } => Answer::Value(self.registers.get(key).cloned()),
            Op::Put { key, value } => match self.registers.entry(key.clone()) {
                Entry::Vacant(_) if !has_room => Answer::NoRoom,
                Entry::Vacant(vacant) => {
                    vacant.insert(value.clone());
                    Answer::Done
                }
                Entry::Occupied(mut occupied) => {
                    occupied.insert(value.clone());
                    Answer::Done
                }
            },
            Op::Cas { key, expected, new } => match self.registers.entry(key.clone()) {
                Entry::Vacant(_) if expected.is_some() => Answer::Differs(None),
                Entry::Vacant(_) if !has_room => Answer::NoRoom,
                Entry::Vacant(vacant) => {
                    vacant.insert(new.clone());
                    Answer::Done
                }
                Entry::Occupied(occupied) if Some(occupied.get()) != expected.as_ref() => {
                    Answer::Differs(Some(occupied.get().clone()))
                }
                Entry::Occupied(mut occupied) => {
                    occupied.insert(new.clone());
                    Answer::Done
                }
            },
        }
    }

    /// The value of a register now.
    #[must_use]
    pub fn value(&self, key: &[u8]) -> Option<&[u8]> {
        self.registers.get(key).map(Vec::as_slice)
    }

    /// How many registers there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.registers.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.registers.is_empty()
    }

    /// All of it as bytes.
    #[must_use]
    pub fn snapshot(&self) -> Vec<u8> {
        let mut bytes = Writer::default();
        bytes.word(self.applied);
        bytes.word(self.registers.len() as u64);
        for (key, value) in &self.registers {
            bytes.bytes(key);
            bytes.bytes(value);
        }
        bytes.word(self.clients.len() as u64);
        for (client, last) in &self.clients {
            bytes.word(*client);
            bytes.word(last.number);
            bytes.word(last.when);
            bytes.answer(&last.answer);
        }
        bytes.finish()
    }

    /// The machine of a [`Machine::snapshot`].
    ///
    /// # Errors
    /// The bytes are none.
    pub fn restore(bytes: &[u8]) -> Result<Self, Unreadable> {
        let mut bytes = Reader::new(bytes);
        let mut machine = Self {
            applied: bytes.word()?,
            ..Self::default()
        };
        for _ in 0..bytes.count(REGISTERS_MAX)? {
            let key = bytes.key()?;
            machine.registers.insert(key, bytes.value()?);
        }
        for _ in 0..bytes.count(CLIENTS_MAX)? {
            let client = bytes.word()?;
            let last = Last {
                number: bytes.word()?,
                when: bytes.word()?,
                answer: bytes.answer()?,
            };
            machine.oldest.insert(last.when, client);
            machine.clients.insert(client, last);
        }
        bytes.end()?;
        Ok(machine)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    fn key(number: u8) -> Vec<u8> {
        vec![b'a' + number % 4]
    }

    fn ops() -> impl Strategy<Value = Op> {
        let value = || (0..4_u8).prop_map(|value| vec![value; usize::from(value)]);
        prop_oneof![
            any::<u8>().prop_map(|number| Op::Get { key: key(number) }),
            (any::<u8>(), value()).prop_map(|(number, value)| Op::Put {
                key: key(number),
                value
            }),
            (any::<u8>(), proptest::option::of(value()), value()).prop_map(
                |(number, expected, new)| Op::Cas {
                    key: key(number),
                    expected,
                    new
                }
            ),
        ]
    }

    proptest! {
        #[test]
        fn the_machine_executes_each_command_once_like_a_map(
            ops in proptest::collection::vec((0..3_u64, ops(), 1..3_usize), 1..60),
            at in 0..60_usize,
        ) {
            let mut machine = Machine::default();
            let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
            let mut numbers = [0; 3];
            for client in 0..3 {
                machine.apply(&Command { client, number: 0, op: Op::Open });
            }
            for (step, (client, op, times)) in ops.into_iter().enumerate() {
                if step == at {
                    machine = Machine::restore(&machine.snapshot()).unwrap();
                }
                numbers[client as usize] += 1;
                let expected = match &op {
                    Op::Open => Answer::Done,
                    Op::Get { key } => Answer::Value(model.get(key).cloned()),
                    Op::Put { key, value } => {
                        model.insert(key.clone(), value.clone());
                        Answer::Done
                    }
                    Op::Cas { key, expected, new } => {
                        let found = model.get(key).cloned();
                        if found == *expected {
                            model.insert(key.clone(), new.clone());
                            Answer::Done
                        } else {
                            Answer::Differs(found)
                        }
                    }
                };
                let command = Command { client, number: numbers[client as usize], op };
                for _ in 0..times {
                    prop_assert_eq!(machine.apply(&command), expected.clone());
                }
                prop_assert_eq!(&machine.registers, &model);
            }
        }

        #[test]
        fn any_bytes_are_a_snapshot_or_an_error(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            if let Ok(machine) = Machine::restore(&bytes) {
                prop_assert_eq!(Machine::restore(&machine.snapshot()).unwrap(), machine);
            }
        }
    }

    #[test]
    fn a_forgotten_client_is_refused_and_no_command_executes_twice() {
        let mut machine = Machine::default();
        let open = |client| Command {
            client,
            number: 0,
            op: Op::Open,
        };
        let put = Command {
            client: 0,
            number: 1,
            op: Op::Put {
                key: key(0),
                value: vec![1],
            },
        };
        assert_eq!(machine.apply(&put), Answer::Forgotten, "never seen");
        machine.apply(&open(0));
        assert_eq!(machine.apply(&put), Answer::Done);
        assert_eq!(machine.apply(&open(0)), Answer::Forgotten, "an old one");
        for client in 1..=CLIENTS_MAX as u64 {
            machine.apply(&open(client));
        }
        assert_eq!(machine.clients.len(), CLIENTS_MAX);
        assert_eq!(machine.apply(&put), Answer::Forgotten);
        let bytes = machine.snapshot();
        assert_eq!(Machine::restore(&bytes).unwrap(), machine);
        assert!(Machine::restore(&bytes[..bytes.len() - 1]).is_err());
    }
}
