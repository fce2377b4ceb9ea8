//! Every decoder on arbitrary bytes: it returns a value or an error, and a value is one that could
//! have been encoded.
//!
//! Uniform noise rarely passes a length check or a CRC. Most inputs are therefore damaged valid
//! encodings with a recomputed CRC. `make fuzz` tries more of them.
#![allow(clippy::unwrap_used)]

use covalent_protocol::{
    DEFAULT_ETHERTYPE, ExchangeId, FRAME_BYTES_MAX, Mode, Moment, Refusal,
    verb::{
        self, Comparison, Condition, MultiCommit, Order, RegionInfo, Reply, Request, Update, Verb,
        Word,
        doubt::InDoubtId,
        envelope::{
            COMPLETION_BYTES_MAX, Completion, CompletionOutcome, ReportStamp, SUBMIT_BYTES_MAX,
            Submit,
        },
    },
    wire::{
        ETHERNET_HEADER_BYTES, FRAME_PAYLOAD_BYTES_MAX, FRAME_RECORDS_MAX, RECORD_BYTES,
        RecordBytes,
        frame::{self, FrameWriter},
        message::{self, Message},
        record::{Header, NO_PIGGYBACK, Shape},
        slice::Kind,
    },
};
use proptest::{collection::vec, prelude::*, sample::Index};

/// Damage to bytes in transit.
#[derive(Debug, Clone)]
enum Damage {
    Flip(Index, u8),
    Set(Index, u8),
    Cut(Index),
    Insert(Index, Vec<u8>),
    Remove(Index, usize),
    Repeat(Index, usize),
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        4 => (any::<Index>(), 0..8u8).prop_map(|(at, bit)| Damage::Flip(at, bit)),
        4 => (any::<Index>(), likely()).prop_map(|(at, byte)| Damage::Set(at, byte)),
        1 => any::<Index>().prop_map(Damage::Cut),
        1 => (
            any::<Index>(),
            vec(any::<u8>(), 1..70),
        ).prop_map(|(at, bytes)| Damage::Insert(at, bytes)),
        1 => (
            any::<Index>(),
            vec(any::<u8>(), 700..1600),
        ).prop_map(|(at, bytes)| Damage::Insert(at, bytes)),
        1 => (any::<Index>(), 1..70usize).prop_map(|(at, length)| Damage::Remove(at, length)),
        1 => (any::<Index>(), 1..70usize).prop_map(|(at, length)| Damage::Repeat(at, length)),
    ]
}

/// Bytes of which some are at the ends of ranges more often than chance has it.
fn likely() -> impl Strategy<Value = u8> {
    prop_oneof![
        Just(0),
        Just(0xff),
        Just(0x7f),
        Just(0x80),
        0..=33u8,
        any::<u8>()
    ]
}

impl Damage {
    fn apply(&self, bytes: &mut Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        let place = |at: &Index| at.index(bytes.len());
        let span = |at: &Index, length: usize| place(at)..bytes.len().min(place(at) + length);
        match self {
            Self::Flip(at, bit) => {
                let at = place(at);
                bytes[at] ^= 1 << bit;
            }
            Self::Set(at, byte) => {
                let at = place(at);
                bytes[at] = *byte;
            }
            Self::Cut(at) => bytes.truncate(place(at)),
            Self::Insert(at, new) => {
                let at = place(at);
                bytes.splice(at..at, new.iter().copied());
            }
            Self::Remove(at, length) => {
                let span = span(at, *length);
                bytes.drain(span);
            }
            Self::Repeat(at, length) => {
                let repeated = bytes[span(at, *length)].to_vec();
                bytes.extend(repeated);
            }
        }
    }
}

/// Valid bytes, some of them damaged, and now and then noise.
fn arriving(valid: impl Strategy<Value = Vec<u8>> + 'static) -> impl Strategy<Value = Vec<u8>> {
    let damaged = (valid, vec(damage(), 0..4)).prop_map(|(mut bytes, damages)| {
        for damage in &damages {
            damage.apply(&mut bytes);
        }
        bytes
    });
    prop_oneof![9 => damaged.boxed(), 1 => vec(any::<u8>(), 0..1600).boxed()]
}

