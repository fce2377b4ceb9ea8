//! Why a peer refused a request.

use core::fmt;

/// Why a peer refused a request at message 1. Nothing was executed and ownership is back with the sender.
///
/// One byte on the wire; a byte that this version does not know is read as [`Refusal::Unsupported`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Refusal {
    /// The peer has no room for it now.
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
}

impl Refusal {
    /// Every reason.
    pub const ALL: [Self; 6] = [
        Self::NoResources,
        Self::BadRequest,
        Self::UnknownRegion,
        Self::OutOfBounds,
        Self::NoRight,
        Self::Unsupported,
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
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoResources => "the peer has no room now",
            Self::BadRequest => "the peer could not understand the request",
            Self::UnknownRegion => "no such region",
            Self::OutOfBounds => "beyond the region's end",
            Self::NoRight => "the region does not grant this right",
            Self::Unsupported => "the peer does not serve this kind of request",
        })
    }
}
