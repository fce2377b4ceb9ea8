//! A port made of shared memory between two processes: no NIC, no privilege, no copy through the
//! kernel.
//!
//! ```text
//!   lane ─► pipe ─────────────► peer's lane          a thread beside the lane meets the peer at a
//!   lane ◄───────────── pipe ◄─ peer's lane          Unix socket and hands over each new cable
//! ```
//! The two processes meet at a path. The first one listens there, and the other one connects and
//! receives its end. Either may start later, stop or restart. The port has a carrier while both
//! ends exist and are enabled. The peer is not trusted. The cable checks the peer's cursors. Each
//! frame is copied once before it is read, so the peer cannot change it under the reader.

mod greeting;
mod meeting;

use std::{
    os::fd::{AsFd, AsRawFd, RawFd},
    path::Path,
};

use covalent_api::status::PortMode;
use covalent_pipe::{QUANTUM_BYTES, SharedBytes};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};

use self::meeting::{Meeting, Met};
use super::{
    BURST_FRAMES, Burst, ETHERNET_HEADER_BYTES, Port, PortCounters, PortError, PortInfo,
    SteerChange, Tally, TxRefusal, burst::Copies, mac,
};

/// Longest frame in bytes: that of an Ethernet with the usual MTU of 1500.
const FRAME_BYTES_MAX: usize = 1514;

/// Ring bytes of the longest frame.
const FRAME_SPACE_BYTES: u64 = FRAME_BYTES_MAX.next_multiple_of(QUANTUM_BYTES) as u64;

/// Bytes after which frames are published before the end of a burst: the peer reads them while the
/// lane writes its next frames. A publish costs a fence, so there is none for every short frame.
const SHOWN_AT_ONCE_BYTES: usize = 1024;

/// See the module's documentation.
#[derive(Debug)]
pub struct CablePort {
    info: PortInfo,
    connection: Connection,
    copies: Copies,
    /// Bytes of frames that were pushed and not yet shown to the peer.
    unshown_bytes: usize,
    tally: Tally,
    dropped_down: u64,
    dropped_too_short: u64,
    dropped_too_long: u64,
    violations: u64,
}

/// The connection to the peer.
#[derive(Debug)]
struct Connection {
    meeting: Meeting,
    /// The cable to the peer of this moment.
    met: Option<Met>,
    /// One descriptor to wait on, whatever cable is in use.
    waits: Epoll,
    enabled: bool,
    /// The carrier as last reported to the lane.
    carrier: bool,
}

impl CablePort {
    /// Begins to connect to the peer at `path`. The port has no carrier until the peer is there.
    ///
    /// # Errors
    /// [`PortError::Setup`] if `path` cannot hold the socket; [`PortError::Io`] if descriptors or
    /// threads are exhausted.
    pub fn open(port: &str, path: &Path, ring_slots: u32) -> Result<Self, PortError> {
        let io = |doing| {
            let port = port.to_owned();
            move |source: std::io::Error| PortError::Io {
                port,
                doing,
                source,
            }
        };
        greeting::check_path(port, path)?;
        let waits = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)
            .map_err(|errno| io("making an epoll")(errno.into()))?;
        let meeting = Meeting::begin(port, path, ring_slots, FRAME_BYTES_MAX as u32)
            .map_err(io("starting to meet the peer"))?;
        waits
            .add(meeting.arrivals(), EpollEvent::new(EpollFlags::EPOLLIN, 0))
            .map_err(|errno| io("waiting for the peer")(errno.into()))?;
        Ok(Self {
            info: PortInfo {
                name: port.to_owned(),
                kind: "cable",
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
            connection: Connection {
                meeting,
                met: None,
                waits,
                enabled: true,
                carrier: false,
            },
            copies: Copies::of_frames(BURST_FRAMES, FRAME_BYTES_MAX),
            unshown_bytes: 0,
            tally: Tally::default(),
            dropped_down: 0,
            dropped_too_short: 0,
            dropped_too_long: 0,
            violations: 0,
        })
    }
}

impl Connection {
    /// Takes over a new cable, releases a dead one, and updates the carrier.
    fn update(&mut self) {
        if let Some(mut met) = self.meeting.take() {
            self.leave();
            // A lane that cannot wait on the cable would sleep forever, so it releases the cable
            // and the peer reconnects.
            if self
                .waits
                .add(met.end.as_fd(), EpollEvent::new(EpollFlags::EPOLLIN, 1))
                .is_ok()
            {
                met.end.set_enabled(self.enabled);
                self.met = Some(met);
            } else {
                self.meeting.meet_again(met.generation);
            }
        }
        if self
            .met
            .as_ref()
            .is_some_and(|met| met.end.peer_gone() || self.meeting.has_lost(met.generation))
        {
            self.leave();
        }
        self.carrier = self.enabled && self.met.as_ref().is_some_and(|met| met.end.carrier());
    }

