//! What some drivers do otherwise than the rest, and do not tell of themselves.

use super::plan::OWN_RINGS_SLOTS_MIN;

/// How a driver differs. The default is one that does not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Driver {
    /// It fills and empties two rings of so many slots at least for each receive queue, whatever it is asked for.
    pub(super) own_rings_slots_min: Option<u32>,
    /// It counts a frame that finds no room in the ring as an error, each time that it is tried: it is sent later.
    pub(super) counts_refused: bool,
    /// It keeps what it has sent until the next frames come, and does not give it back when it is asked.
    pub(super) keeps_sent: bool,
    /// Its device is one end of a connection to another process: to stop it is to hang up.
    pub(super) hangs_up: bool,
}

impl Driver {
    /// What is known of the driver with this name, DPDK's.
    pub(super) fn named(name: &str) -> Self {
        let usual = Self::default();
        match name {
            "net_af_xdp" => Self {
                own_rings_slots_min: Some(OWN_RINGS_SLOTS_MIN),
                counts_refused: true,
                ..usual
            },
            "net_memif" => Self {
                hangs_up: true,
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
