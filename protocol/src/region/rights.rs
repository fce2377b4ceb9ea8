//! What verbs may do with a region.

/// What verbs may do with a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rights {
    /// `read` verbs.
    pub read: bool,
    /// `write` verbs.
    pub write: bool,
    /// Atomic verbs.
    pub atomic: bool,
}

impl Rights {
    /// Every right.
    pub const ALL: Self = Self {
        read: true,
        write: true,
        atomic: true,
    };

    /// The byte in a [`crate::verb::RegionInfo`]: bit 0 read, bit 1 write, bit 2 atomic.
    #[must_use]
    pub const fn to_byte(self) -> u8 {
        self.read as u8 | (self.write as u8) << 1 | (self.atomic as u8) << 2
    }
}
