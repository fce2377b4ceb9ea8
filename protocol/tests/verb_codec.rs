//! Valid verbs, and their encoded lengths.
#![allow(clippy::unwrap_used)]

use covalent_protocol::{
    MAX_PAYLOAD_BYTES, Mode, Moment, Refusal,
    verb::{
        Comparison, Condition, DecodeError, MultiCommit, Order, REQUEST_BYTES_MAX, Reply, Request,
        SEND_BYTES_MAX, Update, Verb, Word,
        doubt::InDoubtId,
        envelope::{Completion, CompletionOutcome, EnvelopeError, ReportStamp, Submit},
    },
};

#[test]
fn a_verb_on_one_word_fits_one_record() {
    let verb = Verb::Conditional {
        condition: Condition {
            comparison: Comparison::Equal,
            comparand: u64::MAX,
            order: Order::Signed,
        },
        update: Update::Swap(u64::MAX),
    };
    let request = Request {
        rkey: u32::MAX,
        offset: u32::MAX - 7,
        verb,
    };
    assert_eq!(request.encoded_bytes(), 28);
    let compare_and_swap = Request {
        verb: Verb::CompareAndSwap {
            expected: 1,
            new: 2,
        },
        ..request
    };
    assert_eq!(compare_and_swap.encoded_bytes(), 28);
}

#[test]
fn unused_fields_of_a_verb_are_zero() {
    let words = [Word {
        offset: 0,
        expected: 0,
        new: 0,
    }];
    let request = |rkey, offset, verb| Request { rkey, offset, verb }.check();
    let commit = Verb::MultiCommit(MultiCommit::new(&words).unwrap());
    assert_eq!(request(1, 0, commit), Ok(()));
    assert_eq!(request(1, 8, commit), Err(DecodeError::Reserved));
    let lookup = Verb::Lookup { name: "bank" };
    assert_eq!(request(0, 0, lookup), Ok(()));
    assert_eq!(request(1, 0, lookup), Err(DecodeError::Reserved));
    assert_eq!(request(0, 8, lookup), Err(DecodeError::Reserved));
    let send = Verb::Send { data: b"message" };
    assert_eq!(request(1, 0, send), Ok(()));
    assert_eq!(request(1, 8, send), Err(DecodeError::Reserved));
}

#[test]
fn a_message_has_the_room_that_a_request_has() {
    let long = [7; SEND_BYTES_MAX + 1];
    let request = |len| Request {
        rkey: 1,
        offset: 0,
        verb: Verb::Send { data: &long[..len] },
    };
    assert_eq!(request(0).check(), Err(DecodeError::Length));
    assert_eq!(request(1).check(), Ok(()));
    let longest = request(SEND_BYTES_MAX);
    assert_eq!(longest.check(), Ok(()));
    assert_eq!(longest.encoded_bytes(), MAX_PAYLOAD_BYTES);
    assert_eq!(
        request(SEND_BYTES_MAX + 1).check(),
        Err(DecodeError::Length)
    );

    let mut bytes = [0; REQUEST_BYTES_MAX];
    longest.encode(&mut bytes).unwrap();
    assert_eq!(Request::decode(&bytes), Ok(longest));
    for (at, wrong) in [(1, 1), (1, 0x10), (2, bytes[2] ^ 1), (8, 8)] {
        let mut bytes = bytes;
        bytes[at] = wrong;
        assert!(Request::decode(&bytes).is_err(), "byte {at} is {wrong}");
    }
}

#[test]
fn reserved_bytes_are_zero() {
    let mut bytes = [0; 128];
    let submit = Submit {
        user_data: 1,
        target: 2,
        mode: Mode::OnePhase,
        request: b"x",
    };
    let len = submit.encode(&mut bytes).unwrap();
    for at in 17..24 {
        bytes[at] = 1;
        assert_eq!(Submit::decode(&bytes[..len]), Err(EnvelopeError::Reserved));
        bytes[at] = 0;
    }
    assert_eq!(Submit::decode(&bytes[..len]), Ok(submit));

    let in_doubt = CompletionOutcome::InDoubt(InDoubtId::from_bytes(&[7; 24]));
    let outcomes = [
        (CompletionOutcome::Committed(b"12345678"), &[9][..]),
        (CompletionOutcome::Refused(Refusal::Busy), &[]),
        (CompletionOutcome::PeerRestarted, &[9]),
        (CompletionOutcome::NoSuchPeer, &[9]),
        (in_doubt, &[9]),
        (CompletionOutcome::Malformed, &[9]),
        (CompletionOutcome::Undone, &[9]),
        (CompletionOutcome::NeverSeen, &[9]),
        (CompletionOutcome::Forgotten, &[9]),
        (CompletionOutcome::Path { up: false }, &[]),
        (CompletionOutcome::Path { up: true }, &[]),
    ];
    for (outcome, reserved) in outcomes {
        let completion = Completion {
            user_data: 1,
            reported: ReportStamp {
                executor: 0x0708_090a_0b0c_0d0e,
                count: 0x1112_1314_1516_1718,
                clock: 0x2122_2324_2526_2728,
            },
            outcome,
        };
        let len = completion.encode(&mut bytes).unwrap();
        for at in (10..12).chain(reserved.iter().copied()) {
            bytes[at] = 1;
            let decoded = Completion::decode(&bytes[..len]);
            assert_eq!(decoded, Err(EnvelopeError::Reserved), "{outcome:?}, {at}");
            bytes[at] = 0;
        }
        assert_eq!(Completion::decode(&bytes[..len]), Ok(completion));
        if !matches!(outcome, CompletionOutcome::Committed(_)) {
            bytes[len] = 0;
            let decoded = Completion::decode(&bytes[..=len]);
            assert_eq!(decoded, Err(EnvelopeError::Length), "{outcome:?}");
        }
    }

    let reply = Reply {
        moment: Moment {
            count: u64::MAX,
            clock: u64::MAX - 1,
        },
        ..Reply::ok(b"12345678")
    };
    let len = reply.encode(&mut bytes).unwrap();
    for at in 1..4 {
        bytes[at] = 1;
        assert_eq!(Reply::decode(&bytes[..len]), Err(DecodeError::Reserved));
        bytes[at] = 0;
    }
    assert_eq!(Reply::decode(&bytes[..len]), Ok(reply));
    for reply in [Reply::gone(), Reply::contended()] {
        let len = reply.encode(&mut bytes).unwrap();
        assert_eq!(Reply::decode(&bytes[..len]), Ok(reply));
        assert_eq!(Reply::decode(&bytes[..=len]), Err(DecodeError::Length));
    }
}
