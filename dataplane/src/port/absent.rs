//! A placeholder port, for a port whose device is gone or does not exist yet.
//!
//! A lane needs no special case for it. It receives nothing, sends nothing, has no carrier, and
//! accepts rules without effect.

use std::os::fd::RawFd;

use covalent_api::status::PortMode;
use covalent_config::{FaultRates, PortConfig, PortKind};
use covalent_pipe::SharedBytes;

use super::{Burst, Port, PortCounters, PortError, PortInfo, SteerChange, Tally, TxRefusal};

/// See the module's documentation.
#[derive(Debug)]
pub struct AbsentPort {
    info: PortInfo,
    reason: String,
    tally: Tally,
}

/// Longest frame of a port that was never opened: that of an Ethernet with the usual MTU of 1500.
const FRAME_BYTES_MAX: u32 = 1514;

impl AbsentPort {
    /// Creates the placeholder for the port described by `info`, which was detached for `reason`.
    #[must_use]
    pub fn in_place_of(info: PortInfo, reason: &str) -> Self {
        Self {
            info,
            reason: reason.to_owned(),
            tally: Tally::default(),
        }
    }

    /// Creates the placeholder for the port that `config` describes, which cannot be opened for
    /// `reason`. Its address and its longest frame are unknown.
    #[must_use]
    pub fn instead_of(config: &PortConfig, reason: &str) -> Self {
        let info = PortInfo {
            name: config.name.clone(),
            kind: match config.kind {
                PortKind::AfXdp { .. } => "af_xdp",
                PortKind::Cable { .. } => "cable",
                PortKind::Dpdk { .. } => "dpdk",
                PortKind::Pcap { .. } => "pcap",
            },
            interface: config.kind.kernel_interface().map(ToOwned::to_owned),
            mac: [0; 6],
            frame_bytes_max: FRAME_BYTES_MAX,
            mode: PortMode {
                xdp: "none".to_owned(),
                zero_copy: false,
                need_wakeup: false,
                page_bytes: 0,
                queues: 0,
            },
        };
        Self::in_place_of(info, reason)
    }

    /// Creates the placeholder for the port described by `info`, which ended with `error`.
    #[must_use]
    pub fn after(info: PortInfo, error: &PortError) -> Self {
        match error {
            PortError::Gone { reason, .. } => Self::in_place_of(info, reason),
            other => Self::in_place_of(info, &other.to_string()),
        }
    }

    fn gone(&self) -> PortError {
        PortError::Gone {
            port: self.info.name.clone(),
            reason: self.reason.clone(),
        }
    }
}

impl Port for AbsentPort {
    fn info(&self) -> &PortInfo {
        &self.info
    }

    fn rx_burst<'a>(&'a mut self, _: usize, _: &mut Burst<'a>) -> Result<usize, PortError> {
        Ok(0)
    }

    fn tx_shared(&mut self, frame: SharedBytes<'_>) -> Result<(), TxRefusal> {
        let (len, max) = (frame.len(), self.info.frame_bytes_max as usize);
        let refusal = TxRefusal::by_length(len, max).unwrap_or(TxRefusal::Down);
        Err(self.tally.refused(refusal))
    }

    fn flush(&mut self) -> Result<(), PortError> {
        Ok(())
    }

    fn tx_space(&mut self) -> usize {
        0
    }

    fn tx_idle(&mut self) -> bool {
        true
    }

    fn wait_fds(&self) -> Vec<RawFd> {
        Vec::new()
    }

    fn prepare_sleep(&mut self) -> bool {
        true
    }

    fn finish_sleep(&mut self) {}

    fn counters(&self) -> PortCounters {
        self.tally.with_drops(Vec::new())
    }

    fn steer(&mut self, _change: &SteerChange) -> Result<(), PortError> {
        Ok(())
    }

    fn set_enabled(&mut self, _enabled: bool) -> Result<(), PortError> {
        Err(self.gone())
    }

    fn set_carrier(&mut self, _up: bool) {}

    fn set_faults(&mut self, _rx: FaultRates, _tx: FaultRates) -> Result<(), PortError> {
        Err(self.gone())
    }

    fn carrier(&self) -> bool {
        false
    }

    fn absent(&self) -> Option<&str> {
        Some(&self.reason)
    }
}
