//! Two independent linearizability checkers receive the same histories, good and bad. They must
//! agree, and both must find the known violations.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use covalent_apps::registers::{
    check,
    history::Operation,
    machine::{Answer, Op},
};
use proptest::{prelude::*, test_runner::Config};
use stateright::semantics::{ConsistencyTester, LinearizabilityTester, SequentialSpec};

const KEY: &[u8] = b"k";

/// A register in the form that the other checker requires.
#[derive(Debug, Clone, Default)]
struct Register(Option<Vec<u8>>);

impl SequentialSpec for Register {
    type Op = Op;
    type Ret = Answer;

    fn invoke(&mut self, op: &Op) -> Answer {
        match op {
            Op::Open => Answer::Done,
            Op::Get { .. } => Answer::Value(self.0.clone()),
            Op::Put { value, .. } => {
                self.0 = Some(value.clone());
                Answer::Done
            }
            Op::Cas { expected, new, .. } if self.0 == *expected => {
                self.0 = Some(new.clone());
                Answer::Done
            }
            Op::Cas { .. } => Answer::Differs(self.0.clone()),
        }
    }
}

fn is_linearizable_to_stateright(history: &[Operation]) -> bool {
    let mut events = BTreeMap::new();
    for (at, one) in history.iter().enumerate() {
        events.insert((one.called_ns, false, at), at);
        if let Some((when, _)) = one.reported() {
            events.insert((when, true, at), at);
        }
    }
    let mut tester = LinearizabilityTester::new(Register::default());
    for ((_, is_answer, _), at) in events {
        let one = &history[at];
        if is_answer {
            let (_, answer) = one.reported().unwrap();
            tester.on_return(one.client, answer.clone()).unwrap();
        } else {
            tester.on_invoke(one.client, one.op.clone()).unwrap();
        }
    }
    tester.is_consistent()
}

fn value(number: u8) -> Vec<u8> {
    vec![number]
}

/// The operations of three clients in the order of their effects, the time in flight before and
/// after each effect, and the falsification.
#[derive(Debug, Clone)]
struct Script {
    steps: Vec<(u8, u8, u8, u8, u8)>,
    lie: Option<(usize, u8)>,
    open: Option<u8>,
}

fn scripts() -> impl Strategy<Value = Script> {
    let step = (0..3_u8, 0..4_u8, 0..3_u8, 0..40_u8, 0..40_u8);
    (
        proptest::collection::vec(step, 1..9),
        proptest::option::of((any::<usize>(), 0..4_u8)),
        proptest::option::of(0..3_u8),
    )
        .prop_map(|(steps, lie, open)| Script { steps, lie, open })
}

/// The history of a script: right, unless it has a lie.
fn history(script: &Script) -> Vec<Operation> {
    let mut register = Register::default();
    let mut history: Vec<Operation> = Vec::new();
    let mut busy_until = [0; 3];
    for (at, &(client, kind, operand, before, after)) in script.steps.iter().enumerate() {
        let key = KEY.to_vec();
        let written = value(3 + at as u8);
        let op = match kind {
            0 => Op::Put {
                key,
                value: written,
            },
            1 => Op::Cas {
                key,
                expected: register.0.clone(),
                new: written,
            },
            2 => Op::Cas {
                key,
                expected: Some(value(operand)),
                new: written,
            },
            _ => Op::Get { key },
        };
        let effect_ns = 1000 * (at as u64 + 1);
        let answer = register.invoke(&op);
        // A client has one operation in flight: its call follows its last reply, which precedes
        // this effect.
        let called_ns =
            (effect_ns - 1 - 20 * u64::from(before)).max(busy_until[usize::from(client)] + 1);
        let next_own = script.steps[at + 1..]
            .iter()
            .position(|step| step.0 == client)
            .map_or(u64::MAX, |next| effect_ns + 1000 * (next as u64 + 1) - 900);
        let answered_ns = (effect_ns + 1 + 60 * u64::from(after)).min(next_own);
        busy_until[usize::from(client)] = answered_ns;
        history.push(Operation {
            client: u64::from(client),
            op,
            called_ns: called_ns.min(effect_ns),
            answered: Some((answered_ns, answer)),
        });
    }
    if let Some((at, what)) = script.lie {
        let at = at % history.len();
        let values: Vec<Vec<u8>> = (0..12).map(value).collect();
        let (_, answer) = history[at].answered.as_mut().unwrap();
        *answer = match (&answer, what) {
            // Another value was read: an old one, a later one, or one that never existed.
            (Answer::Value(_), what) => Answer::Value(Some(values[3 + usize::from(what)].clone())),
            // Reported as done, but not executed.
            (Answer::Differs(_), _) => Answer::Done,
            // Reported as not done, but executed.
            (Answer::Done, what) => Answer::Differs(Some(values[usize::from(what)].clone())),
            (other, _) => (*other).clone(),
        };
        if matches!(history[at].op, Op::Put { .. }) {
            // A lost put: reported as done, but no read finds it.
            history[at].answered.as_mut().unwrap().1 = Answer::Done;
            history[at].op = Op::Put {
                key: KEY.to_vec(),
                value: value(99),
            };
        }
    }
    if let Some(client) = script.open {
        // The client's last operation was never answered.
        let last = history
            .iter_mut()
            .rfind(|one| one.client == u64::from(client));
        if let Some(last) = last {
            last.answered = None;
        }
    }
    history
}

