//! One verb on the memory of one region.

use super::{
    memory::Memory,
    task::{Action, Task, operands, words},
};
use crate::verb::{Comparison, Condition, MultiCommit, Order, Reply, Update};

/// Attempts at a word that another writer changes again and again, before the verb is given up.
const TRIES: usize = 128;

/// How a change of one word went.
enum Change {
    /// Done, with the old word.
    Done(u64),
    /// The word did not meet the condition; the word found.
    NotMet(u64),
    /// The owner changed the word at every try.
    Contended,
}

/// Executes `task`, which was checked for this region. Writes the reply into `space` and returns
/// its length. `None` if the memory refuses the access after all, or `space` is too short.
pub(super) fn apply(
    memory: &mut impl Memory,
    task: &Task,
    request: &[u8],
    space: &mut [u8],
) -> Option<usize> {
    let offset = task.offset;
    let change = match task.action {
        Action::Read(len) => {
            return Reply::encode_read(space, len, |target| memory.read(offset, target));
        }
        Action::Write => {
            memory.write(offset, operands(request))?;
            return Reply::ok(&[]).encode(space).ok();
        }
        Action::MultiCommit => {
            return match commit(memory, &words(request))? {
                Ok(()) => Reply::ok(&[]).encode(space).ok(),
                Err((index, found)) => mismatch(index, found, space),
            };
        }
        Action::Lookup | Action::Send => return None,
        Action::Update(update, order) => change(memory, offset, update, order)?,
        Action::Conditional(condition, update) => change_if(memory, offset, condition, update)?,
    };
    match change {
        Change::Done(old) => Reply::encode_word(old, space),
        Change::NotMet(found) => mismatch(0, found, space),
        Change::Contended => Reply::contended().encode(space).ok(),
    }
}

fn change(memory: &mut impl Memory, offset: u64, update: Update, order: Order) -> Option<Change> {
    Some(Change::Done(match update {
        Update::Write(new) | Update::Swap(new) => memory.swap(offset, new)?,
        Update::Add(delta) => memory.fetch_add(offset, delta)?,
        Update::And(mask) => memory.fetch_and(offset, mask)?,
        Update::Or(mask) => memory.fetch_or(offset, mask)?,
        Update::Xor(mask) => memory.fetch_xor(offset, mask)?,
        Update::Min(_) | Update::Max(_) => {
            return exchange(memory, offset, |word| Some(update.of(word, order)));
        }
    }))
}

fn change_if(
    memory: &mut impl Memory,
    offset: u64,
    condition: Condition,
    update: Update,
) -> Option<Change> {
    let Condition {
        comparison,
        comparand,
        order,
    } = condition;
    if comparison == Comparison::Equal {
        // If the word is equal, the new word follows from the comparand.
        let new = update.of(comparand, order);
        return Some(match memory.compare_exchange(offset, comparand, new)? {
            Ok(old) => Change::Done(old),
            Err(found) => Change::NotMet(found),
        });
    }
    exchange(memory, offset, |word| {
        condition.is_met(word).then(|| update.of(word, order))
    })
}

/// Replaces the word by the result of `new` in one atomic step, unless that is `None`.
fn exchange(
    memory: &mut impl Memory,
    offset: u64,
    new: impl Fn(u64) -> Option<u64>,
) -> Option<Change> {
    let mut seen = memory.load(offset)?;
    for _ in 0..TRIES {
        let Some(new) = new(seen) else {
            return Some(Change::NotMet(seen));
        };
        match memory.compare_exchange(offset, seen, new)? {
            Ok(old) => return Some(Change::Done(old)),
            Err(found) => seen = found,
        }
    }
    // A writer that never stops must not delay the verbs of others.
    Some(Change::Contended)
}

/// Checks every word, then changes every word. Inner error: the index of the first unexpected word,
/// and its value.
fn commit(memory: &mut impl Memory, words: &MultiCommit<'_>) -> Option<Result<(), (u16, u64)>> {
    for (index, word) in (0..).zip(words.iter()) {
        let found = memory.load(u64::from(word.offset))?;
        if found != word.expected {
            return Some(Err((index, found)));
        }
    }
    for (index, word) in (0_u16..).zip(words.iter()) {
        let offset = u64::from(word.offset);
        if let Err(found) = memory.compare_exchange(offset, word.expected, word.new)? {
            // The owner wrote meanwhile. Restore the changed words, except where the owner wrote
            // too.
            for done in words.iter().take(usize::from(index)) {
                let _ = memory.compare_exchange(u64::from(done.offset), done.new, done.expected)?;
            }
            return Some(Err((index, found)));
        }
    }
    Some(Ok(()))
}

