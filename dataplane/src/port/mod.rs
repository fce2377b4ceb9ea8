//! Ports: where frames come from and go to.
//!
//! A port belongs to one lane and is used by that lane's thread alone. It moves whole Ethernet frames without their FCS:
//! 14 bytes to [`PortInfo::frame_bytes_max`]. One contract ([`Port`]) covers AF_XDP sockets ([`af_xdp`]), DPDK's drivers ([`dpdk`]), shared memory
//! between two processes ([`cable`]) or two lanes ([`lane_cable`]), capture files ([`pcap`]), and any of them behind damage that is done on purpose ([`faulty`]); where the device of one has
//! gone, a pulled cable stands in its place ([`absent`]). One conformance
//! suite (`tests/ports.rs`) holds all of them to it.
//!
//! On the way of a packet nothing here takes a lock, allocates, logs or makes a system call; the doorbell in [`Port::flush`] is
//! the one exception, once per burst.

pub mod absent;
pub mod af_xdp;
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

use covalent_api::{
    agreement::PortFacts,
    auto::Wishes,
    config::{DataplaneConfig, FaultRates, LinkConfig, PortConfig, PortKind},
    status::PortMode,
};
use covalent_pipe::SharedBytes;

pub use self::{
    counters::{PortCounters, Tally},
    error::{PortError, TxRefusal},
    memory::LaneMemory,
    steer::SteerChange,
};

/// Length of an Ethernet header in bytes: the shortest frame that a port sends.
pub const ETHERNET_HEADER_BYTES: usize = 14;

/// What a port is, fixed when it was opened and read back from where it was opened.
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

/// One port. `Send` but not shared: it is opened by the host thread and then lives on its lane.
///
/// Order: frames leave in the order of [`Port::tx`], and frames of one receive queue arrive in the order of the wire; those of the link among themselves,
/// and the others among themselves.
pub trait Port: Send {
    /// What this port is.
    fn info(&self) -> &PortInfo;

    /// Receives up to `max` frames and shows each to `visit`, oldest first; returns how many. 0 means none are waiting.
    ///
    /// A frame is borrowed from the port's memory for the visit only; that memory goes back to the port before this returns. Nothing is said about what
    /// lies beside it: a device that places packets back to back (multi-packet receive) may show frames that are neighbours in one large buffer.
    ///
    /// # Errors
    /// [`PortError::Gone`] when nothing will ever arrive again. A port that is merely down receives nothing and says so in
    /// [`Port::carrier`].
    fn rx_burst(&mut self, max: usize, visit: &mut dyn FnMut(&[u8])) -> Result<usize, PortError>;