#[test]
fn both_checkers_agree_on_a_thousand_histories_good_and_bad() {
    let verdicts = std::cell::Cell::new([0_u32; 2]);
    let mut runner = proptest::test_runner::TestRunner::new(Config {
        cases: 1000,
        failure_persistence: None,
        ..Config::default()
    });
    let checked = runner.run(&scripts(), |script| {
        let history = history(&script);
        let one = check::broken(&history).is_none();
        prop_assert_eq!(
            one,
            is_linearizable_to_stateright(&history),
            "{:#?}",
            history
        );
        prop_assert!(one || script.lie.is_some(), "{history:#?}");
        let mut counts = verdicts.get();
        counts[usize::from(one)] += 1;
        verdicts.set(counts);
        Ok(())
    });
    checked.unwrap();
    let [bad, good] = verdicts.get();
    assert!(bad > 100 && good > 100, "{bad} bad ones, {good} good ones");
}

fn operation(client: u64, op: Op, called_ns: u64, answered: Option<(u64, Answer)>) -> Operation {
    Operation {
        client,
        op,
        called_ns,
        answered,
    }
}

fn put(number: u8) -> Op {
    Op::Put {
        key: KEY.to_vec(),
        value: value(number),
    }
}

fn get() -> Op {
    Op::Get { key: KEY.to_vec() }
}

fn cas(expected: u8, new: u8) -> Op {
    Op::Cas {
        key: KEY.to_vec(),
        expected: Some(value(expected)),
        new: value(new),
    }
}

#[test]
fn known_wrong_histories_are_found_and_known_right_ones_are_not() {
    let saw = |number| Answer::Value(Some(value(number)));
    let done = |when| Some((when, Answer::Done));
    let cases = [
        (
            "a stale read",
            false,
            vec![
                operation(1, put(1), 0, done(1)),
                operation(1, put(2), 2, done(3)),
                operation(2, get(), 4, Some((5, saw(1)))),
            ],
        ),
        (
            "a read beside the write may see either",
            true,
            vec![
                operation(1, put(1), 0, done(1)),
                operation(1, put(2), 2, done(9)),
                operation(2, get(), 4, Some((5, saw(1)))),
            ],
        ),
        (
            "a write seen and unseen again",
            false,
            vec![
                operation(1, put(1), 0, done(1)),
                operation(1, put(2), 2, done(9)),
                operation(2, get(), 3, Some((4, saw(2)))),
                operation(3, get(), 5, Some((6, saw(1)))),
            ],
        ),
        (
            "a write without an answer, seen much later",
            true,
            vec![
                operation(1, put(1), 0, done(1)),
                operation(2, put(2), 2, None),
                operation(3, get(), 3, Some((4, saw(1)))),
                operation(3, get(), 5, Some((6, saw(2)))),
            ],
        ),
        (
            "a write without an answer, done twice",
            false,
            vec![
                operation(1, put(2), 0, None),
                operation(3, get(), 1, Some((2, saw(2)))),
                operation(4, cas(2, 3), 3, done(4)),
                operation(3, get(), 5, Some((6, saw(2)))),
            ],
        ),
        (
            "two swaps that both replaced the same value",
            false,
            vec![
                operation(1, put(1), 0, done(1)),
                operation(2, cas(1, 2), 2, done(5)),
                operation(3, cas(1, 3), 2, done(5)),
            ],
        ),
    ];
    for (what, expected, history) in cases {
        assert_eq!(check::broken(&history).is_none(), expected, "{what}");
        assert_eq!(is_linearizable_to_stateright(&history), expected, "{what}");
    }
}
