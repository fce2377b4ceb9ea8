//! The end of a path, or none.

/// Consecutive failed paths to a node after which waiting exchanges are reported as in doubt.
pub(in crate::node) const FAILED_PATHS_MAX: u8 = 3;
/// Ticks without an exchange after which an end that another path needs is freed.
pub(in crate::node) const SPARE_TICKS: u32 = 2;
/// Ticks without an exchange after which a path is closed: 1 s.
pub(in crate::node) const IDLE_TICKS: u32 = 50;

/// The end of a path, or none: then only the tick counts at which it became free.
#[derive(Debug, Clone, Copy, Default, Hash)]
pub(in crate::node) struct End {
    /// The node at the other end; 0 for none.
    pub far: u64,
    /// Ticks since the request, until the link is up; then ticks since an exchange was last in
    /// flight.
    pub ticks: u32,
    /// Exchanges that had ended at the last tick.
    ended: u64,
    /// The tick at which it had its last path.
    pub freed: u64,
    /// A node on the route has no resources for others while the path exists.
    pub wanted: bool,
}

impl End {
    /// A path to this node was just requested.
    pub fn to(far: u64) -> Self {
        Self {
            far,
            ..Self::default()
        }
    }

    /// The path ended in this tick.
    pub fn free_since(freed: u64) -> Self {
        Self {
            freed,
            ..Self::default()
        }
    }

    /// A tick passed while the path is up, on which `ended` exchanges ended so far. `is_idle`:
    /// nothing is in flight.
    pub const fn tick_up(&mut self, is_idle: bool, ended: u64) {
        if is_idle && self.ended == ended {
            self.ticks = self.ticks.saturating_add(1);
        } else {
            self.ticks = 0;
            self.wanted = false;
        }
        self.ended = ended;
    }

    /// Whether the path is idle for so long that it should be closed. `is_spare`: another way leads
    /// to its far end.
    pub const fn is_idle(&self, is_spare: bool) -> bool {
        let ticks_max = if self.wanted || is_spare {
            SPARE_TICKS
        } else {
            IDLE_TICKS
        };
        self.ticks >= ticks_max
    }
}

#[cfg(feature = "arbitrary-state")]
impl End {
    pub(in crate::node) fn scramble(
        &mut self,
        draw: &mut crate::draw::Draw,
        peers: &[super::super::peer::Peer],
    ) {
        if draw.flag() {
            return;
        }
        let peer = draw.below(peers.len() as u32 + 1) as usize;
        *self = Self {
            far: peers.get(peer).map_or(0, |peer| peer.guid),
            ticks: draw.below(60),
            ended: draw.long(),
            freed: draw.long(),
            wanted: draw.flag(),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_closed_when_it_is_idle_and_sooner_when_it_is_spare_or_wanted() {
        let mut end = End::to(7);
        for _ in 0..SPARE_TICKS {
            assert!(!end.is_idle(true));
            end.tick_up(true, 0);
        }
        assert!(end.is_idle(true) && !end.is_idle(false));
        end.wanted = true;
        assert!(end.is_idle(false));
        end.tick_up(true, 1);
        assert!(!end.wanted && end.ticks == 0, "an exchange ended");
        (0..IDLE_TICKS).for_each(|_| end.tick_up(true, 1));
        assert!(end.is_idle(false));
    }
}