fn mismatch(index: u16, found: u64, space: &mut [u8]) -> Option<usize> {
    Reply::mismatch(index, &found.to_le_bytes())
        .encode(space)
        .ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::{boxed::Box, vec};

    use super::*;
    use crate::verb::Status;
    use crate::{
        region::Words,
        verb::{Request, Verb, Word},
    };

    /// Memory whose owner acts before each compare-and-exchange.
    struct Owned {
        words: Words,
        meddle: Box<dyn FnMut(&mut Words)>,
    }

    impl Memory for Owned {
        fn size_bytes(&self) -> u64 {
            self.words.size_bytes()
        }
        fn load(&self, offset: u64) -> Option<u64> {
            self.words.load(offset)
        }
        fn swap(&mut self, offset: u64, value: u64) -> Option<u64> {
            self.words.swap(offset, value)
        }
        fn compare_exchange(
            &mut self,
            offset: u64,
            expected: u64,
            new: u64,
        ) -> Option<Result<u64, u64>> {
            (self.meddle)(&mut self.words);
            self.words.compare_exchange(offset, expected, new)
        }
        fn fetch_add(&mut self, offset: u64, delta: u64) -> Option<u64> {
            self.words.fetch_add(offset, delta)
        }
        fn fetch_and(&mut self, offset: u64, mask: u64) -> Option<u64> {
            self.words.fetch_and(offset, mask)
        }
        fn fetch_or(&mut self, offset: u64, mask: u64) -> Option<u64> {
            self.words.fetch_or(offset, mask)
        }
        fn fetch_xor(&mut self, offset: u64, mask: u64) -> Option<u64> {
            self.words.fetch_xor(offset, mask)
        }
        fn read(&self, offset: u64, target: &mut [u8]) -> Option<()> {
            self.words.read(offset, target)
        }
        fn write(&mut self, offset: u64, source: &[u8]) -> Option<()> {
            self.words.write(offset, source)
        }
    }

    fn run(memory: &mut Owned, verb: Verb<'_>) -> (Status, Option<u64>) {
        let request = Request {
            rkey: 1,
            offset: 0,
            verb,
        };
        let mut bytes = vec![0; request.encoded_bytes()];
        request.encode(&mut bytes).unwrap();
        let mut space = [0; 64];
        let len = apply(memory, &Task::new(&request), &bytes, &mut space).unwrap();
        let reply = Reply::decode(&space[..len]).unwrap();
        (reply.status, reply.value())
    }

    fn meddled(meddle: impl FnMut(&mut Words) + 'static) -> Owned {
        Owned {
            words: Words::new(4),
            meddle: Box::new(meddle),
        }
    }

    const AT_LEAST_5: Condition = Condition {
        comparison: Comparison::GreaterOrEqual,
        comparand: 5,
        order: Order::Unsigned,
    };

    #[test]
    fn a_change_that_the_owner_overtakes_is_retried_on_the_new_value() {
        let mut writes = vec![20, 10].into_iter();
        let mut memory = meddled(move |words| {
            if let Some(value) = writes.next_back() {
                words.swap(0, value);
            }
        });
        memory.words.swap(0, 30);
        let verb = Verb::FetchMax {
            operand: 15,
            order: Order::Unsigned,
        };
        // 30, then 10, then 20: the verb acts on the last one.
        assert_eq!(run(&mut memory, verb), (Status::Ok, Some(20)));
        assert_eq!(memory.load(0), Some(20));

        let mut once = Some(4);
        let mut memory = meddled(move |words| {
            if let Some(value) = once.take() {
                words.swap(0, value);
            }
        });
        memory.words.swap(0, 9);
        let verb = Verb::Conditional {
            condition: AT_LEAST_5,
            update: Update::Swap(1),
        };
        assert_eq!(run(&mut memory, verb), (Status::Mismatch, Some(4)));
        assert_eq!(memory.load(0), Some(4), "nothing was done");
    }

    #[test]
    fn an_owner_that_never_stops_does_not_keep_the_lane() {
        let mut memory = meddled(|words| {
            words.fetch_add(0, 1);
        });
        memory.words.swap(0, 100);
        let verbs = [
            Verb::FetchMin {
                operand: 1,
                order: Order::Signed,
            },
            Verb::Conditional {
                condition: AT_LEAST_5,
                update: Update::Xor(1 << 40),
            },
        ];
        for verb in verbs {
            let before = memory.load(0).unwrap();
            assert_eq!(run(&mut memory, verb), (Status::Contended, None));
            assert_eq!(memory.load(0), Some(before + TRIES as u64));
        }
    }

    #[test]
    fn words_committed_before_the_owner_wrote_are_put_back() {
        let mut calls = 0;
        let mut memory = meddled(move |words| {
            calls += 1;
            if calls == 3 {
                words.swap(16, 77);
            }
        });
        let words = [0, 8, 16].map(|offset| Word {
            offset,
            expected: 0,
            new: 1,
        });
        let verb = Verb::MultiCommit(MultiCommit::new(&words).unwrap());
        assert_eq!(run(&mut memory, verb), (Status::Mismatch, Some(77)));
        let left = [0, 8, 16].map(|offset| memory.load(offset).unwrap());
        assert_eq!(left, [0, 0, 77]);
    }
}
