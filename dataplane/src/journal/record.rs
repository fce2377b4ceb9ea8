//! The records of a journal.
//!
//! ```text
//!  0  magic       u32
//!  4  kind        u8, then three zero bytes
//!  8  length      u32, of the whole record, a multiple of 8; then four zero bytes
//! 16  generation  u64, of the file
//! 24  LSN         u64
//! 32  body        padded with zeros to a multiple of 8
//! ..  CRC-64/NVME of everything before it
//! ```
//! All numbers are little-endian.

/// Longest record, in bytes.
pub const RECORD_BYTES_MAX: usize = 16 * 1024;
/// Longest reply that a record keeps, in bytes.
pub const REPLY_BYTES_MAX: usize = 4096;
/// Longest name of a region, in bytes: a user's number and a name of the node's.
pub const NAME_BYTES_MAX: usize = covalent_protocol::verb::LOOKUP_NAME_BYTES_MAX + 11;
/// Most bytes of a region in one record of a snapshot.
pub const PIECE_BYTES_MAX: usize = 4096;

const MAGIC: u32 = u32::from_le_bytes(*b"CvJ1");
const HEADER_BYTES: usize = 32;
const CRC_BYTES: usize = 8;
const RECORD_BYTES_MIN: usize = HEADER_BYTES + CRC_BYTES;
/// Longest record of [`Body::Region`], in bytes: a key, a size, a length and a name.
pub const REGION_RECORD_BYTES_MAX: usize =
    HEADER_BYTES + (8 + 8 + 1 + NAME_BYTES_MAX).next_multiple_of(8) + CRC_BYTES;
/// Overhead of a [`Body::Piece`] record in addition to its data: a key, an offset, a length.
pub(super) const PIECE_OVERHEAD_BYTES: usize = HEADER_BYTES + 8 + 8 + 8 + CRC_BYTES;

const COMMIT: u8 = 1;
const REGION: u8 = 2;
const FORGET: u8 = 3;
const PIECE: u8 = 4;
const LATCH: u8 = 5;
const SNAPSHOT_END: u8 = 6;

const HAS_EXCHANGE: u8 = 1;
const TWO_PHASE: u8 = 2;

/// Number of a record in the journal: 1 for the first, increasing by one across files and restarts.
/// 0: none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Lsn(pub u64);

/// Permanent number of a region in the journal. Numbers are never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegionKey(pub u64);

/// Which exchange a peer knows a commit by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Exchange {
    /// GUID of the node that started it.
    pub initiator: u64,
    /// Incarnation of the initiator when it started the exchange.
    pub incarnation: u64,
    /// Epoch of the link that carried it.
    pub epoch: u32,
    /// Its sequence in its slot.
    pub sequence: u32,
    /// The initiator's port.
    pub port: u16,
    /// Slot of that port.
    pub slot: u8,
    /// Whether the answer is message 4 and not message 2.
    pub two_phase: bool,
}

/// A slot of a port of a node: there the outcome of its last exchange is latched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LatchKey {
    /// GUID of the initiator.
    pub initiator: u64,
    /// The initiator's port.
    pub port: u16,
    /// Slot of that port.
    pub slot: u8,
}

impl Exchange {
    /// Where its outcome is latched.
    #[must_use]
    pub const fn latch(&self) -> LatchKey {
        LatchKey {
            initiator: self.initiator,
            port: self.port,
            slot: self.slot,
        }
    }
}

/// Bytes of a region after a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Redo<'a> {
    /// Where in the region, in bytes.
    pub offset: u64,
    /// The new bytes.
    pub bytes: &'a [u8],
}

