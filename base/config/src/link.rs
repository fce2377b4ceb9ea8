//! `[link]`: settings shared by all links.

use serde::Serialize;

use super::table::Table;
use covalent_api::rule::{ETHERTYPE_MIN, VLAN_ETHERTYPES};

/// EtherTypes that carry the traffic of the host itself: ARP, IPv4, IPv6.
const HOST_ETHERTYPES: [u16; 3] = [0x0806, 0x0800, 0x86dd];

/// Smallest nonzero event ratio: a link sends a ping after two round trips of the others.
const EVENT_RATIO_MIN: u32 = 4;

/// Settings shared by all links.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LinkConfig {
    /// EtherType of link frames, 0x0600 to 0xffff. Both ends must use the same. Default 0x88b5
    /// (IEEE 802 local experimental 1).
    pub ethertype: u16,
    /// Exchanges that may be open at once on each link, 1 to 255. Default 64.
    pub slots: u32,
    /// Tick of an idle link (its keepalive interval), in milliseconds, 1 to 1000. Default 20.
    pub idle_tick_ms: u32,
    /// Idle ticks without a frame from the peer (missed keepalives) after which the link is
    /// declared down, 2 to 1000. Default 10. This limit only declares the link down. It never
    /// triggers a retransmission.
    pub keepalive_misses_max: u32,
    /// Number of round trips of another link while this link has open exchanges and does not
    /// answer. At this number the silent link is declared down. 4 to 100000, default 32. 0 disables
    /// the check.
    pub event_ratio: u32,
}

impl LinkConfig {
    pub(super) fn read(table: &mut Table<'_, '_>) -> Self {
        let default = Self::default();
        let ethertype = table
            .integer("ethertype", ETHERTYPE_MIN..=u16::MAX, " (0x0600 to 0xffff)")
            .unwrap_or(default.ethertype);
        if VLAN_ETHERTYPES.contains(&ethertype) || HOST_ETHERTYPES.contains(&ethertype) {
            let message = format!(
                "{ethertype:#06x} belongs to ARP, IP or VLAN tags, whose frames would be taken for \
                 link records; expected an unused one, for example 0x88b5"
            );
            table.refuse("ethertype", message);
        }
        let event_ratio = table
            .integer("event_ratio", 0..=100_000, "")
            .unwrap_or(default.event_ratio);
        if (1..EVENT_RATIO_MIN).contains(&event_ratio) {
            let message = format!(
                "{event_ratio} round trips of one link may pass while another one is merely \
                 slower; \
                 expected {EVENT_RATIO_MIN} to 100000, or 0 for never"
            );
            table.refuse("event_ratio", message);
        }
        Self {
            ethertype,
            slots: table.integer("slots", 1..=255, "").unwrap_or(default.slots),
            idle_tick_ms: table
                .integer("idle_tick_ms", 1..=1000, " (milliseconds)")
                .unwrap_or(default.idle_tick_ms),
            keepalive_misses_max: table
                .integer("keepalive_misses_max", 2..=1000, "")
                .unwrap_or(default.keepalive_misses_max),
            event_ratio,
        }
    }
}

impl Default for LinkConfig {
    fn default() -> Self {
        Self {
            ethertype: 0x88b5,
            slots: 64,
            idle_tick_ms: 20,
            keepalive_misses_max: 10,
            event_ratio: 32,
        }
    }
}
