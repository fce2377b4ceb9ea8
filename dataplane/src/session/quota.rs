//! Limits of one session, so that no session starves the node.
//!
//! An application keeps the memory of a closed pipe while it keeps the descriptors or the mapping.
//! No other process can detect this. That memory therefore stays charged to the session until the
//! session ends. The sum over the sessions of one user is bounded too.
//!
//! Memory that a process keeps past the end of its session is charged to no session. The kernel
//! frees it when the last process that holds it exits.

use covalent_config::DataplaneConfig;

use super::mappings::{PIPE_MAPPINGS, REGION_MAPPINGS, SESSION_MAPPINGS};

/// Smallest pipe, in bytes.
pub const PIPE_BYTES_MIN: u64 = 64 * 1024;
/// Largest pipe, in bytes.
pub const PIPE_BYTES_MAX: u64 = 1 << 30;
/// Largest region, in bytes.
pub const REGION_BYTES_MAX: u64 = 1 << 30;
/// Most regions of one session: each is a mapping.
pub const REGIONS_MAX: u32 = 64;
/// Maximum bindings of one session. Each is an entry in the tables of the lane and the kernel. A
/// binding that creates a set with sharing by flow takes one more KiB per port.
pub const BINDINGS_MAX: u32 = 4096;

/// One user may have the memory of this many full sessions over all its sessions. Root and the
/// daemon's own user are exempt.
const FULL_SESSIONS_PER_USER: u64 = 8;

const MIB: u64 = 1 << 20;

/// The resources that a session has taken, and its limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    pipes: u32,
    pipes_max: u32,
    regions: u32,
    bindings: u32,
    /// All memory that was handed out.
    memory_bytes: u64,
    /// The part of it that belonged to closed pipes.
    closed_bytes: u64,
    memory_bytes_max: u64,
    /// Mappings of the daemon that are there or being made.
    mappings: u32,
}

impl Quota {
    /// Nothing taken, with the configured bounds.
    #[must_use]
    pub fn new(config: &DataplaneConfig) -> Self {
        Self {
            pipes: 0,
            pipes_max: config.pipes_per_session_max,
            regions: 0,
            bindings: 0,
            memory_bytes: 0,
            closed_bytes: 0,
            memory_bytes_max: u64::from(config.session_memory_max_mib) * MIB,
            mappings: SESSION_MAPPINGS,
        }
    }

    /// Mappings of the daemon that are charged to this session.
    #[must_use]
    pub const fn mappings(&self) -> u32 {
        self.mappings
    }

    /// Gives mappings back that are there no more.
    pub fn give_mappings(&mut self, count: u32) {
        self.mappings -= count;
    }

    /// Memory that is charged to this session, in bytes.
    #[must_use]
    pub const fn memory_bytes(&self) -> u64 {
        self.memory_bytes
    }

    /// Takes a pipe of `capacity_bytes`. The user's other sessions are charged `elsewhere_bytes`: 0
    /// for a user without a limit.
    ///
    /// # Errors
    /// The limit that would be exceeded, and the key that sets it. Nothing is taken then.
    pub fn take_pipe(&mut self, capacity_bytes: u64, elsewhere_bytes: u64) -> Result<(), String> {
        if !capacity_bytes.is_power_of_two()
            || !(PIPE_BYTES_MIN..=PIPE_BYTES_MAX).contains(&capacity_bytes)
        {
            return Err(format!(
                "a pipe of {capacity_bytes} bytes: expected a power of two, 64 KiB to 1 GiB"
            ));
        }
        if self.pipes == self.pipes_max {
            return Err(format!(
                "this session has {} pipes, the maximum of `dataplane.pipes_per_session_max`",
                self.pipes
            ));
        }
        self.take_memory(
            pipe_memory_bytes(capacity_bytes),
            elsewhere_bytes,
            PIPE_MEMORY,
        )?;
        self.pipes += 1;
        self.mappings += PIPE_MAPPINGS;
        Ok(())
    }

