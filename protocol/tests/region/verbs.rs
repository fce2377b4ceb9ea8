//! Every verb by itself, and every reason to refuse one.

use covalent_protocol::{
    Mode, Refusal, Reply,
    region::{RegisterError, Registration, Rights, Words},
    verb::{
        self, Comparison, Condition, MultiCommit, Order, RegionInfo, Status, Update, Verb,
        VerbKind, Word,
    },
};
use proptest::prelude::*;

use super::{
    Answer, RKEY, encode, engine, exchange, execute, executed, refused, run, run_here, word,
};

const MINUS_ONE: u64 = u64::MAX;

#[test]
fn each_verb_has_its_specified_effect() {
    let engine = &mut engine(Rights::ALL, 8);
    let steps = [
        (Verb::Swap { new: 5 }, 0),
        (Verb::FetchAdd { delta: MINUS_ONE }, 5),
        (Verb::FetchOr { mask: 0b1011 }, 4),
        (Verb::FetchAnd { mask: 0b1010 }, 0b1111),
        (Verb::FetchXor { mask: 0b0110 }, 0b1010),
        (
            Verb::FetchMin {
                operand: MINUS_ONE,
                order: Order::Unsigned,
            },
            0b1100,
        ),
        (
            Verb::FetchMin {
                operand: MINUS_ONE,
                order: Order::Signed,
            },
            0b1100,
        ),
        (
            Verb::FetchMax {
                operand: 3,
                order: Order::Unsigned,
            },
            MINUS_ONE,
        ),
        (
            Verb::FetchMax {
                operand: 3,
                order: Order::Signed,
            },
            MINUS_ONE,
        ),
        (Verb::Swap { new: 0b1100 }, 3),
    ];
    for (verb, old) in steps {
        assert_eq!(run(engine, 8, verb), Ok(Answer::old(old)), "{verb:?}");
    }
    let swap = |expected| Verb::CompareAndSwap { expected, new: 2 };
    assert_eq!(run(engine, 8, swap(1)), Ok(Answer::mismatch(0, 0b1100)));
    assert_eq!(run(engine, 8, swap(0b1100)), Ok(Answer::old(0b1100)));
    let data = b"covalent";
    assert_eq!(run(engine, 3, Verb::Write { data }), Ok(Answer::ok(&[])));
    assert_eq!(run(engine, 3, Verb::Read { len: 8 }), Ok(Answer::ok(data)));
    let info = run(engine, 0, Verb::Lookup { name: "bank" }).unwrap().data;
    assert_eq!(
        verb::Reply::ok(&info).region(),
        Some(RegionInfo {
            size_bytes: 64,
            rkey: RKEY,
            rights: 0b111
        })
    );
    assert_eq!(executed(engine, VerbKind::CompareAndSwap), 2);
    assert_eq!(executed(engine, VerbKind::FetchMin), 2);
}

#[test]
fn a_conditional_verb_acts_only_if_its_condition_holds() {
    let comparisons = [
        Comparison::Equal,
        Comparison::Less,
        Comparison::LessOrEqual,
        Comparison::Greater,
        Comparison::GreaterOrEqual,
    ];
    let updates = [
        Update::Write(6),
        Update::Swap(6),
        Update::Add(6),
        Update::And(6),
        Update::Or(6),
        Update::Xor(6),
        Update::Min(6),
        Update::Max(6),
    ];
    for comparison in comparisons {
        for order in [Order::Unsigned, Order::Signed] {
            for update in updates {
                for before in [0, 4, 5, 6, MINUS_ONE] {
                    let condition = Condition {
                        comparison,
                        comparand: 5,
                        order,
                    };
                    let engine = &mut engine(Rights::ALL, 2);
                    run(engine, 8, Verb::Swap { new: before }).unwrap();
                    let answer = run(engine, 8, Verb::Conditional { condition, update }).unwrap();
                    let (expected, after) = if condition.is_met(before) {
                        (Answer::old(before), update.of(before, order))
                    } else {
                        (Answer::mismatch(0, before), before)
                    };
                    assert_eq!(answer, expected, "{condition:?} {update:?} {before}");
                    assert_eq!(word(engine, 8), after, "{condition:?} {update:?} {before}");
                    assert_eq!(word(engine, 0), 0);
                }
            }
        }
    }
}

