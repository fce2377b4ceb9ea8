//! Which pipe of a device.

/// The number of a pipe in its device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PipeId(pub(crate) u32);

impl PipeId {
    /// The number, as the daemon's status shows it.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0
    }
}
