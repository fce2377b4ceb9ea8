//! Contents of a frame, as far as a simulator needs them.

use covalent_protocol::{
    DEFAULT_ETHERTYPE,
    wire::{
        ETHERNET_HEADER_BYTES, RECORD_BYTES, RecordBytes, frame,
        message::Message,
        record::{Header, NO_PIGGYBACK},
        slice::Kind,
    },
};

use crate::payload;

/// Contents of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Content {
    /// The epoch of its records.
    pub epoch: u32,
    /// How many there are.
    pub records: usize,
    /// It is a handshake, which needs no credit.
    pub handshake: bool,
    /// Number of trailing records that are keepalives, which may use credit that messages may not.
    pub keepalives: usize,
}

impl Content {
    /// Returns the contents of `frame`, if a node made it.
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
            keepalives: frame[ETHERNET_HEADER_BYTES..]
                .rchunks_exact(RECORD_BYTES)
                .take_while(|record| is_keepalive(record))
                .count(),
        })
    }
}

fn is_keepalive(record: &[u8]) -> bool {
    record
        .first_chunk()
        .and_then(|record| Header::read(record).ok())
        .is_some_and(|header| header.kind == Kind::Keepalive)
}

/// Returns the number of records that the sender of a handshake has space for.
#[must_use]
pub fn window_records(frame: &[u8]) -> Option<u16> {
    let message = messages(frame).next()??;
    if message.header.kind != Kind::Init {
        return None;
    }
    let mut space = vec![0; message.payload_bytes()];
    let payload = message.copy_payload(&mut space)?;
    Some(u16::from_le_bytes(*payload.get(32..)?.first_chunk()?))
}

/// Returns the incarnation that the sender of a handshake echoes.
#[must_use]
pub fn echo(frame: &[u8]) -> Option<u64> {
    let message = messages(frame).next()??;
    if message.header.kind != Kind::Init {
        return None;
    }
    let mut space = vec![0; message.payload_bytes()];
    let payload = message.copy_payload(&mut space)?;
    Some(u64::from_le_bytes(*payload.get(16..)?.first_chunk()?))
}

/// The tokens of the requests that a frame carries the beginning of.
pub fn requested(frame: &[u8]) -> impl Iterator<Item = u64> {
    messages(frame).filter_map(|message| {
        let message = message?;
        let header = &message.header;
        if !matches!(header.kind, Kind::Request | Kind::Tentative) || header.shape.fragment > 0 {
            return None;
        }
        let mut space = vec![0; message.payload_bytes()];
        payload::token_of(message.copy_payload(&mut space)?)
    })
}

/// Describes the queries and replies in a frame about exchanges of a failed link, for display.
#[must_use]
pub fn resolutions(frame: &[u8]) -> Vec<String> {
    messages(frame)
        .filter_map(|message| resolution(&message?))
        .collect()
}

fn resolution(message: &Message<'_>) -> Option<String> {
    let header = &message.header;
    if !matches!(header.kind, Kind::Resolve | Kind::Resolved) || header.shape.fragment > 0 {
        return None;
    }
    let mut space = vec![0; message.payload_bytes()];
    let payload = message.copy_payload(&mut space)?;
    let (&[low, high, what], _) = payload.split_first_chunk()?;
    let exchange = format!(
        "number {} in slot {} of its port {}",
        header.slot_sequence,
        header.slot,
        u16::from_le_bytes([low, high])
    );
    Some(match (header.kind, what) {
        (Kind::Resolve, 0) => format!("is queried for the outcome of {exchange}"),
        (Kind::Resolve, _) => {
            format!("is requested to commit {exchange} unless done, and queried for its outcome")
        }
        (_, 0) => format!("learns that {exchange} is undone"),
        (_, 1) => format!("learns that {exchange} is done"),
        (_, 2) => format!("learns that {exchange} is refused"),
        _ => format!("learns that {exchange} is forgotten"),
    })
}

/// The messages in a frame, for people.
#[must_use]
pub fn describe(frame: &[u8]) -> String {
    let names: Vec<_> = messages(frame)
        .map(|message| message.map_or("rubbish".into(), |message| name(&message.header)))
        .collect();
    names.join(", ")
}

fn name(header: &Header) -> String {
    let mut name = format!(
        "{:?} e{} r{} s{}:{}",
        header.kind, header.epoch, header.record_sequence, header.slot, header.slot_sequence
    );
    if !header.shape.is_whole() {
        name += &format!(" part {}", header.shape.fragment);
    }
    if header.piggyback != NO_PIGGYBACK {
        name += &format!(" with s{}", header.piggyback);
    }
    name
}

/// Returns the messages in a frame; `None` for bytes that are no message.
fn messages(frame: &[u8]) -> impl Iterator<Item = Option<Message<'_>>> {
    let mut rest: Option<&[RecordBytes]> = frame::parse(frame, DEFAULT_ETHERTYPE).ok();
    let mut broken = rest.is_none();
    std::iter::from_fn(move || {
        if std::mem::take(&mut broken) {
            return Some(None);
        }
        let records = rest.filter(|records| !records.is_empty())?;
        let (message, behind) = match Message::split(records) {
            Ok((message, behind)) => (Some(message), Some(behind)),
            Err(_) => (None, None),
        };
        rest = behind;
        Some(message)
    })
}
