//! Counts of packets that an application's half of a TX pipe refused.

use crate::{
    cursor::accept_count,
    violation::{Cursor, Violation},
};

/// Packets that can have been refused between two looks: an hour of as many as a core can count.
const GROWTH_MAX: u64 = 1 << 42;

/// Packets that did not enter a TX pipe because its port could not send them or because there was
/// no space.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Refused {
    /// Shorter than an Ethernet header.
    pub too_short: u64,
    /// Longer than the port's frames.
    pub too_long: u64,
    /// Packets that found the pipe full. A sender that waits for space or retries counts once for
    /// each failed attempt.
    pub full: u64,
    /// With the EtherType that belongs to links on the pipe's port.
    pub link_type: u64,
}

impl Refused {
    /// Returns the increase since `before`.
    ///
    /// # Errors
    /// [`Violation`] if a count decreased, or grew faster than packets can be refused. Such a count
    /// would corrupt every sum that includes it.
    pub fn since(self, before: Self) -> Result<Self, Violation> {
        let grown = |found, least: u64| {
            let most = least.saturating_add(GROWTH_MAX);
            accept_count(Cursor::Refused, found, least, most).map(|found| found - least)
        };
        Ok(Self {
            too_short: grown(self.too_short, before.too_short)?,
            too_long: grown(self.too_long, before.too_long)?,
            full: grown(self.full, before.full)?,
            link_type: grown(self.link_type, before.link_type)?,
        })
    }

    /// Increases all counts by those of `more`.
    pub const fn add(&mut self, more: Self) {
        self.too_short = self.too_short.saturating_add(more.too_short);
        self.too_long = self.too_long.saturating_add(more.too_long);
        self.full = self.full.saturating_add(more.full);
        self.link_type = self.link_type.saturating_add(more.link_type);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_counts_are_refused() {
        let counts = |too_short, too_long, full| Refused {
            too_short,
            too_long,
            full,
            link_type: 5,
        };
        let before = Refused {
            link_type: 0,
            ..counts(7, 4, 2)
        };
        let more = counts(7, 9, 8).since(before);
        assert_eq!(more, Ok(counts(0, 5, 6)));
        assert!(before.since(counts(7, 4, 2)).is_err());
        assert!(counts(6, 9, 8).since(counts(7, 4, 8)).is_err());
        assert!(counts(7, 9, 7).since(counts(7, 4, 8)).is_err());
        let message = counts(u64::MAX, 0, 0)
            .since(counts(1, 0, 0))
            .map_err(|lie| lie.to_string());
        assert!(message.is_err_and(|message| {
            message.contains("count of refused packets is 18446744073709551615")
        }));
    }
}