/// The content of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body<'a> {
    /// A verb was executed.
    Commit {
        /// On which region.
        region: RegionKey,
        /// The remote exchange; `None` for an application of this node.
        exchange: Option<Exchange>,
        /// The changes, in order.
        redo: Redos<'a>,
        /// The reply, up to [`REPLY_BYTES_MAX`] bytes.
        reply: &'a [u8],
    },
    /// A region exists. A repeated record for a known region changes nothing.
    Region {
        /// Its key.
        key: RegionKey,
        /// Its size in bytes; new bytes are zero.
        size_bytes: u64,
        /// Its name, 1 to [`NAME_BYTES_MAX`] bytes.
        name: &'a str,
    },
    /// A region exists no more.
    Forget(RegionKey),
    /// A part of a region, for a snapshot.
    Piece {
        /// Of which region.
        region: RegionKey,
        /// Offset and bytes of the part.
        piece: Redo<'a>,
    },
    /// A latched outcome, for a snapshot.
    Latch {
        /// The exchange.
        exchange: Exchange,
        /// The reply.
        reply: &'a [u8],
    },
    /// Everything of the snapshot lies before this record.
    SnapshotEnd,
}

/// Some [`Redo`]s: given as a slice, or as they lie in a record.
#[derive(Debug, Clone, Copy)]
pub struct Redos<'a>(Form<'a>);

#[derive(Debug, Clone, Copy)]
enum Form<'a> {
    Slice(&'a [Redo<'a>]),
    Encoded(&'a [u8]),
}

impl<'a> Redos<'a> {
    /// Of a slice.
    #[must_use]
    pub const fn new(redo: &'a [Redo<'a>]) -> Self {
        Self(Form::Slice(redo))
    }

    /// Returns all changes in order.
    pub fn iter(&self) -> impl Iterator<Item = Redo<'a>> {
        let (slice, encoded) = match self.0 {
            Form::Slice(slice) => (slice, &[][..]),
            Form::Encoded(encoded) => (&[][..], encoded),
        };
        let mut take = Take(encoded);
        // The encoded form was decoded once before, so decoding ends at the end of the bytes.
        slice
            .iter()
            .copied()
            .chain(std::iter::from_fn(move || take.redo().ok()))
    }
}

impl PartialEq for Redos<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Redos<'_> {}

/// A record that was read and is whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Record<'a> {
    /// Generation of the file that it was written to.
    pub generation: u64,
    /// Its number.
    pub lsn: Lsn,
    /// The content.
    pub body: Body<'a>,
    /// How long it is, in bytes.
    pub bytes: usize,
}

/// The record would be longer than [`RECORD_BYTES_MAX`], or a part of it longer than may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooLong;

/// Why bytes are no record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadRecord {
    /// It does not begin like one.
    #[error("it does not begin as a record does")]
    Magic,
    /// Its length cannot be.
    #[error("its length of {0} bytes is invalid")]
    Length(u32),
    /// It was changed.
    #[error("its CRC does not match")]
    Crc,
    /// Nothing like it is known.
    #[error("its kind {0} is unknown")]
    Kind(u8),
    /// The content is invalid.
    #[error("its {0}")]
    Body(&'static str),
}

/// Writes a record to the beginning of `space` and returns its length.
///
/// # Errors
/// [`TooLong`]; `space` may have changed then.
pub(super) fn encode(
    body: &Body<'_>,
    generation: u64,
    lsn: Lsn,
    space: &mut [u8; RECORD_BYTES_MAX],
) -> Result<usize, TooLong> {
    let mut put = Put { space, at: 0 };
    put.bytes(&MAGIC.to_le_bytes())?;
    put.bytes(&[kind(body), 0, 0, 0])?;
    put.bytes(&[0; 8])?; // The length follows.
    put.bytes(&generation.to_le_bytes())?;
    put.bytes(&lsn.0.to_le_bytes())?;
    put.body(body)?;
    let covered_bytes = put.at;
    let length = covered_bytes + CRC_BYTES;
    if length > RECORD_BYTES_MAX {
        return Err(TooLong);
    }
    space[8..12].copy_from_slice(&(length as u32).to_le_bytes());
    let crc = crc_fast::crc64_nvme(&space[..covered_bytes]);
    space[covered_bytes..length].copy_from_slice(&crc.to_le_bytes());
    Ok(length)
}

