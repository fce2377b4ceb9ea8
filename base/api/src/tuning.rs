//! How the packets of a pipe are treated on their way.

use serde::{Deserialize, Serialize};

/// Bytes of a time stamp in a packet.
pub const STAMP_BYTES: u32 = 8;

/// Settings that an application applies to one of its pipes, all at once, at any time. The initial
/// settings are the default: no limit, no stamp. Take the default and change fields of it: a later
/// version may have more.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub struct PipeTuning {
    /// The most that a TX or RX/TX pipe sends; `None`: as fast as it goes.
    #[serde(default)]
    pub rate_limit: Option<RateLimit>,
    /// Offset in each packet at which the lane overwrites 8 bytes with a time stamp. `None`: no
    /// time stamp.
    ///
    /// The lane stamps packets of a TX pipe on their way to the port, in the port's copy. It stamps
    /// packets of an RX or RX/TX pipe when they arrive. The stamp is `CLOCK_MONOTONIC` of the node
    /// in nanoseconds, an unsigned 8-byte number in network byte order, read for each packet. A
    /// packet that is too short passes unstamped, and the daemon counts it in its status and on
    /// `/metrics`.
    #[serde(default)]
    pub stamp_at_bytes: Option<u32>,
}

/// A rate, and how far a pipe that fell behind may catch up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateLimit {
    /// The counted unit.
    pub unit: RateUnit,
    /// So many of them each second: 1 to 10^13.
    pub per_second: u64,
    /// Burst size as a time at the given rate, in microseconds, 0 to 1000000. After a pause, or if
    /// the lane was late, the pipe may send this much at once, and always one packet. Below about
    /// 100, a lane that sleeps between packets cannot sustain the rate.
    pub burst_us: u32,
}

/// Unit that a [`RateLimit`] counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RateUnit {
    /// Packets.
    Packets,
    /// Bits of packets, from the destination address to the last payload byte: without preamble,
    /// check sequence and gap.
    Bits,
}

/// The largest permitted rate.
pub const RATE_PER_SECOND_MAX: u64 = 10_000_000_000_000;
/// The longest permitted burst, in microseconds.
pub const BURST_US_MAX: u32 = 1_000_000;

/// Error of an invalid [`PipeTuning`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadTuning {
    /// The rate is out of range.
    #[error("a rate of {0} each second; expected 1 to 10000000000000")]
    Rate(u64),
    /// The burst is too long.
    #[error("a burst of {0} microseconds; expected at most 1000000")]
    Burst(u32),
    /// No packet is long enough.
    #[error(
        "a stamp of 8 bytes at byte {at} does not fit into packets of at most {packet_bytes_max}"
    )]
    Stamp {
        /// Where it was to be.
        at: u32,
        /// Longest packet of the pipe.
        packet_bytes_max: u64,
    },
}

impl PipeTuning {
    /// Checks the ranges, for a pipe whose packets have at most `packet_bytes_max` bytes.
    ///
    /// # Errors
    /// [`BadTuning`] describes the problem.
    pub fn check(&self, packet_bytes_max: u64) -> Result<(), BadTuning> {
        if let Some(rate) = self.rate_limit {
            if !(1..=RATE_PER_SECOND_MAX).contains(&rate.per_second) {
                return Err(BadTuning::Rate(rate.per_second));
            }
            if rate.burst_us > BURST_US_MAX {
                return Err(BadTuning::Burst(rate.burst_us));
            }
        }
        match self.stamp_at_bytes {
            Some(at) if u64::from(at) + u64::from(STAMP_BYTES) > packet_bytes_max => {
                Err(BadTuning::Stamp {
                    at,
                    packet_bytes_max,
                })
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_checked() {
        let tuning = |per_second, burst_us, stamp_at_bytes| PipeTuning {
            rate_limit: Some(RateLimit {
                unit: RateUnit::Bits,
                per_second,
                burst_us,
            }),
            stamp_at_bytes,
        };
        assert_eq!(PipeTuning::default().check(60), Ok(()));
        assert_eq!(tuning(1, 0, Some(52)).check(60), Ok(()));
        assert_eq!(
            tuning(RATE_PER_SECOND_MAX, BURST_US_MAX, None).check(60),
            Ok(())
        );
        assert_eq!(tuning(0, 0, None).check(60), Err(BadTuning::Rate(0)));
        assert_eq!(
            tuning(RATE_PER_SECOND_MAX + 1, 0, None).check(60),
            Err(BadTuning::Rate(RATE_PER_SECOND_MAX + 1))
        );
        assert_eq!(
            tuning(1, BURST_US_MAX + 1, None).check(60),
            Err(BadTuning::Burst(BURST_US_MAX + 1))
        );
        for at in [53, u32::MAX] {
            assert_eq!(
                tuning(1, 0, Some(at)).check(60),
                Err(BadTuning::Stamp {
                    at,
                    packet_bytes_max: 60
                })
            );
        }
    }
}
