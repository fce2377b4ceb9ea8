//! Why a peer refused a request.

use core::fmt;

/// Why a peer refused a request at message 1. Nothing was executed, and nothing will be.
///
/// One byte on the wire. A byte that this version does not know decodes as
/// [`Refusal::Unsupported`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub enum Refusal {
    /// The peer has no resources for it now.
    NoResources = 1,
    /// The request could not be understood.
    BadRequest = 2,
    /// No region has this key or name.
    UnknownRegion = 3,
    /// The request reaches beyond the region's end.
    OutOfBounds = 4,
    /// The region does not grant the right that the request needs.
    NoRight = 5,
    /// The request is of a kind that the peer does not serve.
    Unsupported = 6,
    /// A word that it touches belongs to an exchange that is still open. Trying later helps.
    Busy = 7,
    /// The offset of a word is not a multiple of 8.
    Misaligned = 8,
    /// The request covers no bytes, more bytes than one request may, or not as many as the verb
    /// has.
    BadLength = 9,
    /// A multi-commit names a word twice.
    Duplicate = 10,
    /// The receive queue has no space for the message now. A later retry helps, once the owner has
    /// taken messages out.
    QueueFull = 11,
    /// The region is durable, and the journal of its node has failed. Only a repair of that node
    /// helps.
    JournalFailed = 12,
}

impl Refusal {
    /// Every reason.
    pub const ALL: [Self; 12] = [
        Self::NoResources,
        Self::BadRequest,
        Self::UnknownRegion,
        Self::OutOfBounds,
        Self::NoRight,
        Self::Unsupported,
        Self::Busy,
        Self::Misaligned,
        Self::BadLength,
        Self::Duplicate,
        Self::QueueFull,
        Self::JournalFailed,
    ];

    /// The byte on the wire.
    #[must_use]
    pub const fn to_byte(self) -> u8 {
        self as u8
    }

    /// The refusal that `byte` stands for.
    #[must_use]
    pub const fn from_byte(byte: u8) -> Self {
        match byte {
            1 => Self::NoResources,
            2 => Self::BadRequest,
            3 => Self::UnknownRegion,
            4 => Self::OutOfBounds,
            5 => Self::NoRight,
            7 => Self::Busy,
            8 => Self::Misaligned,
            9 => Self::BadLength,
            10 => Self::Duplicate,
            11 => Self::QueueFull,
            12 => Self::JournalFailed,
            _ => Self::Unsupported,
        }
    }

    /// Stable snake_case name, for counters and logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoResources => "no_resources",
            Self::BadRequest => "bad_request",
            Self::UnknownRegion => "unknown_region",
            Self::OutOfBounds => "out_of_bounds",
            Self::NoRight => "no_right",
            Self::Unsupported => "unsupported",
            Self::Busy => "busy",
            Self::Misaligned => "misaligned",
            Self::BadLength => "bad_length",
            Self::Duplicate => "duplicate",
            Self::QueueFull => "queue_full",
            Self::JournalFailed => "journal_failed",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoResources => "the peer has no room now",
            Self::BadRequest => "the peer could not understand the request",
            Self::UnknownRegion => "no such region",
            Self::OutOfBounds => "the verb reaches beyond the region's end",
            Self::NoRight => "the region does not grant the right that the verb needs",
            Self::Unsupported => "the peer does not serve this kind of request",
            Self::Busy => "an exchange that is still open holds a word that it touches; try again",
            Self::Misaligned => "the offset of a word is not a multiple of 8",
            Self::BadLength => "the length is none that the verb may have",
            Self::Duplicate => "a multi-commit names a word twice",
            Self::QueueFull => {
                "the receive queue has no room for the message now; try again when \
                                its owner has taken others"
            }
            Self::JournalFailed => {
                "the region is durable and the journal of its node has failed: fix that and \
                 restart its daemon"
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_its_own_byte_and_name() {
        for (at, refusal) in Refusal::ALL.into_iter().enumerate() {
            assert_eq!(Refusal::from_byte(refusal.to_byte()), refusal);
            for other in &Refusal::ALL[..at] {
                assert_ne!(other.as_str(), refusal.as_str());
            }
        }
    }
}