/// Reads the record at the beginning of `bytes`. Never panics.
///
/// # Errors
/// Why there is none.
pub(super) fn decode(bytes: &[u8]) -> Result<Record<'_>, BadRecord> {
    let mut take = Take(bytes);
    if take.u32() != Ok(MAGIC) {
        return Err(BadRecord::Magic);
    }
    let kind = take.array::<4>().map_err(|_| BadRecord::Magic)?;
    let length = take.u32().map_err(|_| BadRecord::Magic)?;
    let whole = usize::try_from(length)
        .ok()
        .filter(|length| {
            length.is_multiple_of(8) && (RECORD_BYTES_MIN..=RECORD_BYTES_MAX).contains(length)
        })
        .and_then(|length| bytes.get(..length))
        .ok_or(BadRecord::Length(length))?;
    let (covered, crc) = whole
        .split_last_chunk::<CRC_BYTES>()
        .ok_or(BadRecord::Length(length))?;
    if crc_fast::crc64_nvme(covered).to_le_bytes() != *crc {
        return Err(BadRecord::Crc);
    }
    let mut take = Take(&covered[12..]);
    let reserved = take.u32()?;
    let (generation, lsn) = (take.u64()?, Lsn(take.u64()?));
    let [kind, 0, 0, 0] = kind else {
        return Err(BadRecord::Kind(kind[0]));
    };
    if reserved != 0 {
        return Err(BadRecord::Body("reserved bytes are not zero"));
    }
    let body = take.body(kind)?;
    if !take.0.is_empty() {
        return Err(BadRecord::Body("body is longer than its fields"));
    }
    Ok(Record {
        generation,
        lsn,
        body,
        bytes: whole.len(),
    })
}

const fn kind(body: &Body<'_>) -> u8 {
    match body {
        Body::Commit { .. } => COMMIT,
        Body::Region { .. } => REGION,
        Body::Forget(_) => FORGET,
        Body::Piece { .. } => PIECE,
        Body::Latch { .. } => LATCH,
        Body::SnapshotEnd => SNAPSHOT_END,
    }
}

/// Writes one thing after the other.
struct Put<'a> {
    space: &'a mut [u8; RECORD_BYTES_MAX],
    at: usize,
}

impl Put<'_> {
    fn bytes(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        let end = self.at + bytes.len();
        self.space
            .get_mut(self.at..end)
            .ok_or(TooLong)?
            .copy_from_slice(bytes);
        self.at = end;
        Ok(())
    }

    /// `bytes`, then zeros up to the next multiple of 8.
    fn padded(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        self.bytes(bytes)?;
        let gap = self.at.next_multiple_of(8) - self.at;
        self.bytes(&[0; 8][..gap])
    }

    fn body(&mut self, body: &Body<'_>) -> Result<(), TooLong> {
        match *body {
            Body::Commit {
                region,
                exchange,
                redo,
                reply,
            } => {
                self.bytes(&region.0.to_le_bytes())?;
                self.exchange(exchange)?;
                let count_at = self.at;
                self.bytes(&[0; 2])?;
                self.reply_length(reply)?;
                let mut count: u16 = 0;
                for redo in redo.iter() {
                    self.redo(redo)?;
                    count = count.checked_add(1).ok_or(TooLong)?;
                }
                self.space[count_at..count_at + 2].copy_from_slice(&count.to_le_bytes());
                self.padded(reply)
            }
            Body::Region {
                key,
                size_bytes,
                name,
            } => {
                self.bytes(&key.0.to_le_bytes())?;
                self.bytes(&size_bytes.to_le_bytes())?;
                if !(1..=NAME_BYTES_MAX).contains(&name.len()) {
                    return Err(TooLong);
                }
                self.bytes(&[name.len() as u8])?;
                self.padded(name.as_bytes())
            }
            Body::Forget(key) => self.bytes(&key.0.to_le_bytes()),
            Body::Piece { region, piece } => {
                self.bytes(&region.0.to_le_bytes())?;
                self.redo(piece)
            }
            Body::Latch { exchange, reply } => {
                self.exchange(Some(exchange))?;
                self.bytes(&[0; 2])?;
                self.reply_length(reply)?;
                self.padded(reply)
            }
            Body::SnapshotEnd => Ok(()),
        }
    }

    fn exchange(&mut self, exchange: Option<Exchange>) -> Result<(), TooLong> {
        let Some(exchange) = exchange else {
            return self.bytes(&[0; 28]);
        };
        self.bytes(&exchange.initiator.to_le_bytes())?;
        self.bytes(&exchange.incarnation.to_le_bytes())?;
        self.bytes(&exchange.epoch.to_le_bytes())?;
        self.bytes(&exchange.sequence.to_le_bytes())?;
        self.bytes(&exchange.port.to_le_bytes())?;
        let flags = if exchange.two_phase {
            HAS_EXCHANGE | TWO_PHASE
        } else {
            HAS_EXCHANGE
        };
        self.bytes(&[exchange.slot, flags])
    }

    fn reply_length(&mut self, reply: &[u8]) -> Result<(), TooLong> {
        if reply.len() > REPLY_BYTES_MAX {
            return Err(TooLong);
        }
        self.bytes(&(reply.len() as u16).to_le_bytes())
    }

    fn redo(&mut self, redo: Redo<'_>) -> Result<(), TooLong> {
        if redo.bytes.len() > RECORD_BYTES_MAX {
            return Err(TooLong);
        }
        self.bytes(&redo.offset.to_le_bytes())?;
        self.bytes(&(redo.bytes.len() as u64).to_le_bytes())?;
        self.padded(redo.bytes)
    }
}

