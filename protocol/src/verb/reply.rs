//! Replies.

use super::{BufferTooShort, DecodeError, space, u64_at};
use crate::Moment;

pub(super) const HEADER_BYTES: usize = 20;
const COUNT_AT: usize = 4;
const CLOCK_AT: usize = 12;

const NEVER: Moment = Moment { count: 0, clock: 0 };

/// The reply to an executed verb.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply<'a> {
    /// How it went.
    pub status: Status,
    /// Which word of a `MultiCommit` was not as expected; else 0.
    pub index: u16,
    /// When it was executed at its node.
    pub moment: Moment,
    /// The old word of an atomic verb, the first unexpected word of a `MultiCommit`, the bytes of a
    /// `Read`, or the [`RegionInfo`] of a `Lookup`. Empty for a `Write`, a `Send`, a committed
    /// `MultiCommit`, [`Status::Gone`] and [`Status::Contended`].
    pub data: &'a [u8],
}

/// How a verb went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Status {
    /// Done.
    Ok = 0,
    /// A word was not as expected; nothing was written.
    Mismatch = 1,
    /// The region was withdrawn between message 1 and message 3; nothing was done.
    Gone = 2,
    /// The owner of the memory changed the word at every attempt of the verb. Nothing was done, and
    /// a later retry helps.
    Contended = 3,
}

/// The result of a `Lookup`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegionInfo {
    /// Size in bytes.
    pub size_bytes: u64,
    /// Key to show in requests.
    pub rkey: u32,
    /// Bit 0: read, bit 1: write, bit 2: atomic, bit 3: send.
    pub rights: u8,
}

impl RegionInfo {
    /// The data of the reply.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[0..8].copy_from_slice(&self.size_bytes.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.rkey.to_le_bytes());
        bytes[12] = self.rights;
        bytes
    }
}

impl<'a> Reply<'a> {
    /// [`Status::Ok`] with `data`.
    #[must_use]
    pub const fn ok(data: &'a [u8]) -> Self {
        Self {
            status: Status::Ok,
            index: 0,
            moment: NEVER,
            data,
        }
    }

    /// [`Status::Mismatch`] at word `index`, with the word that was found as `data`.
    #[must_use]
    pub const fn mismatch(index: u16, data: &'a [u8; 8]) -> Self {
        Self {
            status: Status::Mismatch,
            index,
            moment: NEVER,
            data,
        }
    }

    /// [`Status::Gone`].
    #[must_use]
    pub const fn gone() -> Self {
        Self {
            status: Status::Gone,
            ..Self::ok(&[])
        }
    }

    /// [`Status::Contended`].
    #[must_use]
    pub const fn contended() -> Self {
        Self {
            status: Status::Contended,
            ..Self::ok(&[])
        }
    }

    /// The word, if the data is one.
    #[must_use]
    pub fn value(&self) -> Option<u64> {
        self.data.try_into().ok().map(u64::from_le_bytes)
    }

    /// The result of a `Lookup`, if the data is one.
    #[must_use]
    pub fn region(&self) -> Option<RegionInfo> {
        let bytes: &[u8; 16] = self.data.try_into().ok()?;
        if bytes[13..] != [0; 3] {
            return None;
        }
        let rkey = u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]);
        Some(RegionInfo {
            size_bytes: u64_at(bytes, 0),
            rkey,
            rights: bytes[12],
        })
    }

    /// Bytes that [`Reply::encode`] writes.
    #[must_use]
    pub const fn encoded_bytes(&self) -> usize {
        HEADER_BYTES + self.data.len()
    }

    /// Writes the reply to the start of `out` and returns its length.
    ///
    /// # Errors
    /// `out` is shorter than [`Reply::encoded_bytes`].
    pub fn encode(&self, out: &mut [u8]) -> Result<usize, BufferTooShort> {
        let needed = self.encoded_bytes();
        let (header, data) = space(out, needed)?.split_at_mut(HEADER_BYTES);
        header.fill(0);
        header[0] = self.status as u8;
        header[2..4].copy_from_slice(&self.index.to_le_bytes());
        write_moment(header, self.moment);
        data.copy_from_slice(self.data);
        Ok(needed)
    }

    /// Writes [`Reply::ok`] with the old word of an atomic verb to the start of `out` and returns
    /// its length; `None` if `out` is too short.
    #[inline]
    pub(crate) fn encode_word(old: u64, out: &mut [u8]) -> Option<usize> {
        let reply: &mut [u8; HEADER_BYTES + 8] = out.first_chunk_mut()?;
        let (header, word) = reply.split_at_mut(HEADER_BYTES);
        header.fill(0);
        header[0] = Status::Ok as u8;
        word.copy_from_slice(&old.to_le_bytes());
        Some(reply.len())
    }

    /// Writes [`Reply::ok`] to the start of `out`, with `len` bytes that `read` writes in place,
    /// and returns its length. `None` if `out` is too short, or if `read` returns `None`.
    pub(crate) fn encode_read(
        out: &mut [u8],
        len: usize,
        read: impl FnOnce(&mut [u8]) -> Option<()>,
    ) -> Option<usize> {
        let needed = HEADER_BYTES + len;
        let (header, data) = out.get_mut(..needed)?.split_at_mut(HEADER_BYTES);
        Reply::ok(&[]).encode(header).ok()?;
        read(data)?;
        Some(needed)
    }

    /// Decodes a reply that fills `bytes`.
    ///
    /// # Errors
    /// - [`DecodeError::Truncated`] and [`DecodeError::UnknownStatus`].
    /// - [`DecodeError::Reserved`] for an index without an unexpected word, and for nonzero
    ///   reserved bytes.
    /// - [`DecodeError::Length`] for data of a verb that was not done.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let (header, data) = bytes
            .split_at_checked(HEADER_BYTES)
            .ok_or(DecodeError::Truncated)?;
        let status = match header[0] {
            0 => Status::Ok,
            1 => Status::Mismatch,
            2 => Status::Gone,
            3 => Status::Contended,
            unknown => return Err(DecodeError::UnknownStatus(unknown)),
        };
        let index = u16::from_le_bytes([header[2], header[3]]);
        if header[1] != 0 || (index != 0 && status != Status::Mismatch) {
            return Err(DecodeError::Reserved);
        }
        if matches!(status, Status::Gone | Status::Contended) && !data.is_empty() {
            return Err(DecodeError::Length);
        }
        Ok(Self {
            status,
            index,
            moment: Moment {
                count: u64_at(header, COUNT_AT),
                clock: u64_at(header, CLOCK_AT),
            },
            data,
        })
    }
}

/// Writes the moment of execution into an encoded reply. Bytes shorter than a reply stay unchanged.
pub(crate) fn write_moment(reply: &mut [u8], moment: Moment) {
    if let Some(header) = reply.first_chunk_mut::<HEADER_BYTES>() {
        header[COUNT_AT..CLOCK_AT].copy_from_slice(&moment.count.to_le_bytes());
        header[CLOCK_AT..].copy_from_slice(&moment.clock.to_le_bytes());
    }
}
