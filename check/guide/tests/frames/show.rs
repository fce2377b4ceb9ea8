//! A frame as a page shows it: eight bytes per line, and their meaning.

use std::fmt::Write;

use covalent_protocol::{
    DEFAULT_ETHERTYPE,
    wire::{
        ETHERNET_HEADER_BYTES, RECORD_BYTES, RecordBytes, frame,
        message::Message,
        record::{Header, NO_PIGGYBACK},
        slice::Kind,
    },
};

/// The frame, line by line.
pub fn text(frame: &[u8]) -> String {
    let mut out = String::new();
    let (header, _) = frame.split_at(ETHERNET_HEADER_BYTES);
    let to = if header[..6] == [0xff; 6] {
        "everybody"
    } else {
        "the peer"
    };
    line(&mut out, 0, &header[..6], &format!("to {to}"));
    line(&mut out, 6, &header[6..12], "from");
    line(&mut out, 12, &header[12..], "EtherType");
    let mut records = frame::parse(frame, DEFAULT_ETHERTYPE).unwrap();
    let mut at = ETHERNET_HEADER_BYTES;
    while let Ok((message, rest)) = Message::split(records) {
        let own = &records[..message.records()];
        for (index, record) in own.iter().enumerate() {
            let is_last = rest.is_empty() && index + 1 == own.len();
            if index == 0 {
                first(&mut out, at, &message.header, record);
            } else {
                behind(&mut out, at, record);
            }
            line(
                &mut out,
                at + 56,
                &record[56..],
                if is_last {
                    "check: CRC-64/NVME of the frame"
                } else {
                    "check: 0 but in the last record"
                },
            );
            at += RECORD_BYTES;
        }
        records = rest;
    }
    out
}

fn line(out: &mut String, at: usize, bytes: &[u8], description: &str) {
    let hex: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let hex = if hex.len() == 8 {
        format!("{}  {}", hex[..4].join(" "), hex[4..].join(" "))
    } else {
        hex.join(" ")
    };
    writeln!(out, "{at:04x}  {hex:<24}  │ {description}").unwrap();
}

fn u32_at(record: &RecordBytes, at: usize) -> u32 {
    u32::from_le_bytes(*record[at..].first_chunk().unwrap())
}

fn u64_at(record: &RecordBytes, at: usize) -> u64 {
    u64::from_le_bytes(*record[at..].first_chunk().unwrap())
}

/// The first record of a message.
fn first(out: &mut String, at: usize, header: &Header, record: &RecordBytes) {
    let kind = header.kind;
    let yours = if header.yours == 0 {
        "yours: nothing received".to_owned()
    } else {
        let [opcode, liveness, state, transition] = header.yours.to_le_bytes();
        format!("yours: {opcode:02x} {liveness:02x} {state:02x} {transition:02x} was received last")
    };
    line(out, at, &record[..8], &format!("mine: {kind:?}; {yours}"));
    let epoch = if kind == Kind::Init {
        "epoch proposed"
    } else {
        "epoch"
    };
    line(
        out,
        at + 8,
        &record[8..16],
        &format!(
            "{epoch} {}; record sequence {}",
            header.epoch, header.record_sequence
        ),
    );
    let piggyback = if header.piggyback == NO_PIGGYBACK {
        "no piggyback".to_owned()
    } else {
        format!("piggyback {}", header.piggyback)
    };
    let shape = header.shape;
    line(
        out,
        at + 16,
        &record[16..24],
        &format!(
            "slot sequence {}; slot {}, {} bytes in the last of {} record{}, {piggyback}",
            header.slot_sequence,
            header.slot,
            shape.last_bytes,
            shape.records,
            if shape.records == 1 { "" } else { "s" }
        ),
    );
    for (index, description) in payload(header, record).into_iter().enumerate() {
        let from = 24 + 8 * index;
        let description = if index == 0 {
            format!("clock {}; {description}", header.clock)
        } else {
            description
        };
        line(out, at + from, &record[from..from + 8], &description);
    }
}

