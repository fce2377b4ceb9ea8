//! Records, frames, verbs and envelopes: what is written is read back, and what was not written is not read.
#![allow(clippy::unwrap_used)]

mod support;

use covalent_protocol::{
    DEFAULT_ETHERTYPE, ExchangeId, FRAME_BYTES_MAX, MAX_PAYLOAD_BYTES, Mode, Refusal,
    verb::{
        self, Comparison, Condition, DecodeError, MultiCommit, Order, RegionInfo, Reply, Request,
        Status, Update, Verb, Word,
        envelope::{Completion, CompletionOutcome, Submit},
    },
    wire::{
        RecordBytes, VERSION,
        frame::{self, FrameError, FrameWriter},
        message::Message,
        record::{self, Header, RecordError},
        slice::Kind,
    },
};
use proptest::{collection::vec, prelude::*};
use support::{A, B, Bench, forge};

fn header() -> impl Strategy<Value = Header> {
    let numbers = (any::<u32>(), any::<u32>(), any::<u32>(), any::<u32>());
    (0..Kind::ALL.len(), numbers, any::<u8>(), 0..=32u8, 1..=23u8).prop_flat_map(
        |(kind, (yours, epoch, record_sequence, slot_sequence), slot, payload_bytes, records)| {
            (0..records).prop_map(move |index| Header {
                kind: Kind::ALL[kind],
                yours,
                epoch,
                record_sequence,
                slot_sequence,
                slot,
                payload_bytes,
                records,
                index,
            })
        },
    )
}

fn conditional(comparison: Comparison, comparand: u64, update: Update) -> Verb<'static> {
    Verb::Conditional {
        condition: Condition {
            comparison,
            comparand,
            order: Order::Signed,
        },
        update,
    }
}

fn written(header: &Header, payload: &[u8]) -> RecordBytes {
    let mut record = [0xee; 64];
    header.write(payload, &mut record);
    record
}

proptest! {
    #[test]
    fn a_record_reads_as_it_was_written(header in header(), payload in any::<[u8; 32]>()) {
        let record = written(&header, &payload);
        prop_assert_eq!(Header::read(&record), Ok(header));
        let len = usize::from(header.payload_bytes);
        prop_assert_eq!(&record::payload(&record)[..len], &payload[..len]);
        prop_assert!(record::payload(&record)[len..].iter().all(|&byte| byte == 0), "nothing else leaks onto the wire");
    }

    #[test]
    fn a_request_reads_as_it_was_written(rkey: u32, offset in (0..u32::MAX / 8).prop_map(|words| words * 8),
                                         a: u64, b: u64, data in vec(any::<u8>(), 1..=512), name in "[a-z]{1,32}",
                                         words in vec((0..1u32 << 29, any::<u64>(), any::<u64>()), 1..=64)) {
        let words: Vec<Word> =
            words.iter().map(|&(at, expected, new)| Word { offset: at * 8, expected, new }).collect();
        for verb in [
            Verb::Read { len: data.len() as u32 },
            Verb::Write { data: &data },
            Verb::Swap { new: a },
            Verb::CompareAndSwap { expected: a, new: b },
            Verb::FetchAdd { delta: a },
            Verb::FetchAnd { mask: a },
            Verb::FetchOr { mask: a },
            Verb::FetchXor { mask: a },
            Verb::FetchMin { operand: a, order: Order::Unsigned },
            Verb::FetchMax { operand: a, order: Order::Signed },
            conditional(Comparison::Equal, a, Update::Write(b)),
            conditional(Comparison::Less, a, Update::Swap(b)),
            conditional(Comparison::LessOrEqual, a, Update::Add(b)),
            conditional(Comparison::Greater, a, Update::And(b)),
            conditional(Comparison::GreaterOrEqual, a, Update::Max(b)),
            Verb::MultiCommit(MultiCommit::new(&words).unwrap()),
            Verb::Lookup { name: &name },
        ] {
            let (rkey, offset) = match verb {
                Verb::Lookup { .. } => (0, 0),
                Verb::MultiCommit(_) => (rkey, 0),
                _ => (rkey, offset),
            };
            let request = Request { rkey, offset, verb };
            let mut bytes = [0xee; verb::REQUEST_BYTES_MAX];
            let len = request.encode(&mut bytes).unwrap();
            prop_assert_eq!(len, request.encoded_bytes());
            prop_assert_eq!(Request::decode(&bytes[..len]), Ok(request));
            prop_assert!(Request::decode(&bytes[..len - 1]).is_err(), "a byte is missing");
            prop_assert!(Request::decode(&[&bytes[..len], &[0]].concat()).is_err(), "a byte is too many");
            prop_assert!(request.encode(&mut bytes[..len - 1]).is_err());
        }
    }

    #[test]
    fn any_bytes_may_arrive(frames in vec(vec(any::<u8>(), 0..1600), 1..20)) {
        let mut bench = Bench::up(1);
        for frame in &frames {
            bench.inject(A, 0, frame);
        }
        bench.assert_up();
        bench.submit(A, Mode::TwoPhase, b"still here", 1);
        bench.settle();
        prop_assert_eq!(bench.sides[B].host.executed.len(), 1);
    }

    #[test]
    fn any_records_with_a_valid_crc_may_arrive(records in vec(any::<[u8; 32]>(), 1..=23), kind in 0..10usize) {
        let mut bench = Bench::up(1);
        let mut buffer = [0; FRAME_BYTES_MAX];
        let mut writer = FrameWriter::new(&mut buffer).unwrap();
        let count = records.len() as u8;
        for (index, payload) in records.iter().enumerate() {
            // The header's fields are drawn from the payload's bytes, so some fit and some do not.
            let header = Header {
                kind: Kind::ALL[kind],
                yours: 0,
                epoch: bench.link(A, 0).epoch,
                record_sequence: index as u32,
                slot_sequence: u32::from(payload[0]),
                slot: payload[1] % 6,
                payload_bytes: payload[2] % 40,
                records: if payload[3] % 2 == 0 { 1 } else { count },
                index: if payload[3] % 2 == 0 { 0 } else { index as u8 },
            };
            header.write(payload, writer.next_record().unwrap());
        }
        let len = writer.finish([0xff; 6], [2; 6], DEFAULT_ETHERTYPE);
        bench.inject(A, 0, &buffer[..len]);
        bench.run(12);
        bench.assert_up();
    }
}

