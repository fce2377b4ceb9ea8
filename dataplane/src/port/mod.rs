//! Ports: the sources and destinations of frames.
//!
//! A port belongs to one lane, and only that lane's thread uses it. It moves whole Ethernet frames
//! without their FCS: 14 bytes to [`PortInfo::frame_bytes_max`]. All kinds of ports implement one
//! contract, [`Port`], and one conformance suite (`tests/ports.rs`) verifies it:
//!
//! - AF_XDP sockets ([`af_xdp`])
//! - DPDK's drivers ([`dpdk`])
//! - shared memory between two processes ([`cable`]) or two lanes ([`lane_cable`])
//! - capture files ([`pcap`])
//! - any of these behind deliberate damage ([`faulty`])
//! - a placeholder port for one whose device is gone ([`absent`])
//!
//! Frames arrive as a [`Burst`]: an array of fixed size that borrows the port.
//!
//! On the path of a packet no code here takes a lock, allocates, logs or makes a system call. The
//! doorbell in [`Port::flush`] is the one exception, once per burst.

pub mod absent;
pub mod af_xdp;
mod burst;
pub mod cable;
mod counters;
pub mod dpdk;
mod error;
pub mod faulty;
pub mod lane_cable;
mod mac;
mod memory;
pub mod pcap;
mod steer;

use std::{fmt, os::fd::RawFd};

use covalent_api::{agreement::PortFacts, status::PortMode};
use covalent_config::{
    DataplaneConfig, FaultRates, LinkConfig, PortConfig, PortKind, auto::Wishes,
};
use covalent_pipe::SharedBytes;

pub use self::{
    burst::{BURST_FRAMES, Burst},
    counters::{PortCounters, Tally},
    error::{PortError, TxRefusal},
    memory::LaneMemory,
    steer::SteerChange,
};

/// Length of an Ethernet header in bytes: the shortest frame that a port sends.
pub const ETHERNET_HEADER_BYTES: usize = 14;

/// Properties of a port. They are fixed at open and read back from the opened object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortInfo {
    /// Configured name.
    pub name: String,
    /// `af_xdp`, `cable`, `dpdk`, `lane` or `pcap`.
    pub kind: &'static str,
    /// Network interface, where there is one.
    pub interface: Option<String>,
    /// Address to put into frames sent here: the interface's own, or a locally administered one.
    pub mac: [u8; 6],
    /// Longest frame in bytes without FCS, in both directions.
    pub frame_bytes_max: u32,
    /// The mode in effect, read back and not assumed.
    pub mode: PortMode,
}

/// One port. `Send` but not shared: the host thread opens it, and then it stays on its lane.
///
/// Order: frames leave in the order of [`Port::tx`], and frames of one receive queue arrive in the
/// order of the wire. Link frames are ordered among themselves, and so are all other frames.
pub trait Port: Send {
    /// The properties of this port.
    fn info(&self) -> &PortInfo;

    /// Receives up to `max` frames, at most [`BURST_FRAMES`], into the empty burst `into`. Returns
    /// their number. Fewer than `max` mean that no more are waiting, or that some were dropped.
    ///
    /// The frames lie in the port's memory, which returns to the device at [`Port::release`], at
    /// the latest at the next burst. The bytes next to a frame are unspecified: a device with
    /// multi-packet receive may return frames that are adjacent in one large buffer.
    ///
    /// # Errors
    /// [`PortError::Gone`] if no frame will ever arrive again, without a frame. A port that is
    /// merely down receives nothing and reports this in [`Port::carrier`].
    fn rx_burst<'a>(&'a mut self, max: usize, into: &mut Burst<'a>) -> Result<usize, PortError>;

    /// Returns the memory of the last burst to the device. Does nothing on a port whose frames are
    /// copies.
    fn release(&mut self) {}

