//! Why a link does not come up although somebody, or something, answers.

use core::fmt;

/// What is wrong at the other end of a cable, as its handshakes show it. It lasts until the link is up, its carrier goes, or nothing of the
/// kind was found for half as many paces as a link may be silent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LinkRefusal {
    /// The cable leads back to this node: to this port of it, which is the link's own where a plug joins its two halves.
    OwnPort(u16),
    /// Another node says this node's GUID.
    OwnGuid,
    /// Two nodes say this GUID: the one here was displaced by the other, which a link leads to, and speaks again.
    TwinGuid(u64),
    /// The other end speaks this version of the link protocol, which is another.
    Version(u8),
    /// The node with this GUID is heard, and it hears somebody else: the two halves of the cable lead to different ports.
    Crossed(u64),
    /// More than one port is heard: the cable leads into a switch or a hub.
    Shared,
    /// The tables have no room for another peer: each one is cabled, or has exchanges that wait for it.
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

    /// In how many paces it must be found before it is told. What can be left over from before a restart or from another cable, or was
    /// damaged on its way, takes more than one.
    pub(crate) const fn paces(self) -> u8 {
        match self {
            Self::TwinGuid(_) | Self::NoRoom => 1,
            Self::OwnPort(_) | Self::OwnGuid | Self::Version(_) => 2,
            Self::Shared => 3,
            // Whoever answers may have heard an earlier life of this node, and be slow to hear this one.
            Self::Crossed(_) => 8,
        }
    }
}

impl fmt::Display for LinkRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OwnPort(port) => write!(f, "the cable leads back to port {port} of this node"),
            Self::OwnGuid => f.write_str("another node says this node's GUID"),
            Self::TwinGuid(guid) => write!(f, "two nodes say the GUID {guid:016x}"),
            Self::Version(version) => {
                write!(
                    f,
                    "the other end speaks version {version} of the link protocol"
                )
            }
            Self::Crossed(guid) => write!(f, "{guid:016x} is heard, and hears somebody else"),
            Self::Shared => f.write_str("more than one port is heard on this cable"),
            Self::NoRoom => f.write_str("there is no room for another peer"),
        }
    }
}