#[test]
fn a_frame_is_a_header_and_whole_records() {
    let mut bench = Bench::up(1);
    bench.submit(A, Mode::OnePhase, &[1; MAX_PAYLOAD_BYTES], 0);
    bench.send(A);
    let frame = bench.cables[0][B].pop_front().unwrap();
    assert_eq!(frame.len(), 14 + 22 * 64);
    let parse = |frame: &[u8]| frame::parse(frame, DEFAULT_ETHERTYPE).map(<[_]>::len);
    assert_eq!(parse(&frame), Ok(22));
    for len in 0..frame.len() {
        match parse(&frame[..len]) {
            Err(FrameError::Short) => assert!(len < 78),
            Err(FrameError::Length) => assert!((len - 14) % 64 != 0),
            Ok(records) => assert_eq!(len, 14 + records * 64),
            Err(other) => panic!("{len}: {other:?}"),
        }
    }
    assert_eq!(frame::parse(&frame, 0x0800), Err(FrameError::EtherType));
    let long = [&frame[..], &frame[14..14 + 128]].concat();
    assert_eq!(parse(&long), Err(FrameError::Length), "24 records");
    for len in 14 + 64..frame.len() {
        bench.inject(B, 0, &frame[..len]);
    }
    assert!(
        bench.sides[B].host.executed.is_empty(),
        "a message of which a part is missing does not exist"
    );
}

#[test]
fn records_of_another_version_are_counted_as_such() {
    let mut bench = Bench::up(1);
    bench.submit(A, Mode::OnePhase, &[1; 40], 0);
    bench.send(A);
    let frame = bench.cables[0][B].pop_front().unwrap();
    let state_at = 2;
    let mut others = 0;
    for version in (0..16).filter(|&version| version != VERSION) {
        for index in [0, 1] {
            let mut other = frame.clone();
            forge(&mut other, index, |record| {
                record[state_at] = record[state_at] & 0x0f | version << 4;
            });
            let record = frame::parse(&other, DEFAULT_ETHERTYPE).unwrap()[index];
            assert_eq!(Header::read(&record), Err(RecordError::Version(version)));
            bench.inject(B, 0, &other);
            others += 1;
            assert_eq!(bench.link(B, 0).counters.drops.version, others);
        }
    }
    let mut nonsense = frame.clone();
    forge(&mut nonsense, 0, |record| record[state_at] |= 0x0f);
    bench.inject(B, 0, &nonsense);
    let drops = bench.link(B, 0).counters.drops;
    assert_eq!(
        (drops.version, drops.malformed, drops.total()),
        (others, 1, others + 1),
        "a kind that this version does not have is no other version"
    );
    assert!(bench.sides[B].host.executed.is_empty());
    bench.assert_up();
    bench.inject(B, 0, &frame);
    assert_eq!(bench.sides[B].host.executed.len(), 1);
}

#[test]
fn a_message_with_a_hole_is_none() {
    let header = |index, payload_bytes| Header {
        kind: Kind::Tentative,
        yours: 0,
        epoch: 1,
        record_sequence: 7 + u32::from(index),
        slot_sequence: 1,
        slot: 0,
        payload_bytes,
        records: 3,
        index,
    };
    let split = |headers: [Header; 3]| {
        let records = headers.map(|header| written(&header, &[1; 32]));
        Message::split(&records).map(|(message, rest)| (message.payload_bytes(), rest.len()))
    };
    let good = [header(0, 32), header(1, 32), header(2, 5)];
    assert_eq!(split(good), Ok((69, 0)));
    let bad = |change: fn(&mut [Header; 3])| {
        let mut headers = good;
        change(&mut headers);
        split(headers)
    };
    assert!(
        bad(|headers| headers[0].payload_bytes = 31).is_err(),
        "not full"
    );
    assert!(bad(|headers| headers.swap(1, 2)).is_err(), "out of order");
    assert!(
        bad(|headers| headers[2].slot = 1).is_err(),
        "of another slot"
    );
    assert!(
        bad(|headers| headers[2].slot_sequence = 2).is_err(),
        "of another exchange"
    );
    assert!(
        bad(|headers| headers[1].kind = Kind::Request).is_err(),
        "of another kind"
    );
    assert!(
        bad(|headers| headers[2].record_sequence += 1).is_err(),
        "not consecutive"
    );
    assert!(
        bad(|headers| headers[1].epoch = 2).is_err(),
        "of another epoch"
    );
    assert!(
        bad(|headers| headers.iter_mut().for_each(|header| header.records = 4)).is_err(),
        "incomplete"
    );
}

