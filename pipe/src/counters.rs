//! Counters of a pipe, readable by both sides.

// Real atomics even under the model checker: no decision depends on them, so their interleavings
// are irrelevant.
use core::sync::atomic::{AtomicU64, Ordering};

/// Counters of a pipe. Every counter only increases, until the pipe's device reconnects: the memory
/// of the new daemon begins with 0.
///
/// The daemon keeps them in private memory and writes a copy into the pipe's control memory. An
/// application therefore reads the counters without a request
/// ([`RxPipe::counters`](crate::app::RxPipe::counters) and similar), even when the daemon is stuck
/// or gone. The application can overwrite the copy, which affects only the application itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PipeCounters {
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
    /// Notifications that the pipe requested its caller to send: data for the application, or space
    /// for it.
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
    /// Packets too short for the stamp that the application requested. They pass without it.
    pub unstamped: u64,
    /// Frames that the pipe's receiving ports lost since the pipe was opened, before they could be
    /// assigned to a pipe. Every loss of a port counts for each of its pipes. The value may be some
    /// seconds old.
    pub port_lost: u64,
    /// Packets that found the TX pipe full: refused or delayed. The application's half counts them
    /// ([`TxPipe::counters`](crate::app::TxPipe::counters)). The daemon's own counters have 0 here:
    /// the daemon reads them with [`NicPipe::refused`](crate::nic::NicPipe::refused).
    pub tx_full: u64,
}

/// Number of words in the copy, in the order of the fields. Counters that the application keeps
/// have no word.
pub(crate) const WORDS: usize = 13;

/// A group of counters that change together. Only groups that may have changed are copied.
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
    /// A packet is too short for a feature that the application requested.
    TooLittle,
    /// A port lost frames.
    Lost,
}

impl PipeCounters {
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

    /// Returns the last published counters. Each value is consistent, but two values may be from
    /// different times.
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
