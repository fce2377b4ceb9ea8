//! Checks whether a history is linearizable: whether all operations fit into one order. In this
//! order each operation lies between its call and its reply, and every reply is correct.
//!
//! Linearizability is local: each register has its own history. The search is that of the crate
//! `todc-utils`, by Wing, Gong and Lowe, which remembers the visited states.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use todc_utils::{
    Action::{self, Call, Response},
    History, Specification, WGLChecker,
};

use super::{
    history::Operation,
    machine::{Answer, Op},
};

/// A value by its number in a register's history; `None`: never set.
type Seen = Option<u32>;

/// An operation and its reported result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Done {
    Got(Seen),
    Put(u32),
    Swapped {
        expected: Seen,
        new: u32,
    },
    Differed {
        expected: Seen,
        found: Seen,
    },
    /// It is unknown whether the swap was executed and which value it found.
    PerhapsSwapped {
        expected: Seen,
        new: u32,
    },
}

struct Register;

impl Specification for Register {
    type State = Seen;
    type Operation = Done;

    fn init() -> Seen {
        None
    }

    fn apply(done: &Done, state: &Seen) -> (bool, Seen) {
        match *done {
            Done::Got(value) => (value == *state, *state),
            Done::Put(value) => (true, Some(value)),
            Done::Swapped { expected, new } => (expected == *state, Some(new)),
            Done::Differed { expected, found } => (found == *state && found != expected, *state),
            Done::PerhapsSwapped { expected, new } => (
                true,
                if expected == *state {
                    Some(new)
                } else {
                    *state
                },
            ),
        }
    }
}

/// Returns the first register, by key, whose history is not linearizable. `None`: all are.
///
/// An operation without a reply may have executed at any time after its call, or never. Its reply
/// is placed at the very end, where no operation observes it.
#[must_use]
pub fn broken(history: &[Operation]) -> Option<Vec<u8>> {
    let keys: BTreeSet<&[u8]> = history.iter().filter_map(Operation::key).collect();
    let is_broken = |key: &&[u8]| {
        let of_key = history.iter().filter(|one| one.key() == Some(*key));
        !is_linearizable(of_key)
    };
    keys.into_iter().find(is_broken).map(<[u8]>::to_vec)
}

fn is_linearizable<'a>(history: impl Iterator<Item = &'a Operation>) -> bool {
    let mut values = HashMap::new();
    // By time. At equal times calls precede replies, so that the two overlap.
    let mut events: BTreeMap<(u64, bool, usize), (usize, Action<Done>)> = BTreeMap::new();
    let mut process = 0;
    for one in history {
        let Some(done) = done(one, &mut values) else {
            continue;
        };
        let answered_ns = one.reported().map_or(u64::MAX, |(when, _)| when);
        events.insert((one.called_ns, false, process), (process, Call(done)));
        events.insert((answered_ns, true, process), (process, Response(done)));
        process += 1;
    }
    let events: Vec<_> = events.into_values().collect();
    events.is_empty() || WGLChecker::<Register>::is_linearizable(History::from_actions(events))
}

/// Returns the effect of an operation. `None`: the operation carries no information.
fn done<'a>(one: &'a Operation, values: &mut HashMap<&'a [u8], u32>) -> Option<Done> {
    let mut number = |value: &'a Vec<u8>| {
        let next = values.len() as u32;
        *values.entry(value.as_slice()).or_insert(next)
    };
    let answer = one.reported().map(|(_, answer)| answer);
    match (&one.op, answer) {
        (Op::Get { .. }, Some(Answer::Value(value))) => {
            Some(Done::Got(value.as_ref().map(&mut number)))
        }
        (Op::Put { value, .. }, None | Some(Answer::Done)) => Some(Done::Put(number(value))),
        (Op::Cas { expected, new, .. }, answer) => {
            let expected = expected.as_ref().map(&mut number);
            match answer {
                Some(Answer::Done) => Some(Done::Swapped {
                    expected,
                    new: number(new),
                }),
                Some(Answer::Differs(found)) => Some(Done::Differed {
                    expected,
                    found: found.as_ref().map(&mut number),
                }),
                None => Some(Done::PerhapsSwapped {
                    expected,
                    new: number(new),
                }),
                _ => None,
            }
        }
        _ => None,
    }
}