/// One message as it lies in a frame.
#[derive(Debug, Clone)]
struct SentMessage {
    first: Header,
    payload: Vec<u8>,
}

fn sent_message() -> impl Strategy<Value = SentMessage> {
    let numbers = any::<(u32, u32, u32, u32, u32)>();
    let places = any::<(u8, u8, u8)>();
    let payload = vec(any::<u8>(), 0..=FRAME_PAYLOAD_BYTES_MAX);
    (0..Kind::ALL.len(), numbers, places, payload).prop_map(
        |(kind, (yours, epoch, record_sequence, slot_sequence, clock), places, payload)| {
            let kind = Kind::ALL[kind];
            let (slot, piggyback, fragment) = places;
            let alone = matches!(kind, Kind::Init | Kind::Keepalive) || payload.is_empty();
            let more = payload.len() == FRAME_PAYLOAD_BYTES_MAX && fragment % 4 < 3;
            let shape = if alone {
                Shape::whole(payload.len())
            } else {
                Shape::fragment(payload.len(), fragment % 4, more)
            };
            SentMessage {
                first: Header {
                    kind,
                    yours,
                    epoch,
                    record_sequence,
                    slot_sequence,
                    slot,
                    piggyback: if alone { NO_PIGGYBACK } else { piggyback },
                    clock,
                    shape,
                },
                payload,
            }
        },
    )
}

impl SentMessage {
    fn write(&self, writer: &mut FrameWriter<'_>) {
        message::write(&self.first, &self.payload, writer);
    }
}

/// A frame of as many messages as fit.
fn frame_of(messages: &[SentMessage]) -> Vec<u8> {
    let mut buffer = [0xee; FRAME_BYTES_MAX];
    let mut writer = FrameWriter::new(&mut buffer).unwrap();
    for sent_message in messages {
        if usize::from(sent_message.first.shape.records) <= writer.room() {
            sent_message.write(&mut writer);
        }
    }
    let len = writer.finish([0xff; 6], [2; 6], DEFAULT_ETHERTYPE);
    buffer[..len].to_vec()
}

fn frames() -> impl Strategy<Value = Vec<u8>> {
    vec(sent_message(), 1..5).prop_map(|messages| frame_of(&messages))
}

/// The payload of a message by the format definition, independent of the decoder.
fn payload_of(records: &[RecordBytes]) -> Vec<u8> {
    let last = usize::from(records[0][21]);
    let fields = records
        .iter()
        .enumerate()
        .map(|(index, record)| match index {
            0 => &record[28..56],
            _ => &record[8..56],
        });
    fields
        .enumerate()
        .flat_map(|(index, field)| {
            if index + 1 == records.len() {
                &field[..last]
            } else {
                field
            }
        })
        .copied()
        .collect()
}

fn words() -> impl Strategy<Value = Vec<Word>> {
    vec(
        (0..u32::MAX / 8, any::<u64>(), any::<u64>()).prop_map(|(at, expected, new)| Word {
            offset: at * 8,
            expected,
            new,
        }),
        1..=verb::MULTI_COMMIT_WORDS_MAX,
    )
}