    /// Closes a pipe. Its memory stays charged, because it was handed out. Its mappings stay
    /// charged until they are unmapped.
    pub fn close_pipe(&mut self, capacity_bytes: u64) {
        self.pipes -= 1;
        self.closed_bytes += pipe_memory_bytes(capacity_bytes);
    }

    /// Gives back a pipe that was not handed out.
    pub fn give_pipe(&mut self, capacity_bytes: u64) {
        self.pipes -= 1;
        self.memory_bytes -= pipe_memory_bytes(capacity_bytes);
        self.mappings -= PIPE_MAPPINGS;
    }

    /// Takes a region of `size_bytes`. The user's other sessions are charged `elsewhere_bytes`.
    ///
    /// # Errors
    /// As [`Quota::take_pipe`].
    pub fn take_region(&mut self, size_bytes: u64, elsewhere_bytes: u64) -> Result<(), String> {
        if size_bytes == 0 || !size_bytes.is_multiple_of(8) || size_bytes > REGION_BYTES_MAX {
            return Err(format!(
                "a region of {size_bytes} bytes: expected a multiple of 8, 8 bytes to 1 GiB"
            ));
        }
        if self.regions == REGIONS_MAX {
            return Err(format!(
                "this session has {REGIONS_MAX} regions, the maximum"
            ));
        }
        self.take_memory(size_bytes, elsewhere_bytes, "")?;
        self.regions += 1;
        self.mappings += REGION_MAPPINGS;
        Ok(())
    }

    /// Closes a region that was handed out. Its memory stays charged. Its mappings stay charged
    /// until they are unmapped.
    pub fn close_region(&mut self, size_bytes: u64) {
        self.regions -= 1;
        self.closed_bytes += size_bytes;
    }

    /// Gives back a region that was not handed out.
    pub fn give_region(&mut self, size_bytes: u64) {
        self.regions -= 1;
        self.memory_bytes -= size_bytes;
        self.mappings -= REGION_MAPPINGS;
    }

    /// Takes a binding.
    ///
    /// # Errors
    /// As [`Quota::take_pipe`].
    pub fn take_binding(&mut self) -> Result<(), String> {
        if self.bindings == BINDINGS_MAX {
            return Err(format!(
                "this session has {BINDINGS_MAX} bindings, the maximum"
            ));
        }
        self.bindings += 1;
        Ok(())
    }

    /// Gives `count` bindings back.
    pub fn give_bindings(&mut self, count: u32) {
        self.bindings -= count;
    }

    /// `note` follows the numbers in the reason of a refusal.
    fn take_memory(&mut self, bytes: u64, elsewhere_bytes: u64, note: &str) -> Result<(), String> {
        let total = self.memory_bytes + bytes;
        if total > self.memory_bytes_max {
            return Err(format!(
                "this session's memory would grow to {} MiB{note}; \
                 `dataplane.session_memory_max_mib` allows {}{}",
                total.div_ceil(MIB),
                self.memory_bytes_max / MIB,
                self.advice_on_closed()
            ));
        }
        let user_max = self.memory_bytes_max * FULL_SESSIONS_PER_USER;
        let user_total = total.saturating_add(elsewhere_bytes);
        if user_total > user_max {
            return Err(format!(
                "the memory of all your sessions would grow to {} MiB{note}; one user may have {}, \
                 which is {FULL_SESSIONS_PER_USER} times `dataplane.session_memory_max_mib`: stop \
                 some of your programs{}",
                user_total.div_ceil(MIB),
                user_max / MIB,
                self.advice_on_closed()
            ));
        }
        self.memory_bytes = total;
        Ok(())
    }

    fn advice_on_closed(&self) -> String {
        if self.closed_bytes == 0 {
            return String::new();
        }
        format!(
            "; {} bytes of memory that this session opened and closed stay charged until it ends: \
             close the device and attach again",
            self.closed_bytes
        )
    }
}

