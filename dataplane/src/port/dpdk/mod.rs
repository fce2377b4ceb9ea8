//! Devices that DPDK's poll-mode drivers drive.

mod absent;

pub(super) use self::absent::open;