/// Reads one thing after the other.
#[derive(Clone)]
struct Take<'a>(&'a [u8]);

impl<'a> Take<'a> {
    fn bytes(&mut self, count: usize) -> Result<&'a [u8], BadRecord> {
        let (taken, rest) = self
            .0
            .split_at_checked(count)
            .ok_or(BadRecord::Body("body is shorter than its fields"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const BYTES: usize>(&mut self) -> Result<[u8; BYTES], BadRecord> {
        let mut array = [0; BYTES];
        array.copy_from_slice(self.bytes(BYTES)?);
        Ok(array)
    }

    fn u16(&mut self) -> Result<u16, BadRecord> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Result<u32, BadRecord> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, BadRecord> {
        self.array().map(u64::from_le_bytes)
    }

    /// Reads bytes that [`Put::padded`] wrote. `before` bytes lie between the last multiple of 8
    /// and them.
    fn padded(&mut self, count: usize, before: usize) -> Result<&'a [u8], BadRecord> {
        let bytes = self.bytes(count)?;
        let end = before + count;
        if self
            .bytes(end.next_multiple_of(8) - end)?
            .iter()
            .any(|&byte| byte != 0)
        {
            return Err(BadRecord::Body("padding is not zero"));
        }
        Ok(bytes)
    }

    fn body(&mut self, kind: u8) -> Result<Body<'a>, BadRecord> {
        Ok(match kind {
            COMMIT => {
                let region = RegionKey(self.u64()?);
                let exchange = self.exchange()?;
                let count = self.u16()?;
                let reply_bytes = self.reply_length()?;
                let all = self.0;
                for _ in 0..count {
                    self.redo()?;
                }
                let encoded = &all[..all.len() - self.0.len()];
                Body::Commit {
                    region,
                    exchange,
                    redo: Redos(Form::Encoded(encoded)),
                    reply: self.padded(reply_bytes, 0)?,
                }
            }
            REGION => {
                let (key, size_bytes) = (RegionKey(self.u64()?), self.u64()?);
                let [name_bytes] = self.array()?;
                let name_bytes = usize::from(name_bytes);
                if !(1..=NAME_BYTES_MAX).contains(&name_bytes) {
                    return Err(BadRecord::Body("name has an invalid length"));
                }
                let name = std::str::from_utf8(self.padded(name_bytes, 1)?)
                    .map_err(|_| BadRecord::Body("name is not UTF-8"))?;
                Body::Region {
                    key,
                    size_bytes,
                    name,
                }
            }
            FORGET => Body::Forget(RegionKey(self.u64()?)),
            PIECE => Body::Piece {
                region: RegionKey(self.u64()?),
                piece: self.redo()?,
            },
            LATCH => {
                let exchange = self
                    .exchange()?
                    .ok_or(BadRecord::Body("latch belongs to no exchange"))?;
                if self.u16()? != 0 {
                    return Err(BadRecord::Body("reserved bytes are not zero"));
                }
                let reply_bytes = self.reply_length()?;
                Body::Latch {
                    exchange,
                    reply: self.padded(reply_bytes, 0)?,
                }
            }
            SNAPSHOT_END => Body::SnapshotEnd,
            _ => return Err(BadRecord::Kind(kind)),
        })
    }