/// Encoded requests of every verb.
fn requests() -> impl Strategy<Value = Vec<u8>> {
    let data = vec(any::<u8>(), 1..=verb::WRITE_BYTES_MAX);
    let numbers = (
        0..22u8,
        any::<u32>(),
        0..u32::MAX / 8,
        any::<u64>(),
        any::<u64>(),
    );
    (numbers, data, words(), "[a-zé]{1,16}").prop_map(
        |((op, rkey, offset, a, b), data, words, name)| {
            let order = [Order::Unsigned, Order::Signed][rkey as usize % 2];
            let comparisons = [
                Comparison::Equal,
                Comparison::Less,
                Comparison::LessOrEqual,
                Comparison::Greater,
                Comparison::GreaterOrEqual,
            ];
            let condition = Condition {
                comparison: comparisons[offset as usize % 5],
                comparand: a,
                order,
            };
            let update = [
                Update::Write,
                Update::Swap,
                Update::Add,
                Update::And,
                Update::Or,
                Update::Xor,
                Update::Min,
                Update::Max,
            ];
            let verb = match op {
                0 => Verb::Read {
                    len: data.len() as u32,
                },
                1 => Verb::Write { data: &data },
                2 => Verb::Swap { new: a },
                3 => Verb::CompareAndSwap {
                    expected: a,
                    new: b,
                },
                4 => Verb::FetchAdd { delta: a },
                5 => Verb::FetchAnd { mask: a },
                6 => Verb::FetchOr { mask: a },
                7 => Verb::FetchXor { mask: a },
                8 | 9 => Verb::MultiCommit(MultiCommit::new(&words).unwrap()),
                10 => Verb::Lookup { name: &name },
                11 => Verb::FetchMin { operand: a, order },
                12 => Verb::FetchMax { operand: a, order },
                13 => Verb::Send { data: &data },
                _ => Verb::Conditional {
                    condition,
                    update: update[usize::from(op) % 8](b),
                },
            };
            let (rkey, offset) = match verb {
                Verb::Lookup { .. } => (0, 0),
                Verb::MultiCommit(_) | Verb::Send { .. } => (rkey, 0),
                _ => (rkey, offset * 8),
            };
            let request = Request { rkey, offset, verb };
            let mut bytes = vec![0xee; request.encoded_bytes()];
            request.encode(&mut bytes).unwrap();
            bytes
        },
    )
}

fn replies() -> impl Strategy<Value = Vec<u8>> {
    let region = any::<(u64, u32, u8)>().prop_map(|(size_bytes, rkey, rights)| {
        RegionInfo {
            size_bytes,
            rkey,
            rights,
        }
        .to_bytes()
        .to_vec()
    });
    let data = prop_oneof![vec(any::<u8>(), 0..=verb::READ_BYTES_MAX), region];
    (0..4u8, any::<(u16, u64, u64)>(), data).prop_map(|(status, (index, count, clock), data)| {
        let mut reply = match (status, data.first_chunk()) {
            (1, Some(word)) => Reply::mismatch(index, word),
            (2, _) => Reply::gone(),
            (3, _) => Reply::contended(),
            _ => Reply::ok(&data),
        };
        reply.moment = Moment { count, clock };
        let mut bytes = vec![0xee; reply.encoded_bytes()];
        reply.encode(&mut bytes).unwrap();
        bytes
    })
}

fn submissions() -> impl Strategy<Value = Vec<u8>> {
    (any::<(u64, u64, bool)>(), requests()).prop_map(|((user_data, target, two), request)| {
        let submit = Submit {
            user_data,
            target,
            mode: if two { Mode::TwoPhase } else { Mode::OnePhase },
            request: &request,
        };
        let mut bytes = vec![0xee; submit.encoded_bytes()];
        submit.encode(&mut bytes).unwrap();
        bytes
    })
}

fn completions() -> impl Strategy<Value = Vec<u8>> {
    (0..10u8, any::<(u64, u8)>(), replies()).prop_map(|(outcome, (user_data, refusal), reply)| {
        let outcome = match outcome {
            0 => CompletionOutcome::Committed(&reply),
            1 => CompletionOutcome::Refused(Refusal::from_byte(refusal)),
            2 => CompletionOutcome::PeerRestarted,
            3 => CompletionOutcome::NoSuchPeer,
            4 => CompletionOutcome::InDoubt(InDoubtId {
                id: ExchangeId {
                    peer: user_data.rotate_left(8),
                    port: user_data as u16,
                    epoch: (user_data >> 32) as u32,
                    slot: refusal,
                    sequence: user_data as u32,
                },
                note: !refusal,
                seal: !user_data as u32,
            }),
            5 => CompletionOutcome::Undone,
            6 => CompletionOutcome::NeverSeen,
            7 => CompletionOutcome::Forgotten,
            8 => CompletionOutcome::Path {
                up: refusal & 1 == 1,
            },
            _ => CompletionOutcome::Malformed,
        };
        let reported = ReportStamp {
            executor: user_data.rotate_left(16),
            count: user_data.rotate_left(32),
            clock: !user_data,
        };
        let completion = Completion {
            user_data,
            reported,
            outcome,
        };
        let mut bytes = vec![0xee; completion.encoded_bytes()];
        completion.encode(&mut bytes).unwrap();
        bytes
    })
}

