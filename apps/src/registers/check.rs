//! Whether a history is linearizable: whether all operations can be put in one order, each between its call and its answer, in which every answer is
//! right.
//!
//! Linearizability is local: each register is a history of its own. The search is that of the crate `todc-utils`, by Wing, Gong and Lowe, which remembers the
//! states that it has visited.

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

/// What was done, and what was told of it.
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
    /// Nobody knows whether it was done, nor what it found.
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

/// The first register, by key, whose history is not linearizable; `None`: all are.
///
/// What has no answer may have been done at any time after it was asked, or never: it is answered at the very end, where nobody sees it.
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
    // By time; at one time calls come before answers, so that the two overlap.
    let mut events: BTreeMap<(u64, bool, usize), (usize, Action<Done>)> = BTreeMap::new();
    let mut process = 0;
    for one in history {
        let Some(done) = done(one, &mut values) else {
            continue;
        };
        let answered_ns = one.told().map_or(u64::MAX, |(when, _)| when);
        events.insert((one.called_ns, false, process), (process, Call(done)));
        events.insert((answered_ns, true, process), (process, Response(done)));
        process += 1;
    }
    let events: Vec<_> = events.into_values().collect();
    events.is_empty() || WGLChecker::<Register>::is_linearizable(History::from_actions(events))
}

/// What an operation did; `None` if it tells nothing.
fn done<'a>(one: &'a Operation, values: &mut HashMap<&'a [u8], u32>) -> Option<Done> {
    let mut number = |value: &'a Vec<u8>| {
        let next = values.len() as u32;
        *values.entry(value.as_slice()).or_insert(next)
    };
    let answer = one.told().map(|(_, answer)| answer);
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
