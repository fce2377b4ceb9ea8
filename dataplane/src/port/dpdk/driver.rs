//! Differences between DPDK drivers that the drivers do not report themselves.

use super::plan::OWN_RINGS_SLOTS_MIN;

/// How a driver differs. The default is one that does not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Driver {
    /// The driver fills and drains two rings of at least this many slots per receive queue,
    /// whatever size is requested.
    pub(super) own_rings_slots_min: Option<u32>,
    /// The driver counts a frame that finds the ring full as an error on every attempt, although
    /// the frame is sent later.
    pub(super) counts_refused: bool,
    /// The driver keeps sent buffers until the next frames come and does not return them on
    /// request.
    pub(super) keeps_sent: bool,
    /// The device is one end of a connection to another process. Stopping the device closes the
    /// connection.
    pub(super) stop_disconnects: bool,
}

impl Driver {
    /// Returns the known differences of the DPDK driver `name`.
    pub(super) fn named(name: &str) -> Self {
        let usual = Self::default();
        match name {
            "net_af_xdp" => Self {
                own_rings_slots_min: Some(OWN_RINGS_SLOTS_MIN),
                counts_refused: true,
                ..usual
            },
            "net_memif" => Self {
                stop_disconnects: true,
                ..usual
            },
            "net_tap" => Self {
                counts_refused: true,
                ..usual
            },
            "net_virtio" => Self {
                keeps_sent: true,
                ..usual
            },
            _ => usual,
        }
    }
}
