//! Words of exchanges that are still open.

use covalent_protocol::{
    Mode, Refusal,
    region::{Engine, Rights, Words},
    verb::{Comparison, Condition, MultiCommit, Order, Update, Verb, Word},
};

use super::{Answer, encode, engine, exchange, execute, refused, register, run, run_here, word};

const SWAP: Verb<'_> = Verb::Swap { new: 9 };
const ADD: Verb<'_> = Verb::FetchAdd { delta: 1 };

/// Admits in two phases.
fn open(
    engine: &mut Engine<Words>,
    number: u32,
    offset: u32,
    verb: Verb<'_>,
) -> Result<Vec<u8>, Refusal> {
    let request = encode(offset, verb);
    engine.admit(&exchange(number), Mode::TwoPhase, &request)?;
    Ok(request)
}

/// Verbs that need their words alone, at a word of their own or at offset 16.
fn exclusive() -> [Verb<'static>; 5] {
    const WORD: &[Word] = &[Word {
        offset: 16,
        expected: 0,
        new: 1,
    }];
    [
        SWAP,
        Verb::Write { data: b"x" },
        Verb::CompareAndSwap {
            expected: 0,
            new: 1,
        },
        Verb::Conditional {
            condition: Condition {
                comparison: Comparison::Less,
                comparand: 5,
                order: Order::Unsigned,
            },
            update: Update::Add(1),
        },
        Verb::MultiCommit(MultiCommit::new(WORD).unwrap()),
    ]
}

fn commuting() -> [Verb<'static>; 8] {
    let operand = 1;
    [
        ADD,
        Verb::FetchAnd { mask: 1 },
        Verb::FetchOr { mask: 1 },
        Verb::FetchXor { mask: 1 },
        Verb::FetchMin {
            operand,
            order: Order::Unsigned,
        },
        Verb::FetchMin {
            operand,
            order: Order::Signed,
        },
        Verb::FetchMax {
            operand,
            order: Order::Unsigned,
        },
        Verb::FetchMax {
            operand,
            order: Order::Signed,
        },
    ]
}

#[test]
fn a_reversible_word_is_busy_to_all_and_free_after_either_end() {
    for held in exclusive() {
        for reversed in [false, true] {
            let engine = &mut engine(Rights::ALL, 8);
            let request = open(engine, 1, 16, held).unwrap();
            assert_eq!(engine.reserved_words(), 1);
            for other in exclusive().into_iter().chain(commuting()) {
                let busy = Err(Refusal::Busy);
                assert_eq!(
                    open(engine, 2, 16, other),
                    Err(Refusal::Busy),
                    "{held:?}, {other:?}"
                );
                assert_eq!(run(engine, 16, other), busy, "{held:?}, {other:?}");
                assert_eq!(run_here(engine, 16, other), busy, "{held:?}, {other:?}");
            }
            let read = Verb::Read { len: 1 };
            assert_eq!(run(engine, 23, read), Err(Refusal::Busy));
            assert_eq!(run_here(engine, 16, read), Err(Refusal::Busy));
            assert_eq!(open(engine, 2, 16, read), Err(Refusal::Busy));
            assert_eq!(refused(engine, Refusal::Busy), 3 * 13 + 3);
            assert_eq!(word(engine, 16), 0, "nothing is to be seen of it");
            // The adjacent words are not held.
            assert!(run(engine, 8, SWAP).is_ok() && run(engine, 24, SWAP).is_ok());
            assert_eq!(engine.reserved_words(), 1);
            if reversed {
                engine.reverse(&exchange(1), &request);
                assert_eq!(word(engine, 16), 0, "undone leaves no trace");
            } else {
                execute(engine, &exchange(1), &request);
                assert_ne!(word(engine, 16), 0);
            }
            assert_eq!(engine.reserved_words(), 0);
            assert!(run(engine, 16, SWAP).is_ok());
        }
    }
}

#[test]
fn a_commuting_verb_is_compatible_with_itself_and_no_other() {
    let verbs = commuting();
    for (at, held) in verbs.into_iter().enumerate() {
        for (other_at, other) in verbs.into_iter().enumerate() {
            let engine = &mut engine(Rights::ALL, 8);
            open(engine, 1, 16, held).unwrap();
            let is_same = at == other_at;
            assert_eq!(
                open(engine, 2, 16, other).is_ok(),
                is_same,
                "{held:?}, {other:?}"
            );
            assert_eq!(
                run(engine, 16, other).is_ok(),
                is_same,
                "{held:?}, {other:?}"
            );
            assert_eq!(run_here(engine, 16, other).is_ok(), is_same);
        }
        let engine = &mut engine(Rights::ALL, 8);
        open(engine, 1, 16, held).unwrap();
        for other in exclusive() {
            assert_eq!(
                open(engine, 2, 16, other),
                Err(Refusal::Busy),
                "{held:?}, {other:?}"
            );
        }
        // A read returns the last committed value.
        assert!(run(engine, 16, Verb::Read { len: 8 }).is_ok());
    }
}

