//! Why a link does not come up although another port answers.

use core::fmt;

/// A fault at the other end of a cable, as its handshakes show it. It lasts until the link is up,
/// the carrier goes, or the fault was not found for half of the ticks that a link may be silent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LinkRefusal {
    /// The cable leads back to this port of this node. It is the link's own port if a plug joins
    /// the two halves of the cable.
    OwnPort(u16),
    /// Another node uses this node's GUID.
    OwnGuid,
    /// Two nodes use this GUID: the one here was displaced by the other, to which a link leads, and
    /// sends again.
    TwinGuid(u64),
    /// The other end speaks this version of the link protocol, which is another.
    Version(u8),
    /// The node with this GUID is received, but it receives another node: the two halves of the
    /// cable lead to different ports.
    Crossed(u64),
    /// More than one port is received: the cable leads into a switch or a hub.
    Shared,
    /// The peer tables are full: each peer is cabled, or has waiting exchanges.
    NoRoom,
}

impl LinkRefusal {
    /// How many kinds there are.
    pub(crate) const KINDS: usize = 7;

    /// The stable snake_case names of all kinds, for counters and logs.
    pub const NAMES: [&'static str; Self::KINDS] = [
        "own_port",
        "own_guid",
        "twin_guid",
        "version",
        "crossed",
        "shared",
        "no_room",
    ];

    /// Its place in [`Self::NAMES`].
    pub(crate) const fn kind(self) -> usize {
        match self {
            Self::OwnPort(_) => 0,
            Self::OwnGuid => 1,
            Self::TwinGuid(_) => 2,
            Self::Version(_) => 3,
            Self::Crossed(_) => 4,
            Self::Shared => 5,
            Self::NoRoom => 6,
        }
    }

    /// Its stable snake_case name, one of [`Self::NAMES`].
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        Self::NAMES[self.kind()]
    }

    /// Number of ticks in which it must be found before it is reported. More than one for faults
    /// that may be left over from before a restart or from another cable, or that may come from a
    /// damaged frame.
    pub(crate) const fn ticks(self) -> u8 {
        match self {
            Self::TwinGuid(_) | Self::NoRoom => 1,
            Self::OwnPort(_) | Self::OwnGuid | Self::Version(_) => 2,
            Self::Shared => 3,
            // The sender may have received an earlier incarnation of this node, and be slow to
            // receive this one.
            Self::Crossed(_) => 8,
        }
    }
}

impl fmt::Display for LinkRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OwnPort(port) => write!(f, "the cable leads back to port {port} of this node"),
            Self::OwnGuid => f.write_str("another node has this node's GUID"),
            Self::TwinGuid(guid) => write!(f, "two nodes have the GUID {guid:016x}"),
            Self::Version(version) => {
                write!(
                    f,
                    "the other end speaks version {version} of the link protocol"
                )
            }
            Self::Crossed(guid) => write!(f, "{guid:016x} is received, and receives another node"),
            Self::Shared => f.write_str("frames of more than one port arrive on this cable"),
            Self::NoRoom => f.write_str("there is no room for another peer"),
        }
    }
}
