//! Counters of a link. Every counter counts up from the node's construction.

use core::hash::{Hash, Hasher};

use crate::event::DownReason;

/// Counters of one link.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Number of times that the link came up.
    pub ups: u64,
    /// Times that it failed, by evidence.
    pub failures: FailureCounters,
    /// Frames written.
    pub tx_frames: u64,
    /// Records written.
    pub tx_records: u64,
    /// Frames that arrived whole, including those whose records were dropped.
    pub rx_frames: u64,
    /// Records accepted.
    pub rx_records: u64,
    /// Frames or records dropped, by cause.
    pub drops: DropCounters,
    /// Exchanges of this side that committed at the peer.
    pub committed: u64,
    /// Exchanges of this side that the peer refused.
    pub refused: u64,
    /// Exchanges of this side that were reversed after a failure and queued to be applied again.
    pub reversed: u64,
    /// Exchanges of this side whose outcome a query returned after a failure; includes the reversed
    /// ones.
    pub resolved: u64,
    /// Reversed exchanges that the peer had never received.
    pub never_seen: u64,
    /// Exchanges of this side that ended because the peer lost its memory.
    pub forgotten: u64,
    /// Queries of this side about exchanges with other nodes that the neighbor forwarded and
    /// returned a reply to.
    pub relayed: u64,
    /// Questions of the neighbor here that this side passed on to others.
    pub relays_passed: u64,
    /// Exchanges of the peer that this side executed.
    pub executed: u64,
}

/// They decide nothing, so two links that differ in them alone are the same link.
impl Hash for LinkCounters {
    fn hash<H: Hasher>(&self, _state: &mut H) {}
}

impl LinkCounters {
    /// An exchange was learned not to have been executed.
    pub(crate) fn count_undone(&mut self, never_seen: bool) {
        self.resolved += 1;
        self.reversed += 1;
        self.never_seen += u64::from(never_seen);
    }

    /// Exchanges of either side that ended in an outcome.
    pub(crate) const fn exchanges_ended(&self) -> u64 {
        self.committed + self.refused + self.executed
    }
}

macro_rules! drop_counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Reasons for dropped frames, records or requests. None of them had any effect.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct DropCounters {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl DropCounters {
            /// Every cause with its count; causes with zero too.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name)),*].into_iter()
            }

            /// The sum over all causes.
            #[must_use]
            pub fn total(&self) -> u64 {
                self.iter().map(|(_, count)| count).sum()
            }
        }
    };
}

drop_counters! {
    /// Frames shorter than a header and one record.
    short,
    /// Frames of another EtherType.
    ethertype,
    /// Frames that are not a header and 1 to 23 whole records.
    length,
    /// Frames with a CRC that does not fit.
    crc,
    /// Frames with a record of another version of the link protocol.
    version,
    /// Frames that have a valid CRC but records that make no sense.
    malformed,
    /// Records of an epoch that is not in force.
    stale_epoch,
    /// Records that arrived while the link was not up.
    not_up,
    /// Records that were already accepted.
    duplicate,
    /// Requests that arrived after their outcome had been latched, because the link had already
    /// failed at the peer; and replies to queries that are no longer open.
    late,
    /// Handshake frames without new information.
    stale_init,
    /// Handshake frames on a link that is up that announce another node or another incarnation of
    /// the peer, from a sender that does not echo this end. Each was answered. This end believes a
    /// sender that receives the answer and echoes it.
    unproven_init,
    /// Handshake frames of a different node than before, if there was one already since the last
    /// tick.
    hasty_init,
    /// Handshake frames of this node itself: the cable leads back.
    own_guid,
    /// Handshake frames of a peer that does not fit in the tables.
    no_room,
    /// Roots that the neighbor announced and that were rejected or removed: the table is full, and
    /// the neighbor uses no less than others.
    quota_roots,
    /// Paths that were to lead through this node, beyond the neighbor's share.
    quota_transits,
    /// Paths that were to end at this node, beyond the neighbor's share.
    quota_ends,
    /// Questions about exchanges with another neighbor, beyond this one's share of those that are
    /// passed on.
    quota_relays,
}

/// Failures by evidence.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FailureCounters([u64; DownReason::ALL.len()]);

impl FailureCounters {
    pub(crate) fn count(&mut self, reason: DownReason) {
        self.0[reason as usize] += 1;
    }

    /// Failures shown by `reason`.
    #[must_use]
    pub const fn get(&self, reason: DownReason) -> u64 {
        self.0[reason as usize]
    }

    /// Every reason with its count; reasons with zero too.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        DownReason::ALL
            .into_iter()
            .map(|reason| (reason.as_str(), self.get(reason)))
    }

    /// The sum over all reasons.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}