    /// Releases the cable in use.
    fn leave(&mut self) {
        if let Some(met) = self.met.take() {
            // Closing the end removes it too. This keeps a clone of the descriptor elsewhere from
            // waking the lane.
            let _ = self.waits.delete(met.end.as_fd());
            self.meeting.meet_again(met.generation);
        }
    }
}

impl Port for CablePort {
    fn info(&self) -> &PortInfo {
        &self.info
    }

    fn rx_burst<'a>(&'a mut self, max: usize, into: &mut Burst<'a>) -> Result<usize, PortError> {
        let Self {
            connection,
            copies,
            tally,
            ..
        } = self;
        connection.update();
        let Some(met) = &mut connection.met else {
            return Ok(0);
        };
        let mut unused = copies.begin();
        let mut received = 0;
        for _ in 0..max.min(BURST_FRAMES) {
            let Ok(peeked) = met.end.peek() else {
                self.violations += 1;
                connection.leave();
                connection.update();
                return Ok(received);
            };
            let Some(shared) = peeked else { break };
            let len = shared.len();
            let fits = (ETHERNET_HEADER_BYTES..=FRAME_BYTES_MAX).contains(&len);
            // The peer may still write to the ring, so the lane checks and uses the same copy.
            let copied = (connection.carrier && fits).then(|| unused.copy(shared));
            met.end.advance();
            if let Some(frame) = copied.flatten() {
                tally.received(len);
                into.push(frame);
                received += 1;
                continue;
            }
            match len {
                0..ETHERNET_HEADER_BYTES => self.dropped_too_short += 1,
                _ if !fits => self.dropped_too_long += 1,
                _ => self.dropped_down += 1,
            }
        }
        met.end.release();
        Ok(received)
    }

    fn tx_shared(&mut self, frame: SharedBytes<'_>) -> Result<(), TxRefusal> {
        let len = frame.len();
        let refusal = match (
            TxRefusal::by_length(len, FRAME_BYTES_MAX),
            &mut self.connection.met,
        ) {
            (Some(refusal), _) => refusal,
            (None, Some(met)) if self.connection.carrier => {
                // The length is checked above, so a full ring is the only reason left.
                if met.end.push_shared(frame).is_ok() {
                    self.tally.taken(len);
                    self.unshown_bytes += len;
                    if self.unshown_bytes >= SHOWN_AT_ONCE_BYTES {
                        self.unshown_bytes = 0;
                        met.end.publish();
                    }
                    return Ok(());
                }
                TxRefusal::Full
            }
            (None, _) => TxRefusal::Down,
        };
        Err(self.tally.refused(refusal))
    }

    fn flush(&mut self) -> Result<(), PortError> {
        self.unshown_bytes = 0;
        if let Some(met) = &mut self.connection.met {
            met.end.publish();
        }
        Ok(())
    }

    fn tx_space(&mut self) -> usize {
        match &mut self.connection.met {
            Some(met) if self.connection.carrier => {
                (met.end.free_bytes() / FRAME_SPACE_BYTES) as usize
            }
            _ => 0,
        }
    }

    fn tx_idle(&mut self) -> bool {
        self.connection
            .met
            .as_mut()
            .is_none_or(|met| met.end.is_idle())
    }

    fn wait_fds(&self) -> Vec<RawFd> {
        vec![self.connection.waits.0.as_raw_fd()]
    }

    fn prepare_sleep(&mut self) -> bool {
        if self.connection.meeting.has_arrivals() {
            return false;
        }
        match &mut self.connection.met {
            Some(met) => {
                let is_idle_now = met.end.prepare_sleep(self.connection.carrier);
                is_idle_now
                    && !met.end.peer_gone()
                    && !self.connection.meeting.has_lost(met.generation)
            }
            None => true,
        }
    }

    fn finish_sleep(&mut self) {
        self.connection.meeting.drain_arrivals();
        if let Some(met) = &mut self.connection.met {
            met.end.finish_sleep();
        }
    }

    fn counters(&self) -> PortCounters {
        self.tally.with_drops(vec![
            ("port_disabled", self.dropped_down),
            ("frame_too_short", self.dropped_too_short),
            ("frame_too_long", self.dropped_too_long),
            ("peer_violation", self.violations),
        ])
    }

    fn steer(&mut self, _change: &SteerChange) -> Result<(), PortError> {
        Ok(())
    }

    fn set_enabled(&mut self, enabled: bool) -> Result<(), PortError> {
        self.connection.enabled = enabled;
        if let Some(met) = &mut self.connection.met {
            met.end.set_enabled(enabled);
        }
        self.connection.update();
        Ok(())
    }

    fn set_carrier(&mut self, _up: bool) {}

    fn carrier(&self) -> bool {
        self.connection.carrier
    }
}
