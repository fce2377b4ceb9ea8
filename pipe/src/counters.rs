//! What a pipe did so far, where both sides can read it.

// The machine's, also under the model checker: nothing is decided by them, so their interleavings are no concern.
use core::sync::atomic::{AtomicU64, Ordering};

/// What a pipe did so far. Every counter only grows.
///
/// The daemon keeps them for itself and writes a copy into the pipe's control memory, so an application reads its pipe's
/// without asking ([`crate::app::RxPipe::counters`] and its like), also when the daemon is stuck or gone. The application can
/// overwrite the copy, and then deceives nobody but itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct NicCounters {
    /// Packets placed for the application.
    pub rx_packets: u64,
    /// Their bytes.
    pub rx_bytes: u64,
    /// Packets taken from the application.
    pub tx_packets: u64,
    /// Their bytes.
    pub tx_bytes: u64,
    /// Packets of an RX/TX pipe that the application gave back marked not to be sent.
    pub tx_discarded: u64,
    /// Notifications that the caller was told to send: data for the application, or space for it.
    pub notifications_sent: u64,
    /// Packets that needed no notification, because one was outstanding.
    pub notifications_suppressed: u64,
    /// Packets refused because the pipe was full.
    pub full: u64,
    /// Packets refused because they are longer than the pipe can ever hold.
    pub too_long: u64,
    /// Doorbells answered: the application moved its head or its transmit tail.
    pub head_updates: u64,
    /// Frames for a pipe of bytes that carry no bytes for it; dropped.
    pub no_payload: u64,
    /// Packets too short for the stamp that the application asked for; they pass without it.
    pub unstamped: u64,
    /// Frames that the ports from which the pipe receives lost since it was opened, before anybody could know whose they were: all of such a port's are counted
    /// for each of its pipes. As of some moment within the last seconds.
    pub port_lost: u64,
    /// Packets that found the TX pipe full: refused, or made to wait. The application's half counts them ([`crate::app::TxPipe::counters`]), so
    /// the daemon's own counters have 0 here; it reads them by [`crate::nic::NicPipe::refused`].
    pub tx_full: u64,
}

/// Words that the copy takes, in the order of the fields; what the application counts has none.
pub(crate) const WORDS: usize = 13;

/// A group of counters that move together, so that only those are copied that may have changed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Group {
    /// Packets became visible to the application.
    Published,
    /// Packets were taken from it.
    Taken,
    /// It rang.
    Rung,
    /// A packet was refused.
    Refused,
    /// A packet carries too little for what the application asked for.
    TooLittle,
    /// A port lost frames.
    Lost,
}

impl NicCounters {
    /// Copies the counters of `group` for the application to see. The caller is the only writer.
    #[inline]
    pub(crate) fn show(&self, words: &[AtomicU64], group: Group) {
        let show = |index: usize, value: u64| words[index].store(value, Ordering::Relaxed);
        match group {
            Group::Published => {
                show(0, self.rx_packets);
                show(1, self.rx_bytes);
                show(5, self.notifications_sent);
                show(6, self.notifications_suppressed);
            }
            Group::Taken => {
                show(2, self.tx_packets);
                show(3, self.tx_bytes);
                show(4, self.tx_discarded);
                show(5, self.notifications_sent);
            }
            Group::Rung => {
                show(5, self.notifications_sent);
                show(9, self.head_updates);
            }
            Group::Refused => {
                show(7, self.full);
                show(8, self.too_long);
            }
            Group::TooLittle => {
                show(10, self.no_payload);
                show(11, self.unstamped);
            }
            Group::Lost => show(12, self.port_lost),
        }
    }

    /// The counters as they were shown last. Each is whole; two of them may be of different moments.
    pub(crate) fn seen(words: &[AtomicU64]) -> Self {
        let seen = |index: usize| words[index].load(Ordering::Relaxed);
        Self {
            rx_packets: seen(0),
            rx_bytes: seen(1),
            tx_packets: seen(2),
            tx_bytes: seen(3),
            tx_discarded: seen(4),
            notifications_sent: seen(5),
            notifications_suppressed: seen(6),
            full: seen(7),
            too_long: seen(8),
            head_updates: seen(9),
            no_payload: seen(10),
            unstamped: seen(11),
            port_lost: seen(12),
            tx_full: 0,
        }
    }
}
