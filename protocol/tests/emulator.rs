//! The transition table of the public Open Atomic Ethernet emulator for slice 0, compared with
//! slice 1 of a record here: the same registers at the same offsets, with a different state
//! machine.
//!
//! ```text
//!             mine                                yours
//!  byte       0        1          2       3       4       5       6       7
//!  table      B1       B2         B3      B4      B5      B6      B7      B8
//!  here       opcode   liveness   state   trans.  the peer's 0 to 3, reflected as they were
//! ```
//!
//! | | emulator | here |
//! |---|---|---|
//! | B1 | JAM 0, PROTOCOL 2, SLICE 0 in every state | PROTOCOL by kind, SLICE 3 in a request |
//! | B2 | code of the state | low byte of the record sequence |
//! | B3 | 1 | version and kind; a version of 0 was never given out |
//! | B4 | direction and code of the next state | low byte of the slot sequence |
//! | yours | B2 inverted, B4 with other direction bits | the peer's half, bit for bit |
#![allow(clippy::unwrap_used)]

mod support;

use covalent_protocol::{
    DEFAULT_ETHERTYPE, FRAME_BYTES_MAX, Mode,
    wire::{
        frame::FrameWriter,
        record::{Header, NO_PIGGYBACK, RecordError, Shape},
        slice::{self, Depth, Kind, Opcode, Protocol},
    },
};
use support::{A, B, Bench, headers};

/// A row of the table: a state, its message, the next state, and the next state after an error.
struct Row {
    state: &'static str,
    s1: u64,
    next: &'static str,
    on_error: Option<&'static str>,
}

const fn row(
    state: &'static str,
    s1: u64,
    next: &'static str,
    on_error: Option<&'static str>,
) -> Row {
    Row {
        state,
        s1,
        next,
        on_error,
    }
}

/// As published.
const TABLE: [Row; 9] = [
    row("S0", 0, "F1", None),
    row("F1", 0x20c3_0153_203c_0193, "F2", Some("R9")),
    row("F2", 0x203c_015a_20c3_019a, "F3", Some("R8")),
    row("F3", 0x20a5_0155_205a_0195, "F4", Some("R7")),
    row("F4", 0x205a_0150_20a5_0190, "S0", Some("R6")),
    row("R6", 0x20a5_0155_205a_01a5, "R7", None),
    row("R7", 0x205a_016c_20a5_01ac, "R8", None),
    row("R8", 0x20c3_0163_203c_01a3, "R9", None),
    row("R9", 0x203c_0160_20c3_01a0, "S0", None),
];

/// The response of the emulator to anything else.
const BREAK: u64 = 0x0f0f_0f0f_0f0f_0f0f;

/// The state whose published B4 contradicts every other row, and the correct B4.
const SLIP: (&str, u8, u8) = ("R6", 0x55, 0x65);

impl Row {
    /// B1 to B8, from index 0.
    fn bytes(&self) -> [u8; 8] {
        self.s1.to_be_bytes()
    }

    fn mine(&self) -> u32 {
        let [mine @ .., _, _, _, _] = self.bytes();
        u32::from_le_bytes(mine)
    }

    fn yours(&self) -> u32 {
        let [_, _, _, _, yours @ ..] = self.bytes();
        u32::from_le_bytes(yours)
    }

    fn is_idle(&self) -> bool {
        self.state == "S0"
    }
}

fn row_of(state: &str) -> &'static Row {
    TABLE.iter().find(|row| row.state == state).unwrap()
}

/// The rows but for the idle one, which is all zeros and follows no rule.
fn busy() -> impl Iterator<Item = &'static Row> {
    TABLE.iter().filter(|row| !row.is_idle())
}

/// One record with these halves in slice 1, in a frame with a valid CRC.
fn frame_with(s1: [u8; 8]) -> Vec<u8> {
    let mut buffer = [0; FRAME_BYTES_MAX];
    let mut writer = FrameWriter::new(&mut buffer).unwrap();
    let record = writer.next_record().unwrap();
    record.fill(0);
    record[..8].copy_from_slice(&s1);
    // The registers for the number of records of the message and for its piggybacked slot.
    record[22] = 1;
    record[23] = NO_PIGGYBACK;
    let len = writer.finish([0xff; 6], [2; 6], DEFAULT_ETHERTYPE);
    buffer[..len].to_vec()
}

#[test]
fn the_published_rows_follow_their_own_rules_but_for_one_byte() {
    let mut slips = vec![];
    for row in busy() {
        let [b1, b2, b3, b4, b5, b6, b7, b8] = row.bytes();
        assert_eq!((b5, b7), (b1, b3), "{}", row.state);
        assert_eq!((b6, b6), (!b2, b2.rotate_left(4)), "{}", row.state);
        // B4 and B8 contain the direction, and the high half of B2 of the next state.
        let next = row_of(row.next).bytes()[1] >> 4;
        let (forward, reverse) = ((0x50 | next, 0x90 | next), (0x60 | next, 0xa0 | next));
        let (rule_b4, rule_b8) = if row.state.starts_with('F') {
            forward
        } else {
            reverse
        };
        assert_eq!(b8, rule_b8, "{}", row.state);
        if b4 != rule_b4 {
            slips.push((row.state, b4, rule_b4));
        }
        // An error inverts the code: the next state is the reverse state with the opposite code.
        if let Some(on_error) = row.on_error {
            assert_eq!(row_of(on_error).bytes()[1], !b2, "{}", row.state);
        }
    }
    assert_eq!(slips, [SLIP]);
}

