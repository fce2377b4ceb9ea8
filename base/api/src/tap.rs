//! Format of a capture of a port's frames.
//!
//! A pipe that captures a port holds a record for each frame: a head of [`HEAD_BYTES`], then the
//! first bytes of the frame.

use serde::{Deserialize, Serialize};

/// Bytes before each frame in a pipe that captures.
pub const HEAD_BYTES: usize = 24;

/// Which frames are captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TapFrames {
    /// All that the lane receives or sends on the port.
    All,
    /// Frames of the link protocol.
    Links,
    /// All but those.
    Data,
}

impl TapFrames {
    /// Whether a frame is captured that is one of a link, or is none.
    #[must_use]
    pub const fn takes(self, is_link: bool) -> bool {
        match self {
            Self::All => true,
            Self::Links => is_link,
            Self::Data => !is_link,
        }
    }
}

/// Metadata of a captured frame.
///
/// ```text
///  0        8              12              16         17     24
///  ├ at_ns ─┼ frame bytes ─┼ missed before ┼ sent 0/1 ┼ 0 ×7 ┤   little-endian
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub struct TapHead {
    /// When the lane saw it, in nanoseconds since the Unix epoch (`CLOCK_REALTIME`).
    pub at_ns: u64,
    /// Its length in bytes without FCS; fewer may follow.
    pub frame_bytes: u32,
    /// Frames between the previous record and this one that did not fit.
    pub missed: u32,
    /// The lane sent it; else it was received.
    pub sent: bool,
}

impl TapHead {
    /// The bytes before the frame.
    #[must_use]
    pub fn to_bytes(self) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        bytes[..8].copy_from_slice(&self.at_ns.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.frame_bytes.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.missed.to_le_bytes());
        bytes[16] = u8::from(self.sent);
        bytes
    }

    /// The head of a record, and the frame's bytes behind it; `None` if it is too short for one.
    #[must_use]
    pub fn split(record: &[u8]) -> Option<(Self, &[u8])> {
        let (head, frame) = record.split_first_chunk::<HEAD_BYTES>()?;
        let word = |at: usize| Some(u32::from_le_bytes(*head[at..].first_chunk()?));
        let head = Self {
            at_ns: u64::from_le_bytes(*head.first_chunk()?),
            frame_bytes: word(8)?,
            missed: word(12)?,
            sent: head[16] != 0,
        };
        Some((head, frame))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_reads_as_it_was_written() {
        for sent in [false, true] {
            let head = TapHead {
                at_ns: 0x0123_4567_89ab_cdef,
                frame_bytes: 1514,
                missed: 7,
                sent,
            };
            let record = [&head.to_bytes()[..], b"frame"].concat();
            assert_eq!(TapHead::split(&record), Some((head, &b"frame"[..])));
            assert_eq!(TapHead::split(&record[..HEAD_BYTES - 1]), None);
        }
    }

    #[test]
    fn each_choice_captures_its_directions() {
        let taken = |frames: TapFrames| [frames.takes(true), frames.takes(false)];
        assert_eq!(taken(TapFrames::All), [true, true]);
        assert_eq!(taken(TapFrames::Links), [true, false]);
        assert_eq!(taken(TapFrames::Data), [false, true]);
    }
}