proptest! {
    #![proptest_config(
        ProptestConfig { cases: 4 * ProptestConfig::default().cases, ..ProptestConfig::default() }
    )]

    #[test]
    fn a_frame_reads_as_it_was_written(messages in vec(sent_message(), 1..5)) {
        let frame = frame_of(&messages);
        let mut records = frame::parse(&frame, DEFAULT_ETHERTYPE).unwrap();
        let mut room = FRAME_RECORDS_MAX;
        for sent_message in &messages {
            let Some(left) = room.checked_sub(usize::from(sent_message.first.shape.records)) else {
                continue;
            };
            room = left;
            let (message, rest) = Message::split(records).unwrap();
            prop_assert_eq!(message.header, sent_message.first);
            let mut space = [0xee; FRAME_PAYLOAD_BYTES_MAX];
            prop_assert_eq!(message.copy_payload(&mut space), Some(&sent_message.payload[..]));
            records = rest;
        }
        prop_assert!(records.is_empty());
    }

    #[test]
    fn a_frame_that_parses_is_whole(bytes in arriving(frames()), has_valid_crc: bool) {
        let mut bytes = bytes;
        if has_valid_crc {
            frame::seal(&mut bytes);
        }
        if let Ok(records) = frame::parse(&bytes, DEFAULT_ETHERTYPE) {
            prop_assert_eq!(records.as_flattened(), &bytes[ETHERNET_HEADER_BYTES..]);
            prop_assert!((1..=FRAME_RECORDS_MAX).contains(&records.len()));
            prop_assert_eq!(&bytes[12..14], &DEFAULT_ETHERTYPE.to_be_bytes()[..]);
            let mut repeated = bytes.clone();
            frame::seal(&mut repeated);
            prop_assert_eq!(repeated, bytes.clone(), "there is one CRC that fits");
        }
        if let Some(source) = frame::source(&bytes) {
            prop_assert_eq!(&source[..], &bytes[6..12]);
            prop_assert!(source[0] & 1 == 0 && source != [0; 6], "no port has that address");
        }
    }

    #[test]
    fn messages_that_split_are_whole_and_encode_again(bytes in arriving(frames())) {
        let mut bytes = bytes;
        frame::seal(&mut bytes);
        let Ok(mut records) = frame::parse(&bytes, DEFAULT_ETHERTYPE) else {
            return Ok(());
        };
        while let Ok((message, rest)) = Message::split(records) {
            let own = &records[..message.records()];
            prop_assert_eq!(own.len() + rest.len(), records.len(), "each record is in one message");
            prop_assert_eq!(own.len(), usize::from(message.header.shape.records));
            let mut space = [0xee; FRAME_PAYLOAD_BYTES_MAX];
            let payload = message.copy_payload(&mut space).unwrap().to_vec();
            prop_assert_eq!(&payload, &payload_of(own));
            prop_assert_eq!(payload.len(), message.payload_bytes());
            if let Some(in_place) = message.payload_in_place() {
                prop_assert_eq!(in_place, &payload[..]);
            }
            // Encoded again by the same codec, it is the same message.
            let sent_message = SentMessage { first: message.header, payload };
            let frame = frame_of(std::slice::from_ref(&sent_message));
            let repeated = frame::parse(&frame, DEFAULT_ETHERTYPE).unwrap();
            prop_assert_eq!(Message::split(repeated).unwrap().0.header, message.header);
            for (index, (repeated, record)) in repeated.iter().zip(own).enumerate() {
                // Except for the bytes behind the payload, and the CRC.
                let start = if index == 0 { 28 } else { 8 };
                let end = if index + 1 == own.len() { start + usize::from(own[0][21]) } else { 56 };
                prop_assert_eq!(&repeated[..end], &record[..end]);
            }
            records = rest;
            if records.is_empty() {
                break;
            }
        }
    }

    #[test]
    fn any_record_reads_or_not(
        record in any::<[u8; RECORD_BYTES]>(),
        kind in 0..Kind::ALL.len(),
        place in vec(likely(), 4),
    ) {
        let mut record = record;
        prop_assert_eq!(Header::read(&record).is_ok(), reads(&record));
        // Noise rarely has a valid version, so the fields behind slice 1 are tried under a valid
        // one.
        record[20..24].copy_from_slice(&place);
        let number = |at: usize| u32::from_le_bytes(*record[at..].first_chunk().unwrap());
        let mine = covalent_protocol::wire::slice::mine(Kind::ALL[kind], number(12), number(16));
        record[..4].copy_from_slice(&mine.to_le_bytes());
        prop_assert_eq!(Header::read(&record).is_ok(), reads(&record));
    }

    #[test]
    fn a_request_that_decodes_has_one_encoding(bytes in arriving(requests())) {
        if let Ok(request) = Request::decode(&bytes) {
            prop_assert_eq!(request.check(), Ok(()));
            let mut repeated = [0xee; verb::REQUEST_BYTES_MAX];
            let len = request.encode(&mut repeated).unwrap();
            prop_assert_eq!(&repeated[..len], &bytes[..]);
        }
    }

    #[test]
    fn a_reply_that_decodes_encodes_again(bytes in arriving(replies())) {
        if let Ok(reply) = Reply::decode(&bytes) {
            let mut repeated = vec![0xee; reply.encoded_bytes()];
            prop_assert_eq!(reply.encode(&mut repeated), Ok(bytes.len()));
            prop_assert_eq!(Reply::decode(&repeated), Ok(reply));
            prop_assert_eq!(&repeated, &bytes);
            prop_assert_eq!(reply.data, &bytes[20..], "the data follows the header");
            prop_assert_eq!(reply.value().is_some(), reply.data.len() == 8);
            if let Some(region) = reply.region() {
                let bytes = region.to_bytes();
                prop_assert_eq!(&bytes[..], reply.data);
            }
        }
    }

    #[test]
    fn a_submission_that_decodes_encodes_again(bytes in arriving(submissions())) {
        if let Ok(submit) = Submit::decode(&bytes) {
            prop_assert!((1..=verb::REQUEST_BYTES_MAX).contains(&submit.request.len()));
            let mut repeated = [0xee; SUBMIT_BYTES_MAX];
            prop_assert_eq!(submit.encode(&mut repeated), Ok(bytes.len()));
            prop_assert_eq!(&repeated[..bytes.len()], &bytes[..]);
        }
    }

    #[test]
    fn a_completion_that_decodes_encodes_again(bytes in arriving(completions())) {
        if let Ok(completion) = Completion::decode(&bytes) {
            let mut repeated = [0xee; COMPLETION_BYTES_MAX];
            prop_assert_eq!(completion.encode(&mut repeated), Ok(bytes.len()));
            let mut expected = bytes.clone();
            if let CompletionOutcome::Refused(refusal) = completion.outcome {
                // A reason of a later version is read as one that this version knows.
                prop_assert_eq!(Refusal::from_byte(bytes[9]), refusal);
                expected[9] = refusal.to_byte();
            }
            prop_assert_eq!(&repeated[..bytes.len()], &expected[..]);
        }
    }
}

/// Whether a record is the first of a message by the format definition.
fn reads(record: &RecordBytes) -> bool {
    let state = record[2];
    let [last, shape, piggyback] = [record[21], record[22], record[23]];
    let (records, fragment, more) = (shape & 31, shape >> 5 & 3, shape >> 7 == 1);
    let kind = Kind::ALL.get(usize::from(state & 0x0f));
    kind.is_some_and(|kind| {
        record[0] == kind.opcode().to_byte()
            && (!matches!(kind, Kind::Init | Kind::Keepalive)
                || (piggyback, fragment, more) == (255, 0, false))
    }) && state >> 4 == covalent_protocol::wire::VERSION
        && record[1] == record[12]
        && record[3] == record[16]
        && match records {
            0 | 24.. => false,
            1 => last <= 28 && !more && (fragment == 0 || last > 0),
            _ => (1..=48).contains(&last) && (!more || records == 23 && last == 48 && fragment < 3),
        }
}