/// Slots of a session's notifications and of its doorbells, for at most `pipes_max` pipes. Every
/// pipe may have a notification and a doorbell waiting, and numbers of pipes are below the slots.
#[must_use]
pub const fn session_slots(pipes_max: u32) -> u32 {
    let slots = (pipes_max * 2).next_power_of_two();
    if slots < 2 { 2 } else { slots }
}

/// Why a pipe takes more memory than its capacity, in the reason of a refusal.
const PIPE_MEMORY: &str = " (a pipe takes 1/16 more than its capacity)";

/// Memory of a pipe: its ring, and four bytes of length for each 64 bytes of the ring.
const fn pipe_memory_bytes(capacity_bytes: u64) -> u64 {
    capacity_bytes + capacity_bytes / 16
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn quota(pipes: u32, mib: u32) -> Quota {
        Quota::new(&DataplaneConfig {
            pipes_per_session_max: pipes,
            session_memory_max_mib: mib,
            ..DataplaneConfig::default()
        })
    }

    #[test]
    fn every_pipe_may_have_a_notification_and_a_doorbell_waiting() {
        let slots = [1, 3, 1024, 4096].map(session_slots);
        assert_eq!(slots, [2, 8, 2048, 8192]);
    }

    #[test]
    fn bounds_hold_and_quota_never_handed_out_is_reusable() {
        let mut quota = quota(2, 1);
        quota.take_pipe(1 << 19, 0).unwrap();
        let reason = quota.take_pipe(1 << 19, 0).unwrap_err();
        assert!(
            reason.contains("to 2 MiB (a pipe takes 1/16 more than its capacity); `dataplane"),
            "{reason}"
        );
        assert!(!reason.contains("closed"), "{reason}");
        quota.take_pipe(1 << 16, 0).unwrap();
        assert!(
            quota
                .take_pipe(1 << 16, 0)
                .unwrap_err()
                .contains("pipes_per_session_max")
        );
        quota.give_pipe(1 << 19);
        quota.take_region(1 << 19, 0).unwrap();
        quota.give_region(1 << 19);
        quota.take_pipe(1 << 19, 0).unwrap();
        assert_eq!(quota.mappings(), 1 + 2 * 3);
    }

    #[test]
    fn memory_of_closed_pipes_stays_charged() {
        let mut quota = quota(2, 1);
        let mut opened = 0;
        let reason = loop {
            match quota.take_pipe(1 << 16, 0) {
                Ok(()) => quota.close_pipe(1 << 16),
                Err(reason) => break reason,
            }
            opened += 1;
        };
        // 68 KiB each of 1 MiB.
        assert_eq!(opened, 15);
        assert_eq!(quota.memory_bytes(), 15 * 68 * 1024);
        assert!(
            reason.contains("1044480 bytes of memory") && reason.contains("attach again"),
            "{reason}"
        );
        assert_eq!(quota.mappings(), 1 + 15 * 3);
        quota.give_mappings(15 * 3);
        assert!(quota.take_region(8, 0).is_ok());
        assert_eq!(quota.mappings(), 2);
    }

    #[test]
    fn one_user_has_the_memory_of_some_full_sessions_at_most() {
        let mut quota = quota(2, 1);
        quota.take_region(1 << 19, 7 << 20).unwrap();
        let reason = quota.take_region(1 << 19, (7 << 20) + 8).unwrap_err();
        assert!(reason.contains("all your sessions"), "{reason}");
        assert!(quota.take_pipe(1 << 16, u64::MAX).is_err());
        assert_eq!(quota.memory_bytes(), 1 << 19);
    }

    #[test]
    fn impossible_sizes_are_refused() {
        let mut quota = quota(9, 4096);
        for bytes in [0, 4096, 65_537, 3 << 16, 1 << 31, u64::MAX] {
            assert!(quota.take_pipe(bytes, 0).is_err(), "{bytes}");
        }
        for bytes in [0, 4, 12, (1 << 30) + 8, u64::MAX] {
            assert!(quota.take_region(bytes, 0).is_err(), "{bytes}");
        }
    }
}