#[test]
fn concurrent_additions_return_the_value_at_their_own_execution() {
    let engine = &mut engine(Rights::ALL, 1);
    let request = open(engine, 1, 0, ADD).unwrap();
    for number in 2..=4 {
        open(engine, number, 0, ADD).unwrap();
    }
    assert_eq!(engine.reserved_words(), 1);
    assert_eq!(execute(engine, &exchange(3), &request), Answer::old(0));
    engine.reverse(&exchange(1), &request);
    assert_eq!(open(engine, 5, 0, SWAP), Err(Refusal::Busy), "two are open");
    assert_eq!(execute(engine, &exchange(4), &request), Answer::old(1));
    assert_eq!(execute(engine, &exchange(2), &request), Answer::old(2));
    assert_eq!((word(engine, 0), engine.reserved_words()), (3, 0));
    assert!(open(engine, 5, 0, SWAP).is_ok());
}

#[test]
fn a_write_holds_every_word_that_it_touches() {
    let engine = &mut engine(Rights::ALL, 8);
    let request = open(engine, 1, 15, Verb::Write { data: &[1; 10] }).unwrap();
    assert_eq!(engine.reserved_words(), 3);
    let is_busy = [0, 8, 16, 24, 32].map(|offset| run(engine, offset, ADD).is_err());
    assert_eq!(is_busy, [false, true, true, true, false]);
    // A read that ends before, one that begins behind, one that reaches in.
    let read = |engine: &mut Engine<Words>, offset, len| run(engine, offset, Verb::Read { len });
    assert!(read(engine, 0, 8).is_ok() && read(engine, 32, 8).is_ok());
    assert_eq!(read(engine, 0, 9), Err(Refusal::Busy));
    engine.reverse(&exchange(1), &request);
    assert_eq!(engine.reserved_words(), 0);
}

#[test]
fn a_multi_commit_takes_all_its_words_or_none() {
    let engine = &mut engine(Rights::ALL, 64);
    let words = |range: std::ops::Range<u32>| {
        range
            .map(|at| Word {
                offset: 8 * at,
                expected: 0,
                new: 1,
            })
            .collect::<Vec<_>>()
    };
    let (first, second) = (words(0..40), words(39..64));
    let first = Verb::MultiCommit(MultiCommit::new(&first).unwrap());
    let second = Verb::MultiCommit(MultiCommit::new(&second).unwrap());
    let request = open(engine, 1, 0, first).unwrap();
    assert_eq!(open(engine, 2, 0, second), Err(Refusal::Busy));
    assert_eq!(
        engine.reserved_words(),
        40,
        "the refused one left none behind"
    );
    assert!(run(engine, 8 * 63, ADD).is_ok());
    execute(engine, &exchange(1), &request);
    assert!(open(engine, 2, 0, second).is_ok());
    assert_eq!(engine.reserved_words(), 25);
}

#[test]
fn an_exchange_beyond_the_reservations_is_refused_whole() {
    let mut engine = Engine::with_reserved_words(8);
    register(&mut engine, super::RKEY, Rights::ALL, 64);
    let engine = &mut engine;
    let six = open(engine, 1, 0, Verb::Write { data: &[0; 48] }).unwrap();
    assert_eq!(
        open(engine, 2, 48, Verb::Write { data: &[0; 24] }),
        Err(Refusal::NoResources)
    );
    assert_eq!(engine.reserved_words(), 6);
    let add = open(engine, 3, 48, ADD).unwrap();
    open(engine, 4, 56, ADD).unwrap();
    // A word that is held already needs no space; one phase needs none at all.
    open(engine, 5, 48, ADD).unwrap();
    assert_eq!(open(engine, 6, 64, ADD), Err(Refusal::NoResources));
    assert!(run(engine, 64, ADD).is_ok());
    engine.reverse(&exchange(1), &six);
    assert_eq!(engine.reserved_words(), 2);
    engine.reverse(&exchange(3), &add);
    engine.reverse(&exchange(4), &encode(56, ADD));
    engine.reverse(&exchange(5), &add);
    assert_eq!(engine.reserved_words(), 0);
}

#[test]
fn reservations_of_a_removed_region_hold_nothing_of_another() {
    let engine = &mut engine(Rights::ALL, 8);
    register(engine, 8, Rights::ALL, 8);
    let mut other = encode(0, SWAP);
    other[4] = 8;
    engine.admit(&exchange(2), Mode::TwoPhase, &other).unwrap();
    let request = open(engine, 1, 0, SWAP).unwrap();
    assert_eq!(engine.reserved_words(), 2);
    engine.remove_owner(u64::from(super::RKEY));
    assert_eq!(engine.reserved_words(), 1);
    engine.reverse(&exchange(1), &request);
    assert_eq!(engine.reserved_words(), 1);
    engine.reverse(&exchange(2), &other);
    assert_eq!(engine.reserved_words(), 0);
}
