//! Frames in flight.

use std::{
    fmt,
    hash::{Hash, Hasher},
    ops::Range,
    sync::Arc,
};

use covalent_protocol::wire::{
    ETHERNET_HEADER_BYTES, RECORD_BYTES, RecordBytes, frame,
    record::{self, Header},
    slice::Kind,
};

/// Where the clock of the sender lies in the first record of a message.
const CLOCK: Range<usize> = 24..28;
/// Endings in the third byte of an answer.
const UNDONE: u8 = 0;
const NEVER_SEEN: u8 = 4;
/// Where the check lies in every record.
const CRC_AT: usize = 56;
/// Where a record has its epoch.
const EPOCH_AT: usize = 8;
/// Offsets in the first record of a handshake: its sender, and the incarnation and the proposal
/// that it echoes.
const GUID_AT: usize = 28;
const ECHO_AT: usize = 44;
const ECHO_EPOCH_AT: usize = 52;
/// Where it has its flags, in the second one, and the flag that it echoes anything.
const FLAGS_AT: usize = 11;
const ECHO: u8 = 1;

/// The outcome of an exchange that a frame reports.
#[derive(Debug, Clone, Copy)]
pub struct ReportedOutcome {
    /// The port that its initiator started it on.
    pub port: u16,
    /// Its slot there.
    pub slot: u8,
    /// The sequence that the slot stands at: its own, if it is undone.
    pub sequence: u32,
    /// It was not executed and never will be.
    pub is_undone: bool,
}

/// The sender of a handshake, its proposal, and its echo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Handshake {
    /// The sender.
    pub guid: u64,
    /// The epoch that it proposes.
    pub epoch: u32,
    /// The incarnation and the proposal that it echoes.
    pub echo: Option<(u64, u32)>,
}

/// A frame in flight.
#[derive(Clone, PartialEq, Eq)]
pub struct Frame(Arc<[u8]>);

impl Frame {
    /// A frame of these bytes.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }

    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn records(&self) -> &[RecordBytes] {
        self.0[ETHERNET_HEADER_BYTES..].as_chunks().0
    }

    /// Returns the header of each message, and the index of its first record.
    pub fn messages(&self) -> impl Iterator<Item = (usize, Header)> {
        let mut at = 0;
        std::iter::from_fn(move || {
            let header = Header::read(self.records().get(at)?).ok()?;
            let first = at;
            at += usize::from(header.shape.records);
            Some((first, header))
        })
    }

    /// Returns the replies to queries in the frame. A relayed reply does not name the slot, which
    /// is taken to be 0.
    pub fn endings(&self) -> impl Iterator<Item = ReportedOutcome> {
        self.messages().filter_map(|(at, header)| {
            let slot = match header.kind {
                Kind::Resolved => header.slot,
                Kind::Relayed => 0,
                _ => return None,
            };
            let payload = record::payload(&self.records()[at]);
            Some(ReportedOutcome {
                port: u16::from_le_bytes([payload[0], payload[1]]),
                slot,
                sequence: u32::from_le_bytes(*payload[4..].first_chunk()?),
                is_undone: matches!(payload[2], UNDONE | NEVER_SEEN),
            })
        })
    }

    /// Returns the frame with the contents of each handshake replaced by the result of `change`.
    #[must_use]
    pub fn with_handshake(&self, change: impl Fn(Handshake) -> Handshake) -> Self {
        self.changed(|header, records| match records {
            [first, second, ..] if header.kind == Kind::Init => {
                let long = |at: usize| first[at..].first_chunk().map(|it| u64::from_le_bytes(*it));
                let proposal = u32::from_le_bytes([
                    first[ECHO_EPOCH_AT],
                    first[ECHO_EPOCH_AT + 1],
                    first[ECHO_EPOCH_AT + 2],
                    first[ECHO_EPOCH_AT + 3],
                ]);
                let echoes = second[FLAGS_AT] & ECHO != 0;
                let before = Handshake {
                    guid: long(GUID_AT).unwrap_or(0),
                    epoch: header.epoch,
                    echo: long(ECHO_AT)
                        .map(|incarnation| (incarnation, proposal))
                        .filter(|_| echoes),
                };
                let modified = change(before);
                let (incarnation, proposal) = modified.echo.unwrap_or_default();
                first[EPOCH_AT..EPOCH_AT + 4].copy_from_slice(&modified.epoch.to_le_bytes());
                first[GUID_AT..GUID_AT + 8].copy_from_slice(&modified.guid.to_le_bytes());
                first[ECHO_AT..ECHO_AT + 8].copy_from_slice(&incarnation.to_le_bytes());
                first[ECHO_EPOCH_AT..ECHO_EPOCH_AT + 4].copy_from_slice(&proposal.to_le_bytes());
                second[FLAGS_AT] =
                    second[FLAGS_AT] & !ECHO | if modified.echo.is_some() { ECHO } else { 0 };
                modified != before
            }
            _ => false,
        })
    }

    /// Returns the frame with the epoch of each record replaced, except in handshakes.
    #[must_use]
    pub fn in_epoch(&self, epoch: u32) -> Self {
        self.changed(|header, records| {
            records[0][EPOCH_AT..EPOCH_AT + 4].copy_from_slice(&epoch.to_le_bytes());
            header.kind != Kind::Init && header.epoch != epoch
        })
    }

    /// Returns the frame with the records of each message changed by `change`, which returns
    /// whether it changed them.
    #[must_use]
    pub fn changed(&self, mut change: impl FnMut(&Header, &mut [RecordBytes]) -> bool) -> Self {
        let mut bytes = self.0.to_vec();
        let (records, _) = bytes[ETHERNET_HEADER_BYTES..].as_chunks_mut::<RECORD_BYTES>();
        let mut changed = false;
        for (at, header) in self.messages() {
            let of_message = at..at + usize::from(header.shape.records);
            changed |= change(&header, &mut records[of_message]);
        }
        if !changed {
            return self.clone();
        }
        frame::seal(&mut bytes);
        Self(bytes.into())
    }
}

/// Excludes the clocks of the senders, which decide nothing and never end, and the CRCs, which
/// follow from the rest.
impl Hash for Frame {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0[..ETHERNET_HEADER_BYTES].hash(state);
        let mut firsts = self.messages().map(|(at, _)| at).peekable();
        for (at, record) in self.records().iter().enumerate() {
            if firsts.next_if_eq(&at).is_some() {
                record[..CLOCK.start].hash(state);
                record[CLOCK.end..CRC_AT].hash(state);
            } else {
                record[..CRC_AT].hash(state);
            }
        }
    }
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers = self.messages().map(|(_, header)| header);
        f.debug_list().entries(headers).finish()
    }
}
