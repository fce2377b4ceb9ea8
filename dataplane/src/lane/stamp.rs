//! The time in packets.

use nix::time::{ClockId, clock_gettime};

/// `CLOCK_MONOTONIC` in nanoseconds.
pub fn now_ns() -> u64 {
    read_ns(ClockId::CLOCK_MONOTONIC)
}

/// `CLOCK_REALTIME` in nanoseconds since the Unix epoch.
pub fn wall_ns() -> u64 {
    read_ns(ClockId::CLOCK_REALTIME)
}

fn read_ns(clock: ClockId) -> u64 {
    // Every supported kernel has both clocks. Zero is the fallback.
    clock_gettime(clock).map_or(0, |time| {
        let seconds = u64::try_from(time.tv_sec()).unwrap_or(0);
        let nanoseconds = u64::try_from(time.tv_nsec()).unwrap_or(0);
        seconds * 1_000_000_000 + nanoseconds
    })
}

/// Writes the time to the 8 bytes from `at` on, in network byte order. Returns whether the packet
/// is long enough.
pub fn write(packet: &mut [u8], at: usize) -> bool {
    let place = packet.get_mut(at..).and_then(<[u8]>::first_chunk_mut);
    match place {
        Some(place) => {
            *place = now_ns().to_be_bytes();
            true
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn only_the_eight_bytes_change_and_time_advances() {
        let mut packet = [0xaa; 20];
        let before = now_ns();
        assert!(write(&mut packet, 12));
        let stamped = u64::from_be_bytes(*packet.last_chunk().unwrap());
        assert!((before..=now_ns()).contains(&stamped));
        assert_eq!(packet[..12], [0xaa; 12]);
        for at in [13, 20, 21, usize::MAX] {
            let mut packet = [0xaa; 20];
            assert!(!write(&mut packet, at));
            assert_eq!(packet, [0xaa; 20]);
        }
    }
}