/// Describes the payload of a first record: its first 4 bytes, and three groups of 8 more.
fn payload(header: &Header, record: &RecordBytes) -> [String; 4] {
    match header.kind {
        Kind::Init => [
            format!("GUID {:016x},", u64_at(record, 28)),
            format!("its high half; incarnation {:#x},", u64_at(record, 36)),
            "its high half; incarnation received,".to_owned(),
            format!(
                "its high half ({:#x}); epoch received {}",
                u64_at(record, 44),
                u32_at(record, 52)
            ),
        ],
        Kind::Keepalive => [
            format!(
                "flags {}, grant {}, port {}",
                record[28],
                record[29],
                u32_at(record, 28) >> 16
            ),
            format!("GUID {:016x}", u64_at(record, 32)),
            format!("incarnation {:#x}", u64_at(record, 40)),
            format!(
                "era {}; window {}, slots {}, mark of the name",
                u32_at(record, 48),
                record[52],
                record[53]
            ),
        ],
        Kind::Tentative | Kind::Request => [
            format!(
                "op {} (fetch-add), flags {}, count {}",
                record[28],
                record[29],
                u32_at(record, 28) >> 16
            ),
            format!(
                "key {:#x}; offset {}",
                u32_at(record, 32),
                u32_at(record, 36)
            ),
            format!("operand {}", u64_at(record, 40)),
            "behind the payload: 0".to_owned(),
        ],
        Kind::Committed => [
            format!(
                "status {}, 0, index {}",
                record[28],
                u32_at(record, 28) >> 16
            ),
            format!("execution {} of its node", u64_at(record, 32)),
            format!("at clock {}", u64_at(record, 40)),
            format!("the word was {}", u64_at(record, 48)),
        ],
        Kind::Refused => [
            format!("reason {} (unknown region)", record[28]),
            "behind the payload: 0".to_owned(),
            "0".to_owned(),
            "0".to_owned(),
        ],
        Kind::Resolve => [
            format!(
                "port {}, commit {}, 0",
                u32_at(record, 28) & 0xffff,
                record[30]
            ),
            format!(
                "epoch {} of the failed link; behind the payload: 0",
                u32_at(record, 32)
            ),
            "0".to_owned(),
            "0".to_owned(),
        ],
        Kind::Resolved => [
            format!(
                "port {}, ending {} (committed), refusal {}",
                u32_at(record, 28) & 0xffff,
                record[30],
                record[31]
            ),
            format!(
                "the slot stands at {}; reply: status {}, 0, index 0",
                u32_at(record, 32),
                record[36]
            ),
            format!("execution {} of its node", u64_at(record, 40)),
            format!("at clock {}", u64_at(record, 48)),
        ],
        _ => [
            "no payload".to_owned(),
            "0".to_owned(),
            "0".to_owned(),
            "0".to_owned(),
        ],
    }
}

/// A record behind the first: of a handshake, or the rest of an answer.
fn behind(out: &mut String, at: usize, record: &RecordBytes) {
    let mine = u32_at(record, 0);
    let is_init = mine.to_le_bytes()[2] & 0x0f == Kind::Init as u8;
    line(
        out,
        at,
        &record[..8],
        "mine and yours, as before but for the liveness byte",
    );
    if is_init {
        let flags = match record[11] & 3 {
            0b11 => "received, asks",
            0b10 => "asks",
            _ => "received",
        };
        line(
            out,
            at + 8,
            &record[8..16],
            &format!(
                "port {}, slots {}, flags {} ({flags}); window {}, grant {}, old {}",
                u32_at(record, 8) & 0xffff,
                record[10],
                record[11],
                u32_at(record, 12) & 0xffff,
                record[14],
                record[15]
            ),
        );
        line(
            out,
            at + 16,
            &record[16..24],
            &format!("0; name `{}`", char::from(record[20])),
        );
    } else {
        line(
            out,
            at + 8,
            &record[8..16],
            &format!("the word was {}", u64_at(record, 8)),
        );
        line(out, at + 16, &record[16..24], "behind the payload: 0");
    }
    for from in [24, 32, 40, 48] {
        line(out, at + from, &record[from..from + 8], "0");
    }
}
