//! Counters of a pipe.

use covalent::PipeCounters;

use crate::growing::growing;

/// Counters of a pipe. A counter only increases, until the device reconnects
/// (covalent_device_set_reconnect): the counters then restart at 0. Reading them sends no request
/// to the daemon, and also works when the daemon is gone. Each value is consistent and as recent as
/// the lane's last round that served this pipe. A round is the lane's pass over everything that it
/// owns. Two values may be from different moments.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct covalent_pipe_counters {
    /// Set it to `sizeof` of this struct.
    pub struct_bytes: u32,
    /// Packets placed for this application; datagrams in a byte pipe.
    pub rx_packets: u64,
    /// Their bytes.
    pub rx_bytes: u64,
    /// Packets taken from this application.
    pub tx_packets: u64,
    /// Their bytes.
    pub tx_bytes: u64,
    /// Packets of an RX/TX pipe that this application gave back not to be sent.
    pub tx_discarded: u64,
    /// Notifications of packets, or of space, that this application was sent.
    pub notifications_sent: u64,
    /// Packets that needed none, because one was outstanding.
    pub notifications_suppressed: u64,
    /// Packets dropped because the pipe was full.
    pub full: u64,
    /// Packets dropped because they are longer than the pipe can ever hold.
    pub too_long: u64,
    /// Doorbells answered: this application freed or published.
    pub head_updates: u64,
    /// Frames for a byte pipe that carry no bytes for it; dropped.
    pub no_payload: u64,
    /// Packets too short for the stamp that this application requested. They pass without it.
    pub unstamped: u64,
    /// Frames that this pipe's ports lost since it was opened, before their pipe was known. A loss
    /// of a port counts for each of the port's pipes. The value may be some seconds old.
    pub port_lost: u64,
    /// Packets that found the TX pipe full and were refused or had to wait. The library itself
    /// counts them, at once.
    pub tx_full: u64,
}

growing!(covalent_pipe_counters, 120);

impl From<PipeCounters> for covalent_pipe_counters {
    fn from(counters: PipeCounters) -> Self {
        Self {
            struct_bytes: 0,
            rx_packets: counters.rx_packets,
            rx_bytes: counters.rx_bytes,
            tx_packets: counters.tx_packets,
            tx_bytes: counters.tx_bytes,
            tx_discarded: counters.tx_discarded,
            notifications_sent: counters.notifications_sent,
            notifications_suppressed: counters.notifications_suppressed,
            full: counters.full,
            too_long: counters.too_long,
            head_updates: counters.head_updates,
            no_payload: counters.no_payload,
            unstamped: counters.unstamped,
            port_lost: counters.port_lost,
            tx_full: counters.tx_full,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_of_ports_and_refusals_are_not_mixed_up() {
        let mut counters = PipeCounters::default();
        counters.port_lost = 3;
        counters.tx_full = 5;
        counters.full = 7;
        let seen = covalent_pipe_counters::from(counters);
        assert_eq!((seen.port_lost, seen.tx_full, seen.full), (3, 5, 7));
    }
}