    /// Copies `frame` into the port's memory, exactly once: the application may change it
    /// meanwhile. The frame leaves at the next [`Port::flush`] at the latest.
    ///
    /// # Errors
    /// [`TxRefusal`] gives the cause. The frame was not taken and is counted under that cause.
    fn tx_shared(&mut self, frame: SharedBytes<'_>) -> Result<(), TxRefusal>;

    /// [`Port::tx_shared`] of a frame in private memory.
    ///
    /// # Errors
    /// As there.
    fn tx(&mut self, frame: &[u8]) -> Result<(), TxRefusal> {
        self.tx_shared(frame.into())
    }

    /// Rings the doorbell for frames taken by [`Port::tx`] and reclaims finished ones. It makes at
    /// most one system call for link frames and one for the others.
    ///
    /// The cost is negligible if there is nothing to send. Frames that the kernel did not take stay
    /// queued for the next call.
    ///
    /// # Errors
    /// [`PortError::LinkDown`] if the link cannot send now, [`PortError::Gone`] if it never will
    /// again.
    fn flush(&mut self) -> Result<(), PortError>;

    /// Frames that [`Port::tx`] would take now, after reclaiming finished ones. If link frames have
    /// space of their own, this counts the other frames.
    fn tx_space(&mut self) -> usize;

    /// The same for link frames, if they have space that other frames cannot take. `None` if all
    /// frames share one space.
    fn link_tx_space(&mut self) -> Option<usize> {
        None
    }

    /// Whether the port holds no more transmit frames: every frame taken has left, and its memory
    /// is back.
    fn tx_idle(&mut self) -> bool;

    /// Descriptors that become readable when frames arrive. Empty for a port that never waits.
    fn wait_fds(&self) -> Vec<RawFd>;

    /// Announces that the lane is about to wait on [`Port::wait_fds`]. Returns `false` if there is
    /// work already: do not wait.
    ///
    /// After `true`, any arrival makes a descriptor readable. No wake-up is lost between this call
    /// and the wait.
    fn prepare_sleep(&mut self) -> bool;

    /// Reverts [`Port::prepare_sleep`]. It follows each of those calls, whatever they returned and
    /// whether or not the lane waited. Drains the descriptors.
    fn finish_sleep(&mut self);

    /// All counts since the port was opened. Not for the packet path: it may make system calls and
    /// allocate.
    fn counters(&self) -> PortCounters;

    /// As [`Port::counters`], but values that need system calls are those of the last query.
    fn counters_at_hand(&self) -> PortCounters {
        self.counters()
    }

    /// Changes which frames the kernel passes to this port. Does nothing on a port that has no
    /// kernel below it.
    ///
    /// # Errors
    /// [`PortError::Steering`] if a map refuses the change. The rules in force are then as before.
    fn steer(&mut self, change: &SteerChange) -> Result<(), PortError>;

    /// Enables or disables the port as if its cable were plugged or unplugged. A disabled port has
    /// no carrier, refuses frames to send and drops frames that arrive.
    ///
    /// # Errors
    /// [`PortError::Gone`] if the port has ceased to exist.
    fn set_enabled(&mut self, enabled: bool) -> Result<(), PortError>;

    /// Sets the carrier of the network interface itself. Ports that detect their own carrier ignore
    /// it.
    fn set_carrier(&mut self, up: bool);

    /// Changes the damage that the port does to its own frames.
    ///
    /// # Errors
    /// [`PortError::NoFaults`] if the port was not configured to damage frames.
    fn set_faults(&mut self, _rx: FaultRates, _tx: FaultRates) -> Result<(), PortError> {
        Err(PortError::NoFaults {
            port: self.info().name.clone(),
        })
    }

    /// Whether the port is enabled and has a carrier, as [`Port::rx_burst`] last saw it.
    fn carrier(&self) -> bool;

    /// The properties of the network interface when the port was opened. `None` for a port without
    /// an interface.
    fn facts(&self) -> Option<&PortFacts> {
        None
    }

    /// Why there is no device behind this port; `None` for one that has its device.
    fn absent(&self) -> Option<&str> {
        None
    }

    /// Whether another thread may close a port that its lane has finished with, while the lane
    /// continues with its other ports. Closing takes time.
    fn may_close_elsewhere(&self) -> bool {
        true
    }
}

impl fmt::Debug for dyn Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Port")
            .field("info", self.info())
            .finish_non_exhaustive()
    }
}