#[test]
fn replies_and_envelopes_read_as_they_were_written() {
    let word = 0x0123_4567_89ab_cdefu64.to_le_bytes();
    let info = RegionInfo {
        size_bytes: 1 << 33,
        rkey: 77,
        rights: 0b101,
    };
    let info_bytes = info.to_bytes();
    let mut bytes = [0xee; 1000];
    for reply in [
        Reply::ok(&word),
        Reply::ok(&[]),
        Reply::mismatch(3, &word),
        Reply::gone(),
        Reply::ok(&info_bytes),
    ] {
        let len = reply.encode(&mut bytes).unwrap();
        assert_eq!(Reply::decode(&bytes[..len]), Ok(reply));
    }
    assert_eq!(Reply::ok(&word).value(), Some(u64::from_le_bytes(word)));
    assert_eq!(Reply::ok(&info_bytes).region(), Some(info));
    assert_eq!(Reply::decode(&[4; 16]), Err(DecodeError::UnknownStatus(4)));
    assert_eq!(Reply::decode(&[0; 7]), Err(DecodeError::Truncated));
    assert_eq!(Reply::mismatch(3, &word).status, Status::Mismatch);

    for mode in [Mode::OnePhase, Mode::TwoPhase] {
        let submit = Submit {
            user_data: 5,
            target: 0xabc,
            mode,
            request: &[1, 2, 3],
        };
        let len = submit.encode(&mut bytes).unwrap();
        assert_eq!(len, 27);
        assert_eq!(Submit::decode(&bytes[..len]), Ok(submit));
    }
    assert!(Submit::decode(&bytes[..24]).is_err(), "no request");
    for outcome in [
        CompletionOutcome::Committed(&word),
        CompletionOutcome::Refused(Refusal::OutOfBounds),
        CompletionOutcome::PeerRestarted,
        CompletionOutcome::NoSuchPeer,
        CompletionOutcome::InDoubt(ExchangeId {
            peer: 0x1122_3344_5566_7788,
            port: 0x99aa,
            epoch: 0xbbcc_ddee,
            slot: 0xff,
            sequence: 0x1020_3040,
        }),
        CompletionOutcome::Malformed,
    ] {
        let completion = Completion {
            user_data: 6,
            outcome,
        };
        let len = completion.encode(&mut bytes).unwrap();
        assert_eq!(Completion::decode(&bytes[..len]), Ok(completion));
    }
}

#[test]
fn a_request_says_what_is_wrong_with_it() {
    let misaligned = Request {
        rkey: 1,
        offset: 12,
        verb: Verb::FetchAdd { delta: 1 },
    };
    assert_eq!(
        misaligned.check(),
        Err(DecodeError::Misaligned { offset: 12 })
    );
    let mut bytes = [0; 64];
    let len = misaligned.encode(&mut bytes).unwrap();
    assert_eq!(
        Request::decode(&bytes[..len]),
        Err(DecodeError::Misaligned { offset: 12 })
    );
    let read = |len| {
        Request {
            rkey: 1,
            offset: 3,
            verb: Verb::Read { len },
        }
        .check()
    };
    assert_eq!(
        (read(0), read(1), read(512)),
        (Err(DecodeError::Length), Ok(()), Ok(()))
    );
    assert_eq!(read(513), Err(DecodeError::Length));
    assert_eq!(MultiCommit::new(&[]), Err(DecodeError::Length));
    assert_eq!(
        MultiCommit::new(
            &[Word {
                offset: 0,
                expected: 0,
                new: 0
            }; 65]
        ),
        Err(DecodeError::Length)
    );
    let word = Word {
        offset: 4,
        expected: 0,
        new: 0,
    };
    assert_eq!(
        MultiCommit::new(&[word]),
        Err(DecodeError::Misaligned { offset: 4 })
    );
    assert_eq!(
        Request::decode(&[0; 24]),
        Err(DecodeError::UnknownOperation(0))
    );
    // Six conditions, one order, and no further flag.
    for flags in [0x20, 0x40, 0x80, 0x06, 0x0f, 0x10] {
        bytes[1] = flags;
        assert_eq!(
            Request::decode(&bytes[..len]),
            Err(DecodeError::UnknownFlags(flags))
        );
    }
    bytes[1] = 1;
    assert_eq!(
        Request::decode(&bytes[..len]),
        Err(DecodeError::Length),
        "a condition has a comparand"
    );
}
