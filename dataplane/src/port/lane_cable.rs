//! A cable in memory between two lanes of one daemon.
//!
//! Lanes share nothing, and each lane is a node of its own to its neighbors. Two lanes joined by
//! such a cable are ordinary neighbors: each reaches over it the nodes behind the other's links.
//! This process owns both ends, so there is no peer to find or to distrust. The two ends wake each
//! other as those of [`super::cable`] do.

use std::os::fd::{AsFd, AsRawFd, RawFd};

use covalent_api::status::PortMode;
use covalent_config::lane_cable_name;
use covalent_pipe::{QUANTUM_BYTES, SharedBytes, cable::CableEnd};

use super::{
    BURST_FRAMES, Burst, Port, PortCounters, PortError, PortInfo, SteerChange, Tally, TxRefusal,
    burst::Copies, mac,
};

/// Longest frame in bytes: that of an Ethernet with the usual MTU of 1500.
const FRAME_BYTES_MAX: usize = 1514;

/// Ring space that the longest frame takes.
const FRAME_SPACE_BYTES: u64 = FRAME_BYTES_MAX.next_multiple_of(QUANTUM_BYTES) as u64;

/// Frames of any length that each direction holds: more than a link has in flight.
pub const RING_SLOTS: u32 = 320;

/// One end of such a cable.
#[derive(Debug)]
pub struct LaneCablePort {
    info: PortInfo,
    end: CableEnd,
    copies: Copies,
    enabled: bool,
    /// The carrier as last reported to the lane.
    carrier: bool,
    tally: Tally,
    dropped_down: u64,
    violations: u64,
}

/// Creates the two ends of a cable between the lanes `lanes`, in that order. Their names are
/// `lane-A-B` and `lane-B-A`.
///
/// # Errors
/// [`PortError::Setup`] if memory or descriptors run out.
pub fn pair(lanes: [u32; 2]) -> Result<[LaneCablePort; 2], PortError> {
    let [from, to] = lanes;
    let names = [lane_cable_name(from, to), lane_cable_name(to, from)];
    let failed = |error: covalent_pipe::PipeError| PortError::Setup {
        port: names[0].clone(),
        problem: format!("no cable between lanes {from} and {to}: {error}"),
        remedy: "see `ulimit -n` and the memory of the service (`MemoryMax`), or set `enabled = \
            false` in `[fabric]`"
            .to_owned(),
    };
    let (near, parts) =
        CableEnd::create_pair(RING_SLOTS, FRAME_BYTES_MAX as u32).map_err(failed)?;
    let far = CableEnd::from_parts(parts).map_err(failed)?;
    let [near_name, far_name] = names;
    Ok([
        LaneCablePort::new(near_name, near),
        LaneCablePort::new(far_name, far),
    ])
}

impl LaneCablePort {
    fn new(name: String, mut end: CableEnd) -> Self {
        end.set_enabled(true);
        Self {
            info: PortInfo {
                name,
                kind: "lane",
                interface: None,
                mac: mac::locally_administered(),
                frame_bytes_max: FRAME_BYTES_MAX as u32,
                mode: PortMode {
                    xdp: "none".to_owned(),
                    zero_copy: false,
                    need_wakeup: true,
                    page_bytes: 4096,
                    queues: 1,
                },
            },
            end,
            copies: Copies::of_frames(BURST_FRAMES, FRAME_BYTES_MAX),
            enabled: true,
            carrier: false,
            tally: Tally::default(),
            dropped_down: 0,
            violations: 0,
        }
    }

    fn update_carrier(&mut self) {
        self.carrier = self.enabled && self.end.carrier();
    }
}

impl Port for LaneCablePort {
    fn info(&self) -> &PortInfo {
        &self.info
    }

    fn rx_burst<'a>(&'a mut self, max: usize, into: &mut Burst<'a>) -> Result<usize, PortError> {
        self.update_carrier();
        let Self {
            end, copies, tally, ..
        } = self;
        let mut unused = copies.begin();
        let mut received = 0;
        for _ in 0..max.min(BURST_FRAMES) {
            let shared = match end.peek() {
                Ok(Some(shared)) => shared,
                Ok(None) => break,
                Err(_) => {
                    // Only these two ends write to this memory, so it is unusable now. The carrier
                    // notifies both ends.
                    self.violations += u64::from(self.enabled);
                    self.enabled = false;
                    end.set_enabled(false);
                    self.carrier = false;
                    break;
                }
            };
            // The other end sends none that is longer.
            let fits = self.carrier && shared.len() <= FRAME_BYTES_MAX;
            if let Some(frame) = fits.then(|| unused.copy(shared)).flatten() {
                tally.received(frame.len());
                into.push(frame);
                received += 1;
            } else {
                self.dropped_down += 1;
            }
            end.advance();
        }
        end.release();
        Ok(received)
    }

    fn tx_shared(&mut self, frame: SharedBytes<'_>) -> Result<(), TxRefusal> {
        let len = frame.len();
        let refusal = if let Some(refusal) = TxRefusal::by_length(len, FRAME_BYTES_MAX) {
            refusal
        } else if !self.carrier {
            TxRefusal::Down
        } else if self.end.push_shared(frame).is_err() {
            // The length is checked above, so lack of space is the only reason left.
            TxRefusal::Full
        } else {
            self.tally.taken(len);
            return Ok(());
        };
        Err(self.tally.refused(refusal))
    }

    fn flush(&mut self) -> Result<(), PortError> {
        self.end.publish();
        Ok(())
    }

    fn tx_space(&mut self) -> usize {
        if self.carrier {
            (self.end.free_bytes() / FRAME_SPACE_BYTES) as usize
        } else {
            0
        }
    }

    fn tx_idle(&mut self) -> bool {
        self.end.is_idle()
    }

    fn wait_fds(&self) -> Vec<RawFd> {
        if self.end.peer_gone() {
            // It would be readable for ever.
            return Vec::new();
        }
        vec![self.end.as_fd().as_raw_fd()]
    }

    fn prepare_sleep(&mut self) -> bool {
        self.end.prepare_sleep(self.carrier) || self.end.violation().is_some()
    }

    fn finish_sleep(&mut self) {
        self.end.finish_sleep();
    }

    fn counters(&self) -> PortCounters {
        self.tally.with_drops(vec![
            ("port_disabled", self.dropped_down),
            ("peer_violation", self.violations),
        ])
    }

    fn steer(&mut self, _change: &SteerChange) -> Result<(), PortError> {
        Ok(())
    }

    fn set_enabled(&mut self, enabled: bool) -> Result<(), PortError> {
        self.enabled = enabled;
        self.end.set_enabled(enabled);
        self.update_carrier();
        Ok(())
    }

    fn set_carrier(&mut self, _up: bool) {}

    fn carrier(&self) -> bool {
        self.carrier
    }
}