/// Whether this build has the kinds of port that `ports` name.
///
/// # Errors
/// [`PortError::Setup`] for the first that it has not.
pub fn check(ports: &[PortConfig]) -> Result<(), PortError> {
    ports
        .iter()
        .filter(|port| matches!(port.kind, PortKind::Dpdk { .. }))
        .try_for_each(|port| dpdk::check(&port.name))
}

/// Checks whether the port that `config` describes could be opened now, as far as possible while
/// another port has its device. Changes nothing.
///
/// # Errors
/// [`PortError`] describes the problem, the object and the remedy.
pub fn check_openable(config: &PortConfig) -> Result<(), PortError> {
    match &config.kind {
        PortKind::AfXdp {
            interface,
            queues,
            ring_slots,
            xdp,
            copy,
        } => {
            let wishes = Wishes {
                xdp: *xdp,
                copy: *copy,
                queues: *queues,
            };
            af_xdp::check_openable(&af_xdp::Wanted {
                port: &config.name,
                interface,
                ring_slots: *ring_slots,
                wishes,
                link: config.link,
            })
        }
        PortKind::Cable { .. } | PortKind::Dpdk { .. } | PortKind::Pcap { .. } => Ok(()),
    }
}

/// Opens the port that `config` describes, behind the damage that `[port.faults]` requests.
///
/// All possible checks run before anything changes on the host. `memory` is the packet memory of
/// the lane that will own the port.
///
/// # Errors
/// [`PortError`] describes the problem, the object and the remedy.
pub fn open(
    config: &PortConfig,
    dataplane: &DataplaneConfig,
    link: &LinkConfig,
    memory: &mut LaneMemory,
) -> Result<Box<dyn Port>, PortError> {
    let port = open_sound(config, dataplane, link, memory)?;
    let info = port.info();
    tracing::info!(
        port = info.name,
        kind = info.kind,
        mode = ?info.mode,
        frame_bytes_max = info.frame_bytes_max,
        "port open",
    );
    let Some(faults) = &config.faults else {
        return Ok(port);
    };
    tracing::warn!(
        port = info.name,
        ?faults,
        "this port damages its frames on purpose"
    );
    Ok(Box::new(faulty::FaultyPort::new(port, faults)))
}

fn open_sound(
    config: &PortConfig,
    dataplane: &DataplaneConfig,
    link: &LinkConfig,
    memory: &mut LaneMemory,
) -> Result<Box<dyn Port>, PortError> {
    match &config.kind {
        PortKind::AfXdp {
            interface,
            queues,
            ring_slots,
            xdp,
            copy,
        } => {
            let wanted = af_xdp::Wanted {
                port: &config.name,
                interface,
                ring_slots: *ring_slots,
                wishes: Wishes {
                    xdp: *xdp,
                    copy: *copy,
                    queues: *queues,
                },
                link: config.link,
            };
            Ok(Box::new(af_xdp::AfXdpPort::open(
                &wanted, dataplane, link, memory,
            )?))
        }
        PortKind::Dpdk {
            device,
            queues,
            ring_slots,
            rx_checksum,
            tx_checksum,
        } => {
            let wanted = dpdk::Wanted {
                port: &config.name,
                device,
                interface: config.kind.kernel_interface(),
                queues: *queues,
                ring_slots: *ring_slots,
                rx_checksum: *rx_checksum,
                tx_checksum: *tx_checksum,
            };
            dpdk::open(&wanted, dataplane, memory.dpdk())
        }
        PortKind::Cable { path, ring_slots } => Ok(Box::new(cable::CablePort::open(
            &config.name,
            path,
            *ring_slots,
        )?)),
        PortKind::Pcap { input, output } => Ok(Box::new(pcap::PcapPort::open(
            &config.name,
            input.as_deref(),
            output.as_deref(),
        )?)),
    }
}
