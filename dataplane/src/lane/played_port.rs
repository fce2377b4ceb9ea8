//! A test port that a test drives by hand: the test implements the relevant part, and the rest is
//! idle and error-free.

use std::os::fd::RawFd;

use covalent_api::status::PortMode;
use covalent_pipe::SharedBytes;

use crate::port::{Burst, Port, PortCounters, PortError, PortInfo, SteerChange, Tally, TxRefusal};

/// The part of a port that a test implements.
pub(crate) trait Part: Send {
    /// Counters of dropped frames, by name.
    const DROPS: &'static [(&'static str, u64)] = &[];

    /// [`Port::rx_burst`], into the empty `frames`. The default receives nothing.
    fn burst(
        &mut self,
        _info: &PortInfo,
        _max: usize,
        _frames: &mut Vec<Vec<u8>>,
    ) -> Result<(), PortError> {
        Ok(())
    }

    /// [`Port::tx_shared`], with a copy of the frame.
    fn sent(&mut self, _frame: &[u8]) {}

    /// [`Port::steer`].
    fn steer(&mut self, _info: &PortInfo, _change: &SteerChange) -> Result<(), PortError> {
        Ok(())
    }

    /// [`Port::may_close_elsewhere`].
    fn may_close_elsewhere(&self) -> bool {
        true
    }
}

/// A port with a part played by a test.
pub(crate) struct PlayedPort<P> {
    info: PortInfo,
    tally: Tally,
    /// Those of the last burst.
    frames: Vec<Vec<u8>>,
    part: P,
}

impl<P: Part> PlayedPort<P> {
    pub(crate) fn new(name: &str, part: P) -> Box<Self> {
        Box::new(Self {
            info: PortInfo {
                name: name.to_owned(),
                kind: "pcap",
                interface: None,
                mac: [2, 0, 0, 0, 0, 1],
                frame_bytes_max: 1514,
                mode: PortMode {
                    xdp: "none".to_owned(),
                    zero_copy: false,
                    need_wakeup: false,
                    page_bytes: 4096,
                    queues: 1,
                },
            },
            tally: Tally::default(),
            frames: Vec::new(),
            part,
        })
    }
}

impl<P: Part> Port for PlayedPort<P> {
    fn info(&self) -> &PortInfo {
        &self.info
    }

    fn rx_burst<'a>(&'a mut self, max: usize, into: &mut Burst<'a>) -> Result<usize, PortError> {
        self.frames.clear();
        self.part.burst(&self.info, max, &mut self.frames)?;
        for frame in &self.frames {
            self.tally.received(frame.len());
            into.push(frame);
        }
        Ok(self.frames.len())
    }

    fn tx_shared(&mut self, frame: SharedBytes<'_>) -> Result<(), TxRefusal> {
        self.tally.taken(frame.len());
        self.part.sent(&frame.to_vec());
        Ok(())
    }

    fn flush(&mut self) -> Result<(), PortError> {
        Ok(())
    }

    fn tx_space(&mut self) -> usize {
        64
    }

    fn tx_idle(&mut self) -> bool {
        true
    }

    fn wait_fds(&self) -> Vec<RawFd> {
        Vec::new()
    }

    fn prepare_sleep(&mut self) -> bool {
        false
    }

    fn finish_sleep(&mut self) {}

    fn counters(&self) -> PortCounters {
        self.tally.with_drops(P::DROPS.to_vec())
    }

    fn steer(&mut self, change: &SteerChange) -> Result<(), PortError> {
        self.part.steer(&self.info, change)
    }

    fn set_enabled(&mut self, _enabled: bool) -> Result<(), PortError> {
        Ok(())
    }

    fn set_carrier(&mut self, _up: bool) {}

    fn carrier(&self) -> bool {
        true
    }

    fn may_close_elsewhere(&self) -> bool {
        self.part.may_close_elsewhere()
    }
}
