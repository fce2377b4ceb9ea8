//! The engine against a model that executes one verb after the other on a plain list of words.
//!
//! Several initiators open exchanges, which are executed or reversed in any order. Applications of
//! the local node submit verbs in between. In any order, the engine admits what the model admits,
//! and the region equals the model's after each step. No effect is therefore visible before its
//! commit, nor an effect of a reversed exchange. An exclusive holder finds its words as they were
//! when it took them.

use covalent_protocol::{
    ExchangeId, Mode, Refusal, Reply,
    region::{Memory as _, Rights},
    verb::{Comparison, Condition, MultiCommit, Order, Update, Verb, Word},
};
use proptest::{collection::vec, prelude::*};

use super::{Answer, RKEY, encode, engine, exchange, execute};

const WORDS: usize = 6;

/// A verb that owns its data.
#[derive(Debug, Clone, PartialEq)]
enum OwnedVerb {
    Read {
        at: usize,
        len: usize,
    },
    Write {
        at: usize,
        data: Vec<u8>,
    },
    Change {
        word: usize,
        update: Update,
        order: Order,
    },
    ChangeIf {
        word: usize,
        condition: Condition,
        update: Update,
    },
    Commit {
        words: Vec<(usize, u64, u64)>,
    },
}

#[derive(Debug, Clone)]
enum Step {
    /// A peer submits an exchange.
    Request(Mode, OwnedVerb),
    /// One that is open is executed, or reversed.
    Settle {
        which: prop::sample::Index,
        executed: bool,
    },
    /// An application of the local node submits a verb.
    Here(OwnedVerb),
}

/// Values so few that comparisons are often met.
fn value() -> impl Strategy<Value = u64> {
    prop_oneof![0..4_u64, Just(u64::MAX)]
}

fn order() -> impl Strategy<Value = Order> {
    prop_oneof![Just(Order::Unsigned), Just(Order::Signed)]
}

fn update() -> impl Strategy<Value = Update> {
    (0..8_usize, value()).prop_map(|(which, operand)| {
        [
            Update::Add,
            Update::And,
            Update::Or,
            Update::Xor,
            Update::Min,
            Update::Max,
            Update::Swap,
            Update::Add,
        ][which](operand)
    })
}

fn owned_verb() -> impl Strategy<Value = OwnedVerb> {
    let bytes = (0..8 * WORDS, 1..20_usize);
    let comparison = prop_oneof![
        Just(Comparison::Equal),
        Just(Comparison::Less),
        Just(Comparison::LessOrEqual),
        Just(Comparison::Greater),
        Just(Comparison::GreaterOrEqual)
    ];
    let condition =
        (comparison, value(), order()).prop_map(|(comparison, comparand, order)| Condition {
            comparison,
            comparand,
            order,
        });
    prop_oneof![
        2 => bytes.clone().prop_map(
            |(at, len)| OwnedVerb::Read { at, len: len.min(8 * WORDS - at) },
        ),
        2 => (bytes, value()).prop_map(|((at, len), value)| {
            let data = value.to_le_bytes().into_iter().cycle().take(
                len.min(8 * WORDS - at),
            ).collect();
            OwnedVerb::Write { at, data }
        }),
        5 => (0..WORDS, update(), order()).prop_map(|(word, update, order)| {
            // Of the rest the wire knows no order.
            let order = match update {
                Update::Min(_) | Update::Max(_) => order,
                _ => Order::Unsigned,
            };
            OwnedVerb::Change { word, update, order }
        }),
        3 => (0..WORDS, condition, update()).prop_map(
            |(word, condition, update)| OwnedVerb::ChangeIf { word, condition, update },
        ),
        3 => commit(),
    ]
}

/// A multi-commit of some words, in any order.
fn commit() -> impl Strategy<Value = OwnedVerb> {
    let words = prop::sample::subsequence((0..WORDS).collect::<Vec<_>>(), 1..4).prop_shuffle();
    (words, vec((value(), value()), 4)).prop_map(|(words, values)| OwnedVerb::Commit {
        words: words
            .into_iter()
            .zip(values)
            .map(|(word, (expected, new))| (word, expected, new))
            .collect(),
    })
}

fn step() -> impl Strategy<Value = Step> {
    let mode = prop_oneof![1 => Just(Mode::OnePhase), 3 => Just(Mode::TwoPhase)];
    prop_oneof![
        4 => (mode, owned_verb()).prop_map(|(mode, owned_verb)| Step::Request(mode, owned_verb)),
        3 => (any::<prop::sample::Index>(), prop::bool::weighted(0.7))
            .prop_map(|(which, executed)| Step::Settle { which, executed }),
        1 => owned_verb().prop_map(Step::Here),
    ]
}