fn words(count: u32, unexpected: Option<u32>) -> Vec<Word> {
    // Neither sorted nor contiguous.
    (0..count)
        .map(|at| (at * 37) % 64)
        .map(|place| Word {
            offset: 8 * place,
            expected: u64::from(unexpected == Some(place)),
            new: u64::from(place) + 100,
        })
        .collect()
}

#[test]
fn a_multi_commit_of_64_words_is_all_or_nothing() {
    let engine = &mut engine(Rights::ALL, 64);
    let failing = words(64, Some(37));
    let verb = Verb::MultiCommit(MultiCommit::new(&failing).unwrap());
    assert_eq!(run(engine, 0, verb), Ok(Answer::mismatch(1, 0)));
    assert!((0..64).all(|at| word(engine, 8 * at) == 0));
    let passing = words(64, None);
    let verb = Verb::MultiCommit(MultiCommit::new(&passing).unwrap());
    assert_eq!(run(engine, 0, verb), Ok(Answer::ok(&[])));
    assert!((0..64).all(|at| word(engine, 8 * at) == at + 100));
}

#[test]
fn every_error_has_its_own_reason_and_is_counted() {
    let all = &mut engine(Rights::ALL, 8);
    let swap = |offset| encode(offset, Verb::Swap { new: 1 });
    let write = |offset| encode(offset, Verb::Write { data: &[1; 8] });
    let commit = |offsets: &[u32]| {
        let words: Vec<_> = offsets
            .iter()
            .map(|&offset| Word {
                offset,
                expected: 0,
                new: 1,
            })
            .collect();
        encode(0, Verb::MultiCommit(MultiCommit::new(&words).unwrap()))
    };
    let changed = |mut request: Vec<u8>, at: usize, byte: u8| {
        request[at] = byte;
        request
    };
    let cases = [
        (Refusal::UnknownRegion, changed(swap(0), 4, 99)),
        (
            Refusal::UnknownRegion,
            encode(0, Verb::Lookup { name: "x" }),
        ),
        (Refusal::OutOfBounds, swap(64)),
        (Refusal::OutOfBounds, swap(u32::MAX - 7)),
        (Refusal::OutOfBounds, write(57)),
        (
            Refusal::OutOfBounds,
            encode(u32::MAX, Verb::Read { len: 1 }),
        ),
        (Refusal::OutOfBounds, encode(63, Verb::Read { len: 2 })),
        (Refusal::OutOfBounds, commit(&[0, 64])),
        (Refusal::Misaligned, swap(4)),
        (Refusal::Misaligned, changed(commit(&[0, 8]), 32, 12)),
        (Refusal::BadLength, encode(0, Verb::Read { len: 0 })),
        (Refusal::BadLength, encode(0, Verb::Read { len: 513 })),
        (Refusal::BadLength, encode(0, Verb::Write { data: &[] })),
        (
            Refusal::BadLength,
            encode(0, Verb::Write { data: &[0; 513] }),
        ),
        (Refusal::BadLength, swap(0)[..16].to_vec()),
        (Refusal::Duplicate, commit(&[16, 0, 16])),
        (Refusal::Duplicate, commit(&[8, 8])),
        (Refusal::BadRequest, vec![]),
        (Refusal::BadRequest, changed(commit(&[0]), 8, 8)),
        (Refusal::Unsupported, vec![99; 16]),
        (Refusal::Unsupported, changed(swap(0), 1, 0x80)),
    ];
    let mut reply = Reply::new();
    for (at, (reason, request)) in cases.iter().enumerate() {
        for mode in [Mode::OnePhase, Mode::TwoPhase] {
            let before = refused(all, *reason);
            let admitted = all.admit(&exchange(1), mode, request);
            assert_eq!(admitted, Err(*reason), "case {at}");
            assert_eq!(refused(all, *reason), before + 1, "case {at}");
        }
        assert_eq!(all.run(request, &mut reply), Err(*reason), "case {at}");
    }
    let total: u64 = all.refused().map(|(_, count)| count).sum();
    assert_eq!(total, 3 * cases.len() as u64);
    assert!(all.executed().all(|(_, count)| count == 0));
    assert_eq!(all.reserved_words(), 0);
}