/// The effect of the error in the table: two states have the same own half, and only the reflection
/// distinguishes them.
#[test]
fn the_slip_makes_two_states_one_in_their_own_half() {
    let (slipping, published, right) = SLIP;
    let twin = |b4: u8| {
        let mut mine = row_of(slipping).mine().to_le_bytes();
        mine[3] = b4;
        let mine = u32::from_le_bytes(mine);
        busy()
            .filter(|row| row.state != slipping && row.mine() == mine)
            .map(|row| row.state)
            .collect::<Vec<_>>()
    };
    assert_eq!(row_of(slipping).bytes()[3], published);
    assert_eq!((twin(published), twin(right)), (vec!["F3"], vec![]));
    assert_ne!(row_of("F3").yours(), row_of(slipping).yours());
}

#[test]
fn every_row_lies_in_the_registers_of_slice_1() {
    for row in &TABLE {
        let [b1, b2, b3, b4, ..] = row.bytes();
        // Every busy row belongs to the exchange state machine, is whole and refuses nothing: a
        // reply here.
        let (opcode, kind) = if row.is_idle() {
            (Protocol::Init, Kind::Init)
        } else {
            (Protocol::StateMachine, Kind::Committed)
        };
        let opcode = Opcode {
            jam: false,
            protocol: opcode,
            depth: Depth::Complete,
        };
        assert_eq!(b1, opcode.to_byte(), "{}", row.state);
        assert_eq!(slice::liveness_of(row.mine()), b2, "{}", row.state);
        assert_eq!(slice::version_of(row.mine()), b3 >> 4, "{}", row.state);
        assert_eq!(kind.opcode().protocol, opcode.protocol);

        // The codec writes the same registers: each byte equals the row, except the byte of the
        // other state machine.
        let header = Header {
            kind,
            yours: row.yours(),
            epoch: 0,
            record_sequence: b2.into(),
            slot_sequence: b4.into(),
            slot: 0,
            piggyback: NO_PIGGYBACK,
            clock: 0,
            shape: Shape::whole(0),
        };
        let mut record = [0xee; 64];
        header.write(&[], &mut record);
        let mut expected = row.bytes();
        expected[0] = kind.opcode().to_byte();
        expected[2] = covalent_protocol::wire::VERSION << 4 | kind as u8;
        assert_eq!(record[..8], expected, "{}", row.state);
        if !row.is_idle() {
            assert_eq!(
                record[0], b1,
                "{}: nothing was put in place of it",
                row.state
            );
        }
        assert_eq!(Header::read(&record), Ok(header), "{}", row.state);
    }
}

/// The four forward rows are the four messages. Each comes from the other side and reflects the one
/// before. Nothing is owed behind the fourth. The emulator reflects a half inverted, so that a loop
/// in the cable is no reflection. Here the half is reflected unchanged, and a loop is detected by
/// the GUID.
#[test]
fn the_forward_rows_are_the_four_messages() {
    let mut bench = Bench::up(1);
    bench.submit(A, Mode::TwoPhase, &[1; 8], 1);
    let messages = [
        Kind::Tentative,
        Kind::Reflecting,
        Kind::Commit,
        Kind::Committed,
    ];
    let mut row = row_of(row_of("S0").next);
    let mut received = 0;
    for (number, kind) in messages.into_iter().enumerate() {
        assert_eq!(row.state, ["F1", "F2", "F3", "F4"][number]);
        let side = number % 2;
        bench.send(side);
        let [frame] = bench.cables[0][1 - side].make_contiguous() else {
            panic!("one frame for one message");
        };
        let (header, s1) = (headers(frame)[0], &frame[14..22]);
        assert_eq!(header.kind, kind);
        let opcode = Opcode {
            depth: Depth::Complete,
            ..kind.opcode()
        };
        assert_eq!(opcode.to_byte(), row.bytes()[0], "{}", row.state);
        assert_eq!(s1[4..], u32::to_le_bytes(received), "the halves swap");
        assert_eq!(s1[..4], header.mine().to_le_bytes());
        received = header.mine();
        bench.deliver(1 - side, 0);
        row = row_of(row.next);
    }
    assert!(row.is_idle());
    bench.send(A);
    bench.send(B);
    assert!(bench.cables[0].iter().all(|side| side.is_empty()));
}

/// A record is 64 bytes of one version. The emulator's record, which names no version, is detected
/// and has no effect, the break included.
#[test]
fn frames_of_the_emulator_are_of_another_version() {
    let mut bench = Bench::up(1);
    bench.submit(A, Mode::TwoPhase, &[1; 8], 1);
    bench.send(A);
    let mut sent = 0;
    for s1 in TABLE.iter().map(|row| row.s1).chain([BREAK]) {
        let frame = frame_with(s1.to_be_bytes());
        let record = frame[14..].first_chunk().unwrap();
        assert_eq!(Header::read(record), Err(RecordError::Version(0)));
        bench.inject(A, 0, &frame);
        sent += 1;
        let drops = bench.link(A, 0).counters.drops;
        assert_eq!((drops.version, drops.total()), (sent, sent), "{s1:016x}");
    }
    bench.assert_up();
    bench.settle();
    assert_eq!(bench.sides[A].host.completed.len(), 1);
}
