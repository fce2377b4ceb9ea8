//! What is in a frame, as far as a simulator needs to know.

use covalent_protocol::{
    DEFAULT_ETHERTYPE,
    wire::{
        ETHERNET_HEADER_BYTES, RECORD_BYTES, frame,
        record::{self, Header},
        slice::Kind,
    },
};

/// What a frame carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Content {
    /// The epoch of its records.
    pub epoch: u32,
    /// How many there are.
    pub records: usize,
    /// It is a handshake, which needs no credit.
    pub handshake: bool,
    /// It carries a ball, which may go beyond the window.
    pub ball: bool,
}

impl Content {
    /// What `frame` carries, if it is one that a node made.
    #[must_use]
    pub fn of(frame: &[u8]) -> Option<Self> {
        let first = frame
            .get(ETHERNET_HEADER_BYTES..)?
            .first_chunk::<RECORD_BYTES>()?;
        let header = Header::read(first).ok()?;
        Some(Self {
            epoch: header.epoch,
            records: (frame.len() - ETHERNET_HEADER_BYTES) / RECORD_BYTES,
            handshake: header.kind == Kind::Init,
            ball: header.kind == Kind::Ball,
        })
    }
}

/// What is asked and answered in a frame about exchanges whose link failed, for people.
#[must_use]
pub fn resolutions(frame: &[u8]) -> Vec<String> {
    let Ok(records) = frame::parse(frame, DEFAULT_ETHERTYPE) else {
        return Vec::new();
    };
    let told = |record| {
        let header = Header::read(record)
            .ok()
            .filter(|header| header.index == 0)?;
        let payload = record::payload(record);
        let port = u16::from_le_bytes([payload[0], payload[1]]);
        let exchange = format!(
            "number {} in slot {} of its port {port}",
            header.slot_sequence, header.slot
        );
        match header.kind {
            Kind::Resolve if payload[2] == 0 => Some(format!("is asked how {exchange} ended")),
            Kind::Resolve => Some(format!(
                "is asked to commit {exchange} unless that is done, and how it ended"
            )),
            Kind::Resolved => {
                let ending = match payload[2] {
                    0 => "undone",
                    1 => "done",
                    2 => "refused",
                    _ => "forgotten",
                };
                Some(format!("learns that {exchange} is {ending}"))
            }
            _ => None,
        }
    };
    records.iter().filter_map(told).collect()
}

/// The kinds of the records in a frame, for people.
#[must_use]
pub fn describe(frame: &[u8]) -> String {
    let Ok(records) = frame::parse(frame, DEFAULT_ETHERTYPE) else {
        return "rubbish".into();
    };
    let name = |header: Header| {
        format!(
            "{:?} e{} r{} s{}:{}",
            header.kind, header.epoch, header.record_sequence, header.slot, header.slot_sequence
        )
    };
    let names: Vec<_> = records
        .iter()
        .map(|record| Header::read(record).map_or("?".into(), name))
        .collect();
    names.join(", ")
}