impl OwnedVerb {
    fn encoded(&self) -> Vec<u8> {
        let at = |word: &usize| 8 * *word as u32;
        match self {
            Self::Read { at, len } => encode(*at as u32, Verb::Read { len: *len as u32 }),
            Self::Write { at, data } => encode(*at as u32, Verb::Write { data }),
            Self::Change {
                word,
                update,
                order,
            } => {
                let order = *order;
                let verb = match *update {
                    Update::Write(_) => unreachable!("there is no unconditional write of a word"),
                    Update::Swap(new) => Verb::Swap { new },
                    Update::Add(delta) => Verb::FetchAdd { delta },
                    Update::And(mask) => Verb::FetchAnd { mask },
                    Update::Or(mask) => Verb::FetchOr { mask },
                    Update::Xor(mask) => Verb::FetchXor { mask },
                    Update::Min(operand) => Verb::FetchMin { operand, order },
                    Update::Max(operand) => Verb::FetchMax { operand, order },
                };
                encode(at(word), verb)
            }
            Self::ChangeIf {
                word,
                condition,
                update,
            } => {
                let (condition, update) = (*condition, *update);
                encode(at(word), Verb::Conditional { condition, update })
            }
            Self::Commit { words } => {
                let words: Vec<_> = words
                    .iter()
                    .map(|&(word, expected, new)| Word {
                        offset: at(&word),
                        expected,
                        new,
                    })
                    .collect();
                encode(0, Verb::MultiCommit(MultiCommit::new(&words).unwrap()))
            }
        }
    }

    fn words(&self) -> Vec<usize> {
        let touched = |at: usize, len: usize| (at / 8..=(at + len - 1) / 8).collect();
        match self {
            Self::Read { at, len } => touched(*at, *len),
            Self::Write { at, data } => touched(*at, data.len()),
            Self::Change { word, .. } | Self::ChangeIf { word, .. } => vec![*word],
            Self::Commit { words } => words.iter().map(|&(word, ..)| word).collect(),
        }
    }

    /// The operation of a verb that commutes with others of the same.
    fn commutes(&self) -> Option<(std::mem::Discriminant<Update>, Order)> {
        match self {
            Self::Change { update, order, .. } if !matches!(update, Update::Swap(_)) => {
                Some((std::mem::discriminant(update), *order))
            }
            _ => None,
        }
    }

    /// Whether it may be executed while `open` is reversible.
    fn commutes_with(&self, open: &Self) -> bool {
        let reads = |owned_verb: &Self| matches!(owned_verb, Self::Read { .. });
        let apart = !self.words().iter().any(|word| open.words().contains(word));
        apart
            || reads(open)
            || open.commutes().is_some() && (reads(self) || self.commutes() == open.commutes())
    }

    fn apply(&self, words: &mut [u64; WORDS]) -> Answer {
        match self {
            Self::Read { at, len } => Answer::ok(&bytes(words)[*at..at + len]),
            Self::Write { at, data } => {
                let mut bytes = bytes(words);
                bytes[*at..at + data.len()].copy_from_slice(data);
                for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
                    *word = u64::from_le_bytes(bytes.try_into().unwrap());
                }
                Answer::ok(&[])
            }
            Self::Change {
                word,
                update,
                order,
            } => {
                let old = words[*word];
                words[*word] = changed(old, *update, *order);
                Answer::old(old)
            }
            Self::ChangeIf {
                word,
                condition,
                update,
            } => {
                let old = words[*word];
                if !meets(old, condition) {
                    return Answer::mismatch(0, old);
                }
                words[*word] = changed(old, *update, condition.order);
                Answer::old(old)
            }
            Self::Commit { words: wanted } => {
                for (index, &(word, expected, _)) in wanted.iter().enumerate() {
                    if words[word] != expected {
                        return Answer::mismatch(index as u16, words[word]);
                    }
                }
                for &(word, _, new) in wanted {
                    words[word] = new;
                }
                Answer::ok(&[])
            }
        }
    }
}

fn changed(old: u64, update: Update, order: Order) -> u64 {
    let signed = order == Order::Signed;
    match update {
        Update::Write(new) | Update::Swap(new) => new,
        Update::Add(delta) => old.wrapping_add(delta),
        Update::And(mask) => old & mask,
        Update::Or(mask) => old | mask,
        Update::Xor(mask) => old ^ mask,
        Update::Min(operand) if signed => (old as i64).min(operand as i64) as u64,
        Update::Max(operand) if signed => (old as i64).max(operand as i64) as u64,
        Update::Min(operand) => old.min(operand),
        Update::Max(operand) => old.max(operand),
    }
}

