//! Access rights of a region.

/// The operations that verbs may perform on a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rights {
    /// `read` verbs.
    pub read: bool,
    /// `write` verbs.
    pub write: bool,
    /// Atomic verbs.
    pub atomic: bool,
    /// `send` verbs: the region is a receive queue, and grants nothing else.
    pub send: bool,
}

impl Rights {
    /// Every right to memory.
    pub const ALL: Self = Self {
        read: true,
        write: true,
        atomic: true,
        send: false,
    };

    /// The right of a receive queue.
    pub const SEND: Self = Self {
        read: false,
        write: false,
        atomic: false,
        send: true,
    };

    /// The byte in a [`RegionInfo`](crate::verb::RegionInfo): bit 0 read, bit 1 write, bit 2
    /// atomic, bit 3 send.
    #[must_use]
    pub const fn to_byte(self) -> u8 {
        self.read as u8
            | (self.write as u8) << 1
            | (self.atomic as u8) << 2
            | (self.send as u8) << 3
    }
}
