//! What one session may have, so that none of them starves the node.

use covalent_api::config::DataplaneConfig;

/// Smallest pipe, in bytes.
pub const PIPE_BYTES_MIN: u64 = 64 * 1024;
/// Largest pipe, in bytes.
pub const PIPE_BYTES_MAX: u64 = 1 << 30;
/// Largest region, in bytes.
pub const REGION_BYTES_MAX: u64 = 1 << 30;
/// Most regions of one session: each is two descriptors and a mapping.
pub const REGIONS_MAX: u32 = 64;
/// Most bindings of one session: each is an entry in the lane's tables and in the kernel's.
pub const BINDINGS_MAX: u32 = 4096;

const MIB: u64 = 1 << 20;

/// What a session has taken of what it may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    pipes: u32,
    pipes_max: u32,
    regions: u32,
    bindings: u32,
    memory_bytes: u64,
    memory_bytes_max: u64,
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
            memory_bytes_max: u64::from(config.session_memory_max_mib) * MIB,
        }
    }

    /// Takes a pipe of `capacity_bytes`.
    ///
    /// # Errors
    /// Which bound would be passed, and the key that sets it. Nothing is taken then.
    pub fn take_pipe(&mut self, capacity_bytes: u64) -> Result<(), String> {
        if !capacity_bytes.is_power_of_two()
            || !(PIPE_BYTES_MIN..=PIPE_BYTES_MAX).contains(&capacity_bytes)
        {
            return Err(format!(
                "a pipe of {capacity_bytes} bytes: expected a power of two, 64 KiB to 1 GiB"
            ));
        }
        if self.pipes == self.pipes_max {
            return Err(format!(
                "this session has {} pipes, the most that `dataplane.pipes_per_session_max` allows",
                self.pipes
            ));
        }
        self.take_memory(pipe_memory_bytes(capacity_bytes))?;
        self.pipes += 1;
        Ok(())
    }

    /// Gives a pipe back.
    pub fn give_pipe(&mut self, capacity_bytes: u64) {
        self.pipes -= 1;
        self.memory_bytes -= pipe_memory_bytes(capacity_bytes);
    }

    /// Takes a region of `size_bytes`.
    ///
    /// # Errors
    /// As [`Quota::take_pipe`].
    pub fn take_region(&mut self, size_bytes: u64) -> Result<(), String> {
        if size_bytes == 0 || !size_bytes.is_multiple_of(8) || size_bytes > REGION_BYTES_MAX {
            return Err(format!(
                "a region of {size_bytes} bytes: expected a multiple of 8, 8 bytes to 1 GiB"
            ));
        }
        if self.regions == REGIONS_MAX {
            return Err(format!(
                "this session has {REGIONS_MAX} regions, which is the most"
            ));
        }
        self.take_memory(size_bytes)?;
        self.regions += 1;
        Ok(())
    }

    /// Gives a region back.
    pub fn give_region(&mut self, size_bytes: u64) {
        self.regions -= 1;
        self.memory_bytes -= size_bytes;
    }

    /// Takes a binding.
    ///
    /// # Errors
    /// As [`Quota::take_pipe`].
    pub fn take_binding(&mut self) -> Result<(), String> {
        if self.bindings == BINDINGS_MAX {
            return Err(format!(
                "this session has {BINDINGS_MAX} bindings, which is the most"
            ));
        }
        self.bindings += 1;
        Ok(())
    }

    /// Gives `count` bindings back.
    pub fn give_bindings(&mut self, count: u32) {
        self.bindings -= count;
    }

    fn take_memory(&mut self, bytes: u64) -> Result<(), String> {
        let total = self.memory_bytes + bytes;
        if total > self.memory_bytes_max {
            return Err(format!(
                "this session's memory would grow to {total} bytes; `dataplane.session_memory_max_mib` allows {}",
                self.memory_bytes_max
            ));
        }
        self.memory_bytes = total;
        Ok(())
    }
}

/// What a pipe takes: its ring, and the four bytes of length that stand beside each 64 bytes of it.
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
    fn bounds_hold_and_what_is_given_back_can_be_taken_again() {
        let mut quota = quota(2, 1);
        quota.take_pipe(1 << 19).unwrap();
        assert!(
            quota
                .take_pipe(1 << 19)
                .unwrap_err()
                .contains("session_memory_max_mib")
        );
        quota.take_pipe(1 << 16).unwrap();
        assert!(
            quota
                .take_pipe(1 << 16)
                .unwrap_err()
                .contains("pipes_per_session_max")
        );
        quota.give_pipe(1 << 19);
        quota.take_region(1 << 19).unwrap();
        quota.give_region(1 << 19);
        quota.take_pipe(1 << 19).unwrap();
    }

    #[test]
    fn impossible_sizes_are_refused() {
        let mut quota = quota(9, 4096);
        for bytes in [0, 4096, 65_537, 3 << 16, 1 << 31, u64::MAX] {
            assert!(quota.take_pipe(bytes).is_err(), "{bytes}");
        }
        for bytes in [0, 4, 12, (1 << 30) + 8, u64::MAX] {
            assert!(quota.take_region(bytes).is_err(), "{bytes}");
        }
    }
}
