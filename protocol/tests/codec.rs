//! Records, frames, verbs and envelopes: encoded values decode to themselves, and other bytes do
//! not decode.
#![allow(clippy::unwrap_used)]

mod support;

use covalent_protocol::{
    DEFAULT_ETHERTYPE, ExchangeId, FRAME_BYTES_MAX, Mode, Refusal,
    verb::{
        self, Comparison, Condition, DecodeError, MultiCommit, Order, RegionInfo, Reply, Request,
        Status, Update, Verb, Word,
        doubt::InDoubtId,
        envelope::{Completion, CompletionOutcome, ReportStamp, Submit},
    },
    wire::{
        FRAME_PAYLOAD_BYTES_MAX, RecordBytes, VERSION,
        frame::{self, FrameError, FrameWriter},
        message::{self, Message},
        record::{self, Header, NO_PIGGYBACK, RecordError, Shape},
        slice::Kind,
    },
};
use proptest::{collection::vec, prelude::*};
use support::{A, B, Bench, forge};

/// Any header that can be sent, with the length of its payload.
fn header() -> impl Strategy<Value = Header> {
    let numbers = any::<(u32, u32, u32, u32, u32)>();
    let shape = (0..=FRAME_PAYLOAD_BYTES_MAX, 0..4u8, any::<bool>());
    (0..Kind::ALL.len(), numbers, any::<(u8, u8)>(), shape).prop_map(
        |(
            kind,
            (yours, epoch, record_sequence, slot_sequence, clock),
            (slot, piggyback),
            shape,
        )| {
            let kind = Kind::ALL[kind];
            let alone = matches!(kind, Kind::Init | Kind::Keepalive);
            let shape = match shape {
                (bytes, _, _) if alone => Shape::whole(bytes),
                (_, fragment @ 0..3, true) => {
                    Shape::fragment(FRAME_PAYLOAD_BYTES_MAX, fragment, true)
                }
                (bytes, 0, _) => Shape::whole(bytes),
                (bytes, fragment, _) => Shape::fragment(bytes.max(1), fragment, false),
            };
            Header {
                kind,
                yours,
                epoch,
                record_sequence,
                slot_sequence,
                slot,
                piggyback: if alone { NO_PIGGYBACK } else { piggyback },
                clock,
                shape,
            }
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

/// The records of a message as they are written.
fn written(header: &Header, payload: &[u8]) -> Vec<RecordBytes> {
    let mut buffer = [0xee; FRAME_BYTES_MAX];
    let mut writer = FrameWriter::new(&mut buffer).unwrap();
    message::write(header, payload, &mut writer);
    let len = writer.finish([0xff; 6], [2; 6], DEFAULT_ETHERTYPE);
    frame::parse(&buffer[..len], DEFAULT_ETHERTYPE)
        .unwrap()
        .to_vec()
}

proptest! {
    #[test]
    fn a_message_reads_as_it_was_written(
        header in header(),
        payload in vec(any::<u8>(), FRAME_PAYLOAD_BYTES_MAX),
    ) {
        let bytes = header.shape.payload_bytes();
        let records = written(&header, &payload[..bytes]);
        prop_assert_eq!(Header::read(&records[0]), Ok(header));
        let (message, rest) = Message::split(&records).unwrap();
        prop_assert_eq!(
            (message.header, message.records(), rest.len()),
            (header, records.len(), 0),
        );
        let mut space = vec![0xee; bytes];
        prop_assert_eq!(message.copy_payload(&mut space), Some(&payload[..bytes]));
        if let Some(too_short) = space.get_mut(1..) {
            prop_assert_eq!(message.copy_payload(too_short), None);
        }
        prop_assert_eq!(
            message.payload_in_place(),
            (records.len() == 1).then_some(&payload[..bytes]),
        );
        let fields = records.iter().skip(1).flat_map(
            |record| &record::continuation_payload(record)[..],
        );
        let whole: Vec<u8> = record::payload(&records[0]).iter().chain(fields).copied().collect();
        prop_assert_eq!(&whole[..bytes], &payload[..bytes]);
        prop_assert!(whole[bytes..].iter().all(|&byte| byte == 0), "nothing else leaks onto the \
            wire");
    }

    #[test]
    fn a_request_reads_as_it_was_written(
        rkey: u32,
        offset in (0..u32::MAX / 8).prop_map(|words| words * 8),
        a: u64,
        b: u64,
        data in vec(any::<u8>(), 1..=512),
        message in vec(any::<u8>(), 1..=verb::SEND_BYTES_MAX),
        name in "[a-z]{1,32}",
        words in vec((0..1u32 << 29, any::<u64>(), any::<u64>()), 1..=64),
    ) {
        let words: Vec<Word> =
            words.iter().map(
                |&(at, expected, new)| Word { offset: at * 8, expected, new },
            ).collect();
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
            Verb::Send { data: &message },
        ] {
            let (rkey, offset) = match verb {
                Verb::Lookup { .. } => (0, 0),
                Verb::MultiCommit(_) | Verb::Send { .. } => (rkey, 0),
                _ => (rkey, offset),
            };
            let request = Request { rkey, offset, verb };
            let mut bytes = [0xee; verb::REQUEST_BYTES_MAX];
            let len = request.encode(&mut bytes).unwrap();
            prop_assert_eq!(len, request.encoded_bytes());
            prop_assert_eq!(Request::decode(&bytes[..len]), Ok(request));
            prop_assert!(Request::decode(&bytes[..len - 1]).is_err(), "a byte is missing");
            prop_assert!(
                Request::decode(&[&bytes[..len], &[0]].concat()).is_err(),
                "a byte is too many",
            );
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
    fn any_messages_with_a_valid_crc_may_arrive(
        messages in vec((any::<[u8; 8]>(), header()), 1..=23),
    ) {
        let mut bench = Bench::up(1);
        let mut buffer = [0; FRAME_BYTES_MAX];
        let mut writer = FrameWriter::new(&mut buffer).unwrap();
        for (noise, header) in messages {
            // Of the fields some fit and some do not.
            let header = Header {
                yours: 0,
                epoch: bench.link(A, 0).epoch,
                record_sequence: writer.records() as u32,
                slot_sequence: u32::from(noise[0] % 3),
                slot: noise[1] % 6,
                piggyback: if header.piggyback % 2 == 0 { NO_PIGGYBACK } else {
                    header.piggyback % 6
                },
                shape: if noise[2] < 200 {
                    Shape::whole(usize::from(noise[3] % 40))
                } else { header.shape },
                ..header
            };
            if usize::from(header.shape.records) <= writer.room() {
                let payload = noise.repeat(FRAME_PAYLOAD_BYTES_MAX.div_ceil(8));
                message::write(&header, &payload[..header.shape.payload_bytes()], &mut writer);
            }
        }
        let len = writer.finish([0xff; 6], [2; 6], DEFAULT_ETHERTYPE);
        bench.inject(A, 0, &buffer[..len]);
        bench.run(12);
        bench.assert_up();
    }
}

/// A truncated frame is invalid, at the end of a record too: the CRC depends on the number of
/// records.
#[test]
fn a_frame_is_a_header_and_all_its_records() {
    let mut bench = Bench::up(1);
    bench.submit(A, Mode::OnePhase, &[1; 1000], 0);
    bench.submit(A, Mode::OnePhase, &[1; 28], 1);
    bench.send(A);
    let frame = bench.cables[0][B].pop_front().unwrap();
    assert_eq!(frame.len(), 14 + 23 * 64);
    let parse = |frame: &[u8]| frame::parse(frame, DEFAULT_ETHERTYPE).map(<[_]>::len);
    assert_eq!(parse(&frame), Ok(23));
    for len in 0..frame.len() {
        let error = match len {
            0..78 => FrameError::Short,
            _ if (len - 14) % 64 == 0 => FrameError::Crc,
            _ => FrameError::Length,
        };
        assert_eq!(parse(&frame[..len]), Err(error), "{len} bytes");
        bench.inject(B, 0, &frame[..len]);
    }
    assert_eq!(frame::parse(&frame, 0x0800), Err(FrameError::EtherType));
    let long = [&frame[..], &frame[14..14 + 64]].concat();
    assert_eq!(parse(&long), Err(FrameError::Length), "24 records");
    let drops = bench.link(B, 0).counters.drops;
    assert_eq!((drops.short, drops.crc), (78, 22));
    assert_eq!(drops.total(), frame.len() as u64);
    assert!(
        bench.sides[B].host.executed.is_empty(),
        "a frame of which a part is missing does not exist"
    );
    // A frame that grew by one of its own records is invalid too.
    let short = written_frame(&frame[..14 + 22 * 64]);
    assert_eq!(parse(&short), Ok(22));
    let grown = [&short[..], &frame[14 + 22 * 64..]].concat();
    assert_eq!(parse(&grown), Err(FrameError::Crc));
    bench.inject(B, 0, &frame);
    assert_eq!(bench.sides[B].host.executed.len(), 2);
}

/// The same bytes with the CRC that fits.
fn written_frame(frame: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    frame::seal(&mut frame);
    frame
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
            let records = frame::parse(&other, DEFAULT_ETHERTYPE).unwrap();
            let error = Message::split(records).map(|_| ()).unwrap_err();
            assert_eq!(error, RecordError::Version(version), "record {index}");
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
    let header = Header {
        kind: Kind::Tentative,
        yours: 5,
        epoch: 1,
        record_sequence: 7,
        slot_sequence: 1,
        slot: 0,
        piggyback: NO_PIGGYBACK,
        clock: 0,
        shape: Shape::whole(28 + 48 + 5),
    };
    let payload = [1; 28 + 48 + 5];
    let good = written(&header, &payload);
    let other = |change: fn(&mut Header)| {
        let mut other = header;
        change(&mut other);
        written(&other, &payload)
    };
    let split = |records: &[RecordBytes]| {
        Message::split(records).map(|(message, rest)| (message.payload_bytes(), rest.len()))
    };
    assert_eq!(split(&good), Ok((28 + 48 + 5, 0)));
    let more = [&good[..], &good[..1]].concat();
    assert_eq!(split(&more), Ok((28 + 48 + 5, 1)));
    let bad = Err(RecordError::Malformed);
    assert_eq!(split(&good[..2]), bad, "incomplete");
    assert_eq!(split(&[good[0], good[2], good[1]]), bad, "out of order");
    assert_eq!(split(&good[1..]), bad, "without its first");
    let mixed = |change| split(&[good[0], good[1], other(change)[2]]);
    assert_eq!(
        mixed(|header| header.slot_sequence = 2),
        bad,
        "of another exchange"
    );
    assert_eq!(
        mixed(|header| header.kind = Kind::Request),
        bad,
        "of another kind"
    );
    assert_eq!(
        mixed(|header| header.record_sequence += 1),
        bad,
        "not consecutive"
    );
    assert_eq!(
        mixed(|header| header.yours = 6),
        bad,
        "reflects something else"
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
    assert_eq!(Reply::decode(&[4; 28]), Err(DecodeError::UnknownStatus(4)));
    assert_eq!(Reply::decode(&[0; 19]), Err(DecodeError::Truncated));
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
        CompletionOutcome::InDoubt(InDoubtId {
            id: ExchangeId {
                peer: 0x1122_3344_5566_7788,
                port: 0x99aa,
                epoch: 0xbbcc_ddee,
                slot: 0xff,
                sequence: 0x1020_3040,
            },
            note: 3,
            seal: 0x5ea1,
        }),
        CompletionOutcome::Undone,
        CompletionOutcome::NeverSeen,
        CompletionOutcome::Forgotten,
        CompletionOutcome::Path { up: true },
        CompletionOutcome::Malformed,
    ] {
        let completion = Completion {
            user_data: 6,
            reported: ReportStamp {
                executor: 0x0708_090a_0b0c_0d0e,
                count: 0x1112_1314_1516_1718,
                clock: 0x2122_2324_2526_2728,
            },
            outcome,
        };
        let len = completion.encode(&mut bytes).unwrap();
        assert_eq!(Completion::decode(&bytes[..len]), Ok(completion));
    }
}

#[test]
fn an_invalid_request_is_refused_with_its_reason() {
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