    /// Copies `frame` into the port's memory, once: its application may change it meanwhile. It
    /// leaves at the next [`Port::flush`] at the latest.
    ///
    /// # Errors
    /// [`TxRefusal`] tells the cause; the frame was not taken and is counted under that cause.
    fn tx_shared(&mut self, frame: SharedBytes<'_>) -> Result<(), TxRefusal>;

    /// [`Port::tx_shared`] of a frame in private memory.
    ///
    /// # Errors
    /// As there.
    fn tx(&mut self, frame: &[u8]) -> Result<(), TxRefusal> {
        self.tx_shared(frame.into())
    }

    /// Rings the doorbell for frames taken by [`Port::tx`] (one system call at most for those of the link, and one for the others) and reclaims finished ones.
    ///
    /// Costs next to nothing when there is nothing to send. What the kernel did not take stays queued for the next call.
    ///
    /// # Errors
    /// [`PortError::LinkDown`] when the link cannot send now, [`PortError::Gone`] when it never will again.
    fn flush(&mut self) -> Result<(), PortError>;

    /// Frames that [`Port::tx`] would take now, after reclaiming finished ones. Where the link has room of its own, the others.
    fn tx_space(&mut self) -> usize;

    /// The same for frames of the link, where they have room that others cannot take; `None` where there is one room for all.
    fn link_tx_space(&mut self) -> Option<usize> {
        None
    }

    /// Whether nothing of ours is still inside the port: every frame taken has left and its memory is back.
    fn tx_idle(&mut self) -> bool;

    /// Descriptors that become readable when frames arrive. Empty for a port that never waits.
    fn wait_fds(&self) -> Vec<RawFd>;

    /// Announces that the lane is about to wait on [`Port::wait_fds`]. Returns `false` when there is work already: do not wait.
    ///
    /// After `true`, anything that arrives makes a descriptor readable; no wake-up is lost between this call and the wait.
    fn prepare_sleep(&mut self) -> bool;

    /// Takes [`Port::prepare_sleep`] back; follows each of those calls, whatever it returned and whether or not the lane waited.
    /// Drains the descriptors.
    fn finish_sleep(&mut self);

    /// Everything counted since the port was opened. Not for the packet path: it may make system calls and allocate.
    fn counters(&self) -> PortCounters;

    /// As [`Port::counters`], but what would take system calls is told as it was when that was asked last.
    fn counters_at_hand(&self) -> PortCounters {
        self.counters()
    }

    /// Changes which frames the kernel below hands to this port. Does nothing on a port that has no kernel below.
    ///
    /// # Errors
    /// [`PortError::Steering`] when a map refuses the change; the rules in force are then as before.
    fn steer(&mut self, change: &SteerChange) -> Result<(), PortError>;

    /// Enables or disables the port as if its cable were plugged or pulled: a disabled port has no carrier, refuses frames to send
    /// and drops those that arrive.
    ///
    /// # Errors
    /// [`PortError::Gone`] when the port is beyond both.
    fn set_enabled(&mut self, enabled: bool) -> Result<(), PortError>;

    /// Tells the port what the network interface's own carrier is. Ignored by ports that see their carrier themselves.
    fn set_carrier(&mut self, up: bool);

    /// Changes what the port does to its own frames.
    ///
    /// # Errors
    /// [`PortError::NoFaults`]: it does nothing to them, and was not configured to.
    fn set_faults(&mut self, _rx: FaultRates, _tx: FaultRates) -> Result<(), PortError> {
        Err(PortError::NoFaults {
            port: self.info().name.clone(),
        })
    }

    /// Whether the port is enabled and has a carrier, as [`Port::rx_burst`] last saw it.
    fn carrier(&self) -> bool;

    /// What the network interface was when the port was opened; `None` for a port that has none.
    fn facts(&self) -> Option<&PortFacts> {
        None
    }

    /// Why there is no device behind this port; `None` for one that has its device.
    fn absent(&self) -> Option<&str> {
        None
    }

    /// Whether a port that its lane is done with may be closed by another thread, while the lane goes on with its other ports. Closing takes its time.
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

/// Looks whether the port that `config` describes could be opened now, as far as that can be known while another port has its device. Changes nothing.
///
/// # Errors
/// [`PortError`] says what is wrong, with which object, and what to do.
pub fn look(config: &PortConfig) -> Result<(), PortError> {
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
            af_xdp::look(&af_xdp::Wanted {
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

/// Opens the port that `config` describes, behind the damage that `[port.faults]` asks for.
///
/// Everything that can be checked is checked before anything is changed on the host. `memory` is the packet memory of the lane
/// that will own the port.
///
/// # Errors
/// [`PortError`] says what is wrong, with which object, and what to do.
pub fn open(
    config: &PortConfig,
    dataplane: &DataplaneConfig,
    link: &LinkConfig,
    memory: &mut LaneMemory,
) -> Result<Box<dyn Port>, PortError> {
    let port = open_sound(config, dataplane, link, memory)?;
    let info = port.info();
    tracing::info!(port = info.name, kind = info.kind, mode = ?info.mode, frame_bytes_max = info.frame_bytes_max, "port open");
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