    fn exchange(&mut self) -> Result<Option<Exchange>, BadRecord> {
        let (initiator, incarnation) = (self.u64()?, self.u64()?);
        let (epoch, sequence, port) = (self.u32()?, self.u32()?, self.u16()?);
        let [slot, flags] = self.array()?;
        if flags & !(HAS_EXCHANGE | TWO_PHASE) != 0 || flags == TWO_PHASE {
            return Err(BadRecord::Body("flags are unknown"));
        }
        let exchange = Exchange {
            initiator,
            incarnation,
            epoch,
            sequence,
            port,
            slot,
            two_phase: flags & TWO_PHASE != 0,
        };
        Ok((flags & HAS_EXCHANGE != 0).then_some(exchange))
    }

    fn reply_length(&mut self) -> Result<usize, BadRecord> {
        let bytes = usize::from(self.u16()?);
        if bytes > REPLY_BYTES_MAX {
            return Err(BadRecord::Body("reply has an invalid length"));
        }
        Ok(bytes)
    }

    fn redo(&mut self) -> Result<Redo<'a>, BadRecord> {
        let (offset, count) = (self.u64()?, self.u64()?);
        let count = usize::try_from(count)
            .ok()
            .filter(|&count| count <= RECORD_BYTES_MAX)
            .ok_or(BadRecord::Body("bytes have an invalid length"))?;
        Ok(Redo {
            offset,
            bytes: self.padded(count, 0)?,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    fn exchanges() -> impl Strategy<Value = Exchange> {
        any::<(u64, u64, u32, u32, u16, u8, bool)>().prop_map(
            |(initiator, incarnation, epoch, sequence, port, slot, two_phase)| Exchange {
                initiator,
                incarnation,
                epoch,
                sequence,
                port,
                slot,
                two_phase,
            },
        )
    }

    fn bytes(max: usize) -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(any::<u8>(), 0..=max)
    }

    fn there_and_back(body: &Body<'_>) {
        let mut space = [0xee; RECORD_BYTES_MAX];
        let length = encode(body, 7, Lsn(9), &mut space).unwrap();
        assert!(length.is_multiple_of(8));
        let record = decode(&space[..length]).unwrap();
        assert_eq!(record.body, *body);
        assert_eq!(
            (record.generation, record.lsn, record.bytes),
            (7, Lsn(9), length)
        );
        // Bytes behind the record have no effect.
        assert_eq!(decode(&space), Ok(record));
    }

    #[test]
    fn a_record_that_is_too_long_is_refused() {
        let mut space = [0; RECORD_BYTES_MAX];
        let long = vec![1; RECORD_BYTES_MAX];
        let mut refused = |body: Body<'_>| {
            assert_eq!(
                encode(&body, 1, Lsn(1), &mut space),
                Err(TooLong),
                "{body:?}"
            );
        };
        let key = RegionKey(1);
        refused(Body::Commit {
            region: key,
            exchange: None,
            redo: Redos::new(&[]),
            reply: &long[..=REPLY_BYTES_MAX],
        });
        refused(Body::Commit {
            region: key,
            exchange: None,
            redo: Redos::new(&[Redo {
                offset: 0,
                bytes: &long,
            }]),
            reply: &[],
        });
        // All fits but the CRC.
        refused(Body::Piece {
            region: key,
            piece: Redo {
                offset: 0,
                bytes: &long[..RECORD_BYTES_MAX - HEADER_BYTES - 24],
            },
        });
        for name in [String::new(), "n".repeat(NAME_BYTES_MAX + 1)] {
            refused(Body::Region {
                key,
                size_bytes: 8,
                name: &name,
            });
        }
    }