fn meets(word: u64, condition: &Condition) -> bool {
    let ordering = match condition.order {
        Order::Signed => (word as i64).cmp(&(condition.comparand as i64)),
        Order::Unsigned => word.cmp(&condition.comparand),
    };
    match condition.comparison {
        Comparison::Equal => ordering.is_eq(),
        Comparison::Less => ordering.is_lt(),
        Comparison::LessOrEqual => ordering.is_le(),
        Comparison::Greater => ordering.is_gt(),
        Comparison::GreaterOrEqual => ordering.is_ge(),
    }
}

fn bytes(words: &[u64; WORDS]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// An exchange that may still be reversed.
struct Open {
    id: ExchangeId,
    owned_verb: OwnedVerb,
    /// The words that it touches, when it was admitted.
    seen: Vec<u64>,
}

proptest! {
    #![proptest_config(
        ProptestConfig { cases: 8 * ProptestConfig::default().cases, ..ProptestConfig::default() }
    )]

    #[test]
    fn any_interleaving_is_some_order_of_the_committed_verbs(steps in vec(step(), 1..60)) {
        let mut engine = engine(Rights::ALL, WORDS);
        let mut model = [0; WORDS];
        let mut open: Vec<Open> = Vec::new();
        let seen = |owned_verb: &OwnedVerb, model: &[u64; WORDS]| -> Vec<u64> {
            owned_verb.words().iter().map(|&word| model[word]).collect()
        };
        for (number, step) in (0..).zip(steps) {
            match step {
                Step::Request(mode, owned_verb) => {
                    let (id, request) = (exchange(number), owned_verb.encoded());
                    let is_free = open.iter().all(
                        |open| owned_verb.commutes_with(&open.owned_verb),
                    );
                    let expected = if is_free { Ok(()) } else { Err(Refusal::Busy) };
                    prop_assert_eq!(
                        engine.admit(&id, mode, &request),
                        expected,
                        "{:?}",
                        owned_verb,
                    );
                    match mode {
                        _ if !is_free => {}
                        Mode::OnePhase => {
                            let expected = owned_verb.apply(&mut model);
                            prop_assert_eq!(execute(&mut engine, &id, &request), expected);
                        }
                        Mode::TwoPhase => open.push(
                            Open { id, seen: seen(&owned_verb, &model), owned_verb },
                        ),
                    }
                }
                Step::Settle { which, executed } if !open.is_empty() => {
                    let Open {
                        id,
                        owned_verb,
                        seen: before,
                    } = open.swap_remove(which.index(open.len()));
                    let request = owned_verb.encoded();
                    let is_alone = owned_verb.commutes().is_none() && !matches!(
                        owned_verb,
                        OwnedVerb::Read { .. },
                    );
                    if is_alone {
                        let now = seen(&owned_verb, &model);
                        prop_assert_eq!(&now, &before, "others changed words that it held alone");
                    }
                    if executed {
                        let expected = owned_verb.apply(&mut model);
                        prop_assert_eq!(execute(&mut engine, &id, &request), expected);
                    } else {
                        engine.reverse(&id, &request);
                    }
                }
                Step::Settle { .. } => {}
                Step::Here(owned_verb) => {
                    let mut reply = Reply::new();
                    let ran = engine.run(
                        &owned_verb.encoded(),
                        &mut reply,
                    ).map(|()| Answer::of(&reply));
                    let expected = if open.iter().all(
                        |open| owned_verb.commutes_with(&open.owned_verb),
                    ) {
                        Ok(owned_verb.apply(&mut model))
                    } else {
                        Err(Refusal::Busy)
                    };
                    prop_assert_eq!(ran, expected);
                }
            }
            let mut found = vec![0; 8 * WORDS];
            engine.memory(RKEY).unwrap().read(0, &mut found).unwrap();
            prop_assert_eq!(&found, &bytes(&model));
            let held = (0..WORDS).filter(|word| open.iter().any(|open| {
                !matches!(
                    open.owned_verb,
                    OwnedVerb::Read { .. },
                ) && open.owned_verb.words().contains(word)
            }));
            prop_assert_eq!(engine.reserved_words(), held.count());
        }
        for Open { id, owned_verb, .. } in open {
            engine.reverse(&id, &owned_verb.encoded());
        }
        prop_assert_eq!(engine.reserved_words(), 0, "nothing is held when idle");
        let mut found = vec![0; 8 * WORDS];
        engine.memory(RKEY).unwrap().read(0, &mut found).unwrap();
        prop_assert_eq!(found, bytes(&model), "and nothing of the reversed verbs remains");
    }
}
