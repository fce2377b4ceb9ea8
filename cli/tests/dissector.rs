//! The Wireshark dissector, run by `tshark` on captures of simulated meshes: it decodes every
//! record as the codec does.
#![allow(clippy::unwrap_used)]

mod wireshark;

use std::{
    borrow::Cow,
    fs::File,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use covalent_protocol::{
    DEFAULT_ETHERTYPE,
    channel::note::PassHead,
    verb::{Reply, Request},
    wire::{frame, message::Message, record::Header, slice::Kind},
};
use pcap_file::{
    DataLink,
    pcap::{PcapPacket, PcapWriter},
    pcapng::{Block, PcapNgReader},
};
use wireshark::{has_tshark, tshark_fields};

/// The frames of a simulated run, in the order in which they were sent.
fn simulate(directory: &Path, args: &[&str]) -> (PathBuf, Vec<Vec<u8>>) {
    let path = directory.join("run.pcapng");
    let output = Command::new(env!("CARGO_BIN_EXE_covalent"))
        .args(["sim", "mesh", "--capture"])
        .arg(&path)
        .args(args)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let mut reader = PcapNgReader::new(File::open(&path).unwrap()).unwrap();
    let mut frames = Vec::new();
    while let Some(block) = reader.next_block() {
        if let Block::EnhancedPacket(packet) = block.unwrap() {
            frames.push(packet.data.into_owned());
        }
    }
    (path, frames)
}

fn write(path: &Path, frames: &[Vec<u8>]) {
    let header = pcap_file::pcap::PcapHeader {
        datalink: DataLink::ETHERNET,
        ..Default::default()
    };
    let mut writer = PcapWriter::with_header(File::create(path).unwrap(), header).unwrap();
    for (at, frame) in (0..).zip(frames) {
        let packet = PcapPacket {
            timestamp: Duration::from_micros(at),
            orig_len: frame.len() as u32,
            data: Cow::Borrowed(frame),
        };
        writer.write_packet(&packet).unwrap();
    }
}

/// The codec's view of a frame: its headers, each followed by those of the path frames that it
/// carries, and the verbs and statuses of whole messages.
#[derive(Default)]
struct Parsed {
    headers: Vec<Header>,
    verbs: Vec<String>,
    statuses: Vec<String>,
}

impl Parsed {
    fn of(bytes: &[u8]) -> Self {
        let mut parsed = Self::default();
        parsed.add(frame::parse(bytes, DEFAULT_ETHERTYPE).unwrap());
        parsed
    }

    fn add(&mut self, mut records: &[[u8; 64]]) {
        while !records.is_empty() {
            let (message, rest) = Message::split(records).unwrap();
            records = rest;
            self.headers.push(message.header);
            let mut space = [0; 2048];
            let payload = message.copy_payload(&mut space).unwrap();
            match message.header.kind {
                _ if !message.header.shape.is_whole() => {}
                Kind::Pass => {
                    let (_, inner) = PassHead::split(payload).unwrap();
                    self.add(inner.as_chunks().0);
                }
                Kind::Request | Kind::Tentative => {
                    // A simulated mesh has requests of its own, some of which look like verbs.
                    if let Ok(request) = Request::decode(payload) {
                        self.verbs.push(request.verb.kind().as_str().to_owned());
                    }
                }
                Kind::Reflecting | Kind::Committed if !payload.is_empty() => {
                    if let Ok(reply) = Reply::decode(payload) {
                        let status = format!("{:?}", reply.status).to_lowercase();
                        self.statuses.push(status);
                    }
                }
                _ => {}
            }
        }
    }
}

/// Over several hops, with cut cables and crashed nodes, so that every kind of record occurs.
#[test]
fn tshark_decodes_every_record_as_the_codec_does() {
    if !has_tshark() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let mut kinds = [0; Kind::ALL.len()];
    let mut reflected = 0;
    for args in [
        [
            "--shape", "chords:1", "--nodes", "6", "--load", "far", "--churn", "8",
        ],
        [
            "--shape", "ring", "--nodes", "3", "--load", "verbs", "--churn", "12",
        ],
    ] {
        let (path, frames) = simulate(directory.path(), &args);
        let decoded = tshark_fields(
            &path,
            [
                "covalent.kind",
                "covalent.epoch",
                "covalent.slot_sequence",
                "covalent.check",
                "covalent.reflected",
                "covalent.verb",
                "covalent.result",
                "covalent.answers",
            ],
        );
        assert_eq!(decoded.len(), frames.len());
        let mut answers = 0;
        for (number, (decoded, frame)) in decoded.iter().zip(&frames).enumerate() {
            let parsed = Parsed::of(frame);
            let [
                kind,
                epoch,
                slot_sequence,
                check,
                reflections,
                verb,
                result,
                answer,
            ] = decoded;
            let of = |field: fn(&Header) -> u32| -> Vec<String> {
                parsed
                    .headers
                    .iter()
                    .map(|h| field(h).to_string())
                    .collect()
            };
            let context = format!("frame {} of {args:?}: {decoded:?}", number + 1);
            assert_eq!(kind, &of(|header| header.kind as u32), "{context}");
            assert_eq!(epoch, &of(|header| header.epoch), "{context}");
            let is_decoded = |sequence: &String| slot_sequence.contains(sequence);
            assert!(
                of(|header| header.slot_sequence).iter().all(is_decoded),
                "{context}"
            );
            assert!(check.iter().all(|check| check == "good"), "{context}");
            assert!(!check.is_empty(), "{context}");
            assert!(
                parsed.verbs.iter().all(|parsed| verb.contains(parsed)),
                "{context}"
            );
            assert!(
                parsed.statuses.iter().all(|parsed| result.contains(parsed)),
                "{context}"
            );
            assert!(
                !reflections.iter().any(|what| what == "mismatch"),
                "{context}"
            );
            reflected += reflections.iter().filter(|what| *what == "matches").count();
            answers += answer.len();
            for header in &parsed.headers {
                kinds[header.kind as usize] += 1;
            }
        }
        assert!(
            answers > 100,
            "{answers} answers were led back to their requests"
        );
    }
    let missing: Vec<Kind> = (Kind::ALL.into_iter())
        .filter(|kind| kinds[*kind as usize] == 0)
        .collect();
    // No node queries a neighbor while there are paths, and a simulated mesh requests no two-phase
    // verbs.
    let rare = [
        Kind::Tentative,
        Kind::Commit,
        Kind::Committed,
        Kind::Relay,
        Kind::Relayed,
    ];
    assert!(
        missing.iter().all(|kind| rare.contains(kind)),
        "{missing:?}"
    );
    assert!(reflected > 1000, "{reflected} reflections were looked up");
}

#[test]
fn forged_frames_are_marked() {
    if !has_tshark() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let args = [
        "--nodes", "3", "--shape", "ring", "--faults", "flap", "--churn", "20",
    ];
    let (_, mut frames) = simulate(directory.path(), &args);
    assert!(frames.len() > 400, "{}", frames.len());
    frames.truncate(400);
    let is_keepalive = |frame: &Vec<u8>| Parsed::of(frame).headers[0].kind != Kind::Init;
    let late: Vec<usize> = (200..frames.len())
        .filter(|&at| is_keepalive(&frames[at]))
        .collect();
    let (flipped, altered, foreign) = (late[3], late[40], late[80]);
    frames[flipped][30] ^= 4;
    // The transition byte of the reflection: no peer sent that record with another sequence of its
    // slot.
    frames[altered][14 + 7] ^= 0x55;
    frame::seal(&mut frames[altered]);
    frames[foreign][14 + 2] ^= 0x30;
    frame::seal(&mut frames[foreign]);
    let path = directory.path().join("forged.pcap");
    write(&path, &frames);
    let decoded = tshark_fields(
        &path,
        [
            "covalent.check",
            "covalent.reflected",
            "covalent.malformed",
            "_ws.col.Info",
        ],
    );
    for (at, [check, reflected, malformed, info]) in decoded.iter().enumerate() {
        let context = format!("frame {}: {info:?}", at + 1);
        assert_eq!(
            check.iter().any(|check| check == "bad"),
            at == flipped,
            "{context}"
        );
        assert_eq!(
            reflected.iter().any(|what| what == "mismatch"),
            at == altered,
            "{context}"
        );
        assert_eq!(!malformed.is_empty(), at == foreign, "{context}");
    }
    assert!(
        decoded[altered][3][0].contains("reflected mismatch"),
        "{:?}",
        decoded[altered]
    );
    assert!(
        decoded[flipped][3][0].contains("bad check"),
        "{:?}",
        decoded[flipped]
    );
}