    proptest! {
        #[test]
        fn commits_decode_to_themselves(
            region in any::<u64>(),
            exchange in prop::option::of(exchanges()),
            redo in prop::collection::vec((any::<u64>(), bytes(300)), 0..30),
            reply in bytes(REPLY_BYTES_MAX),
        ) {
            let redo: Vec<_> = redo.iter().map(
                |(offset, bytes)| Redo { offset: *offset, bytes },
            ).collect();
            prop_assume!(redo.iter().map(|redo| redo.bytes.len() + 24).sum::<usize>() < 12_000);
            there_and_back(&Body::Commit {
                region: RegionKey(region),
                exchange,
                redo: Redos::new(&redo),
                reply: &reply,
            });
        }

        #[test]
        fn every_other_record_decodes_to_itself(
            key in any::<u64>(),
            number in any::<u64>(),
            name in "[a-zé]{1,16}",
            exchange in exchanges(),
            piece in bytes(PIECE_BYTES_MAX),
        ) {
            let key = RegionKey(key);
            there_and_back(&Body::Region { key, size_bytes: number, name: &name });
            there_and_back(&Body::Forget(key));
            there_and_back(
                &Body::Piece { region: key, piece: Redo { offset: number, bytes: &piece } },
            );
            there_and_back(&Body::Latch { exchange, reply: &piece });
            there_and_back(&Body::SnapshotEnd);
        }

        #[test]
        fn no_bytes_panic(bytes in bytes(600), kind in 0_u8..9, fits in any::<bool>()) {
            let _ = decode(&bytes);
            // The same with a valid header and CRC, so that the body is decoded.
            let mut bytes = bytes;
            bytes.truncate(bytes.len() / 8 * 8);
            if bytes.len() < RECORD_BYTES_MIN {
                return Ok(());
            }
            let length = bytes.len();
            bytes[..4].copy_from_slice(&MAGIC.to_le_bytes());
            bytes[4..8].copy_from_slice(&[kind, 0, 0, 0]);
            bytes[8..12].copy_from_slice(&(length as u32).to_le_bytes());
            bytes[12..16].fill(0);
            if fits && length > 120 {
                // Valid lengths, so that decoding continues past the first one.
                bytes[32 + 28 + 8..32 + 28 + 12].copy_from_slice(&[1, 0, 3, 0]);
                bytes[32 + 48..32 + 56].copy_from_slice(&5_u64.to_le_bytes());
            }
            let crc = crc_fast::crc64_nvme(&bytes[..length - 8]);
            bytes[length - 8..].copy_from_slice(&crc.to_le_bytes());
            if let Ok(record) = decode(&bytes) {
                let mut space = [0; RECORD_BYTES_MAX];
                let encoded_again = encode(
                    &record.body,
                    record.generation,
                    record.lsn,
                    &mut space,
                ).unwrap();
                // The decoder ignores exchange fields if there is no exchange. All other fields
                // round-trip.
                prop_assert_eq!(decode(&space[..encoded_again]).unwrap().body, record.body);
            }
        }

        #[test]
        fn a_changed_byte_is_seen(
            piece in bytes(100),
            at in any::<prop::sample::Index>(),
            change in 1_u8..,
        ) {
            let mut space = [0; RECORD_BYTES_MAX];
            let body = Body::Piece {
                region: RegionKey(1),
                piece: Redo { offset: 3, bytes: &piece },
            };
            let length = encode(&body, 1, Lsn(1), &mut space).unwrap();
            space[at.index(length)] ^= change;
            prop_assert!(decode(&space[..length]).is_err());
        }
    }
}