#[test]
fn a_verb_needs_its_right() {
    let condition = Condition {
        comparison: Comparison::Equal,
        comparand: 0,
        order: Order::Unsigned,
    };
    let update = Update::Write(1);
    let word = [Word {
        offset: 0,
        expected: 0,
        new: 1,
    }];
    let verbs = [
        (0, Verb::Read { len: 1 }),
        (1, Verb::Write { data: b"x" }),
        (2, Verb::Swap { new: 1 }),
        (2, Verb::Conditional { condition, update }),
        (2, Verb::MultiCommit(MultiCommit::new(&word).unwrap())),
        (3, Verb::Send { data: b"x" }),
    ];
    for granted in 0..4 {
        let rights = Rights {
            read: granted == 0,
            write: granted == 1,
            atomic: granted == 2,
            send: granted == 3,
        };
        for (right, verb) in verbs {
            let engine = &mut engine(rights, 32);
            let refusal = run(engine, 0, verb).err();
            let expected = (right != granted).then_some(Refusal::NoRight);
            assert_eq!(refusal, expected, "{rights:?}, {verb:?}");
            assert_eq!(run_here(engine, 0, verb).err(), expected);
        }
    }
}

#[test]
fn a_name_and_a_key_are_registered_once() {
    let engine = &mut engine(Rights::ALL, 1);
    let mut register = |name: &str, rkey| {
        engine.register(Registration {
            owner: 1,
            name: name.into(),
            rkey,
            rights: Rights::ALL,
            memory: Words::new(1),
        })
    };
    assert_eq!(register("bank", 8), Err(RegisterError::NameInUse));
    assert_eq!(register("other", RKEY), Err(RegisterError::KeyInUse));
    assert_eq!(register("other", 8), Ok(()));
}

#[test]
fn a_region_removed_between_admission_and_execution_is_gone() {
    for mode in [Mode::OnePhase, Mode::TwoPhase] {
        let engine = &mut engine(Rights::ALL, 8);
        let (id, request) = (exchange(1), encode(0, Verb::Swap { new: 1 }));
        engine.admit(&id, mode, &request).unwrap();
        assert_eq!(engine.remove_owner(2).len(), 0);
        assert_eq!(engine.remove_owner(u64::from(RKEY)).len(), 1);
        assert_eq!(
            engine.reserved_words(),
            0,
            "its reservations were removed with it"
        );
        assert_eq!(execute(engine, &id, &request).status, Status::Gone);
        assert_eq!(executed(engine, VerbKind::Swap), 0);
    }
}

proptest! {
    #[test]
    fn arbitrary_requests_never_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        op in 0_u8..15,
        flags in 0_u8..32,
    ) {
        let mut engine = engine(Rights::ALL, 8);
        let mut bytes = bytes;
        if bytes.len() >= 16 {
            let count = bytes[2];
            bytes[..8].copy_from_slice(&[op, flags, count, 0, RKEY as u8, 0, 0, 0]);
        }
        let mut reply = Reply::new();
        for mode in [Mode::OnePhase, Mode::TwoPhase] {
            let _ = engine.admit(&exchange(1), mode, &bytes);
            engine.execute(&exchange(1), &bytes, &mut reply);
            prop_assert!(verb::Reply::decode(reply.as_bytes()).is_ok());
        }
        prop_assert_eq!(engine.reserved_words(), 0);
    }
}
