//! A port whose device is gone, or not there yet: a cable that is pulled for as long as it stands in the other one's place.
//!
//! A lane that has one needs no case of its own for it: nothing arrives, nothing can be sent, there is no carrier, and rules for a kernel that is not there
//! are taken and lead nowhere.

use std::os::fd::RawFd;

use covalent_api::config::FaultRates;

use super::{Port, PortCounters, PortError, PortInfo, SteerChange, Tally, TxRefusal};

/// See the module's documentation.
#[derive(Debug)]
pub struct AbsentPort {
    info: PortInfo,
    reason: String,
    tally: Tally,
}

impl AbsentPort {
    /// Stands in for the port that `info` tells of, which ended with `error`.
    #[must_use]
    pub fn after(info: PortInfo, error: &PortError) -> Self {
        let reason = match error {
            PortError::Gone { reason, .. } => reason.clone(),
            other => other.to_string(),
        };
        Self {
            info,
            reason,
            tally: Tally::default(),
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

    fn rx_burst(&mut self, _max: usize, _visit: &mut dyn FnMut(&[u8])) -> Result<usize, PortError> {
        Ok(0)
    }

    fn tx(&mut self, frame: &[u8]) -> Result<(), TxRefusal> {
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
