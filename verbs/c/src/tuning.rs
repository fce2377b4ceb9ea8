//! How a pipe's packets are treated.

use covalent::{PipeTuning, RateLimit, RateUnit};

use crate::{
    growing::{growing, growing_value},
    status::{Result, invalid},
};

/// No limit.
pub const COVALENT_RATE_NONE: u32 = 0;
/// Packets each second.
pub const COVALENT_RATE_PACKETS: u32 = 1;
/// Bits of packets per second, from the destination address to the last byte of payload: without
/// preamble, check sequence and gap.
pub const COVALENT_RATE_BITS: u32 = 2;

/// All settings of a pipe. Zeros are the initial state of a pipe: no limit, no stamp.
///
/// The stamp is CLOCK_MONOTONIC of the node in nanoseconds, an unsigned number of 8 bytes in
/// network byte order. The lane reads the clock for each packet: when it places an arriving packet
/// in the pipe, and when a sent packet goes to the port. A packet too short for the stamp passes
/// unstamped. It is counted as `unstamped` in covalent_pipe_counters, in the daemon's status and on
/// /metrics.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct covalent_pipe_tuning {
    /// Set it to `sizeof` of this struct.
    pub struct_bytes: u32,
    /// One of COVALENT_RATE_….
    pub rate_unit: u32,
    /// Burst, in microseconds of the rate, 0 to 1000000. After a pause, or if the lane was late,
    /// this much may be sent at once, and always one packet. Below about 100, a lane that sleeps
    /// between packets cannot reach the rate.
    pub burst_us: u32,
    /// 1 for a time stamp in each packet, 0 for none.
    pub stamp: u32,
    /// Offset in the packet, in bytes, at which the stamp overwrites the contents.
    pub stamp_at_bytes: u32,
    /// The most that is sent, 1 to 10^13; counts unless `rate_unit` is COVALENT_RATE_NONE.
    pub rate_per_second: u64,
}

growing!(covalent_pipe_tuning, 32);

/// The tuning that C means. Ranges are checked by the daemon.
///
/// # Safety
/// A pointer that is not null points to a tuning.
pub(crate) unsafe fn tuning(tuning: *const covalent_pipe_tuning) -> Result<PipeTuning> {
    // SAFETY: the caller's word.
    let wanted = unsafe { growing_value(tuning, "tuning")? };
    let limit = |unit| RateLimit {
        unit,
        per_second: wanted.rate_per_second,
        burst_us: wanted.burst_us,
    };
    Ok(PipeTuning {
        rate_limit: match wanted.rate_unit {
            COVALENT_RATE_NONE => None,
            COVALENT_RATE_PACKETS => Some(limit(RateUnit::Packets)),
            COVALENT_RATE_BITS => Some(limit(RateUnit::Bits)),
            other => {
                return Err(invalid(format!(
                    "tuning.rate_unit {other} is none of COVALENT_RATE_…"
                )));
            }
        },
        stamp_at_bytes: match wanted.stamp {
            0 => None,
            1 => Some(wanted.stamp_at_bytes),
            other => return Err(invalid(format!("tuning.stamp {other}: expected 0 or 1"))),
        },
    })
}
