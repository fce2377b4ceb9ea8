//! What an application's half of a TX pipe refused.

/// Packets that never entered a TX pipe because its port could not send them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Refused {
    /// Shorter than an Ethernet header.
    pub too_short: u64,
    /// Longer than the port's frames.
    pub too_long: u64,
}

impl Refused {
    /// What came since `before`. Counts only grow; where one seems to have shrunk, somebody lies and nothing came.
    #[must_use]
    pub const fn since(self, before: Self) -> Self {
        Self {
            too_short: self.too_short.saturating_sub(before.too_short),
            too_long: self.too_long.saturating_sub(before.too_long),
        }
    }

    /// Both counts increased by those of `more`.
    pub const fn add(&mut self, more: Self) {
        self.too_short = self.too_short.saturating_add(more.too_short);
        self.too_long = self.too_long.saturating_add(more.too_long);
    }
}
